"""Copying composed with the machine: what is asked for when, what waits for what, what each answer does."""

from collections.abc import Sequence

from msgspec.structs import replace

from tests.engine.world import bind, change, linked, refers, shape_of, table
from tidelock.engine.apply.machine import ApplyMachine, Options, State
from tidelock.engine.batch.parked_rows import decode_change, parked_row
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.errors import Alarm, ErrorKind, Failure
from tidelock.engine.model.records import Ddl, DdlKind, LogBatch, Position, Row, RowChange, TableName, Transaction
from tidelock.engine.protocol.effects import (
    ApplyBatch,
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
    ApplyEvent,
    BatchCommitted,
    BatchFailed,
    CheckpointSaved,
    ChunkFailed,
    ChunksPlanned,
    ChunkStaged,
    Copied,
    CopyBegun,
    CopyFailed,
    GoalSet,
    LogArrived,
    ParkedKey,
    RefusedFound,
    RefusedRow,
    SourceFailed,
    TakenOver,
    Tick,
)
from tidelock.engine.protocol.steps import DeleteRows, UpsertRows

ITEM = table("item", ["id", "code"], ["id"], [["code"]])
LINE = table("line", ["id", "item"], ["id"], [], [refers("line", ["item"], "item", ["id"])])
NOTE = table("note", ["id", "text"], ["id"])
BARE = table("bare", ["n"], [])
TABLES = linked(ITEM, LINE, NOTE, BARE)
HALVES = ChunkSplit(ITEM.name, By.NUMBERS, ("id",), ((5,),))
WHOLE = ChunkSplit(LINE.name)
SHAPES = {n: shape_of(t) for n, t in enumerate((ITEM, LINE, NOTE, BARE))}
ITEM_ROW, LINE_ROW, NOTE_ROW, BARE_ROW = range(4)


def at(offset: int, rows: int = 0) -> Position:
    return Position("log.000001", offset, rows)


class Feed:
    """A machine that has taken over, and all that it has wanted done."""

    def __init__(self, *copied: Copied, parked: Sequence[ParkedKey] = (), **options: object) -> None:
        self.machine = ApplyMachine(Options(lanes=2, checkpoint_us=0, idle_checkpoint_us=0, **options))  # type: ignore[arg-type]
        self.now = 0
        self.end = 0
        self.wanted: list[ApplyEffect] = []
        self.saves = True  # checkpoints, at once
        self.step(TakenOver(1, at(0), tables=TABLES, chunks=copied, parked=tuple(parked)))
        self.step(LogArrived([LogBatch(at(0), at(0), shapes=SHAPES, resent=True)]))

    def step(self, *events: ApplyEvent) -> list[ApplyEffect]:
        self.now += 1
        effects = self.machine.step(self.now, events)
        self.wanted += effects
        for effect in effects if self.saves else ():
            if isinstance(effect, SaveCheckpoint):
                effects += self.step(CheckpointSaved(effect.id))
        return effects

    def rest(self) -> list[ApplyEffect]:
        self.now += 10_000_000
        return self.step(Tick())

    def log(self, *rows: tuple[int, Row | None, Row | None], to: int = 100) -> list[ApplyEffect]:
        changes = tuple(RowChange(n, before, after, i) for i, (n, before, after) in enumerate(rows))
        transactions = (Transaction("0-1", self.end + 1, 0),) if rows else ()
        batch = LogBatch(at(self.end), at(self.end + to), transactions, changes)
        self.end += to
        return self.step(LogArrived([batch]))

    def last(self, kind: type[ApplyEffect]) -> ApplyEffect:
        return [effect for effect in self.wanted if isinstance(effect, kind)][-1]

    def answer_all(self) -> None:
        """Everything that is at the target takes effect."""
        for effect in self.wanted:  # which grows meanwhile
            if isinstance(effect, ApplyBatch | MergeChunk):
                self.step(BatchCommitted(effect.id))

    def reads(self) -> list[ReadChunk]:
        return [effect for effect in self.wanted if isinstance(effect, ReadChunk)]


def item_parked(number: int, before: Row | None, after: Row | None) -> ParkedKey:
    row = parked_row(change(bind(ITEM), before, after, number=number), "refused", EffectId(0, 1), number)
    return ParkedKey(row.source, row.number, row.ordinal, ITEM.name, row.change)


def of(effects: Sequence[ApplyEffect], kind: type) -> list:
    return [effect for effect in effects if isinstance(effect, kind)]


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


def staged(feed: Feed) -> MergeChunk:
    """The first chunk's merge, sent or not."""
    feed.step(ChunkStaged(feed.reads()[0].id, at(feed.end), 1))
    merges = of(feed.wanted, MergeChunk)
    return merges[-1] if merges else None  # type: ignore[return-value]


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


def insert(n: int, code: str) -> RefusedRow:
    return RefusedRow(SHAPES[ITEM_ROW], (n, code), "too long")


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


def refused_merge(feed: Feed, *touched: tuple[int, Row | None, Row | None]) -> MergeChunk:
    """A merge with last images, which the target has refused once."""
    feed.log(*touched)
    merge = staged(feed)
    feed.step(BatchFailed(merge.id, Failure(ErrorKind.ROW, "value too long")))
    feed.rest()
    return of(feed.wanted, MergeChunk)[-1]


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


def asked_for_refused(feed: Feed) -> FindRefused:
    """A chunk of three staged rows, whose merge the target refuses; it is asked which rows are the cause."""
    feed.log((ITEM_ROW, (1, "a"), (1, "b")))
    (read,) = feed.reads()
    feed.step(ChunkStaged(read.id, at(feed.end), 3, (insert(4, "x"),), shape=SHAPES[ITEM_ROW]))
    for _ in range(2):  # with its last image, and without
        merge = feed.last(MergeChunk)
        assert isinstance(merge, MergeChunk)
        feed.step(BatchFailed(merge.id, Failure(ErrorKind.ROW, "some row")))
        feed.rest()
    find = feed.last(FindRefused)
    assert isinstance(find, FindRefused) and find.merge == feed.last(MergeChunk) and feed.machine.state is State.FLOWING
    return find


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


# ---------------------------------------------------------------------- rows are repaired

REPAIR = ChunkSplit(ITEM.name, By.KEYS, ("id",), keys=((1,), (2,)))


def repairing(feed: Feed, split: ChunkSplit = REPAIR) -> Feed:
    (begin,) = of(feed.step(ChunksPlanned((split,))), BeginCopy)
    assert begin.splits == (split,)
    feed.step(CopyBegun(begin.id))
    assert feed.reads()[-1].chunk == 1
    return feed


def mended(feed: Feed) -> MergeChunk:
    feed.step(ChunkStaged(feed.reads()[-1].id, at(feed.end), 1))
    feed.answer_all()
    merge = feed.last(MergeChunk)
    assert isinstance(merge, MergeChunk)
    return merge


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


def given_up(feed: Feed, why: str) -> None:
    (refused,) = [effect for effect in of(feed.wanted, RefuseCopy) if effect.alarm.kind == "repair"]
    assert why in refused.alarm.message and refused.tables == (ITEM.name,)
    feed.answer_all()
    feed.rest()
    begin = feed.last(BeginCopy)
    assert isinstance(begin, BeginCopy) and begin.splits == (replace(REPAIR, keys=()),)
    bound = feed.machine.pipeline.planner._relations._known
    feed.step(CopyBegun(begin.id))
    assert feed.machine.state is State.FLOWING and not feed.machine.copying
    assert feed.machine.batches.binding_locks.copied == () and not bound, "its changes take ordinary locks again"
    feed.log((ITEM_ROW, (1, "b"), (1, "c")))
    feed.answer_all()
    assert feed.machine.watermark.saved == at(feed.end), "the feed goes on"


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
