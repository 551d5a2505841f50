"""A log read in pieces, with restarts at any place that was told: every row once, in order, and with its marks."""

import pytest

from adapters.mysql.assembly import CHUNK_BYTES, Assembly
from adapters.mysql.errors import LogGap
from adapters.mysql.gtid import NoGtids
from adapters.mysql.row_compiler import DELETE, INSERT, UPDATE
from adapters.mysql.tables import Role
from engine.records import Position, RowChange, SourceTransaction

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
            assembly.statement("shop", "CREATE TABLE … SELECT", log_end, 7, False)


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
