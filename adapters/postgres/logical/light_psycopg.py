"""libpq by psycopg, without the rest of psycopg: half of its import, which `tidelock run` would wait for.

A part of a package is imported behind the package, and psycopg's brings its connections, cursors and types.  So the
package is made without what is in it, and that is loaded once somebody takes something of it.
"""

from __future__ import annotations

import sys
import threading
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, Final

_PACKAGE: Final = "psycopg"
_PARTS: Final = ("errors", "pq")
_lock = threading.RLock()


class _Later(ModuleType):
    """A package of which nothing is loaded but the parts that are imported."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in _PARTS:  # the import system asks for those
            raise AttributeError(name)
        with _lock:
            if isinstance(self, _Later):
                self.__class__ = ModuleType  # type: ignore[assignment]
                assert self.__spec__ is not None and self.__spec__.loader is not None
                self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _begin() -> None:
    if _PACKAGE in sys.modules:
        return
    spec = find_spec(_PACKAGE)
    assert spec is not None, "psycopg is installed"
    package = module_from_spec(spec)
    package.__class__ = _Later
    sys.modules[_PACKAGE] = package


_begin()
import psycopg.pq as pq  # noqa: E402  # isort: skip
from psycopg.errors import OperationalError  # noqa: E402

__all__ = ["OperationalError", "pq"]
