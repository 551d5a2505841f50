"""Copying composed with the machine: what is asked for when, what waits for what, what each answer does."""


from msgspec.structs import replace

from tests.engine.copying_feed import (
    BARE,
    BARE_ROW,
    HALVES,
    ITEM,
    ITEM_ROW,
    NOTE,
    NOTE_ROW,
    SHAPES,
    TABLES,
    WHOLE,
    Feed,
    asked_for_refused,
    at,
    insert,
    of,
    refused_merge,
    staged,
)
from tidelock.engine.apply.machine import ApplyMachine, Options, State
from tidelock.engine.batch.parked_rows import decode_change
from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.model.errors import Alarm, ErrorKind, Failure
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, TableName, Transaction
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.protocol.effects import (
    ApplyBatch,
    ApplyDdl,
    ApplyEffect,
    BeginCopy,
    CaughtUp,
    DropStaged,
    EffectId,
    FindRefused,
    Halt,
    MergeChunk,
    ReadChunk,
    RefuseCopy,
    RequestResend,
    SaveCheckpoint,
    StepDown,
)
from tidelock.engine.protocol.events import (
    BatchCommitted,
    BatchFailed,
    CheckpointSaved,
    ChunkFailed,
    ChunksPlanned,
    ChunkStaged,
    Copied,
    CopyBegun,
    CopyFailed,
    DdlApplied,
    GoalSet,
    LogArrived,
    ParkedKey,
    RefusedFound,
    RefusedRow,
    SourceFailed,
    TakenOver,
)
from tidelock.engine.protocol.steps import DeleteRows, UpsertRows


def test_parents_are_read_first_and_not_more_at_once_than_may_be() -> None:
    feed = Feed(Copied(WHOLE), Copied(HALVES), copy_reads=2)
    assert [(r.split.table, r.chunk, r.after) for r in feed.reads()] == [(ITEM.name, 0, at(0)), (ITEM.name, 1, at(0))]


def test_chunks_that_are_merged_are_not_read() -> None:
    feed = Feed(Copied(HALVES, (0,)))
    assert [read.chunk for read in feed.reads()] == [1]
    done = Feed(Copied(HALVES, (0, 1)))
    assert done.reads() == [] and not done.machine.copying


def test_a_chunk_is_merged_when_the_stream_is_past_its_high() -> None:
    feed = Feed(Copied(HALVES))
    low, high = feed.reads()
    feed.log((ITEM_ROW, (1, "a"), (1, "b")), (ITEM_ROW, (2, "c"), None), (ITEM_ROW, (7, "x"), (3, "x")))
    assert of(feed.step(ChunkStaged(low.id, at(150), 4)), MergeChunk) == []
    feed.log((ITEM_ROW, (8, "y"), None))
    merge = feed.last(MergeChunk)
    assert isinstance(merge, MergeChunk)
    assert (merge.staged, merge.chunk, merge.rows, merge.key, merge.position) == (low.id, 0, 4, ("id",), at(200))
    assert merge.without == [(1,), (2,), (3,)]
    assert [(s.rows, s.fresh) for s in merge.steps if isinstance(s, UpsertRows)] == [([(1, "b"), (3, "x")], True)]
    assert of(feed.wanted, ApplyBatch) == [], "nothing of it takes effect by itself"
    assert of(feed.step(BatchCommitted(merge.id)), DropStaged) == [DropStaged(low.id)]
    assert feed.machine.watermark.saved == at(200)
    assert high.id in [chunk.attempt for chunk in feed.machine.copying.ledger.chunks]


def test_a_merge_follows_everything_before_it_in_all_tables() -> None:
    feed = Feed(Copied(HALVES))
    feed.log((NOTE_ROW, None, (1, "t")))
    assert staged(feed) is None
    (batch,) = of(feed.wanted, ApplyBatch)
    assert len(of(feed.step(BatchCommitted(batch.id)), MergeChunk)) == 1


def test_later_changes_of_its_table_follow_a_merge_and_others_do_not() -> None:
    feed = Feed(Copied(HALVES))
    merge = staged(feed)
    feed.log((ITEM_ROW, None, (1, "a")))
    assert of(feed.wanted, ApplyBatch) == []
    feed.log((NOTE_ROW, None, (1, "t")), (NOTE_ROW, None, (2, "t")), (NOTE_ROW, None, (3, "t")))
    notes = of(feed.wanted, ApplyBatch)
    assert notes and all(step.table.name == NOTE.name for batch in notes for step in batch.steps)
    feed.step(BatchCommitted(merge.id))
    feed.answer_all()
    items = [s for batch in of(feed.wanted, ApplyBatch) for s in batch.steps if s.table.name == ITEM.name]
    assert len(items) == 1


def test_whole_transactions_wait_for_a_merge() -> None:
    feed = Feed(Copied(HALVES), atomic=True)
    merge = staged(feed)
    feed.log((NOTE_ROW, None, (1, "t")))
    assert of(feed.wanted, ApplyBatch) == []
    assert len(of(feed.step(BatchCommitted(merge.id)), ApplyBatch)) == 1


def test_half_a_move_takes_effect_as_an_insert() -> None:
    feed = Feed(Copied(HALVES))
    feed.step(BatchCommitted(staged(feed).id))
    feed.log((ITEM_ROW, (7, "x"), (1, "x")))
    (batch,) = of(feed.wanted, ApplyBatch)
    assert [(s.rows, s.fresh) for s in batch.steps if isinstance(s, UpsertRows)] == [([(1, "x")], True)]
    assert len(batch.steps) == 1


def test_a_merge_in_doubt_is_sent_again_as_it_was() -> None:
    feed = Feed(Copied(HALVES))
    merge = staged(feed)
    assert of(feed.step(BatchFailed(merge.id, Failure(ErrorKind.IN_DOUBT, "lost"))), MergeChunk) == []
    assert of(feed.rest(), MergeChunk) == [merge]


def test_a_merge_waits_for_a_checkpoint_that_is_on_its_way() -> None:
    feed = Feed(Copied(HALVES))
    feed.saves = False
    feed.log()
    saving = feed.last(SaveCheckpoint)
    assert isinstance(saving, SaveCheckpoint)
    assert staged(feed) is None
    assert len(of(feed.step(CheckpointSaved(saving.id)), MergeChunk)) == 1


def test_rows_that_the_target_refuses_halt_the_feed() -> None:
    feed = Feed(Copied(HALVES))
    (halt,) = of(feed.step(BatchFailed(staged(feed).id, Failure(ErrorKind.ROW, "duplicate code"))), Halt)
    assert halt.alarm.kind == "copy" and "chunk 0 of shop.item: duplicate code" in halt.alarm.message
    assert feed.machine.state is State.HALTED


def test_rows_that_could_not_be_staged_are_parked_with_their_chunk_unless_they_were_touched() -> None:
    feed = Feed(Copied(HALVES))
    feed.log((ITEM_ROW, (2, "c"), (2, "d")))
    read = feed.reads()[0]
    feed.step(ChunkStaged(read.id, at(0), 1, (insert(2, "c"), insert(3, "e"))))
    feed.answer_all()
    merge = feed.last(MergeChunk)
    assert isinstance(merge, MergeChunk)
    (row,) = merge.parked
    assert (row.source, row.number, row.ordinal) == (f"copy-{read.id.epoch}", read.id.counter, 1)
    assert (row.table, row.key, row.error) == ("item", "id=3", "too long")
    parked = decode_change(row.change)
    assert (parked.before, parked.after, parked.untried) == (None, (3, "e"), False)
    assert feed.machine.snapshot()["parked"] == 1
    feed.log((ITEM_ROW, (3, "e"), (3, "f")), (ITEM_ROW, (1, "a"), None))
    (follower,) = [row for batch in of(feed.wanted, ApplyBatch) for row in batch.parked]
    assert follower.key == "id=3", "what comes after it waits with it"


def test_last_images_of_a_merge_that_is_refused_are_parked_and_tried_behind_it_by_themselves() -> None:
    feed = Feed(Copied(HALVES))
    merge = refused_merge(feed, (ITEM_ROW, (1, "a"), (1, "b")), (ITEM_ROW, (2, "c"), (2, "d")))
    first = of(feed.wanted, MergeChunk)[0]
    assert merge.id != first.id and first.steps and merge.steps == []
    assert (merge.without, merge.rows, merge.staged) == (first.without, first.rows, first.staged)
    assert [row.key for row in merge.parked] == ["id=1", "id=2"] and feed.machine.state is State.FLOWING
    assert all("value too long" in row.error for row in merge.parked)
    places = tuple((row.source, row.number, row.ordinal) for row in merge.parked)
    (both,) = [b for b in of(feed.step(BatchCommitted(merge.id)), ApplyBatch) if b.unparked]
    assert both.unparked == places
    (one,) = of(feed.step(BatchFailed(both.id, Failure(ErrorKind.ROW, "value too long"))), ApplyBatch)
    assert one.unparked == places[:1]
    (other,) = of(feed.step(BatchCommitted(one.id)), ApplyBatch)
    assert other.unparked == places[1:]
    (left,) = of(feed.step(BatchFailed(other.id, Failure(ErrorKind.ROW, "2 is too long"))), ApplyBatch)
    assert [row.error for row in left.parked] == ["2 is too long"] and not left.unparked
    feed.step(BatchCommitted(left.id))
    assert feed.machine.snapshot()["parked"] == 1


def test_a_new_owner_tries_what_the_old_one_set_aside() -> None:
    merge = refused_merge(Feed(Copied(HALVES)), (ITEM_ROW, (1, "a"), (1, "b")))
    (row,) = merge.parked
    parked = ParkedKey(row.source, row.number, row.ordinal, ITEM.name, row.change)
    machine = ApplyMachine(Options())
    (batch,) = of(machine.step(1, [TakenOver(2, at(0), tables=TABLES, parked=(parked,))]), ApplyBatch)
    assert batch.unparked == ((row.source, row.number, row.ordinal),)


def test_a_merge_without_last_images_that_is_refused_halts_the_feed_at_last() -> None:
    feed = Feed(Copied(HALVES))
    merge = refused_merge(feed, (ITEM_ROW, (1, "a"), (1, "b")))
    (halt,) = of(feed.step(BatchFailed(merge.id, Failure(ErrorKind.ROW, "duplicate code"))), Halt)
    assert halt.alarm.kind == "copy" and "duplicate code" in halt.alarm.message


def test_staged_rows_that_only_the_merge_refuses_are_parked_with_their_keys_and_the_rest_is_merged() -> None:
    feed = Feed(Copied(ChunkSplit(ITEM.name)))
    find = asked_for_refused(feed)
    refused = (insert(2, "c"), replace(insert(3, "e"), error="no parent", code="23503"))
    feed.step(RefusedFound(find.id, refused))
    merge = feed.last(MergeChunk)
    assert isinstance(merge, MergeChunk) and merge.id not in (find.id, find.merge.id)
    assert merge.without == [(1,), (2,), (3,)] and find.merge.without == [(1,)], "what was sent stays as it was"
    places = [(row.key, row.error, row.ordinal, decode_change(row.change).orphan) for row in merge.parked]
    assert places == [
        ("id=4", "too long", 0, False),
        ("id=1", "a row that was to come with it is refused: some row", 1, False),
        ("id=2", "too long", 2, False),
        ("id=3", "no parent", 3, True),
    ]
    feed.step(BatchCommitted(merge.id))
    (batch,) = [b for b in of(feed.wanted, ApplyBatch) if b.unparked]
    assert [ordinal for _, _, ordinal in batch.unparked] == [1], "only the last image is tried by itself"
    feed.answer_all()
    assert feed.machine.snapshot()["parked"] == 3 and feed.machine.batches.parked_retry.awaits_parents
    feed.log((ITEM_ROW, (2, "c"), (2, "d")), (ITEM_ROW, (1, "b"), None))
    (follower,) = [row for batch in of(feed.wanted, ApplyBatch) for row in batch.parked]
    assert follower.key == "id=2", "what comes after it waits with it"


def test_a_search_that_is_in_doubt_is_made_again_and_one_that_tells_nothing_halts_the_feed() -> None:
    feed = Feed(Copied(ChunkSplit(ITEM.name)))
    find = asked_for_refused(feed)
    feed.step(BatchFailed(find.id, Failure(ErrorKind.TRANSIENT, "lost")))
    assert of(feed.rest(), FindRefused) == [find]
    (halt,) = of(feed.step(BatchFailed(find.id, Failure(ErrorKind.ROW, "10,000 rows"))), Halt)
    assert "10,000 rows" in halt.alarm.message and halt.alarm.table == "shop.item"


def test_a_merge_that_is_refused_for_no_row_is_not_tried_for_ever() -> None:
    feed = Feed(Copied(ChunkSplit(ITEM.name)))
    find = asked_for_refused(feed)
    for _ in range(10):
        feed.step(RefusedFound(find.id, ()))
        if feed.machine.state is not State.FLOWING:
            break
        merge = feed.last(MergeChunk)
        assert isinstance(merge, MergeChunk)
        feed.step(BatchFailed(merge.id, Failure(ErrorKind.ROW, "some row")))
        feed.rest()
        last = feed.last(FindRefused)
        assert isinstance(last, FindRefused)
        find = last
    (halt,) = of(feed.wanted, Halt)
    assert halt.alarm.kind == "copy"


def test_a_refused_row_without_a_key_is_taken_away_once() -> None:
    feed = Feed(Copied(ChunkSplit(BARE.name)))
    (read,) = feed.reads()
    feed.step(ChunkStaged(read.id, at(feed.end), 3, shape=SHAPES[BARE_ROW]))
    merge = feed.last(MergeChunk)
    assert isinstance(merge, MergeChunk)
    feed.step(BatchFailed(merge.id, Failure(ErrorKind.ROW, "some row")))
    feed.rest()
    find = feed.last(FindRefused)
    assert isinstance(find, FindRefused)
    twice = RefusedRow(SHAPES[BARE_ROW], (7,), "check")
    feed.step(RefusedFound(find.id, (twice, twice)))
    merge = feed.last(MergeChunk)
    assert isinstance(merge, MergeChunk) and merge.without == []
    assert [step.keys for step in merge.steps if isinstance(step, DeleteRows)] == [[(7,), (7,)]]
    assert len(merge.parked) == 2


# ---------------------------------------------------------------------- rows are kept


def test_where_rows_are_kept_every_change_takes_effect_and_touched_rows_are_left_out() -> None:
    feed = Feed(Copied(ChunkSplit(NOTE.name, keep=True)))
    feed.log((NOTE_ROW, (1, "a"), (1, "b")), (NOTE_ROW, (2, "a"), None))
    changed = sum(batch.rows for batch in of(feed.wanted, ApplyBatch))
    assert changed == 2
    staged(feed)
    feed.answer_all()
    merge = feed.last(MergeChunk)
    assert isinstance(merge, MergeChunk)
    assert (sorted(merge.without), merge.steps, merge.gone) == ([(1,), (2,)], [], [])


def test_rows_cannot_be_kept_once_the_table_has_lost_its_key() -> None:
    feed = Feed(Copied(ChunkSplit(NOTE.name, keep=True)))
    feed.machine.copying.retable(TABLES | {NOTE.name: replace(NOTE, key=())})
    (halt,) = of(feed.step(ChunkStaged(feed.reads()[0].id, at(0), 1)), Halt)
    assert "shop.note has no key any more" in halt.alarm.message


def test_what_was_staged_and_is_lost_is_read_by_another_takeover() -> None:
    feed = Feed(Copied(HALVES))
    (down,) = of(feed.step(BatchFailed(staged(feed).id, Failure(ErrorKind.COMMITS_LOST, "rows are lost"))), StepDown)
    assert down.again


def test_a_read_that_failed_is_asked_for_again_and_not_at_once() -> None:
    feed = Feed(Copied(HALVES), copy_reads=1)
    (read,) = feed.reads()
    assert of(feed.step(ChunkFailed(read.id)), ReadChunk) == []
    (again,) = of(feed.rest(), ReadChunk)
    assert (again.chunk, again.id != read.id) == (0, True)


def test_no_chunk_is_read_behind_half_a_transaction() -> None:
    feed = Feed(Copied(HALVES), copy_reads=1)
    (read,) = feed.reads()
    part = LogBatch(at(0), at(0, 1), (Transaction("0-1", 1, 0, complete=False),), ())
    feed.step(LogArrived([part]), ChunkFailed(read.id))
    assert of(feed.rest(), ReadChunk) == []
    effects = feed.step(LogArrived([LogBatch(at(0, 1), at(100), (Transaction("0-1", 1, 0),))]))
    assert [r.after for r in of(effects, ReadChunk)] == [at(100)]


def test_a_statement_sends_open_chunks_back() -> None:
    feed = Feed(Copied(HALVES))
    ddl = Ddl("shop", "truncate item", "0-1", 1, DdlKind.TRUNCATE, (ITEM.name,))
    effects = feed.step(LogArrived([LogBatch(at(0), at(50), ddl=ddl)]))
    assert len(of(effects, DropStaged)) == 2


def test_another_reader_may_be_of_another_server_so_open_chunks_begin_anew_once_it_is_heard() -> None:
    """`high` told by one server says nothing of places in the log of another."""
    feed = Feed(Copied(HALVES), copy_reads=1)
    (read,) = feed.reads()
    feed.step(ChunkStaged(read.id, at(1000), 1))
    lost = feed.step(SourceFailed(Alarm("connection", "lost", "wait"), retryable=True))
    (asked,) = of(lost, RequestResend)
    assert of(lost, DropStaged) == [DropStaged(read.id)] and of(feed.rest(), ReadChunk) == []
    promoted = Position("log.000099", 4)
    batch = LogBatch(at(0), promoted, shapes=SHAPES, resent=True)
    (again,) = of(feed.step(LogArrived([batch], asked.reader)), ReadChunk)
    assert (again.chunk, again.after) == (0, promoted) and of(feed.wanted, MergeChunk) == []


def test_a_copy_begins_when_all_before_it_is_committed_and_nothing_runs_beside_it() -> None:
    feed = Feed()
    feed.log((NOTE_ROW, None, (1, "t")))
    (batch,) = of(feed.wanted, ApplyBatch)
    feed.step(ChunksPlanned((HALVES, WHOLE)))
    feed.log((ITEM_ROW, None, (1, "a")))
    assert of(feed.wanted, BeginCopy) == [] and len(of(feed.wanted, ApplyBatch)) == 1
    (begin,) = of(feed.step(BatchCommitted(batch.id)), BeginCopy)
    assert (begin.splits, begin.position, begin.drop) == ((HALVES, WHOLE), at(100), (batch.id,))
    effects = feed.step(CopyBegun(begin.id))
    assert len(of(effects, ReadChunk)) == 2 and of(effects, ApplyBatch) == []
    assert feed.machine.watermark.position == at(200), "a change of a pending chunk is dropped"


def test_a_copy_that_the_target_refuses_is_told_and_the_feed_goes_on() -> None:
    feed = Feed()
    (begin,) = of(feed.step(ChunksPlanned((HALVES, WHOLE))), BeginCopy)
    (refused,) = of(feed.step(CopyFailed(begin.id, Failure(ErrorKind.TARGET, "no permission"))), RefuseCopy)
    assert "no permission" in refused.alarm.message and refused.alarm.table == "shop.item, shop.line"
    assert len(of(feed.log((ITEM_ROW, None, (1, "a"))), ApplyBatch)) == 1


def test_a_copy_that_cannot_be_is_refused() -> None:
    feed = Feed()
    (refused,) = of(feed.step(ChunksPlanned((HALVES,))), RefuseCopy)
    assert "shop.line refers to shop.item" in refused.alarm.message
    (begin,) = of(feed.step(ChunksPlanned((HALVES, WHOLE))), BeginCopy)
    (refused,) = of(feed.step(ChunksPlanned((ChunkSplit(NOTE.name),))), RefuseCopy)
    assert "another copy is about to begin" in refused.alarm.message
    assert feed.step(CopyFailed(begin.id, Failure(ErrorKind.TRANSIENT, "deadlock"))) == []
    assert of(feed.rest(), BeginCopy) == [begin]


def test_a_feed_has_caught_up_when_its_tables_are_copied() -> None:
    feed = Feed(Copied(ChunkSplit(NOTE.name)))
    feed.step(GoalSet(at(100)))
    feed.log()
    feed.answer_all()
    assert of(feed.wanted, CaughtUp) == []
    feed.step(ChunkStaged(EffectId(1, 1), at(100), 0))
    feed.answer_all()
    feed.answer_all()
    assert len(of(feed.wanted, CaughtUp)) == 1


def test_the_figures_say_how_far_it_is() -> None:
    feed = Feed(Copied(HALVES, (0,)))
    feed.log((ITEM_ROW, None, (9, "a")))
    figures = feed.machine.snapshot()
    assert {k: figures[k] for k in ("copying", "open", "touched", "again")} == {
        "copying": "1 of 2 chunks", "open": 1, "touched": 1, "again": 0,
    }  # fmt: skip
    assert "copying" not in Feed().machine.snapshot()


def test_a_table_that_is_copied_has_ordinary_locks_again() -> None:
    feed = Feed(Copied(ChunkSplit(NOTE.name)))
    assert feed.machine.batches.binding_locks.copied == (TableName("shop", "note"),)
    feed.step(ChunkStaged(EffectId(1, 1), at(0), 0))
    feed.answer_all()
    assert feed.machine.batches.binding_locks.copied == () and not feed.machine.copying


def statement(*targets: TableName) -> Ddl:
    """About a table of the source that the target knows by another name."""
    return Ddl("shop", "…", "0-1", 900, DdlKind.ALTERED, (TableName("source", "thing"),), targets=targets)


def pass_statement(feed: Feed, ddl: Ddl, **behind: object) -> list[ApplyEffect]:
    start, feed.end = feed.end, feed.end + 1
    feed.step(LogArrived([LogBatch(at(start), at(feed.end), ddl=ddl)]))
    apply = feed.last(ApplyDdl)
    assert isinstance(apply, ApplyDdl)
    return feed.step(DdlApplied(apply.id, **{"tables": TABLES, **behind}))  # type: ignore[arg-type]


def test_a_statement_gives_up_what_is_read_of_its_table_at_the_target_alone() -> None:
    feed = Feed(Copied(ChunkSplit(NOTE.name)), Copied(ChunkSplit(BARE.name)))
    note, bare = feed.reads()
    pass_statement(feed, statement(NOTE.name))
    assert of(feed.wanted, DropStaged) == [DropStaged(note.id)]
    assert [read.split.table for read in feed.reads()] == [NOTE.name, BARE.name, NOTE.name]
    feed.step(ChunkStaged(bare.id, at(0), 1))
    assert of(feed.wanted, MergeChunk)


def test_a_copy_whose_chunks_cannot_be_told_apart_any_more_halts() -> None:
    feed = Feed(Copied(HALVES))
    lost = replace(HALVES, columns=("ident",))
    (halt,) = of(pass_statement(feed, statement(ITEM.name), copied=(Copied(lost),)), Halt)
    assert "in chunks of ident" in halt.alarm.message and "tidelock copy FEED --table" in halt.alarm.hint


def test_a_table_that_loses_its_key_amid_its_copy_halts() -> None:
    """It would be read as a whole for each chunk."""
    feed = Feed(Copied(HALVES))
    unkeyed = TABLES | {ITEM.name: replace(ITEM, key=(), uniques=())}
    (halt,) = of(pass_statement(feed, statement(ITEM.name), tables=unkeyed, copied=(Copied(HALVES),)), Halt)
    assert "or its key" in halt.alarm.message
