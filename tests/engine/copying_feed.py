"""A feed that copies: its tables, the machine with its answers, and merges as tests want them."""

from collections.abc import Sequence

from msgspec.structs import replace

from tests.engine.world import bind, change, linked, refers, shape_of, table
from tidelock.engine.apply.machine import ApplyMachine, Options, State
from tidelock.engine.batch.parked_rows import parked_row
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, Row, RowChange, Transaction
from tidelock.engine.protocol.effects import (
    ApplyBatch,
    ApplyEffect,
    BeginCopy,
    EffectId,
    FindRefused,
    MergeChunk,
    ReadChunk,
    RefuseCopy,
    SaveCheckpoint,
)
from tidelock.engine.protocol.events import (
    ApplyEvent,
    BatchCommitted,
    BatchFailed,
    CheckpointSaved,
    ChunksPlanned,
    ChunkStaged,
    Copied,
    CopyBegun,
    LogArrived,
    ParkedKey,
    RefusedRow,
    TakenOver,
    Tick,
)

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


def staged(feed: Feed) -> MergeChunk:
    """The first chunk's merge, sent or not."""
    feed.step(ChunkStaged(feed.reads()[0].id, at(feed.end), 1))
    merges = of(feed.wanted, MergeChunk)
    return merges[-1] if merges else None  # type: ignore[return-value]


def insert(n: int, code: str) -> RefusedRow:
    return RefusedRow(SHAPES[ITEM_ROW], (n, code), "too long")


def refused_merge(feed: Feed, *touched: tuple[int, Row | None, Row | None]) -> MergeChunk:
    """A merge with last images, which the target has refused once."""
    feed.log(*touched)
    merge = staged(feed)
    feed.step(BatchFailed(merge.id, Failure(ErrorKind.ROW, "value too long")))
    feed.rest()
    return of(feed.wanted, MergeChunk)[-1]


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
