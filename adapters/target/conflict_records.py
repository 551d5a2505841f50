"""Records of a decision about a change in the bookkeeping (`tidelock_conflicts`), whichever database it is in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.events import Decided
from tidelock.engine.protocol.steps import DecideChange, ParkedRow
from tidelock.engine.two_way.decisions import DISPLACED, Decision, Outcome


class LostRow(msgspec.Struct, frozen=True):
    """A row of `tidelock_conflicts`, by its columns; `lost` is msgpack."""

    entry: int
    type: str
    outcome: str
    incoming: int
    lost: bytes | None


class Kept(msgspec.Struct, frozen=True):
    """A row that lost in a decision.  `place`: of the change; `stands`: the row that stands in its place."""

    place: ParkedRow
    rows: Sequence[LostRow]
    stands: bytes | None


class ToldRow(msgspec.Struct, frozen=True):
    """A row that is told to a spoke; `image`: None where there is none.  Both are msgpack."""

    ordinal: int
    table: TableName
    key: bytes
    image: bytes | None


def lost_rows(change: DecideChange, decision: Decision) -> list[LostRow]:
    """Returns what was meant and does not stand."""
    displaced = set(decision.displaced)
    found = []
    for entry, lost in enumerate(decision.lost):
        outcome = DISPLACED if not lost.incoming and lost.row in displaced else decision.outcome.value
        row = packed_row(change.table, lost.row)
        found.append(LostRow(entry, lost.conflict.value, outcome, int(lost.incoming), row))
    return found


def decided(decision: Decision) -> Decided:
    """Returns what the engine hears of a decision."""
    outcome = decision.outcome
    return Decided(outcome is Outcome.PARK, tuple((conflict.value, outcome.value) for conflict in decision.conflicts))


def packed_row(table: Binding, row: Row | None) -> bytes | None:
    """Returns the row's values by column, as msgpack; None: no row."""
    if row is None:
        return None
    names = [column.name for column in table.shape.columns]
    return msgspec.msgpack.encode(dict(zip(names, row, strict=True)))


def packed(image: dict[str, str | bytes | None] | None) -> bytes | None:
    """Returns a row as the source's log of its own database has it, as msgpack; None: no row."""
    return None if image is None else msgspec.msgpack.encode(image)


MOST_CHARACTERS: Final = 1 << 20


def grouped(values: Iterable[str]) -> Iterator[list[str]]:
    """Yields these in order, as many together as make a statement of moderate length; at least one."""
    some: list[str] = []
    size = 0
    for value in values:
        if some and size + len(value) > MOST_CHARACTERS:
            yield some
            some, size = [], 0
        some.append(value)
        size += len(value)
    if some:
        yield some
