"""Planting a mutant in this process: its modules are compiled from changed syntax trees; nothing on disk is touched.

A finder at the head of `sys.meta_path` knows the files and hands them to a loader that has the changed code, under
whatever name they are imported.  The process must be fresh: whatever was imported before would go on with the sound
module.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from tidelock.simulations.mutants.functions import find, functions_of
from tidelock.simulations.mutants.mutant import Mutant, Stale
from tidelock.simulations.mutants.patch import change, hunks
from tidelock.simulations.mutants.unbound import unbound


def plant(mutant: Mutant) -> None:
    """Plants the bug in the mutant's functions, for the rest of this process.  Raises Stale if it no longer applies."""
    trees = changed(mutant)
    early = [name for name, module in [*sys.modules.items()] if _file(getattr(module, "__file__", None)) in trees]
    assert not early, f"{', '.join(early)} is imported already"
    codes = {path: compile(tree, path, "exec", dont_inherit=True) for path, tree in trees.items()}
    sys.meta_path.insert(0, _Finder(codes))


def changed(mutant: Mutant) -> dict[Path, ast.Module]:
    """The files that have the bug, as syntax trees.  Raises Stale."""
    trees: dict[Path, ast.Module] = {}
    try:
        for hunk in hunks(mutant.patch):
            path, name, *_ = find(hunk.function)
            if path not in trees:
                trees[path] = ast.parse(path.read_bytes())
            function = dict(functions_of(trees[path]))[name]
            change(function, hunk)
            if names := unbound(trees[path], function):
                raise Stale(f"nothing in {hunk.function} is named {', '.join(names)}:\n{hunk.text}")
    except Stale as stale:
        raise Stale(f"mutant {mutant.name}: {stale}") from None
    for tree in trees.values():
        ast.fix_missing_locations(tree)
    return trees


def _file(name: str | None) -> Path | None:
    return None if name is None else Path(name).resolve()


class _Finder:
    def __init__(self, codes: Mapping[Path, CodeType]) -> None:
        self._codes = codes

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path)
        file = _file(spec.origin) if spec is not None and spec.has_location else None
        if spec is None or file is None or file not in self._codes:
            return None
        spec.loader = _Loader(fullname, str(spec.origin), self._codes[file])
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, code: CodeType) -> None:
        super().__init__(fullname, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        """Never from the cache of compiled modules, nor into it."""
        return self._code
