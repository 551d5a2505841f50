"""Rows that are repaired beside the stream: what is read, merged, parked and given up."""


from msgspec.structs import replace

from tests.engine.copying_feed import (
    HALVES,
    ITEM,
    ITEM_ROW,
    REPAIR,
    SHAPES,
    TABLES,
    Feed,
    at,
    given_up,
    insert,
    item_parked,
    mended,
    of,
    repairing,
)
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.protocol.effects import (
    ApplyBatch,
    BeginCopy,
    DropStaged,
    FindRefused,
    MergeChunk,
    RefuseCopy,
)
from tidelock.engine.protocol.events import (
    BatchCommitted,
    BatchFailed,
    ChunksPlanned,
    ChunkStaged,
    Copied,
    RefusedFound,
)
from tidelock.engine.protocol.steps import UpsertRows


def test_a_repair_writes_over_the_rows_that_were_asked_for_and_their_changes_take_effect_meanwhile() -> None:
    feed = repairing(Feed())
    feed.log((ITEM_ROW, (1, "a"), (1, "b")), (ITEM_ROW, (3, "x"), None))
    assert sum(batch.rows for batch in of(feed.wanted, ApplyBatch)) == 2
    merge = mended(feed)
    assert (merge.chunk, merge.gone, merge.without) == (1, [(1,), (2,)], [(1,)])
    assert [s.rows for s in merge.steps if isinstance(s, UpsertRows)] == [[(1, "b")]]
    assert not feed.machine.copying


def test_a_repair_takes_what_is_parked_for_its_rows_and_wishes_for_it_are_forgotten() -> None:
    feed = Feed(parked=[item_parked(1, (1, "a"), (1, "b")), item_parked(2, None, (7, "x"))])
    merge = mended(repairing(feed))
    assert merge.unparked == (("0-1", 1, 0),)
    assert feed.machine.snapshot()["parked"] == 1


def test_a_repair_that_the_target_refuses_is_given_up_and_the_feed_goes_on() -> None:
    feed = repairing(Feed())
    feed.step(ChunkStaged(feed.reads()[-1].id, at(0), 1))
    merge = feed.last(MergeChunk)
    assert isinstance(merge, MergeChunk)
    feed.log((ITEM_ROW, (1, "a"), (1, "b")))
    feed.step(BatchFailed(merge.id, Failure(ErrorKind.ROW, "duplicate code")))
    assert DropStaged(merge.staged) in feed.wanted
    given_up(feed, "rows of shop.item are not repaired: duplicate code")


def test_a_row_of_a_repair_that_the_target_refuses_stays_as_it_is_and_the_others_are_repaired() -> None:
    feed = repairing(Feed(parked=[item_parked(1, None, (2, "x"))]))
    feed.step(ChunkStaged(feed.reads()[-1].id, at(0), 2, shape=SHAPES[ITEM_ROW]))
    merge = feed.last(MergeChunk)
    assert isinstance(merge, MergeChunk) and merge.unparked
    feed.step(BatchFailed(merge.id, Failure(ErrorKind.ROW, "duplicate code")))
    feed.rest()
    find = feed.last(FindRefused)
    assert isinstance(find, FindRefused)
    feed.step(RefusedFound(find.id, (insert(2, "c"),)))
    merge = feed.last(MergeChunk)
    assert isinstance(merge, MergeChunk)
    assert (merge.gone, merge.without, merge.parked) == ([(1,)], [(2,)], ())
    assert merge.unrepaired == (("id=2", "too long"),)
    assert merge.unparked == (), "what is parked for it stays too"
    feed.step(BatchCommitted(merge.id))
    assert of(feed.wanted, RefuseCopy) == [] and not feed.machine.copying
    assert feed.machine.snapshot()["parked"] == 1


def test_a_repair_of_a_row_that_is_parked_together_with_another_is_given_up() -> None:
    feed = repairing(Feed(parked=[item_parked(1, (1, "a"), (5, "a"))]))
    feed.step(ChunkStaged(feed.reads()[-1].id, at(0), 1))
    assert of(feed.wanted, MergeChunk) == []
    given_up(feed, "failed rows concern other rows too")


def test_a_repair_of_a_table_with_another_key_is_given_up() -> None:
    feed = repairing(Feed())
    feed.machine.copying.retable(TABLES | {ITEM.name: replace(ITEM, key=("code",))})
    feed.step(ChunkStaged(feed.reads()[-1].id, at(0), 1))
    feed.machine.copying.retable(TABLES)
    given_up(feed, "the table has another key now")


def test_rows_that_are_asked_for_while_others_of_the_table_are_repaired_join_them() -> None:
    feed = repairing(Feed())
    (begin,) = of(feed.step(ChunksPlanned((replace(REPAIR, keys=((2,), (9,))),))), BeginCopy)
    assert begin.splits == (replace(REPAIR, keys=((1,), (2,), (9,))),)


def test_rows_of_a_table_that_is_copied_are_not_repaired() -> None:
    feed = Feed(Copied(HALVES))
    (refused,) = of(feed.step(ChunksPlanned((REPAIR,))), RefuseCopy)
    assert "shop.item is being copied" in refused.alarm.message
