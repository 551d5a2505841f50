"""Admits compiled modules that were built from the source beside them, and tells which are in use.

A compiled module holds the digest of what it was built from (`SOURCE`, put in by `adapters.compiled.build`).  A module
with another digest, or none, is older than the code around it and could read today's log with yesterday's rules: it is
refused, and the Python form runs.  The Python form also runs where a module was not built, which is reported but no
error, and where one cannot be loaded.  An installed package has sources and modules from one build; without the sources
there is nothing to compare, and a module with any digest is admitted.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ADAPTERS: Final = Path(__file__).parents[1]
SOURCES: Final = (
    _ADAPTERS / "row_image/row_image.pyx",
    _ADAPTERS / "mysql/binlog/fast_path.pyx",
    _ADAPTERS / "postgres/logical/row_decoder.pyx",
)
_DECODERS: Final = {"mysql": "fast_path", "postgres": "row_decoder"}
COMPILED: Final = "compiled"
_INCLUDED: Final = re.compile(rb'^(?:cdef extern from|#?include) "([a-z0-9_]+\.(?:h|pxi))"', re.MULTILINE)


def digest(source: Path) -> str:
    """Returns the digest of a source, with the headers and parts beside it that it includes.  Raises OSError."""
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
    """Checks the compiled module `name` before anything is imported from it.

    Raises ImportError where it may not be used.
    """
    found = form(name)
    if found != COMPILED:
        raise ImportError(found)


@functools.cache
def form(name: str) -> str:
    """Returns `compiled`, or why the Python form is used.  A module that should work and does not is logged, once."""
    source = next(source for source in SOURCES if source.stem == name)
    try:
        module = importlib.import_module(_module(source))
    except ImportError as error:
        if not any(source.parent.glob(f"{name}.*.so")):
            return "Python (not built)"
        _warn("the compiled form %s cannot be loaded (%s): the Python form is used, slower and as exact", name, error)
        return "Python (cannot be loaded)"
    built_from = getattr(module, "SOURCE", "")
    if built_from and (not source.exists() or built_from == digest(source)):
        return COMPILED
    _warn(
        "the compiled form %s was built from another version of its source: the Python form is used, slower and as"
        " exact; `make setup` (python -m tidelock.adapters.compiled.build) builds it anew",
        name,
    )
    return "Python (built from another source)"


def _warn(text: str, *arguments: object) -> None:
    import logging  # which a capture process does without

    logging.getLogger(__name__).warning(text, *arguments)


def _module(source: Path) -> str:
    return ".".join(["tidelock.adapters", *source.relative_to(_ADAPTERS).with_suffix("").parts])


def forms() -> dict[str, str]:
    """Returns the form of each module, by its name."""
    return {source.stem: form(source.stem) for source in SOURCES}


def one_line(source: str = "") -> str:
    """Returns the forms of all modules in one line; of those that a feed from a `source` of this dialect uses."""
    unused = {decoder for dialect, decoder in _DECODERS.items() if source and dialect != source}
    names = (path.stem for path in SOURCES)
    return "forms: " + ", ".join(f"{name} {form(name)}" for name in names if name not in unused)
