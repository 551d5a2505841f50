"""Which compiled forms are in use: a module is admitted where it was built from the source that is beside it.

A compiled module holds the digest of what it was built from (`SOURCE`, put in by `adapters.compiled.build`).  Where
that is another, or it has none, the module is older than the code around it and could read today's log with yesterday's
rules: it is refused, and everything runs with the Python form.  So it does where a module was not built, which is told
but no trouble, and where one cannot be loaded.  An installed package has sources and modules from one build; where it
leaves the sources out there is nothing to compare, and a module that holds any digest is admitted.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ADAPTERS: Final = Path(__file__).parents[1]
SOURCES: Final = (_ADAPTERS / "row_image/row_image.pyx", _ADAPTERS / "mysql/binlog/fast_path.pyx")
COMPILED: Final = "compiled"
_INCLUDED: Final = re.compile(rb'^(?:cdef extern from|include) "([a-z0-9_]+\.(?:h|pxi))"', re.MULTILINE)

log = logging.getLogger(__name__)


def digest(source: Path) -> str:
    """Digest of a source with the headers and parts beside it that it includes, and theirs.  Raises OSError."""
    found = hashlib.sha256()
    for path in _with_included(source):
        found.update(path.read_bytes())
    return found.hexdigest()[:32]


def _with_included(source: Path) -> Iterator[Path]:
    yield source
    for name in _INCLUDED.findall(source.read_bytes()):
        included = source.parent / name.decode()
        if included.exists():  # else it is Python's own
            yield from _with_included(included)


def admit(name: str) -> None:
    """Call before anything is imported from the compiled module `name`.  Raises ImportError where that may not be."""
    found = form(name)
    if found != COMPILED:
        raise ImportError(found)


@functools.cache
def form(name: str) -> str:
    """`compiled`, or why it is Python.  What is not as it was meant is logged, once."""
    source = next(source for source in SOURCES if source.stem == name)
    try:
        module = importlib.import_module(_module(source))
    except ImportError as error:
        if not any(source.parent.glob(f"{name}.*.so")):
            return "Python (not built)"
        log.warning(
            "the compiled form %s cannot be loaded (%s): the Python form is used, slower and as exact", name, error
        )
        return "Python (cannot be loaded)"
    built_from = getattr(module, "SOURCE", "")
    if built_from and (not source.exists() or built_from == digest(source)):
        return COMPILED
    log.warning(
        "the compiled form %s was built from another version of its source: the Python form is used, slower and as"
        " exact; `make setup` (python -m tidelock.adapters.compiled.build) builds it anew",
        name,
    )
    return "Python (built from another source)"


def _module(source: Path) -> str:
    return ".".join(["tidelock.adapters", *source.relative_to(_ADAPTERS).with_suffix("").parts])


def forms() -> dict[str, str]:
    """The form in use of each module, by its name."""
    return {source.stem: form(source.stem) for source in SOURCES}


def one_line() -> str:
    return "forms: " + ", ".join(f"{name} {found}" for name, found in forms().items())
