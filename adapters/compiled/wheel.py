"""Puts the compiled forms into a wheel: a build hook of hatchling, which pyproject.toml names.

With them the wheel is for one Python and one kind of machine, and its tag says so.  Without a compiler it is for all
(`py3-none-any`), holds the Python forms alone, and is slower and as exact.  The variable TIDELOCK_COMPILED decides
otherwise: `required` fails a build that could not compile, `no` compiles nothing.  An editable installation has its
modules beside their sources, as `make setup` builds them.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CHOICE: Final = "TIDELOCK_COMPILED"
IF_POSSIBLE, REQUIRED, NO = "", "required", "no"


class CompiledForms(BuildHookInterface[Any]):
    """Compiles into a folder of its own: what a checkout holds may be made for another Python, or of another source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        choice = os.environ.get(CHOICE, IF_POSSIBLE)
        if choice not in (IF_POSSIBLE, REQUIRED, NO):
            raise SystemExit(f"{CHOICE} is {choice!r}: set it to `{REQUIRED}` or `{NO}`, or unset it")
        if version == "editable" or choice == NO:
            return
        made = self._compiled(required=choice == REQUIRED)
        if made:
            build_data["pure_python"], build_data["infer_tag"] = False, True
            build_data["force_include"].update(made)

    def _compiled(self, *, required: bool) -> dict[str, str]:
        """The modules that could be made: where each is, and its place in the wheel."""
        sys.path.insert(0, self.root)  # the build's environment has what compiles, and not us
        from tidelock.adapters.compiled import build, forms

        self._scratch = tempfile.TemporaryDirectory(prefix="tidelock-wheel-")
        made = {}
        for source in forms.SOURCES:
            try:
                module = build.compile_into(Path(self._scratch.name), source)
            except build.CannotBuild as error:
                if required:
                    raise SystemExit(f"{source.name} is not compiled, and {CHOICE} requires it: {error}") from None
                self.app.display_warning(f"{source.name} is not compiled, its Python form is slower: {error}")
                continue
            made[str(module)] = str(source.relative_to(self.root).with_name(module.name))
        return made

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what the wheel now holds."""
        if scratch := getattr(self, "_scratch", None):
            scratch.cleanup()
