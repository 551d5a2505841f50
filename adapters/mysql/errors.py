"""What can go wrong at a MySQL or MariaDB source, each error with the words an operator needs.

`message` says what happened, `position` where in the log, `hint` what to do; none holds a password or a row's value.
"""

from __future__ import annotations

from tidelock.engine.model.errors import RESYNC


class SourceError(Exception):
    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint
        self.position = ""

    def __str__(self) -> str:
        where = f", at {self.position}" if self.position else ""
        return f"{self.message}{where}. {self.hint}"


class Unreachable(SourceError):
    """No connection, or the stream ended or fell silent: start a new reader from the last position."""


class Busy(Unreachable):
    """The server itself says that it cannot now: too many connections, no memory, starting."""


class AccessDenied(SourceError):
    """The server refuses the account, or one of its rights is missing."""


class PurgedPosition(SourceError):
    """The log no longer holds (or never held) the position asked for: rows would be missing."""


class OtherHistory(SourceError):
    """The source's log is not the one that the position belongs to, though it may have a place of that name."""


class UnsuitableLog(SourceError):
    """A setting leaves out what replication needs: row format, full images, full metadata, plain transactions."""


class UnknownEvent(SourceError):
    """An event type that this reader does not understand and may not leave out."""


class LogGap(SourceError):
    """The stream is not contiguous, or the source itself reports a loss."""


class DamagedLog(SourceError):
    """An event that is not what the server wrote, or not of the form that its type says: nothing of it is applied."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint or WAY_OUT)


WAY_OUT = (
    "Nothing of that event or behind it is applied. Ask the source's own tool about the file:"
    " mariadb-binlog --verify-binlog-checksum FILE, or mysqlbinlog. If that finds nothing wrong, the bytes changed on"
    " the way here: `tidelock run FEED`. Else read from a replica of the source that has GTIDs (`source:` in the feed),"
    f" or {RESYNC}"
)
SEE_THE_LOG = f"See that server's error log. When it is mended, `tidelock run FEED`; where it cannot be, {RESYNC}"
