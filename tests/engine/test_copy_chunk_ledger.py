"""The chunk ledger alone: after every move the target holds exactly the source's rows of all merged chunks."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.engine.world import bind, linked, refers, table
from tidelock.engine.copy.chunk import Chunk, ChunkState
from tidelock.engine.copy.chunk_ledger import ChunkLedger
from tidelock.engine.copy.copy_validation import fault
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.records import Position, Row, RowChange, TableName, Transaction
from tidelock.engine.model.schema import Equality, TargetTable
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import ChunkStaged, Copied

ITEM = table("item", ["id", "note"], ["id"])
HEAP = table("heap", ["id", "note"], [])
SPLIT = ChunkSplit(ITEM.name, By.NUMBERS, ("id",), ((2,), (4,)))
KEYS = range(6)


def at(number: int) -> Position:
    return Position("log.000001", number)


def change(target: TargetTable, before: Row | None, after: Row | None) -> Change:
    return Change.of(bind(target), RowChange(0, before, after, 0), Transaction("0-1", 1, 0))


class Feed:
    """A ledger of one table, with what a copier and a stream would do."""

    def __init__(self, target: TargetTable = ITEM, split: ChunkSplit = SPLIT, *others: TargetTable) -> None:
        self.target = target
        self.tables = linked(target, *others)
        self.ledger = ChunkLedger([Copied(split)], self.tables)
        self.attempts = 0

    def read(self, number: int) -> EffectId:
        self.attempts += 1
        chunk = next(c for c in self.ledger.chunks if c.number == number and c.split.table == self.target.name)
        self.ledger.read(chunk, EffectId(1, self.attempts))
        return EffectId(1, self.attempts)

    def chunk(self, number: int) -> Chunk:
        return next(c for c in self.ledger.chunks if c.number == number and c.split.table == self.target.name)

    def stage(self, number: int, high: int = 1) -> None:
        self.ledger.staged(ChunkStaged(self.read(number), at(high), 0))

    def merge(self, number: int) -> None:
        self.stage(number)
        self.ledger.merged(self.chunk(number))

    def effect(self, before: Row | None, after: Row | None) -> tuple[Row | None, Row | None] | None:
        one = change(self.target, before, after)
        part = self.ledger.take([one], at(0), at(0)).get(one, one)
        return None if part is None else (part.before, part.after)


def test_a_change_of_a_pending_chunk_is_dropped() -> None:
    feed = Feed()
    assert feed.effect(None, (0, "a")) is None
    assert feed.chunk(0).touched == {}


def test_a_change_of_an_open_chunk_is_remembered() -> None:
    feed = Feed()
    feed.read(0)
    assert feed.effect((0, "a"), (0, "b")) is None
    feed.ledger.staged(ChunkStaged(EffectId(1, 1), at(9), 3))
    assert feed.effect((1, "x"), None) is None
    assert feed.chunk(0).touched == {(0,): (0, "b"), (1,): None}


def test_a_change_of_a_merged_chunk_takes_effect() -> None:
    feed = Feed()
    feed.merge(1)
    assert feed.effect((2, "a"), (3, "a")) == ((2, "a"), (3, "a"))


def test_a_key_that_moves_between_chunks_is_a_delete_in_one_and_an_insert_in_the_other() -> None:
    feed = Feed()
    feed.merge(1)
    feed.read(0)
    assert feed.effect((2, "a"), (0, "a")) == ((2, "a"), None)
    assert feed.effect((0, "a"), (3, "a")) == (None, (3, "a"))
    assert feed.chunk(0).touched == {(0,): None}
    assert feed.effect((4, "b"), (5, "b")) is None
    assert feed.effect((3, "a"), (4, "a")) == ((3, "a"), None)


def test_a_merge_waits_for_its_high() -> None:
    feed = Feed()
    feed.stage(0, high=7)
    feed.stage(1, high=5)
    assert feed.ledger.due(at(4)) is None
    assert feed.ledger.due(at(6)) is feed.chunk(1)
    feed.ledger.merged(feed.chunk(1))
    assert feed.ledger.due(at(6)) is None and feed.ledger.due(at(7)) is feed.chunk(0)


def test_a_report_of_an_attempt_that_was_given_up_means_nothing() -> None:
    feed = Feed()
    old = feed.read(0)
    feed.ledger.statement([ITEM.name])
    assert feed.ledger.abandoned == [old]
    new = feed.read(0)
    feed.ledger.staged(ChunkStaged(old, at(1), 5))
    assert feed.chunk(0).state is ChunkState.READING
    feed.ledger.staged(ChunkStaged(new, at(1), 4))
    assert (feed.chunk(0).state, feed.chunk(0).rows) == (ChunkState.STAGED, 4)


def test_a_statement_of_another_table_leaves_chunks_open() -> None:
    feed = Feed()
    feed.read(0)
    feed.ledger.statement([TableName("shop", "other")])
    assert feed.chunk(0).state is ChunkState.READING
    feed.ledger.statement([])
    assert feed.chunk(0).state is ChunkState.PENDING


def test_a_copy_goes_on_under_its_table_s_new_name_or_not_at_all() -> None:
    other = table("other", ["id", "note"], ["id"])
    feed = Feed(ITEM, SPLIT, other)
    feed.merge(1)
    open_ = feed.read(0)
    feed.ledger.follow([Copied(SPLIT, (1,))])
    assert (feed.chunk(0).state, feed.ledger.abandoned) == (ChunkState.READING, []), "it is as it was"
    renamed = ChunkSplit(other.name, By.NUMBERS, ("id",), ((2,), (4,)))
    feed.ledger.follow([Copied(renamed, (1,))])
    states = [chunk.state for chunk in feed.ledger.chunks]
    assert feed.ledger.tables == (other.name,)
    assert states == [ChunkState.PENDING, ChunkState.MERGED, ChunkState.PENDING]
    assert feed.ledger.abandoned == [open_]
    feed.ledger.follow([Copied(renamed, (0, 2))])
    states = [chunk.state for chunk in feed.ledger.chunks]
    assert states == [ChunkState.MERGED, ChunkState.PENDING, ChunkState.MERGED], "another table's, of the same name"
    feed.ledger.follow([])
    assert not feed.ledger


def test_without_a_key_changes_are_remembered_one_by_one() -> None:
    feed = Feed(HEAP, ChunkSplit(HEAP.name))
    feed.read(0)
    for _ in range(2):
        assert feed.effect(None, (1, "a")) is None
    assert (feed.chunk(0).state, feed.ledger.remembered) == (ChunkState.READING, 2)
    feed.ledger.restart(feed.chunk(0))
    assert (feed.chunk(0).state, feed.chunk(0).restarts, feed.ledger.remembered) == (ChunkState.PENDING, 1, 0)


def test_too_many_touched_rows_send_the_fullest_chunk_back() -> None:
    feed = Feed()
    feed.read(0)
    feed.read(1)
    for before in ((0, "a"), (2, "a"), (3, "a")):
        feed.effect(before, None)
    feed.ledger.evict(3)
    assert feed.ledger.remembered == 3
    feed.ledger.evict(2)
    assert feed.ledger.remembered == 1
    assert [c.state for c in feed.ledger.chunks] == [ChunkState.READING, ChunkState.PENDING, ChunkState.PENDING]
    assert feed.ledger.next(9) is None, "what had to begin anew is read alone"


def test_a_table_is_read_when_its_parents_are_copied() -> None:
    child = table("line", ["id", "item"], ["id"], [], [refers("line", ["item"], "item", ["id"])])
    feed = Feed(ITEM, ChunkSplit(ITEM.name), child)
    feed.ledger.add([Copied(ChunkSplit(child.name))])
    first = feed.ledger.next(4)
    assert first is not None and first.split.table == ITEM.name
    feed.ledger.read(first, EffectId(1, 1))
    assert feed.ledger.next(4) is None
    feed.ledger.staged(ChunkStaged(EffectId(1, 1), at(1), 0))
    feed.ledger.merged(first)
    assert feed.ledger.drop_finished() == [ITEM.name] and ITEM.name not in feed.ledger
    second = feed.ledger.next(4)
    assert second is not None and second.split.table == child.name


def family() -> tuple[TargetTable, TargetTable, TargetTable]:
    """An item's lines go with it, and a line's notes with the line; a tag only refers."""
    line = table("line", ["id", "item"], ["id"], [], [refers("line", ["item"], "item", ["id"], cascades=True)])
    note = table("note", ["id", "line"], ["id"], [], [refers("note", ["line"], "line", ["id"], cascades=True)])
    tag = table("tag", ["id", "item"], ["id"], [], [refers("tag", ["item"], "item", ["id"])])
    return line, note, tag


@pytest.mark.parametrize(
    ("before", "after", "gone"),
    [((1, "a"), None, True), ((1, "a"), (2, "a"), True), ((1, "a"), (1, "b"), False), (None, (1, "a"), False)],
)
def test_a_parent_that_goes_or_changes_its_key_sends_what_it_takes_along_back(
    before: Row | None, after: Row | None, gone: bool
) -> None:
    line, note, tag = family()
    tables = linked(ITEM, line, note, tag)
    ledger = ChunkLedger([Copied(ChunkSplit(t.name)) for t in (line, note, tag)], tables)
    for n, chunk in enumerate(ledger.chunks):
        ledger.read(chunk, EffectId(1, n))
    one = change(tables[ITEM.name], before, after)
    assert ledger.take([one], at(0), at(1)) == {}
    states = {c.split.table.table: c.state for c in ledger.chunks}
    back = ChunkState.PENDING if gone else ChunkState.READING
    assert states == {"line": back, "note": back, "tag": ChunkState.READING}


def test_a_table_that_is_copied_anew_begins_anew() -> None:
    feed = Feed()
    feed.merge(0)
    attempt = feed.read(1)
    feed.ledger.add([Copied(SPLIT)])
    assert feed.ledger.abandoned == [attempt]
    assert {c.state for c in feed.ledger.chunks} == {ChunkState.PENDING}


def test_what_is_wholly_merged_is_nothing_special() -> None:
    ledger = ChunkLedger([Copied(SPLIT, (0, 1, 2))], linked(ITEM))
    assert not ledger and ledger.tables == () and ITEM.name not in ledger


def test_rows_of_which_it_is_untold_whether_they_were_asked_for_are_remembered_and_then_all_others() -> None:
    """'E' may come in the place of 'É'."""
    word = table("word", ["text", "rank"], ["text"], equality={"text": Equality.FOLDED})
    ledger = ChunkLedger([Copied(ChunkSplit(word.name, By.KEYS, ("text",), keys=(("a",),)))], linked(word))
    chunk = ledger.next(1)
    assert chunk is not None and chunk.number == 1
    ledger.read(chunk, EffectId(1, 1))
    rows: list[tuple[Row | None, Row | None]] = [(("x", 1), ("x", 2)), (("É", 1), None), (None, ("E", 2))]
    assert ledger.take([change(word, *images) for images in rows], at(0), at(1)) == {}, "all take effect"
    assert chunk.touched == {("É",): None, ("E",): ("E", 2)}


def test_tables_that_cannot_be_copied() -> None:
    line, *_ = family()
    node = table("node", ["id", "up"], ["id"], [], [refers("node", ["up"], "node", ["id"])])
    one = table("one", ["id", "other"], ["id"], [], [refers("one", ["other"], "two", ["id"])])
    two = table("two", ["id", "other"], ["id"], [], [refers("two", ["other"], "one", ["id"])])
    tables = linked(ITEM, HEAP, line, node, one, two)

    def why(*splits: ChunkSplit) -> str:
        return fault(splits, (), tables)

    assert why(ChunkSplit(ITEM.name), ChunkSplit(line.name)) == ""
    assert fault([ChunkSplit(ITEM.name)], [ChunkSplit(line.name)], tables) == ""
    assert why(ChunkSplit(node.name)) == ""
    assert why(ChunkSplit(TableName("shop", "none"))) == "the target has no table shop.none"
    assert why(ChunkSplit(ITEM.name)) == "shop.line refers to shop.item: copy both at once"
    assert "has no key" in why(ChunkSplit(HEAP.name, By.NUMBERS, ("id",), ((1,),)))
    assert "refers to itself" in why(ChunkSplit(node.name, By.NUMBERS, ("id",), ((1,),)))
    assert "do not ascend" in why(ChunkSplit(line.name, By.NUMBERS, ("id",), ((1,), (1,))))
    assert "in a cycle of foreign keys" in why(ChunkSplit(one.name), ChunkSplit(two.name))
    repair = ChunkSplit(ITEM.name, By.KEYS, ("id",), keys=((1,),))
    assert why(repair) == why(ChunkSplit(ITEM.name, keep=True)) == "", "rows stay, and so do those that refer to them"
    assert fault([repair], [ChunkSplit(ITEM.name)], tables) == "shop.item is being copied, which mends its rows"
    assert fault([repair], [repair], tables) == ""
    assert "its key is id, not code" in why(ChunkSplit(ITEM.name, By.KEYS, ("code",), keys=(("a",),)))
    assert "has no key" in why(ChunkSplit(HEAP.name, keep=True))


# ---------------------------------------------------------------------- all that may happen, in any order


class Copying(RuleBasedStateMachine):
    """The source runs ahead of the stream; readers see less than the log; chunks are read row by row; owners die."""

    @initialize(rows=st.dictionaries(st.sampled_from(KEYS), st.just("old"), max_size=6))
    def begin(self, rows: dict[int, str]) -> None:
        self.states = [rows]  # the source after each change
        self.log: list[tuple[Row | None, Row | None]] = []
        self.visible = self.taken = self.saved = self.furthest = 0
        self.applied: set[int] = set()
        self.merged: list[int] = []
        self.target: dict[int, str] = {}
        self.attempts = 0
        self.takeover()

    @rule(key=st.sampled_from(KEYS), to=st.sampled_from(KEYS), delete=st.booleans())
    def write(self, key: int, to: int, delete: bool) -> None:
        rows = dict(self.states[-1])
        value = f"v{len(self.log)}"
        before = (key, rows.pop(key)) if key in rows else None
        if before is not None and to in rows:
            to = key
        after = None if delete and before is not None else (to if before is not None else key, value)
        if after is not None:
            rows[after[0]] = after[1]
        self.states.append(rows)
        self.log.append((before, after))

    @rule(data=st.data())
    def show(self, data: st.DataObject) -> None:
        self.visible = data.draw(st.integers(self.visible, len(self.log)))

    @precondition(lambda self: self.taken < len(self.log))
    @rule()
    def take(self) -> None:
        """The stream comes one further; what takes effect is committed at once, with a receipt."""
        one = change(ITEM, *self.log[self.taken])
        part = self.ledger.take([one], at(self.taken), at(self.taken + 1)).get(one, one)
        covered = self.taken in self.applied
        self.taken += 1
        self.furthest = max(self.taken, self.furthest)
        if part is None or covered:
            return
        self.applied.add(self.taken - 1)
        if part.before is not None:
            assert self.target.pop(part.before[0]) == part.before[1], "the row is there as the log says"
        if part.after is not None:
            assert part.after[0] not in self.target, "and is not there when it comes"
            self.target[part.after[0]] = part.after[1]

    @precondition(lambda self: self.visible >= self.taken)
    @rule()
    def read(self) -> None:
        chunk = self.ledger.next(2)
        if chunk is not None:
            self.attempts += 1
            self.ledger.read(chunk, EffectId(1, self.attempts))
            self.readings[chunk.number] = {}

    @precondition(lambda self: self.readings)
    @rule(data=st.data())
    def read_row(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.readings)))
        left = [key for key in KEYS if sum(b <= (key,) for b in SPLIT.bounds) == number]
        left = [key for key in left if key not in self.readings[number]]
        chunk = self._chunk(number)
        if chunk.state is not ChunkState.READING:
            del self.readings[number]
        elif left:
            key = data.draw(st.sampled_from(left))
            self.readings[number][key] = self.states[self.visible].get(key)
        else:
            assert chunk.attempt is not None
            self.ledger.staged(ChunkStaged(chunk.attempt, at(len(self.log)), 0))
            self.staged[number] = self.readings.pop(number)

    @rule()
    def merge(self) -> None:
        chunk = self.ledger.due(at(self.taken))
        if chunk is None:
            return
        rows = {(key,): (key, value) for key, value in self.staged[chunk.number].items() if value is not None}
        rows = {key: row for key, row in rows.items() if key not in chunk.touched}
        rows |= {key: image for key, image in chunk.touched.items() if image is not None}
        assert not any(key in self.target for (key,) in rows), "no row of the chunk is there"
        self.target |= {row[0]: row[1] for row in rows.values()}
        self.ledger.merged(chunk)
        self.ledger.drop_finished()
        self.merged.append(chunk.number)
        self.saved = self.taken

    @rule()
    def lose_a_reader(self) -> None:
        for chunk in self.ledger.chunks:
            if chunk.state is ChunkState.READING and chunk.attempt is not None:
                self.ledger.failed(chunk.attempt)
                return

    @rule(most=st.integers(1, 3))
    def evict(self, most: int) -> None:
        self.ledger.evict(most)
        assert self.ledger.remembered <= most

    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        """Another owner goes on somewhere behind the last merge."""
        self.taken = data.draw(st.integers(self.saved, self.taken))
        self.takeover()

    def takeover(self) -> None:
        self.ledger = ChunkLedger([Copied(SPLIT, tuple(self.merged))], linked(ITEM))
        self.readings: dict[int, dict[int, str | None]] = {}
        self.staged: dict[int, dict[int, str | None]] = {}

    def _chunk(self, number: int) -> Chunk:
        return next(c for c in self.ledger.chunks if c.number == number)

    @invariant()
    def the_target_is_the_source_of_then(self) -> None:
        if not hasattr(self, "ledger") or self.taken < self.furthest:
            return
        wanted = self.states[self.taken].items()
        live = {key: value for key, value in wanted if sum(b <= (key,) for b in SPLIT.bounds) in self.merged}
        assert self.target == live


TestCopying = Copying.TestCase
TestCopying.settings = settings(max_examples=40, stateful_step_count=40, deadline=None, derandomize=True)


@pytest.mark.proof
def test_copying_at_length() -> None:
    run_state_machine_as_test(Copying, settings=settings(max_examples=5000, stateful_step_count=60, deadline=None))
