"""Parts of a chunk's merge, and what is left of it when the target refuses it."""

from tests.engine.world import bind, change, shape_of, table
from tidelock.engine.batch.parked_rows import ParkedRows, decode_change
from tidelock.engine.copy.chunk import Chunk, ChunkState
from tidelock.engine.copy.chunk_merge import ChunkMerge
from tidelock.engine.copy.unkeyed_changes import Difference
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.records import Position, Row
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import RefusedRow
from tidelock.engine.protocol.steps import UpsertRows

ITEM = table("item", ["id", "code"], ["id"], [["code"]])
BINDING = bind(ITEM)
SHAPE = shape_of(ITEM)
READ, FIRST, SECOND = EffectId(3, 7), EffectId(3, 20), EffectId(3, 21)
AT = Position("log.000001", 100)
REPAIR = ChunkSplit(ITEM.name, By.KEYS, ("id",), keys=((1,), (9,)))


def merge(
    *touched: tuple[Row | None, Row | None], refused: tuple[Row, ...] = (), split: ChunkSplit = ChunkSplit(ITEM.name)
) -> ChunkMerge:
    chunk = Chunk(split, split.chunks - 1, ChunkState.STAGED)
    chunk.attempt, chunk.rows = READ, 5
    chunk.refused = tuple(RefusedRow(SHAPE, row, "too long") for row in refused)
    for before, after in touched:
        chunk.note(BINDING, before, after)
    return ChunkMerge(chunk, Difference(), ITEM, FIRST, AT)


def test_what_could_not_be_staged_and_what_was_touched_are_told_apart() -> None:
    made = merge(((1, "a"), (1, "b")), ((2, "c"), None), refused=((2, "c"), (3, "d"), (4, "e"))).effect
    assert made.without == [(1,), (2,)] and made.rows == 5 and made.gone == []
    assert [step.rows for step in made.steps if isinstance(step, UpsertRows)] == [[(1, "b")]]
    assert [(row.ordinal, decode_change(row.change).after) for row in made.parked] == [(1, (3, "d")), (2, (4, "e"))]
    assert [decode_change(row.change).order for row in made.parked] == [(3, 20, 0), (3, 20, 1)]


def test_parked_rows_are_named_by_the_attempt_and_all_differently() -> None:
    made = merge(((1, "a"), (1, "b")), (None, (5, "f")), refused=((3, "d"), (4, "e")))
    before = made.effect.parked
    assert made.set_aside(SECOND, "duplicate code")
    places = [(row.source, row.number, row.ordinal) for row in made.effect.parked]
    assert places == [("copy-3", 7, n) for n in range(4)]
    assert [(p.source, p.number, p.ordinal) for p in before] == places[:2]
    held = [decode_change(row.change) for row in made.effect.parked]
    assert [(one.after, one.untried) for one in held] == [
        ((3, "d"), False), ((4, "e"), False), ((1, "b"), True), ((5, "f"), True),
    ]  # fmt: skip
    assert [one.order for one in held] == [(3, 21, n) for n in range(4)]
    assert (made.effect.id, made.effect.steps, made.effect.without) == (SECOND, [], [(1,), (5,)])


def test_a_merge_without_last_images_has_no_second_life() -> None:
    made = merge(((2, "c"), None), refused=((3, "d"),))
    assert not made.set_aside(SECOND, "duplicate code") and made.effect.id == FIRST


def test_only_what_is_untried_is_tried_once_it_is_committed_and_all_is_known_as_parked() -> None:
    made, parked_rows = merge(((1, "a"), (1, "b")), refused=((3, "d"),)), ParkedRows()
    made.set_aside(SECOND, "duplicate code")
    assert [(row.source, row.ordinal, row.wish) for row in made.done(parked_rows)] == [("copy-3", 1, "retry")]
    assert parked_rows.holds(change(BINDING, (1, "b"), None)) and parked_rows.holds(change(BINDING, (3, "d"), None))
    assert not parked_rows.holds(change(BINDING, (2, "c"), None))


def test_a_repair_writes_over_what_was_asked_for_and_what_was_touched() -> None:
    made = merge(((1, "a"), (2, "a")), split=REPAIR)
    assert made.effect.gone == [(1,), (9,), (2,)] and made.effect.without == [(1,), (2,)]
    parked_rows = ParkedRows()
    parked_rows.park(change(BINDING, None, (9, "z"), number=4))
    parked_rows.park(change(BINDING, None, (8, "y"), number=5))
    assert made.overtake(parked_rows) == "" and made.effect.unparked == (("0-1", 4, 0),)


def test_a_repair_cannot_take_what_is_parked_for_others_too() -> None:
    parked_rows = ParkedRows()
    parked_rows.park(change(BINDING, (9, "z"), (8, "z")))
    assert "concern other rows too" in merge(split=REPAIR).overtake(parked_rows)
    assert merge().overtake(parked_rows) == "", "a copy has emptied the parked_rows when it began"
