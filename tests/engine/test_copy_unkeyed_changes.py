"""A table without a key at its merge: what was read in one view, and the sum of the changes behind that view."""

from collections import Counter
from random import Random

import pytest

from tests.engine.world import bind, shape_of, table
from tidelock.engine.copy.chunk import Chunk, ChunkState
from tidelock.engine.copy.chunk_merge import ChunkMerge
from tidelock.engine.copy.unkeyed_changes import Difference, UnkeyedChanges
from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.model.records import Position, Row, RowChange, Transaction
from tidelock.engine.model.snapshot import Snapshot
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import RefusedRow
from tidelock.engine.protocol.steps import DeleteRows, UpsertRows

HEAP = table("heap", ["id", "note"], [])
BINDING = bind(HEAP)


def at(number: int) -> Position:
    return Position("log.000001", number)


def change(before: Row | None, after: Row | None, number: int = 1, source: str = "0-1") -> Change:
    return Change.of(BINDING, RowChange(0, before, after, 0), Transaction(source, number, 0))


@pytest.mark.parametrize(
    ("view", "source", "number", "held"),
    [
        (Snapshot(at(20)), "0-1", 99, True),
        (Snapshot(at(10)), "0-1", 1, False),
        (Snapshot(at(15), ends=(("0-1", 7), ("3-1", 2))), "0-1", 7, True),
        (Snapshot(at(15), ends=(("0-1", 7), ("3-1", 2))), "0-1", 8, False),
        (Snapshot(at(15), ends=(("0-1", 7), ("3-1", 2))), "0-2", 6, None),
        (Snapshot(at(15), ends=(("0-1", 7), ("3-1", 2))), "4-1", 1, False),
        (Snapshot(at(15), taken=(("a", 1, 4), ("a", 7, 9))), "a", 8, True),
        (Snapshot(at(15), taken=(("a", 1, 4), ("a", 7, 9))), "a", 5, False),
        (Snapshot(at(15)), "log.000001", 12, True),
        (Snapshot(at(15)), "log.000001", 15, False),
        (Snapshot(at(15)), "log.000002", 4, False),
    ],
)
def test_a_view_holds_what_was_committed_up_to_its_place(
    view: Snapshot, source: str, number: int, held: bool | None
) -> None:
    """In a window from 10 to 20."""
    assert view.holds(at(10), at(20), source, number) is held


def test_only_what_is_behind_the_view_counts_and_each_equal_row_counts() -> None:
    changes = UnkeyedChanges()
    changes.note(at(1), at(2), change(None, (1, "old")))
    for _ in range(2):
        changes.note(at(5), at(6), change((1, "a"), (1, "b")))
    changes.note(at(6), at(7), change((1, "b"), None))
    assert changes.since(Snapshot(at(3))) == Difference(more=((1, "b"),), less=((1, "a"), (1, "a")))
    assert changes.since(None) is None and UnkeyedChanges().since(None) == Difference()


def test_a_minus_zero_is_no_zero() -> None:
    changes = UnkeyedChanges()
    changes.note(at(5), at(6), change((0.0, "a"), (-0.0, "a")))
    made = changes.since(Snapshot(at(3)))
    assert made is not None and (str(made.more[0][0]), str(made.less[0][0])) == ("-0.0", "0.0")


@pytest.mark.parametrize("seed", range(40))
def test_the_view_and_the_difference_are_the_table(seed: int) -> None:
    chance = Random(seed)
    rows = [(chance.randrange(3), "a") for _ in range(6)]
    changes, cut, states = UnkeyedChanges(), chance.randrange(1, 20), [Counter(rows)]
    windows = sorted(chance.sample(range(1, 20), 4))
    for n in range(1, 20):
        before = chance.choice(rows) if rows and chance.random() < 0.7 else None
        after = (chance.randrange(3), "a") if before is None or chance.random() < 0.5 else None
        if before is not None:
            rows.remove(before)
        if after is not None:
            rows.append(after)
        states.append(Counter(rows))
        start, end = max([0, *(w for w in windows if w < n)]), min([20, *(w for w in windows if w >= n)])
        changes.note(at(start), at(end), change(before, after, n))
    made = changes.since(Snapshot(at(cut), ends=(("0-1", cut),)))
    assert made is not None and not Counter(made.less) - states[cut]
    assert states[cut] - Counter(made.less) + Counter(made.more) == states[-1]


def test_rows_that_are_gone_leave_the_refused_first_and_new_ones_may_be_set_aside() -> None:
    chunk = Chunk(ChunkSplit(HEAP.name), 0, ChunkState.STAGED)
    chunk.attempt, chunk.rows, chunk.binding = EffectId(3, 7), 5, BINDING
    chunk.refused = tuple(RefusedRow(shape_of(HEAP), row, "too long") for row in ((2, "x"), (2, "x"), (4, "y")))
    made = ChunkMerge(chunk, Difference(((5, "n"),), ((2, "x"), (3, "s"))), HEAP, EffectId(3, 20), at(9))
    assert made.effect.steps == [DeleteRows(BINDING, [(3, "s")]), UpsertRows(BINDING, [(5, "n")], fresh=True)]
    assert [row.ordinal for row in made.effect.parked] == [1, 2]
    assert made.set_aside(EffectId(3, 21), "refused")
    assert made.effect.steps == [DeleteRows(BINDING, [(3, "s")])] and len(made.effect.parked) == 3
    assert not made.set_aside(EffectId(3, 22), "refused")
