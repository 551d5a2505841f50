"""Compiles our modules, as an installation does: a process that is timed would else compile what was changed since.

Where PYTHONDONTWRITEBYTECODE is set, each process of a run would do so again.
"""

from __future__ import annotations

import compileall
import functools
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_PARTS: Final = ("adapters", "engine", "simulations", "bench")


@functools.cache
def compile_modules() -> None:
    """Compiles each module that is newer than what was compiled of it."""
    for part in _PARTS:
        compileall.compile_dir(ROOT / part, quiet=2)
