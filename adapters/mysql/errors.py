"""Errors that only MySQL's and MariaDB's logs have; `adapters.ports.source_errors` has those of any source."""

from __future__ import annotations

from tidelock.adapters.ports.source_errors import SourceError
from tidelock.engine.model.errors import RESYNC


class UnknownEvent(SourceError):
    """An event type that this reader does not understand and may not leave out."""


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
