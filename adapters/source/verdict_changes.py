"""Verdicts of an arbiter's log as changes of rows, in the shape that their table has at that place.

A reader hands them over as marks: the ordinal, and the verdict's fields.  Those of another feed than the sister are for
another spoke.  A table of which the log has told no row since the reader began has the shape that the catalogue tells,
under a number of its own.  A verdict that names other columns than the shape ends the reading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from tidelock.adapters.bookkeeping.verdicts import Verdict, values
from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.log_batch import VERDICT, SourceChunk
from tidelock.engine.model.records import Column, Row, RowChange, Shape, TableName, Value

ValueOf: TypeAlias = Callable[[Column, Any], Value]


class VerdictChanges:
    """Makes changes of the verdicts that `sister` leaves.

    `value_of`: the log's value of one that a copy reads, which is not NULL.  `shapes_of`: shapes of tables as the
    catalogue has them now.
    """

    def __init__(
        self, sister: str, value_of: ValueOf, shapes_of: Callable[[set[TableName]], Mapping[TableName, Shape]]
    ) -> None:
        self._sister = sister
        self._value_of = value_of
        self._shapes_of = shapes_of
        self._known: dict[TableName, tuple[int, Shape]] = {}
        self._asked = 0

    def read(self, chunk: SourceChunk, wanted: Callable[[TableName], bool]) -> SourceChunk:
        """Returns the chunk with its verdicts as changes.  Raises SourceError."""
        self._known |= {shape.name: (number, shape) for number, shape in chunk.shapes.items()}
        found = [self._found(transaction.marks, wanted) for transaction in chunk.transactions]
        if not any(found):
            return chunk
        shapes = dict(chunk.shapes)
        tables = {_table(verdict) for verdicts in found for _, verdict in verdicts}
        if unknown := {name for name in tables if name not in self._known}:
            shapes |= self._ask(unknown)
        transactions = [
            msgspec.structs.replace(one, verdicts=tuple(self._change(*verdict) for verdict in verdicts))
            for one, verdicts in zip(chunk.transactions, found, strict=True)
        ]
        return msgspec.structs.replace(chunk, transactions=transactions, shapes=shapes)

    def _found(
        self, marks: tuple[tuple[int, Row], ...], wanted: Callable[[TableName], bool]
    ) -> list[tuple[int, Verdict]]:
        told = [(row[0], _verdict(row[1:])) for kind, row in marks if kind == VERDICT]
        return [(at, one) for at, one in told if one.feed == self._sister and wanted(_table(one))]

    def _ask(self, unknown: set[TableName]) -> dict[int, Shape]:
        """Learns the shapes of tables from the catalogue, under numbers below 0, which no reader gives."""
        told: dict[int, Shape] = {}
        for name, shape in self._shapes_of(unknown).items():
            self._asked -= 1
            told[self._asked] = shape
            self._known[name] = self._asked, shape
        return told

    def _change(self, ordinal: int, verdict: Verdict) -> RowChange:
        known = self._known.get(_table(verdict))
        if known is None:
            raise _unreadable(verdict, "the table is not there any more")
        number, shape = known
        names = [column.name for column in shape.columns]
        try:
            key = values(verdict.row_key)
            image = None if verdict.image is None else values(verdict.image)
            told = key if image is None else image
            if strange := [name for name in told if name not in names]:
                raise _unreadable(verdict, f"the table has no column {', '.join(strange)}")
            if image is not None and (missing := [name for name in names if name not in image]):
                raise _unreadable(verdict, f"it does not tell column {', '.join(missing)}")
            row = tuple(self._value(column, told.get(column.name)) for column in shape.columns)
        except (msgspec.MsgspecError, AttributeError, TypeError, ValueError) as error:
            raise _unreadable(verdict, str(error)) from error
        return RowChange(number, row if image is None else None, None if image is None else row, ordinal)

    def _value(self, column: Column, told: Any) -> Value:
        return None if told is None else self._value_of(column, told)


def _verdict(row: Row) -> Verdict:
    try:
        return msgspec.convert(dict(zip(Verdict.__struct_fields__, row, strict=True)), Verdict)
    except (msgspec.MsgspecError, ValueError) as error:
        raise UnsuitableLog(
            f"a verdict in the log is not understood: {error}",
            f"Run the version of Tidelock that wrote it, or a later one; if no feed did, {RESYNC}",
        ) from error


def _table(verdict: Verdict) -> TableName:
    return TableName(verdict.table_schema, verdict.table_name)


def _unreadable(verdict: Verdict, why: str) -> UnsuitableLog:
    return UnsuitableLog(
        f"a verdict about a row of {_table(verdict)} cannot be read: {why}",
        f"The table has changed since feed {verdict.feed} wrote it: {RESYNC}",
    )
