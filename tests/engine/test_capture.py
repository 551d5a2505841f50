"""The capture machine: a source's chunks become the batches of the log."""

from typing import Any

from engine.capture import CaptureMachine
from engine.effects import Publish
from engine.events import SourceRead, Tick
from engine.filter import Compare
from engine.mapping import Mapping, Rule
from engine.records import (
    Column,
    Ddl,
    DdlKind,
    Kind,
    LogBatch,
    Position,
    Row,
    RowChange,
    Shape,
    SourceChunk,
    SourceTransaction,
    TableName,
    Transaction,
)

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
    return ((9, ("shop", 0, 1, 1, b"", origin, path)),)


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

    def statement(number: int, *tables: TableName) -> SourceTransaction:
        ddl = Ddl("shop", "ALTER TABLE …", "0-1", number, DdlKind.OTHER, tables)
        return transaction(number, ddl=ddl)

    kinds = [
        batch.ddl.kind
        for batch in published(
            taken,
            chunk(100, statement(1, ACCOUNT.name)),
            chunk(200, statement(2, SECRET.name)),
            chunk(300, statement(3)),
        )
        if batch.ddl is not None
    ]
    assert kinds == [DdlKind.OTHER, DdlKind.UNRELATED, DdlKind.OTHER]
