"""Rows of which not every value is told: a batch of them ends where whole rows end, and locks what those lock."""

from __future__ import annotations

from binascii import crc32

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_batch_merge import CASES, marked, state
from tests.engine.test_parallel_lock_keys import meet, taken
from tests.engine.world import (
    ACCOUNT,
    FAMILY,
    WORLDS,
    Dialect,
    History,
    Violation,
    World,
    bind,
    change,
    conflict,
    drafts,
)
from tests.engine.world import table as table_of
from tidelock.engine.apply.machine import ApplyMachine, Options
from tidelock.engine.batch.merge import Ranks, in_log_order, merge
from tidelock.engine.capture.machine import CaptureMachine
from tidelock.engine.capture.mapping import Mapping, Rule
from tidelock.engine.capture.row_filter import Compare
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.index import digest, number
from tidelock.engine.model.log_batch import LogBatch, SourceChunk, SourceTransaction
from tidelock.engine.model.records import UNKNOWN, Column, Kind, Position, Row, RowChange, Shape, TableName, Transaction
from tidelock.engine.model.schema import Binding, Equality, SchemaMismatch, TargetColumn, TargetTable, UniqueKey
from tidelock.engine.parallel.binding_locks import BindingLocks
from tidelock.engine.parallel.dispatcher import Dispatcher
from tidelock.engine.parallel.keyspace import Keyspace
from tidelock.engine.parallel.lanes import Lane
from tidelock.engine.parallel.lock_keys import compile_keys
from tidelock.engine.parallel.lock_table import LockTable
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import (
    DropStaged,
    FindRefused,
    Halt,
    MergeChunk,
    Publish,
    ReadChunk,
    SaveCheckpoint,
)
from tidelock.engine.protocol.events import (
    BatchFailed,
    CheckpointSaved,
    ChunkStaged,
    Copied,
    LogArrived,
    RefusedFound,
    RefusedRow,
    SourceRead,
    TakenOver,
)
from tidelock.engine.protocol.steps import DeleteRows, UpdateRows, UpsertRows

BIG = "x" * 3000
NOTE = table_of("note", ("id", "big", "small"), ("id",))
NOTES = World("notes", {NOTE.name: NOTE}, {"id": (1, 2, 3), "big": (BIG, "y", None), "small": ("a", "b")})
"""A table that its key alone is unique of: the fold is for those."""
WHOLE_KEYS = [NOTES, *(world for world in WORLDS if all(t.key for t in world.tables.values()))]
KEYED = [(NOTES, Dialect.POSTGRES), *((world, dialect) for world, dialect in CASES if world in WHOLE_KEYS)]


def keyed(binding: Binding) -> Binding:
    """The same table, of which the source logs the key alone of a row before."""
    return Binding(binding.number, msgspec.structs.replace(binding.shape, identity="key"), binding.target)


class Teller:
    """What is left of whole changes where the source does not log all; `salt` chooses the long values."""

    def __init__(self, salt: int) -> None:
        self._salt = salt
        self._of: dict[Binding, Binding] = {}

    def told(self, one: Change) -> Change:
        binding = self._of.setdefault(one.binding, keyed(one.binding))
        before, after = one.before, one.after
        if before is not None and after is not None:
            pairs = enumerate(zip(before, after, strict=True))
            after = tuple(UNKNOWN if self._left(binding, i, old, new) else new for i, (old, new) in pairs)
        if before is not None:
            before = tuple(value if i in binding.key else UNKNOWN for i, value in enumerate(before))
        return Change(binding, before, after, one.source, one.number, one.ordinal)

    def _left(self, binding: Binding, at: int, old: object, new: object) -> bool:
        return at not in binding.key and old == new and crc32(f"{self._salt}{at}{new}".encode()) % 2 == 0


def history_of(world: World, first: list, then: list) -> tuple[History, object, int]:
    history = History(world)
    for draft in first:
        history.take(draft)
    before, begun = history.database, len(history.log)
    for draft in then:
        history.take(draft)
    return history, before, begun


@pytest.mark.parametrize(("world", "dialect"), KEYED, ids=lambda x: getattr(x, "name", ""))
@settings(max_examples=20, deadline=None)
@given(first=drafts(8), then=drafts(12, 2), cut=st.integers(1, 12), salt=st.integers(0, 9))
def test_a_merged_batch_of_partial_rows_is_serial_replay_of_whole_ones(
    world: World, dialect: Dialect, first: list, then: list, cut: int, salt: int
) -> None:
    history, before, begun = history_of(world, first, then)
    serial, batched = marked(before.copy()), marked(before.copy(dialect))
    teller, ranks, log = Teller(salt), Ranks(world.tables, {}), history.log[begun:]
    for start in range(0, len(log), cut):
        for one in log[start : start + cut]:
            serial.replay(one)
        batched.run(merge([teller.told(one) for one in log[start : start + cut]], ranks))
        assert batched.content() == serial.content()


@pytest.mark.proof
@pytest.mark.parametrize(("world", "dialect"), KEYED, ids=lambda x: getattr(x, "name", ""))
@settings(max_examples=500, deadline=None)
@given(first=drafts(8), then=drafts(12, 2), cut=st.integers(1, 12), salt=st.integers(0, 9))
def test_many_merged_batches_of_partial_rows_are_serial_replay_of_whole_ones(
    world: World, dialect: Dialect, first: list, then: list, cut: int, salt: int
) -> None:
    one = test_a_merged_batch_of_partial_rows_is_serial_replay_of_whole_ones
    one.hypothesis.inner_test(world, dialect, first, then, cut, salt)


@pytest.mark.parametrize(("world", "dialect"), KEYED, ids=lambda x: getattr(x, "name", ""))
@settings(max_examples=15, deadline=None)
@given(first=drafts(8), then=drafts(10, 2), salt=st.integers(0, 9))
def test_log_order_of_partial_rows_is_serial_replay(
    world: World, dialect: Dialect, first: list, then: list, salt: int
) -> None:
    history, before, begun = history_of(world, first, then)
    batched, serial, teller = marked(before.copy(dialect)), marked(before.copy()), Teller(salt)
    batched.run(in_log_order([teller.told(one) for one in history.log[begun:]]))
    for one in history.log[begun:]:
        serial.replay(one)
    assert batched.content() == serial.content()


def locked(world: World, log: list[Change]) -> list[dict[int, bool]]:
    """Digests of the keys of each change, with whether it is exclusive, once all tables of the log are bound."""
    dispatcher = Dispatcher([Lane(0)], LockTable())
    locks = BindingLocks(dispatcher)
    locks.retable(world.tables)
    for binding in dict.fromkeys(one.binding for one in log):
        locks.bind(binding)
    found = []
    for one in log:
        keys = dict.fromkeys(dispatcher._exclusive[one.binding](one.before, one.after), True)
        requests = dispatcher._requests.get(one.binding)
        for key, mode in requests(one.before, one.after) if requests is not None else ():
            keys[digest(key)] = mode or keys.get(digest(key), False)
        found.append(keys)
    return found


@pytest.mark.parametrize("world", WHOLE_KEYS, ids=lambda w: w.name)
@settings(max_examples=25, deadline=None)
@given(some=drafts(14, 6), salt=st.integers(0, 9), whole=st.sets(st.integers(0, 3)))
def test_partial_changes_that_must_keep_their_order_share_a_key(
    world: World, some: list, salt: int, whole: set[int]
) -> None:
    """Tables of which all is told (`whole`) stand beside others."""
    history, teller = History(world), Teller(salt)
    for draft in some:
        history.take(draft)
    log = [one if one.binding.number in whole else teller.told(one) for one in history.log]
    keys = locked(world, log)
    for i, one in enumerate(history.log):
        for j, other in enumerate(history.log[:i]):
            if conflict(world, one, other):
                assert meet(keys[i], keys[j]), (other.before, other.after, one.before, one.after)


# ------------------------------------------------------------------ cases by name


def steps_of(log: list[Change]) -> list:
    return merge(log, Ranks(NOTES.tables, {}))


def test_a_later_whole_value_replaces_what_is_unknown_and_an_earlier_one_fills_it() -> None:
    note = keyed(bind(NOTE))
    early = [
        change(note, (1, UNKNOWN, UNKNOWN), (1, BIG, "a")),
        change(note, (1, UNKNOWN, UNKNOWN), (1, UNKNOWN, "b")),
    ]
    assert steps_of(early) == [UpsertRows(note, [(1, BIG, "b")], fresh=False)]
    assert steps_of(early[::-1]) == [UpsertRows(note, [(1, BIG, "a")], fresh=False)]
    assert steps_of(early[1:]) == [UpdateRows(note, [(1,)], [(1, UNKNOWN, "b")], moves=False)]


def test_bug_31_the_value_of_another_row_that_had_the_key_fills_nothing() -> None:
    """Row 2 is written whole and leaves its key; row 1, whose long value nobody told, comes there."""
    note = keyed(bind(NOTE))
    log = [
        change(note, (2, UNKNOWN, UNKNOWN), (2, BIG, "two")),
        change(note, (2, UNKNOWN, UNKNOWN), (3, UNKNOWN, "two")),
        change(note, (1, UNKNOWN, UNKNOWN), (2, UNKNOWN, "one")),
    ]
    target = state(NOTES, note=[(1, "own", "one"), (2, "old", "two")])
    target.run(steps_of(log))
    assert target.content() == state(NOTES, note=[(2, "own", "one"), (3, BIG, "two")]).content()
    deleted = [log[0], change(note, (2, UNKNOWN, UNKNOWN), None), log[2]]
    target = state(NOTES, note=[(1, "own", "one"), (2, "old", "two")])
    target.run(steps_of(deleted))
    assert target.content() == state(NOTES, note=[(2, "own", "one")]).content()


def test_counter_example_31_a_key_that_changes_takes_its_unknown_values_along() -> None:
    note = keyed(bind(NOTE))
    log = [change(note, (1, UNKNOWN, UNKNOWN), (3, UNKNOWN, "b"))]
    target = state(NOTES, note=[(1, BIG, "a")])
    target.run(steps_of(log))
    assert target.content() == state(NOTES, note=[(3, BIG, "b")]).content()
    told = [change(note, (1, UNKNOWN, UNKNOWN), (1, BIG, "a")), *log]
    assert steps_of(told) == [DeleteRows(note, [(1,)]), UpsertRows(note, [(3, BIG, "b")], fresh=True)]


def test_a_partial_row_that_is_not_there_is_refused_and_nothing_is_written_for_it() -> None:
    note = keyed(bind(NOTE))
    for log in (
        [change(note, (1, UNKNOWN, UNKNOWN), (1, UNKNOWN, "b"))],
        [change(note, None, (1, UNKNOWN, "b"))],  # what a chunk that is not there leaves of a move
    ):
        for steps in (steps_of(log), in_log_order(log)):
            target = state(NOTES, note=[])
            with pytest.raises(Violation, match="is not there"):
                target.run(steps)


def test_counter_example_30_a_unique_value_that_is_given_up_unseen_orders_the_table() -> None:
    (account,) = map(keyed, ACCOUNT.bindings())
    keys = compile_keys(account, Keyspace(), ACCOUNT.tables)
    gone, fresh = (1, UNKNOWN, UNKNOWN), (2, "lucy", 0)
    assert meet(taken(keys, gone, None), taken(keys, None, fresh))
    assert "REPLICA IDENTITY FULL" in keys.serial


def test_a_table_with_its_key_alone_runs_in_parallel() -> None:
    keys = compile_keys(keyed(bind(NOTE)), Keyspace(), NOTES.tables)
    one, other = taken(keys, (1, UNKNOWN, UNKNOWN), (1, UNKNOWN, "b")), taken(keys, (2, UNKNOWN, UNKNOWN), None)
    assert not keys.serial
    assert not meet(one, other)
    assert meet(one, taken(keys, (1, UNKNOWN, UNKNOWN), None))


def test_a_foreign_key_that_the_replica_identity_holds_locks_by_value() -> None:
    """Its values are told, of the parent as of a child: both ends run in parallel."""
    parent = table_of("parent", ("id", "note"), ("id",))
    for fk_columns, parallel in ((("p",), True), (("q",), False)):
        child = table_of("child", ("p", "q", "note"), ("p",))
        foreign = msgspec.structs.replace(
            FAMILY_KEY, child=child.name, columns=fk_columns, parent=parent.name, parent_columns=("id",)
        )
        tables = {
            parent.name: msgspec.structs.replace(parent, references=(foreign,)),
            child.name: msgspec.structs.replace(child, foreign_keys=(foreign,)),
        }
        assert not compile_keys(keyed(bind(tables[parent.name])), Keyspace(), tables).serial
        keys = compile_keys(keyed(bind(tables[child.name])), Keyspace(), tables)
        assert bool(keys.serial) is not parallel
        assert keys.whole == (() if parallel else (child.name, parent.name))


def test_a_parent_that_is_told_whole_shares_its_table_with_children_that_are_not() -> None:
    """Which parent a deleted child leaves is not told: each change of the parent's table follows it."""
    parent = table_of("parent", ("id", "note"), ("id",))
    child = table_of("child", ("id", "parent"), ("id",))
    foreign = msgspec.structs.replace(
        FAMILY_KEY, child=child.name, columns=("parent",), parent=parent.name, parent_columns=("id",)
    )
    tables = {
        parent.name: msgspec.structs.replace(parent, references=(foreign,)),
        child.name: msgspec.structs.replace(child, foreign_keys=(foreign,)),
    }
    whole, part = bind(tables[parent.name]), keyed(bind(tables[child.name], number=1))
    log = [change(part, (7, UNKNOWN), None), change(whole, (1, "a"), None)]
    for order in (log, log[::-1]):
        assert meet(*locked(World("ties", tables, {}), order))


FAMILY_KEY = next(fk for t in FAMILY.tables.values() for fk in t.foreign_keys)


def test_a_target_with_another_key_than_the_log_tells_is_refused() -> None:
    for key in ((), ("small",)):
        shape = Shape(NOTE.name, bind(NOTE).shape.columns, ("id",), "key")
        with pytest.raises(SchemaMismatch, match="REPLICA IDENTITY FULL"):
            Binding(0, shape, table_of("note", ("id", "big", "small"), key))


# ------------------------------------------------------------------ equality that the spelling does not tell


def spelled(kind: Kind, type_: str) -> tuple[Binding, dict[TableName, TargetTable]]:
    name = TableName("public", "t")
    table = TargetTable(name, (TargetColumn("k", type_, False),), ("k",), (UniqueKey("primary", ("k",)),))
    return Binding(0, Shape(name, (Column("k", kind),), ("k",)), table), {name: table}


@pytest.mark.parametrize(
    ("kind", "type_", "one", "other"),
    [
        (Kind.OTHER, "interval", "1 day", "24:00:00"),
        (Kind.OTHER, "numeric[]", "{1.0}", "{1.00}"),
        (Kind.OTHER, "numrange", "[1.0,2)", "[1.00,2)"),
        (Kind.JSON, "jsonb", "1.0", "1.00"),
        (Kind.OTHER, "numeric", "1.0", "1.00"),
    ],
)
def test_equal_values_that_are_spelled_differently_share_a_key(kind: Kind, type_: str, one: str, other: str) -> None:
    binding, tables = spelled(kind, type_)
    keys = compile_keys(binding, Keyspace(), tables)
    assert meet(taken(keys, (one,), None), taken(keys, None, (other,)))


@pytest.mark.parametrize(
    ("kind", "type_"), [(Kind.OTHER, "numeric"), (Kind.OTHER, "text"), (Kind.DECIMAL, "numeric"), (Kind.TEXT, "text")]
)
def test_values_that_are_told_apart_share_none(kind: Kind, type_: str) -> None:
    binding, tables = spelled(kind, type_)
    keys = compile_keys(binding, Keyspace(), tables)
    assert not meet(taken(keys, ("1.00",), None), taken(keys, None, ("2.00",)))


def test_numbers_that_are_not_finite_have_keys_of_their_own() -> None:
    binding, tables = spelled(Kind.OTHER, "numeric")
    keys = compile_keys(binding, Keyspace(), tables)
    assert meet(taken(keys, ("NaN",), None), taken(keys, None, ("NaN",)))
    assert number("NaN") == "NaN", "as a number it would not equal itself"
    assert binding.target.columns[0].equality is Equality.NUMBER


# ------------------------------------------------------------------ filters


REGION = Shape(TableName("shop", "lead"), (Column("id", Kind.INT), Column("region", Kind.TEXT)), ("id",), "key")


def captured(where: Compare, *rows: RowChange) -> list:
    machine = CaptureMachine(Mapping([Rule("shop.lead", "public.lead", where=where)]), Position("log.000001", 0))
    transaction = SourceTransaction("1/db", 7, "log.000001", 9, list(rows))
    return machine.step(0, [SourceRead([SourceChunk([transaction], Position("log.000001", 9), {0: REGION})])])


def test_a_filter_that_asks_for_what_is_not_told_halts_with_the_way_out() -> None:
    """Either answer might lose a row, or keep one that does not belong."""
    region = Compare("region", "=", "eu")
    (halt,) = captured(region, RowChange(0, None, (2, "eu"), 0), RowChange(0, (1, UNKNOWN), None, 1))
    assert isinstance(halt, Halt)
    assert "region" in halt.alarm.message
    assert "ALTER TABLE shop.lead REPLICA IDENTITY FULL" in halt.alarm.hint
    assert "resync" in halt.alarm.hint, "what is logged already stays as it is"
    assert "region" in halt.alarm.message


def test_a_filter_of_columns_that_are_told_goes_on() -> None:
    gone = [RowChange(0, (key, UNKNOWN), None, n) for n, key in enumerate((1, 9))]
    (of_key,) = captured(Compare("id", "<", "5"), *gone)
    assert isinstance(of_key, Publish) and of_key.batch.rows == (RowChange(0, (1, UNKNOWN), None, 0),)
    assert of_key.batch.shapes[0].identity == "key"
    fresh = [RowChange(0, None, (n, region), n) for n, region in enumerate(("eu", "us"))]
    (of_inserts,) = captured(Compare("region", "=", "eu"), *fresh)
    assert isinstance(of_inserts, Publish)
    assert [row.after for row in of_inserts.batch.rows] == [(0, "eu")]


# ------------------------------------------------------------------ copies


NOTES_SPLIT = ChunkSplit(NOTE.name, By.NUMBERS, ("id",), ((50,),))


class Copying:
    """A machine that copies `note` while changes of it come."""

    def __init__(self) -> None:
        self.machine = ApplyMachine(Options(lanes=2, checkpoint_us=0, idle_checkpoint_us=0))
        self.wanted: list = []
        self.now = self.end = 0
        shape = msgspec.structs.replace(bind(NOTE).shape, identity="key")
        self.step(TakenOver(1, Position("log.000001", 0), tables={NOTE.name: NOTE}, chunks=(Copied(NOTES_SPLIT),)))
        start = Position("log.000001", 0)
        self.step(LogArrived([LogBatch(start, start, shapes={0: shape}, resent=True)]))

    def step(self, *events: object) -> None:
        self.now += 2_000_000
        effects = self.machine.step(self.now, events)  # type: ignore[arg-type]
        self.wanted += effects
        for effect in effects:
            if isinstance(effect, SaveCheckpoint):
                self.step(CheckpointSaved(effect.id))

    def log(self, *rows: tuple[Row | None, Row | None]) -> None:
        changes = tuple(RowChange(0, before, after, i) for i, (before, after) in enumerate(rows))
        prev, self.end = Position("log.000001", self.end), self.end + 100
        batch = LogBatch(prev, Position("log.000001", self.end), (Transaction("1/db", self.end, 0),), changes)
        self.step(LogArrived([batch]))

    def of(self, kind: type) -> list:
        return [effect for effect in self.wanted if isinstance(effect, kind)]

    def merge(self, *refused: RefusedRow) -> MergeChunk:
        """The merge of the first chunk, which is staged now."""
        read = [r for r in self.of(ReadChunk) if r.chunk == 0][-1]
        shape = msgspec.structs.replace(bind(NOTE).shape, identity="key")
        self.step(ChunkStaged(read.id, Position("log.000001", self.end), 4, refused, shape=shape))
        return self.of(MergeChunk)[-1]


def gone(key: int) -> Row:
    return (key, UNKNOWN, UNKNOWN)


def test_a_partial_image_is_written_over_what_was_read() -> None:
    copy = Copying()
    copy.log(
        (gone(1), (1, UNKNOWN, "b")),  # its long value is among the staged
        (gone(2), (2, BIG, "c")),
        (gone(2), (2, UNKNOWN, "d")),  # its long value was told
        (gone(3), (3, UNKNOWN, "e")),
        (gone(3), None),
    )
    merge = copy.merge()
    assert merge.without == [(2,), (3,)]
    updates, inserts = merge.steps
    assert isinstance(updates, UpdateRows) and (updates.keys, updates.rows) == ([(1,)], [(1, UNKNOWN, "b")])
    assert isinstance(inserts, UpsertRows) and inserts.rows == [(2, BIG, "d")]


def test_a_chunk_begins_anew_where_a_partial_row_changed_its_key() -> None:
    """It was read under the old key or under the new one."""
    copy = Copying()
    copy.log((gone(1), (4, UNKNOWN, "b")))
    read = next(read for read in copy.of(ReadChunk) if read.chunk == 0)
    assert copy.of(DropStaged) == [DropStaged(read.id)]
    told = Copying()
    told.log((gone(1), (1, BIG, "a")), (gone(1), (4, UNKNOWN, "b")))
    assert told.of(DropStaged) == [], "what an earlier change told is told"
    (inserts,) = told.merge().steps
    assert isinstance(inserts, UpsertRows) and inserts.rows == [(4, BIG, "b")]


def test_a_row_that_could_not_be_staged_gets_the_values_that_were_read() -> None:
    copy = Copying()
    copy.log((gone(1), (1, UNKNOWN, "b")))
    shape = msgspec.structs.replace(bind(NOTE).shape, identity="key")
    merge = copy.merge(RefusedRow(shape, (1, BIG, "bad"), "too long", ""))
    (inserts,) = merge.steps
    assert isinstance(inserts, UpsertRows) and inserts.rows == [(1, BIG, "b")]
    assert merge.without == [(1,)] and not merge.parked


def test_a_staged_row_that_is_left_out_is_not_updated_either() -> None:
    copy = Copying()
    copy.log((gone(1), (1, UNKNOWN, "b")), (gone(2), (2, UNKNOWN, "c")))
    refused = copy.merge()
    copy.step(BatchFailed(refused.id, Failure(ErrorKind.ROW, "no")))
    copy.step()
    find = copy.of(FindRefused)[-1]
    shape = msgspec.structs.replace(bind(NOTE).shape, identity="key")
    copy.step(RefusedFound(find.id, (RefusedRow(shape, (1, BIG, "b"), "no", ""),)))
    copy.step()
    merge = copy.of(MergeChunk)[-1]
    (updates,) = merge.steps
    assert isinstance(updates, UpdateRows) and updates.keys == [(2,)]
    assert merge.without == [(1,)] and len(merge.parked) == 1
