"""Stretches of a real PostgreSQL's log as `pgoutput` tells it, kept beside this module.

    python -m bench.micro.logical_recording     # record anew; commit what it writes

*account*: the peers' table under REPLICA IDENTITY FULL and DEFAULT; statements of 500 rows, and one-row transactions.
*unwanted*: the same inserts, of a table that no feed wants.  *kinds*: a column of each kind, with NULLs and long
values, inserted, updated and deleted.  *column*: a key and eight columns of one type.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import zstandard

from bench.harness.logical import Log, log
from bench.harness.servers import Postgres
from tidelock.adapters.postgres.logical.messages import DELETE, INSERT, RELATION, UPDATE
from tidelock.adapters.postgres.logical.relation_catalogue import RelationCatalogue
from tidelock.engine.model.records import Position

PATH: Final = Path(__file__).parent / "data/postgres.log.zst"
DATABASE: Final = "bench"
LEVEL: Final = 19
BULK_ROWS: Final = 500
SHAPE_ROWS: Final = 1_000
COLUMN_ROWS: Final = 100
COLUMNS_OF_A_TYPE: Final = 8

_ACCOUNT: Final = (
    "(id bigint PRIMARY KEY, email varchar(64) NOT NULL, balance numeric(12,2), updated_at timestamp(6), payload text)"
)
_ROWS: Final = (
    "SELECT i, 'user' || i || '@example.com', (i * 7919 % 1000000) / 100.0, "
    "timestamp '2026-01-01' + i * interval '1.000017 s', repeat(md5(i::text), 3) FROM generate_series({}, {}) i"
)
TYPES: Final[Mapping[str, Callable[[random.Random], str]]] = {
    "integer": lambda r: str(r.randrange(-(2**31), 2**31)),
    "bigint": lambda r: str(r.randrange(-(2**63), 2**63)),
    "numeric(12,2)": lambda r: f"{r.randrange(-(10**8), 10**8) / 100:.2f}",
    "numeric": lambda r: f"{r.randrange(10**9)}.{r.randrange(10**4)}",
    "double precision": lambda r: repr(r.uniform(-1e6, 1e6)),
    "real": lambda r: f"{r.uniform(-100, 100):.3f}",
    "boolean": lambda r: r.choice(("true", "false")),
    "date": lambda r: f"'{r.randrange(1970, 2038)}-{r.randrange(1, 13):02d}-{r.randrange(1, 29):02d}'",
    "timestamp(6)": lambda r: f"'2026-{r.randrange(1, 13):02d}-11 10:{r.randrange(60):02d}:13.{r.randrange(10**6)}'",
    "timestamp(3) with time zone": lambda r: f"'2026-{r.randrange(1, 13):02d}-11 10:{r.randrange(60):02d}:13+02'",
    "varchar(40)": lambda r: f"'user{r.randrange(10**9)}@example.com'",
    "text": lambda r: "'" + " ".join(r.choices(("wir", "fahren", "übers", "weite", "Meer", "潮"), k=20)) + "'",
    "char(20)": lambda r: f"'code{r.randrange(10**9)}'",
    "bytea": lambda r: f"'\\x{r.randbytes(24).hex()}'",
    "bit(12)": lambda r: f"B'{r.randrange(4096):012b}'",
    "uuid": lambda r: f"'{r.randbytes(16).hex()}'",
    "jsonb": lambda r: f'\'{{"a": {r.randrange(10**6)}, "b": [1, 2.5, null, true]}}\'',
}


class Stretch(msgspec.Struct, frozen=True, array_like=True):
    """`messages`: as (LSN, message), from `start` on, with `rows` rows.  `facts`: what the catalogue said, by oid."""

    start: Position
    rows: int
    messages: tuple[tuple[int, bytes], ...]
    facts: dict[int, RelationCatalogue]

    def catalogue(self, oid: int, types: Sequence[int]) -> RelationCatalogue:
        """As it said then."""
        return self.facts[oid]


@functools.cache
def recorded() -> Mapping[str, Stretch]:
    """All stretches, by what they hold."""
    packed = zstandard.ZstdDecompressor().decompress(PATH.read_bytes(), 1 << 30)
    return msgspec.msgpack.decode(packed, type=dict[str, Stretch])


def record() -> None:
    """Write the file anew, from a private server."""
    with Postgres() as server:
        database = server.database(DATABASE)
        with log(server, database) as made:
            found = dict(_accounts(made)) | dict(_kinds(made)) | dict(_columns(made))
    PATH.write_bytes(zstandard.ZstdCompressor(LEVEL).compress(msgspec.msgpack.encode(found)))


def _stretch(made: Log, statements: Sequence[str]) -> Stretch:
    made.run(statements)
    messages = made.messages()
    told = {int.from_bytes(data[1:5]): data for _, data in messages if data[0] == RELATION}
    facts = {oid: made.catalogue(oid, _types(made, oid)) for oid in told}
    start = Position(made.start.file, messages[0].lsn if messages else made.start.offset)
    rows = sum(data[0] in (INSERT, UPDATE, DELETE) for _, data in messages)
    return Stretch(start, rows, tuple((message.lsn, message.data) for message in messages), facts)


def _types(made: Log, oid: int) -> list[int]:
    rows = made.ask("SELECT atttypid::bigint FROM pg_attribute WHERE attrelid = $1::oid AND attnum > 0", (oid,))
    return [row[0] for row in rows if row[0]]


def _accounts(made: Log) -> Iterator[tuple[str, Stretch]]:
    for name, identity in (("whole", "FULL"), ("by_key", "DEFAULT"), ("unwanted", "DEFAULT")):
        made.run([f"CREATE TABLE {name} {_ACCOUNT}", f"ALTER TABLE {name} REPLICA IDENTITY {identity}"])
        made.messages()
        bulks = range(0, SHAPE_ROWS, BULK_ROWS)
        inserts = [f"INSERT INTO {name} " + _ROWS.format(at + 1, at + BULK_ROWS) for at in bulks]
        yield f"{name}/bulk inserts", _stretch(made, inserts)
        if name == "unwanted":
            return
        between = [f"WHERE id BETWEEN {at + 1} AND {at + BULK_ROWS}" for at in bulks]
        updates = [f"UPDATE {name} SET balance = balance + 1, updated_at = now() {one}" for one in between]
        yield f"{name}/bulk updates", _stretch(made, updates)
        yield f"{name}/bulk deletes", _stretch(made, [f"DELETE FROM {name} {one}" for one in between])
        singles = [f"INSERT INTO {name} " + _ROWS.format(at, at) for at in range(1, SHAPE_ROWS + 1)]
        yield f"{name}/one-row transactions", _stretch(made, singles)


def _kinds(made: Log) -> Iterator[tuple[str, Stretch]]:
    """Small transactions with everything in them, for tests of the two forms."""
    columns = ", ".join(f'c{place} {type_}' for place, type_ in enumerate(TYPES))
    for name, identity in (("whole", "FULL"), ("by_key", "DEFAULT")):
        table, random_ = f"kinds_{name}", random.Random(7)
        made.run(
            [
                f"CREATE TABLE {table} (id int PRIMARY KEY, {columns}, long text)",
                f"ALTER TABLE {table} ALTER long SET STORAGE EXTERNAL",
                f"ALTER TABLE {table} REPLICA IDENTITY {identity}",
            ]
        )
        made.messages()
        statements = []
        for number in range(12):
            values = ", ".join("NULL" if random_.random() < 0.2 else draw(random_) for draw in TYPES.values())
            long = "repeat('long', 700)" if number % 3 == 0 else "'short'"
            statements.append(f"INSERT INTO {table} VALUES ({number}, {values}, {long})")
        statements += [
            f"UPDATE {table} SET c0 = coalesce(c0, 0) / 2 + 1 WHERE id < 6",
            f"UPDATE {table} SET id = id + 100 WHERE id > 8",
            f"UPDATE {table} SET c0 = c0",
            f"DELETE FROM {table} WHERE id % 2 = 0",
            f"TRUNCATE {table}",
            "SELECT pg_logical_emit_message(true, 'other', 'a message')",
        ]
        yield f"kinds/{name}", _stretch(made, statements)


def _columns(made: Log) -> Iterator[tuple[str, Stretch]]:
    random_ = random.Random(11)
    for number, (type_, draw) in enumerate(TYPES.items()):
        table = f"column_{number}"
        columns = ", ".join(f"c{place} {type_}" for place in range(COLUMNS_OF_A_TYPE))
        made.run([f"CREATE TABLE {table} (id int PRIMARY KEY, {columns})"])
        rows = [
            f"({row}, {', '.join(draw(random_) for _ in range(COLUMNS_OF_A_TYPE))})" for row in range(COLUMN_ROWS)
        ]
        made.messages()
        yield f"column/{type_}", _stretch(made, [f"INSERT INTO {table} VALUES {', '.join(rows)}"])


if __name__ == "__main__":
    record()
