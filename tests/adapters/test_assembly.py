"""A log read in pieces, with restarts at any place that was told: every row once, in order, and with its marks.

The naive side keeps the log as a list of groups and knows by counting what a reader has to hand out from a place on.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tidelock.adapters.mysql.binlog.assembly import CHUNK_BYTES, Assembly
from tidelock.adapters.mysql.binlog.events import Query
from tidelock.adapters.mysql.binlog.row_compiler import DELETE, INSERT, UPDATE
from tidelock.adapters.mysql.binlog.tables import Role
from tidelock.adapters.mysql.gtid import NoGtids
from tidelock.adapters.ports.source_errors import LogGap
from tidelock.engine.model.log_batch import SourceChunk, SourceTransaction
from tidelock.engine.model.records import Position, RowChange

FILE, START = "bin.000001", 100
CHUNK_ROWS = 4
SMALL, HUGE = 10, CHUNK_BYTES // 2 + 1


class StandInTable:
    """Has no columns: an event's rows are as many as the byte in front of them says, their values their ordinals."""

    one = two = b""

    def __init__(self, number: int, role: Role) -> None:
        self.number, self.role = number, role
        self.readers = self.lenient_readers = (self.read, self.read, self.read)

    def check_images(self, b: bytes, p: int, images: int) -> int:
        return p

    def read(self, b: bytes, p: int, end: int, n: int, add) -> int:
        for ordinal in range(n, n + b[0]):
            add(RowChange(self.number, None, (ordinal,), ordinal))
        return n + b[0]

    def skip(self, b: bytes, p: int, end: int, images: int, n: int) -> int:
        return n + b[0]


TABLES = {role: StandInTable(number, role) for number, role in enumerate(Role)}


class StandInTables:
    def announce(self) -> dict:
        return {}


def feed(assembly: Assembly, event: tuple[str, int, int], log_end: int) -> None:
    what, count, size = event
    match what:
        case "rows":
            assembly.rows(INSERT, TABLES[Role.WANTED], bytes([count]), 0, size)
        case "others":
            assembly.rows(UPDATE, TABLES[Role.UNWANTED], bytes([count]), 0, size)
        case "marks":
            assembly.rows(INSERT, TABLES[Role.MARKER], bytes([count]), 0, size)
        case "receipts dropped":
            assembly.rows(DELETE, TABLES[Role.MARKER], bytes([count]), 0, size)
        case "statement":
            assembly.statement(Query("shop", "CREATE TABLE … SELECT"), log_end, 7, False)


def reader(place: Position = Position(FILE, START)) -> Assembly:
    return Assembly(StandInTables(), place, NoGtids(), CHUNK_ROWS)


def read(assembly: Assembly, *events: tuple[str, int, int]) -> list[SourceTransaction]:
    """The parts handed out of one transaction with these events."""
    assembly.begin(FILE, START, 7, False)
    for event in events:
        feed(assembly, event, START)
    assembly.commit(START + 100, 7)
    assembly.flush()
    return [part for chunk in assembly.ready for part in chunk.transactions]


def test_who_reads_on_inside_a_replicated_transaction_is_told_so() -> None:
    """Else the rest of it would go back to where it came from: the receipt is its first row, before the place."""
    log = ("marks", 1, SMALL), ("rows", 4, SMALL), ("rows", 3, SMALL)
    whole = reader()
    first, rest = read(whole, *log)
    assert [len(part.marks) for part in (first, rest)] == [1, 0]
    inside = whole.ready[0].last
    assert inside.rows == 5
    (resumed,) = read(reader(inside), *log)
    assert resumed.marks == first.marks and resumed.rows == rest.rows


def test_a_place_never_goes_back_where_much_of_a_transaction_is_read_again() -> None:
    """Rows read again are dropped, so they do not fill a chunk: a part without them would end before the place."""
    log = ("rows", 1, HUGE), ("rows", 1, HUGE), ("rows", 1, HUGE), ("rows", 1, HUGE), ("rows", 1, SMALL)
    whole = reader()
    read(whole, *log)
    inside = whole.ready[1].last
    assert inside.rows == 4
    again = reader(inside)
    assert [[row.ordinal for row in part.rows] for part in read(again, *log)] == [[4]]
    assert all(chunk.last.order >= inside.order for chunk in again.ready)


def test_a_log_cut_off_inside_a_transaction_of_which_a_part_was_read_before() -> None:
    """Its end will never come; taken for undone, the next transaction would lose as many rows as were read of it."""
    inside = reader(Position(FILE, START, 2))
    inside.begin(FILE, START, 7, False)
    feed(inside, ("rows", 3, SMALL), START)
    with pytest.raises(LogGap, match="part of which was handed out"):
        inside.between_groups("bin.000002", 4)


class Group:
    """`events`: (what, how many rows, bytes).  Its offset in the log serves as its number."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.events: list[tuple[str, int, int]] = []
        self.end = 0  # offset after it, once it is committed

    def items(self) -> list[tuple[int, str]]:
        """(ordinal, what) of all that a reader hands out."""
        found, ordinal = [], 0
        for what, count, _ in self.events:
            if what in ("rows", "statement"):
                found += [(ordinal + n, what) for n in range(count)]
            ordinal += count
        return found

    def marks(self) -> list[int]:
        """Ordinals of its receipts: its first rows."""
        what, count, _ = self.events[0] if self.events else ("", 0, 0)
        return list(range(count)) if what == "marks" else []


class Reading(RuleBasedStateMachine):
    """Events arrive, chunks leave, and the reader is started anew at places it told."""

    @initialize()
    def start(self) -> None:
        self.log: list[Group] = []
        self.end = START
        self.places = [(Position(FILE, START), 0)]  # told, and how many items had been handed out by then
        self.taken: list[tuple[int, int, str]] = []  # (group, ordinal, what)
        self.reader = reader()
        self.first_seen: dict[int, bool] = {}  # groups of which this reader has handed out a part

    # ------------------------------------------------------------------ the log

    @property
    def open(self) -> bool:
        return bool(self.log) and not self.log[-1].end

    @precondition(lambda self: not self.open)
    @rule(receipts=st.integers(0, 2))
    def begin(self, receipts: int) -> None:
        """A transaction; a replicated one inserts its receipt first."""
        self.log.append(Group(self.end))
        self.reader.begin(FILE, self.end, 7, False)
        if receipts:
            self.event("marks", receipts, SMALL)

    @precondition(lambda self: self.open)
    @rule(
        what=st.sampled_from(["rows", "rows", "others", "receipts dropped"]),
        count=st.integers(1, 6),
        size=st.sampled_from([SMALL, HUGE]),
    )
    def rows(self, what: str, count: int, size: int) -> None:
        self.event(what, count, size)

    @precondition(lambda self: self.open)
    @rule()
    def statement(self) -> None:
        self.event("statement", 1, 0)

    def event(self, what: str, count: int, size: int) -> None:
        self.log[-1].events.append((what, count, size))
        feed(self.reader, self.log[-1].events[-1], self.end)
        self.drain()

    @precondition(lambda self: self.open)
    @rule()
    def commit(self) -> None:
        self.end += 100
        self.log[-1].end = self.end
        self.reader.commit(self.end, 7)
        self.drain()

    @precondition(lambda self: self.open)
    @rule(read_again=st.booleans())
    def crash_of_the_source(self, read_again: bool) -> None:
        """Its log ends inside the transaction and goes on in the next file; there this history ends or begins anew."""
        if read_again:
            self.restart(back=0)
        told = self.places[-1][0]
        if told.rows and told.offset == self.log[-1].offset:
            with pytest.raises(LogGap):
                self.reader.between_groups("bin.000002", 4)
            self.start()
            return
        del self.log[-1]
        self.end += 50
        self.reader.between_groups(FILE, self.end)

    # ------------------------------------------------------------------ the reader

    @rule()
    def flush(self) -> None:
        self.reader.flush()
        self.drain()

    @rule()
    def heartbeat(self) -> None:
        self.reader.tell()
        self.drain()

    @rule(back=st.integers(0, 5))
    def restart(self, back: int) -> None:
        """At the last place told, or at one before it: what came after it is forgotten and read again."""
        place, items = self.places[max(len(self.places) - 1 - back, 0)]
        del self.places[max(len(self.places) - back, 1) :]
        del self.taken[items:]
        self.reader, self.first_seen = reader(place), {}
        for group in self.log:
            if group.offset < place.offset:
                continue
            self.reader.between_groups(FILE, group.offset)
            self.reader.begin(FILE, group.offset, 7, False)
            for event in group.events:
                feed(self.reader, event, group.offset)
                self.drain()
            if group.end:
                self.reader.commit(group.end, 7)
                self.drain()
        if not self.open:
            self.reader.between_groups(FILE, self.end)

    def drain(self) -> None:
        while self.reader.ready:
            self.take(self.reader.ready.pop(0))

    def take(self, chunk: SourceChunk) -> None:
        for part in chunk.transactions:
            group = next(g for g in self.log if g.offset == part.number)
            if part.number not in self.first_seen:
                told = [row[0] for _, row in part.marks]
                assert told == group.marks(), "the first part that a reader hands out shows whence the transaction is"
            self.first_seen[part.number] = True
            self.taken += [(part.number, row.ordinal, "rows") for row in part.rows]
            if part.ddl is not None:
                self.taken.append((part.number, part.first_ordinal + part.ordinals - 1, "statement"))
        assert chunk.last.order >= self.places[-1][0].order, "a place never goes back"
        before = [i for i in self.items() if (i[0], i[1]) < (chunk.last.offset, chunk.last.rows)]
        assert self.taken == before, "all that is before the place, once and in order"
        self.places.append((chunk.last, len(self.taken)))

    def items(self) -> list[tuple[int, int, str]]:
        return [(group.offset, ordinal, what) for group in self.log for ordinal, what in group.items()]

    @rule()
    def all_is_handed_out(self) -> None:
        """Once the log is whole, a flush hands out the rest."""
        if self.open:
            self.commit()
        self.flush()
        assert self.taken == self.items()


LONG = settings(max_examples=5000, stateful_step_count=60, deadline=None, report_multiple_bugs=False)
TestReading = Reading.TestCase
TestReading.settings = settings(
    max_examples=80, stateful_step_count=30, deadline=None, derandomize=True, report_multiple_bugs=False
)


@pytest.mark.proof
def test_reading_at_length() -> None:
    run_state_machine_as_test(Reading, settings=LONG)


def test_a_group_in_parts_tells_how_far_it_is_read_where_other_tables_follow() -> None:
    """Its rows wait at the target in an open transaction, which is given up where nothing more comes."""
    assembly = reader(Position(FILE, START))
    assembly.begin("source", 1, 0, False)
    feed(assembly, ("others", 1, SMALL), 0)
    assembly.go_on()
    assert not assembly.ready, "nobody waits for it"
    feed(assembly, ("rows", CHUNK_ROWS, SMALL), 0)
    (part,) = assembly.ready
    feed(assembly, ("others", 3, SMALL), 0)
    assembly.go_on()
    assembly.go_on()
    _, sign = assembly.ready
    assert (part.last.rows, sign.last.rows) == (CHUNK_ROWS + 1, CHUNK_ROWS + 4)
    assert [(t.rows, t.complete) for t in sign.transactions] == [([], False)]
    assembly.commit(200, 0)
    assembly.flush()
    assert [t.complete for t in assembly.ready[-1].transactions] == [True]
