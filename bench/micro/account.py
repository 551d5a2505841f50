"""The account table of the peers' workload, and a modelled log of changes to it with a known share of conflicts.

A *conflict* is a change that touches a key or a unique value which one of the ten changes before it touched: a row is
deleted soon after it was written, and a new row takes its email at once.  All other changes are two inserts of new rows
to each update of an old row that nothing else touches.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Column, Kind, Position, Row, RowChange, Shape, TableName, Transaction
from tidelock.engine.model.schema import Binding, Equality, TargetColumn, TargetTable, UniqueKey
from tidelock.engine.parallel.segments import Change

ACCOUNT: Final = TableName("bench", "account")
SHAPE: Final = Shape(
    ACCOUNT,
    (
        Column("id", Kind.INT, length=8),
        Column("email", Kind.TEXT, length=64),
        Column("balance", Kind.DECIMAL, precision=12, scale=2),
        Column("updated_at", Kind.DATETIME, scale=6),
        Column("payload", Kind.TEXT, length=200),
    ),
    ("id",),
)
TYPES: Final = {
    "postgres": ("bigint", "character varying(64)", "numeric(12,2)", "timestamp(6) without time zone", "text"),
    "mysql": ("bigint", "varchar(64)", "decimal(12,2)", "datetime(6)", "varchar(200)"),
}
SHARES: Final = (0, 1, 40, 100)
"""Per cent of conflicts that are measured."""
TABLE_NUMBER: Final = 0
CHUNK_ROWS: Final = 500
RECENT: Final = 10
HOT_ROWS: Final = 10
LARGE_ROWS: Final = 50


def target(dialect: str = "postgres", *, unique: bool = True) -> TargetTable:
    """`unique`: with its second unique key, the email."""
    columns = tuple(
        TargetColumn(column.name, type_, column.name not in ("id", "email"), equality=Equality.EXACT)
        for column, type_ in zip(SHAPE.columns, TYPES[dialect], strict=True)
    )
    primary, email = UniqueKey("PRIMARY", ("id",)), UniqueKey("email", ("email",))
    return TargetTable(ACCOUNT, columns, ("id",), (primary, email) if unique else (primary,))


def binding(dialect: str = "postgres", *, unique: bool = True) -> Binding:
    return Binding(TABLE_NUMBER, SHAPE, target(dialect, unique=unique))


def ddl(dialect: str, *, unique: bool) -> str:
    """The table at a target, with or without its second unique key."""
    specs = [f"{column.name} {type_}" for column, type_ in zip(SHAPE.columns, TYPES[dialect], strict=True)]
    keys = ["PRIMARY KEY (id)", "UNIQUE (email)"][: 1 + unique]
    return f"CREATE TABLE {ACCOUNT} ({', '.join([*specs, *keys])})"


def row(number: int, email: str = "") -> Row:
    """About 130 bytes; nothing repeats that would not repeat in a real table."""
    return (
        number,
        email or f"user{number}@example.com",
        f"{number * 37 % 1_000_000}.{number % 100:02d}",
        f"2026-03-{1 + number % 28:02d} {number % 24:02d}:{number % 60:02d}:{number * 7 % 60:02d}.{number % 10**6:06d}",
        f"payload {number:04d} " + "x" * (number % 150),
    )


def changes(count: int, conflicts: int, seed: int = 1) -> Iterator[tuple[Row | None, Row | None]]:
    """(before, after) of `count` changes, `conflicts` per cent of which conflict."""
    rng = random.Random(seed)
    recent: deque[tuple[int, Row]] = deque(maxlen=RECENT)
    begins = conflicts / (200 - conflicts)  # conflicts come in twos
    freed: str | None = None
    new = 1_000_000
    for number in range(count):
        before: Row | None = None
        after: Row | None = None
        while recent and recent[0][0] < number - RECENT:
            recent.popleft()
        if freed is not None:
            new += 1
            after, freed = row(new, freed), None
        elif recent and rng.random() < begins:
            at = rng.randrange(len(recent))
            before = recent[at][1]
            del recent[at]
            freed = str(before[1])
        elif number % 3 < 2:
            new += 1
            after = row(new)
        else:
            before = row(number)
            after = (*before[:2], "1.00", *before[3:])
        if after is not None:
            recent.append((number, after))
        yield before, after


def log(count: int, conflicts: int) -> list[LogBatch]:
    """The changes as batches of a log."""
    return _logged(changes(count, conflicts))


def hot_log(count: int) -> list[LogBatch]:
    """Updates of the same ten rows, again and again."""
    return _logged((row(number % HOT_ROWS), row(number % HOT_ROWS)) for number in range(count))


def _logged(changes: Iterable[tuple[Row | None, Row | None]]) -> list[LogBatch]:
    """Half of the changes in one-row transactions and half in transactions of 50 rows."""
    batches: list[LogBatch] = []
    rows: list[RowChange] = []
    transactions: list[Transaction] = []
    last = Position("log.000001", 4)
    sizes, left = _sizes(), 0
    for number, (before, after) in enumerate(changes):
        if left == 0:
            if len(rows) >= CHUNK_ROWS:
                batches.append(_batch(last, rows, transactions))
                last, rows, transactions = batches[-1].last, [], []
            left = size = next(sizes)
            transactions.append(Transaction("0-1", number, len(rows), True, 1))
        rows.append(RowChange(TABLE_NUMBER, before, after, size - left))
        left -= 1
    batches.append(_batch(last, rows, transactions))
    batches[0].shapes[TABLE_NUMBER] = SHAPE
    batches[0].resent = True  # as a reader's first
    return batches


def _sizes() -> Iterator[int]:
    while True:
        yield from [1] * LARGE_ROWS
        yield LARGE_ROWS


def _batch(prev: Position, rows: Sequence[RowChange], transactions: Sequence[Transaction]) -> LogBatch:
    last = Position(prev.file, prev.offset + 200 * len(rows))
    return LogBatch(prev, last, tuple(transactions), tuple(rows), {}, end_us=1)


def on_their_way(batches: Sequence[LogBatch], table: Binding) -> list[Change]:
    """The rows as the engine's stages pass them on."""
    return [Change.of(table, change, batch.transactions[0]) for batch in batches for change in batch.rows]
