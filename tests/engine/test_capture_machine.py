"""The capture machine: a source's chunks become the batches of the log."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.engine.source_log import FILE, Committed, Reader, SourceLog
from tidelock.engine.capture.machine import CaptureMachine
from tidelock.engine.capture.mapping import Mapping, Rule
from tidelock.engine.capture.row_filter import Compare
from tidelock.engine.model.log_batch import RECEIPT, LogBatch, SourceChunk, SourceTransaction
from tidelock.engine.model.records import Column, Kind, Position, Row, RowChange, Shape, TableName, Transaction
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.protocol.effects import Publish
from tidelock.engine.protocol.events import SourceRead, Tick

START = Position("log.000001", 4)
ACCOUNT = Shape(TableName("shop", "account"), (Column("id", Kind.INT), Column("email", Kind.TEXT)), ("id",))
SECRET = Shape(TableName("shop", "secret"), (Column("id", Kind.INT),), ("id",))


def machine(rule: Rule | None = None, node: str = "") -> CaptureMachine:
    return CaptureMachine(Mapping([rule or Rule("shop.account", "public.account")]), START, node)


def row(id_: int, ordinal: int = 0, table: int = 0) -> RowChange:
    return RowChange(table, None, (id_, "a"), ordinal)


def transaction(number: int, *rows: RowChange, complete: bool = True, **more: Any) -> SourceTransaction:
    return SourceTransaction("0-1", number, "log.000001", number * 100, list(rows), complete=complete, **more)


def chunk(
    last: int | Position, *transactions: SourceTransaction, shapes: dict[int, Shape] | None = None, us: int = 0
) -> SourceChunk:
    place = last if isinstance(last, Position) else Position("log.000001", last)
    return SourceChunk(list(transactions), place, shapes or {}, us)


def published(taken: CaptureMachine, *chunks: SourceChunk) -> list[LogBatch]:
    batches = []
    for effect in taken.step(0, [SourceRead(list(chunks))]):
        assert isinstance(effect, Publish)
        batches.append(effect.batch)
    return batches


def test_batches_are_a_chain_and_the_first_answers_a_resend() -> None:
    one, two = published(
        machine(),
        chunk(100, transaction(1, row(1)), shapes={0: ACCOUNT}),
        chunk(300, transaction(2, row(2), row(3, 1)), transaction(3, row(4))),
    )
    assert (one.prev, one.last, one.resent) == (START, Position("log.000001", 100), True)
    assert (two.prev, two.last, two.resent) == (one.last, Position("log.000001", 300), False)
    assert one.shapes == {0: Shape(TableName("public", "account"), ACCOUNT.columns, ("id",))}
    assert two.transactions == (Transaction("0-1", 2, 0), Transaction("0-1", 3, 2))
    assert [change.after for change in two.rows] == [(2, "a"), (3, "a"), (4, "a")]


def test_rows_are_mapped_and_keep_their_ordinals() -> None:
    taken = machine(Rule("shop.account", "shop.account", exclude=("email",), where=Compare("id", ">", 1)))
    (batch,) = published(
        taken,
        chunk(
            100,
            transaction(1, row(1), row(2, 1)),
            transaction(2, RowChange(0, (1, "a"), (3, "a"), 0), RowChange(0, (3, "a"), (1, "a"), 1)),
            shapes={0: ACCOUNT},
        ),
    )
    assert [(c.before, c.after, c.ordinal) for c in batch.rows] == [
        (None, (2,), 1),
        (None, (3,), 0),  # it came into the filter
        ((3,), None, 1),  # it left it
    ]
    assert batch.transactions == (Transaction("0-1", 1, 0), Transaction("0-1", 2, 1))


def test_what_is_not_taken_still_moves_the_position() -> None:
    taken = machine()
    (batch,) = published(taken, chunk(100, transaction(1), shapes={3: SECRET}))
    assert (batch.last, batch.rows, batch.transactions, batch.shapes) == (Position("log.000001", 100), (), (), {})


def test_a_heartbeat_tells_the_time_and_silence_says_nothing() -> None:
    taken = machine()
    published(taken, chunk(100, transaction(1, row(1)), shapes={0: ACCOUNT}))
    assert published(taken, chunk(100)) == []
    (beat,) = published(taken, chunk(100, us=77))
    assert (beat.prev, beat.last, beat.end_us) == (beat.last, Position("log.000001", 100), 77)
    assert taken.step(1, [Tick()]) == []


def test_a_large_transaction_tells_where_it_ends_even_without_rows() -> None:
    taken = machine()
    first, middle, last, next_ = published(
        taken,
        chunk(Position("log.000001", 4, 1), transaction(1, row(1), complete=False), shapes={0: ACCOUNT}),
        chunk(Position("log.000001", 4, 5), transaction(1, complete=False)),
        chunk(100, transaction(1)),
        chunk(200, transaction(2)),
    )
    assert [t.complete for batch in (first, middle, last) for t in batch.transactions] == [False, False, True]
    assert next_.transactions == ()


def mark(origin: str, path: str) -> tuple[tuple[int, Row], ...]:
    return ((RECEIPT, ("shop", 0, 1, 1, b"", origin, path)),)


def test_what_came_from_a_node_does_not_go_back_to_it() -> None:
    taken = machine(node="b")
    (batch,) = published(
        taken,
        chunk(
            400,
            transaction(1, row(1), marks=mark("b", "b")),
            transaction(2, row(2), marks=mark("a", "a b")),
            transaction(3, row(3), marks=mark("a", "a c")),
            transaction(4, row(4)),
            shapes={0: ACCOUNT},
        ),
    )
    assert [change.after for change in batch.rows] == [(3, "a"), (4, "a")]


def test_only_the_first_part_of_a_transaction_shows_its_mark() -> None:
    taken = machine(node="b")
    batches = published(
        taken,
        chunk(0, transaction(1, row(1), complete=False, marks=mark("b", "b")), shapes={0: ACCOUNT}),
        chunk(0, transaction(1, row(2, 1), complete=False)),
        chunk(200, transaction(1, row(3, 2)), transaction(2, row(4))),
    )
    assert [change.after for batch in batches for change in batch.rows] == [(4, "a")]


def test_statements_stand_alone_and_those_of_other_tables_pass() -> None:
    taken = machine()

    def statement(number: int, *tables: TableName, drops: tuple[str, ...] = ()) -> SourceTransaction:
        ddl = Ddl("shop", "ALTER TABLE …", "0-1", number, DdlKind.OTHER, tables, drops)
        return transaction(number, ddl=ddl)

    told = [
        (batch.ddl.kind, batch.ddl.tables, batch.ddl.databases)
        for batch in published(
            taken,
            chunk(100, statement(1, ACCOUNT.name)),
            chunk(200, statement(2, SECRET.name)),
            chunk(300, statement(3)),
            chunk(400, statement(4, SECRET.name, ACCOUNT.name)),
            chunk(500, statement(5, drops=("elsewhere",))),
            chunk(600, statement(6, drops=("elsewhere", ACCOUNT.name.schema))),
        )
        if batch.ddl is not None
    ]
    assert told == [
        (DdlKind.OTHER, (ACCOUNT.name,), ()),
        (DdlKind.UNRELATED, (SECRET.name,), ()),
        (DdlKind.OTHER, (), ()),
        (DdlKind.OTHER, (ACCOUNT.name,), ()),
        (DdlKind.UNRELATED, (), ("elsewhere",)),
        (DdlKind.OTHER, (), (ACCOUNT.name.schema,)),
    ]


@pytest.mark.parametrize(
    ("rules", "kind"),
    [
        ([("shop.account", "public.account")], DdlKind.TRUNCATE),
        ([("shop.account", "public.account"), ("shop.*", "public.*")], DdlKind.TRUNCATE),
        ([("shop.account", "public.all"), ("shop.note", "public.all")], DdlKind.OTHER),
        ([("shop.*", "public.all")], DdlKind.OTHER),
        ([("*.account", "public.account")], DdlKind.OTHER),
        ([("shop.account", "public.note"), ("shop.*", "public.*")], DdlKind.OTHER),
    ],
)
def test_a_table_that_has_rows_of_other_sources_too_is_not_emptied(rules: list, kind: DdlKind) -> None:
    taken = CaptureMachine(Mapping([Rule(*rule) for rule in rules]), START)
    ddl = Ddl("shop", "TRUNCATE account", "0-1", 1, DdlKind.TRUNCATE, (ACCOUNT.name,))
    (batch,) = published(taken, chunk(100, transaction(1, ddl=ddl)))
    assert batch.ddl is not None and batch.ddl.kind is kind


# ------------------------------------------------------------------ any log, cut anywhere, against what it must say

NOTE = Shape(TableName("shop", "note"), (Column("id", Kind.INT), Column("region", Kind.TEXT)), ("id",))
REGIONAL = Shape(TableName("shop", "account"), NOTE.columns, ("id",))
SELECTED = {0: REGIONAL, 1: NOTE}
RULES = [Rule("shop.account", "public.account", where=Compare("region", "=", "eu")), Rule("shop.note", "public.note")]

# What is done to a row, and what the target must be told of it: the filter lets only rows of region eu through.
EDITS = {
    "→eu": "→eu", "→us": "", "→null": "",
    "eu→": "eu→", "us→": "", "null→": "",
    "eu→eu": "eu→eu", "eu→us": "eu→", "us→eu": "→eu", "us→us": "", "eu→null": "eu→", "null→eu": "→eu",
    "note →us": "note →us", "note us→eu": "note us→eu", "secret →eu": "",
}  # fmt: skip
PATHS = {"local": (), "from a": ("a",), "by a and c": ("a", "c"), "ours": ("b",), "by us": ("a", "b"),
         "ours, by a and c": ("b", "a", "c"), "of one like us": ("bb", "ab")}  # fmt: skip
STATEMENTS = {
    "ALTER account": ((REGIONAL.name,), DdlKind.OTHER),
    "ALTER secret": ((SECRET.name,), DdlKind.UNRELATED),
    "ALTER account, secret": ((SECRET.name, REGIONAL.name), DdlKind.OTHER),
    "ALTER ?": ((), DdlKind.OTHER),
}


def image(edit: str, id_: int) -> tuple[int, Row | None, Row | None]:
    *table, regions = edit.split(" ")
    before, after = ((id_, None if r == "null" else r) if r else None for r in regions.split("→"))
    return ({"note": 1, "secret": 2}[table[0]] if table else 0), before, after


def spelled(change: RowChange) -> str:
    regions = [("null" if row[1] is None else row[1]) if row else "" for row in (change.before, change.after)]
    return ("note " if change.table == 1 else "") + "→".join(regions)


class Capturing(RuleBasedStateMachine):
    """A log grows, a reader hands it out cut anywhere, readers and machines are started anew at any place told."""

    @initialize(node=st.sampled_from(["b", "b", ""]))
    def start(self, node: str) -> None:
        self.node = node
        self.log = SourceLog()
        self.edits: dict[tuple[str, int], list[str]] = {}  # of each transaction, by ordinal
        self.told = [Position(FILE, self.log.end)]
        self.published: list[tuple[Position, tuple]] = []  # (place of its batch, what)
        self.begin_at(self.told[0])

    def begin_at(self, place: Position) -> None:
        self.reader = Reader(self.log, place, SELECTED)
        self.machine = CaptureMachine(Mapping(RULES), place, self.node)
        self.first, self.left_open = True, False
        self.parted: dict[tuple[str, int], None] = {}  # transactions of which this machine was given a part
        self.shapes: dict[int, Shape] = {}

    @rule(
        source=st.sampled_from(["0-1", "0-2"]),
        path=st.sampled_from(sorted(PATHS)),
        edits=st.lists(st.sampled_from(sorted(EDITS)), max_size=5),
    )
    def commit(self, source: str, path: str, edits: list[str]) -> None:
        images = [image(edit, n) for n, edit in enumerate(edits)]
        made = self.log.commit(source, images, PATHS[path])
        self.edits[made.source, made.number] = [*(["receipt"] if made.path else []), *edits]

    @rule(source=st.sampled_from(["0-1", "0-2"]), statement=st.sampled_from(sorted(STATEMENTS)))
    def statement(self, source: str, statement: str) -> None:
        tables = STATEMENTS[statement][0]
        made = self.log.commit(source, [], ddl=lambda s, n: Ddl("shop", statement, s, n, DdlKind.OTHER, tables))
        self.edits[made.source, made.number] = []

    @rule(ordinals=st.sampled_from([1, 1, 2, 3, 8]))
    def read(self, ordinals: int) -> None:
        self.take(self.reader.read(ordinals))

    @rule()
    def heartbeat(self) -> None:
        self.take(self.reader.read(0, server_us=7))

    @rule(back=st.integers(0, 4))
    def restart(self, back: int) -> None:
        """From a place that was told: what was published behind it is published anew."""
        del self.told[max(len(self.told) - back, 1) :]
        place = self.told[-1]
        self.published = [(at, what) for at, what in self.published if at.order <= place.order]
        self.begin_at(place)

    @rule()
    def read_to_the_end(self) -> None:
        while self.reader.more:
            self.read(2)
        assert [what for _, what in self.published] == self.expected(self.reader.last)

    # ------------------------------------------------------------------ what must come out

    def admitted(self, one: Committed) -> bool:
        return not self.node or self.node not in one.path

    def expected(self, place: Position) -> list[tuple]:
        """All that the log says before the place, in order."""
        found: list[tuple] = []
        for one in self.log.transactions:
            if one.ddl is not None and one.place < place.offset:
                found.append((one.source, one.number, one.ddl.statement, STATEMENTS[one.ddl.statement][1]))
            if one.ddl is not None or not self.admitted(one):
                continue
            for ordinal, edit in enumerate(self.edits[one.source, one.number]):
                if (one.place, ordinal) < (place.offset, place.rows) and EDITS.get(edit):
                    found.append((one.source, one.number, ordinal, EDITS[edit]))
        return found

    def take(self, chunk: SourceChunk) -> None:
        for part in chunk.transactions:
            if part.ddl is None:
                self.parted[part.source, part.number] = None
        batches = published(self.machine, chunk)
        if not batches:
            assert chunk.last == self.told[-1] and not chunk.server_us and not any(t.rows for t in chunk.transactions)
            return
        (batch,) = batches
        assert batch.prev == self.told[-1] and batch.last == chunk.last, "the chain is unbroken"
        assert batch.resent is self.first, "the first batch answers the request to start here"
        self.first = False
        assert batch.end_us == (chunk.transactions[-1].commit_us if chunk.transactions else chunk.server_us)
        self.told.append(batch.last)
        self.shapes |= batch.shapes
        self.published += [(batch.last, what) for what in self.said(batch)]
        assert [what for _, what in self.published] == self.expected(batch.last)
        self.completeness(batch)

    def said(self, batch: LogBatch) -> list[tuple]:
        if batch.ddl is not None:
            assert not batch.rows, "rows or a statement, never both"
            return [(batch.ddl.source, batch.ddl.number, batch.ddl.statement, batch.ddl.kind)]
        names = {change.table: self.shapes[change.table].name for change in batch.rows}
        assert names.items() <= {0: TableName("public", "account"), 1: TableName("public", "note")}.items()
        ends = [t.first for t in batch.transactions[1:]] + [len(batch.rows)] * bool(batch.transactions)
        return [
            (one.source, one.number, change.ordinal, spelled(change))
            for one, end in zip(batch.transactions, ends, strict=True)
            for change in batch.rows[one.first : end]
        ]

    def completeness(self, batch: LogBatch) -> None:
        """A transaction is complete in the batch that its end is in; one that began in part is always told to end."""
        for one in batch.transactions:
            made = next(t for t in self.log.transactions if (t.source, t.number) == (one.source, one.number))
            assert one.complete == (made.end <= batch.last.offset) and one.commit_us == made.end
        if batch.transactions:
            self.left_open = not batch.transactions[-1].complete
        inside = next((t for t in self.log.transactions if t.place == batch.last.offset and batch.last.rows), None)
        given = inside is not None and (inside.source, inside.number) in self.parted
        assert self.left_open == (given and inside is not None and self.admitted(inside))


LONG = settings(max_examples=4000, stateful_step_count=50, deadline=None, report_multiple_bugs=False)
TestCapturing = Capturing.TestCase
TestCapturing.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, derandomize=True, report_multiple_bugs=False
)


@pytest.mark.proof
def test_capturing_at_length() -> None:
    run_state_machine_as_test(Capturing, settings=LONG)
