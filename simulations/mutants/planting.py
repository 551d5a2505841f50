"""Planting a mutant in this process: its module is compiled from the changed source, and nothing on disk is touched.

A finder at the head of `sys.meta_path` knows one module and hands it to a loader that changes the text first.  The
process must be fresh: whatever was imported before would go on with the sound module.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType

from tidelock.simulations.mutants.mutant import Mutant


def plant(mutant: Mutant) -> None:
    """From now on `mutant.module` has the bug.  Raises Stale if it no longer applies."""
    assert mutant.module not in sys.modules, f"{mutant.module} is imported already"
    mutant.plant(source_of(mutant.module))
    sys.meta_path.insert(0, _Finder(mutant))


def source_of(module: str) -> str:
    """The source as it stands; the module itself is not imported."""
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None, f"there is no module {module}"
    return Path(spec.origin).read_text(encoding="utf-8")


class _Finder:
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path) if fullname == self._mutant.module else None
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin, self._mutant)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, mutant: Mutant) -> None:
        super().__init__(fullname, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        """Never from the cache of compiled modules, nor into it."""
        source = self._mutant.plant(self.get_data(self.path).decode())
        return compile(source, self.path, "exec", dont_inherit=True)
