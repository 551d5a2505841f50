"""Addresses of two of libpq's functions, for compiled code that takes messages without a Python call for each.

psycopg's compiled forms bring a libpq of their own.  It is loaded already, so asking its module for a name finds the
functions that the connection is used with.  Where there is none, as with psycopg's Python form, messages are taken by
psycopg.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelock.adapters.postgres.logical.light_psycopg import pq

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

_MODULES: Final = {"binary": "psycopg_binary.pq", "c": "psycopg_c.pq"}


class Received(NamedTuple):
    """Messages that libpq has received, to be taken by address: its connection, PQgetCopyData and PQfreemem."""

    connection: int
    take: int
    free: int


def received_by(connection: PGconn) -> Received | None:
    """Returns what it takes to take a connection's messages; None where it cannot be had."""
    functions, address = _functions(), getattr(connection, "pgconn_ptr", None)
    return Received(address, *functions) if functions and address else None


@functools.cache
def _functions() -> tuple[int, int] | None:
    name = _MODULES.get(pq.__impl__)
    if name is None:
        return None
    try:
        library = ctypes.CDLL(str(importlib.import_module(name).__file__))
        found = [ctypes.cast(getattr(library, one), ctypes.c_void_p).value for one in ("PQgetCopyData", "PQfreemem")]
    except (ImportError, OSError, AttributeError):
        return None
    take, free = found
    return (take, free) if take and free else None
