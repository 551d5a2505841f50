"""Settings that a server needs for its log to hold whole rows."""

from __future__ import annotations

import re
from typing import Final

NEEDED: Final = {
    "log_bin": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
}
METADATA: Final = "binlog_row_metadata"
"""The setting that says whether the log names columns: FULL.  With any other what is known of a table names them."""
NAME_COLUMNS: Final = f"SET GLOBAL {METADATA}=FULL;"
NO_BLOB: Final = "NOBLOB"
"""A value of `binlog_row_image`: images are full where the table has no column that `leaves_out` names."""


def leaves_out(column_type: str) -> bool:
    """May images without blobs lack a column of this type, as COLUMN_TYPE or DATA_TYPE spells it?"""
    return re.match(r"(tiny|medium|long)?(blob|text)\b", column_type, re.IGNORECASE) is not None
