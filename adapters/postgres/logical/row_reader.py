"""Rows of one table, from messages to changes: which values the log tells, and which it does not.

| message                    | before                                        | after                                |
|----------------------------|-----------------------------------------------|--------------------------------------|
| I                          |                                               | the new row                          |
| U with the old row (O)     | the old row                                   | the new row; what it leaves out is   |
|                            |                                               | the old row's                        |
| U with the old key (K)     | the key; `UNKNOWN` for the rest               | the new row; `UNKNOWN` for what it   |
|                            |                                               | leaves out, and the key has not      |
| U with neither             | the new row's key, which the update left      | the same                             |
|                            | alone; `UNKNOWN` for the rest                 |                                      |
| D with O, D with K         | the old row; the key, `UNKNOWN` for the rest  |                                      |

A partitioned table whose REPLICA IDENTITY becomes FULL has its old rows marked O from then on, without another relation
message, and they hold what their partition logs: so O is K where the table was not told to be FULL.

PostgreSQL logs an update that changes nothing: where both rows are whole and equal, there is no change.
This is the Python form; `row_decoder.pyx` has the same for usual messages.
"""

from __future__ import annotations

from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.adapters.postgres.logical.messages import LEFT_OUT, RowMessage, Tuple, Unchanged
from tidelock.adapters.postgres.logical.row_values import code, reading
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import UNKNOWN, Column, Row, RowChange, Shape, Value


class RowReader:
    """Reads rows of a table of this shape, whose number in the stream is `number`.  `shows_gaps`: an old row that has
    its key alone is not whole (`told_relation`)."""

    def __init__(self, number: int, shape: Shape, shows_gaps: bool = False) -> None:
        self._number = number
        self._shape = shape
        self._columns = shape.columns
        self._readings = [reading(code(column)) for column in shape.columns]
        self._key = key_positions(shape)
        self._others = tuple(n for n in range(len(shape.columns)) if n not in self._key) if shows_gaps else ()

    def change(self, message: RowMessage, ordinal: int) -> RowChange | None:
        """Returns the change; None for one that changes nothing.  Raises ValueError for a row of other columns or a
        text that is no value, UnsuitableLog for a row that the log holds less of than the shape says."""
        old, new = message.old, message.new
        is_key = message.is_key or (old is not None and self._shape.identity != "full")
        if self._others and old is not None and all(old[place] is None for place in self._others):
            raise incomplete(self._shape)
        if new is None:
            assert old is not None, "a delete has an old row or its key"
            return RowChange(self._number, self._before(old, is_key), None, ordinal)
        if old is None:
            after = self._row(new)
            before = self._of_key(after) if message.is_update else None
            return RowChange(self._number, before, after, ordinal)
        if len(old) == len(new):
            new = tuple(was if now is LEFT_OUT and was is not None else now for was, now in zip(old, new, strict=True))
        if is_key:
            return RowChange(self._number, self._before(old, is_key=True), self._row(new), ordinal)
        if LEFT_OUT in new:
            raise ValueError("an old row without a value that the new one leaves out")
        if old == new:
            return None
        return RowChange(self._number, self._row(old), self._row(new), ordinal)

    def _before(self, old: Tuple, is_key: bool) -> Row:
        if not is_key:
            return self._row(old)
        self._require_key()
        return tuple(UNKNOWN if value is None else value for value in self._row(old))

    def _of_key(self, after: Row) -> Row:
        self._require_key()
        key = self._key
        if not key:
            raise incomplete(self._shape)
        return tuple(value if place in key else UNKNOWN for place, value in enumerate(after))

    def _require_key(self) -> None:
        if self._shape.identity != "key":
            raise incomplete(self._shape)

    def _row(self, texts: Tuple) -> Row:
        if len(texts) != len(self._readings):
            raise ValueError(f"a row of {len(texts)} columns in a table of {len(self._readings)}")
        return tuple([self._value(place, text) for place, text in enumerate(texts)])

    def _value(self, place: int, text: bytes | Unchanged | None) -> Value:
        if text is None:
            return None
        if isinstance(text, Unchanged):
            return UNKNOWN
        try:
            return self._readings[place](text)
        except ValueError as error:
            raise unread(self._columns[place], error) from error


def key_positions(shape: Shape) -> frozenset[int]:
    """Returns the places of the key's columns in a row."""
    places = {column.name: place for place, column in enumerate(shape.columns)}
    return frozenset(places[name] for name in shape.primary_key)


def unread(column: Column, error: ValueError) -> ValueError:
    """Makes the error for a text that is no value of its column; the text itself is not told."""
    reason = "bad text" if isinstance(error, UnicodeDecodeError) else str(error)
    return ValueError(f"column {column.name} of type {column.type}: {reason}")


def incomplete(shape: Shape) -> UnsuitableLog:
    """Makes the error for an update or delete whose old row is not all there, in a table that should log it."""
    return UnsuitableLog(
        f"the log holds a change of {shape.name} without the row before, or without its key",
        "Partitions have a replica identity of their own: ALTER TABLE … REPLICA IDENTITY at each of them the same as at"
        f" the table; then {RESYNC}",
    )
