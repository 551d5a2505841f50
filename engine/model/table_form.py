"""Form of a source's table as the reader of its log knows it: kept at the target, given back to the next reader.

A log without statements (PostgreSQL's) tells a change of a table only by the difference from what was there before.  So
what was there is kept beside the checkpoint.  Whoever keeps it need not understand it.
"""

from __future__ import annotations

import msgspec

from tidelock.engine.model.records import TableName


class TableForm(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Form of a table at a place of the log.  `words`: a text of the source's own, that only its reader understands."""

    table: TableName
    words: str
