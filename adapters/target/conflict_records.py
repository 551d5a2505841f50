"""Records of a decision about a change in the bookkeeping (`tidelock_conflicts`), whichever database it is in."""

from __future__ import annotations

import msgspec

from tidelock.engine.model.records import Row
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.events import Decided
from tidelock.engine.protocol.steps import DecideChange
from tidelock.engine.two_way.decisions import DISPLACED, Decision, Outcome


class LostRow(msgspec.Struct, frozen=True):
    """A row of `tidelock_conflicts`, by its columns; `lost` is msgpack."""

    entry: int
    type: str
    outcome: str
    incoming: int
    lost: bytes | None


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
