"""Errors of messages that cannot be read.

The stream has no checksum of its own: TCP's and TLS's are all there are.  So nothing in a message is believed: it ends
where its fields end, its values are of their types, and whatever reading it raises is in `MALFORMED`.
"""

from __future__ import annotations

from struct import error as StructError
from typing import Final

from tidelock.adapters.ports.source_errors import SourceError
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import spelled_lsn

MALFORMED: Final = (ValueError, LookupError, ArithmeticError, StructError, RecursionError, TypeError)
_WAY_OUT: Final = (
    "Nothing of that message or behind it is applied. `tidelock run FEED` reads it from the source again; where that"
    f" fails at the same place, keep this text and report it, and {RESYNC}"
)


class DamagedMessage(SourceError):
    """A message that is not what the server wrote, or none that protocol 1 has: nothing of it is applied."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint or _WAY_OUT)


def unreadable(kind: int, error: Exception, file: str, lsn: int) -> DamagedMessage:
    """Makes the error for a message that cannot be read; `error` is of `MALFORMED`, `kind` the message's first byte."""
    reason = "bad UTF-8" if isinstance(error, UnicodeDecodeError) else f"{type(error).__name__}: {error}"
    letter = chr(kind) if 32 < kind < 127 else f"{kind:#04x}"
    problem = DamagedMessage(f"a message {letter} of the logical replication stream cannot be read ({reason})")
    problem.position = f"{file}:{spelled_lsn(lsn)}"
    return problem
