"""Makes the start of a process light: import this before what takes long to import.

What imports make stays, so the collector need not look through it again and again meanwhile.  PyMySQL imports
cryptography, a fifth of all that `tidelock run` imports, for one way to log in: a password that is encrypted with the
server's public key, without TLS.  So that is imported by the first such login.  msgspec takes typing_extensions where
it is installed, and does without where it is not: in this Python both read the same types, and a tenth of a start goes
into it.
"""

from __future__ import annotations

import gc
import importlib
import sys
import threading
from types import ModuleType
from typing import Any, Final, cast

_YOUNG_OBJECTS: Final = 500_000
_CRYPTOGRAPHY: Final = tuple(
    f"cryptography.hazmat.primitives.{name}" for name in ("hashes", "serialization", "asymmetric.padding")
)
_EXTENSIONS: Final = "typing_extensions"
_lock = threading.Lock()


class Later(ModuleType):
    """Stands for a module until somebody takes something from it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system asks for those
            raise AttributeError(name)
        return getattr(_imported(self.__name__), name)


def _imported(name: str) -> ModuleType:
    """Imports the module, and lets those that it needs be found."""
    with _lock:
        for waiting in _CRYPTOGRAPHY:
            if isinstance(sys.modules.get(waiting), Later):
                del sys.modules[waiting]
    return importlib.import_module(name)


def _begin() -> None:
    gc.set_threshold(_YOUNG_OBJECTS, *gc.get_threshold()[1:])
    for name in _CRYPTOGRAPHY:
        if name not in sys.modules:
            sys.modules[name] = Later(name)
    if _EXTENSIONS not in sys.modules:
        sys.modules[_EXTENSIONS] = cast(ModuleType, None)  # an import of it fails
        importlib.import_module("msgspec")
        del sys.modules[_EXTENSIONS]


_begin()
