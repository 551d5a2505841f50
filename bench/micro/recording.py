"""Stretches of real servers' logs, kept beside this module, so that decoding is measured without a server.

    python -m bench.micro.recording [mariadb] [mysql]     # record anew; commit what it writes

*account*: the peers' table; whole statements of 500 rows, one-row transactions, and the *mix* workload as it is.
*eight*: 300-byte rows of eight columns, a JSON document among them; inserted 500 in a statement, and one by one.
*column*: a key and eight columns of one type, in transactions of 100 rows.  A stretch is the server's packets as they
came, from the end of one transaction to the end of another.
"""

from __future__ import annotations

import contextlib
import functools
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import pymysql
import zstandard

from bench.harness.decode import Span, captured
from bench.harness.servers import MariaDb, MySql
from bench.harness.session import connect
from bench.harness.workload.mix import Mix
from bench.micro import account
from tidelock.adapters.mysql import connection as server
from tidelock.adapters.mysql.binlog import log_ends
from tidelock.adapters.mysql.connection import Address
from tidelock.engine.model.records import Row

SCHEMA: Final = "bench"
FOLDER: Final = Path(__file__).parent / "data"
SERVERS: Final[dict[str, type[MariaDb | MySql]]] = {"mariadb": MariaDb, "mysql": MySql}
BULK_ROWS: Final = 500
SHAPE_ROWS: Final = 1_000
COLUMN_ROWS: Final = 100
COLUMNS_OF_A_TYPE: Final = 8
LEVEL: Final = 19

Connection: TypeAlias = "pymysql.Connection[Any]"

_WORDS: Final = ("wir", "fahren", "übers", "weite", "Meer", "bei", "Nacht", "und", "Wind", "潮", "и", "волна")
_EIGHT: Final = (
    "id bigint PRIMARY KEY, code varchar(40) UNIQUE, amount decimal(12,2), at datetime(6), doc json, n int, note text,"
    " flag tinyint"
)
TYPES: Final[dict[str, Callable[[random.Random], str]]] = {
    "int": lambda r: str(r.randrange(-(2**31), 2**31)),
    "bigint unsigned": lambda r: str(r.randrange(2**64)),
    "int, half NULL": lambda r: r.choice(("NULL", str(r.randrange(2**31)))),
    "decimal(12,2)": lambda r: f"{r.randrange(-(10**8), 10**8) / 100:.2f}",
    "decimal(38,10)": lambda r: f"{r.randrange(10**26)}.{r.randrange(10**10):010d}",
    "double": lambda r: repr(r.uniform(-1e6, 1e6)),
    "float": lambda r: f"{r.uniform(-100, 100):.3f}",
    "date": lambda r: f"'{r.randrange(1970, 2038)}-{r.randrange(1, 13):02d}-{r.randrange(1, 29):02d}'",
    "datetime": lambda r: _moment(r),
    "datetime(6)": lambda r: _moment(r, f".{r.randrange(10**6):06d}"),
    "timestamp(3)": lambda r: _moment(r, f".{r.randrange(1000):03d}"),
    "time(3)": lambda r: f"'{r.randrange(-800, 800)}:{r.randrange(60):02d}:13.{r.randrange(1000):03d}'",
    "year": lambda r: str(r.randrange(1970, 2100)),
    "varchar(40)": lambda r: f"'user{r.randrange(10**9)}@example.com'",
    "varchar(40), beyond ASCII": lambda r: f"'{' '.join(r.choices(_WORDS, k=3))}'",
    "varchar(40) character set latin1": lambda r: f"'müller{r.randrange(10**9)}'",
    "text": lambda r: "'" + " ".join(r.choices(_WORDS, k=20)) + "'",
    "varbinary(40)": lambda r: f"x'{r.randbytes(24).hex()}'",
    "enum('small','medium','large')": lambda r: str(r.randrange(1, 4)),
    "set('red','green','blue')": lambda r: str(r.randrange(8)),
    "bit(12)": lambda r: str(r.randrange(4096)),
    "json": lambda r: f'\'{{"a": {r.randrange(10**6)}, "b": "text {r.randrange(99)}", "c": [1, 2.5, null, true]}}\'',
    "point": lambda r: f"ST_GeomFromText('POINT({r.randrange(90)} {r.randrange(90)})')",
}


class Stretch(msgspec.Struct, frozen=True, array_like=True):
    """`packets`: of the log from `span.start` to `span.end`, holding `span.rows` rows."""

    span: Span
    packets: bytes


@functools.cache
def recorded(name: str) -> Mapping[str, Stretch]:
    """All stretches of a server's log, by what they hold."""
    packed = zstandard.ZstdDecompressor().decompress((FOLDER / f"{name}.log.zst").read_bytes(), 1 << 30)
    return msgspec.msgpack.decode(packed, type=dict[str, Stretch])


def record(name: str) -> Path:
    """Write the server's file anew, from a private server; returns its path."""
    with SERVERS[name]() as source:
        endpoint = Address(source.host, source.port, source.user, source.password)
        connection = server.connect(endpoint)
        server.rows(connection, "SET GLOBAL sync_binlog=0, GLOBAL innodb_flush_log_at_trx_commit=0")
        server.rows(connection, f"CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4")
        spans = [*_accounts(source.url(SCHEMA), connection), *_columns(connection)]
        found = {span.name: Stretch(span, captured(endpoint, span)) for span in spans}
        connection.close()
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.log.zst"
    path.write_bytes(zstandard.ZstdCompressor(LEVEL).compress(msgspec.msgpack.encode(found)))
    return path


def _accounts(url: str, connection: Connection) -> Iterator[Span]:
    """Everything that the shapes of events differ in, on the peers' account table."""
    session = connect(url)
    mix = Mix(peers=True)
    for statement in mix.ddl(session.flavor):
        session.send(statement)
    with _span(connection, "account/mix", SHAPE_ROWS) as done:
        mix.run(url, SHAPE_ROWS, 1)
    yield done()
    with _span(connection, "account/one-row transactions", SHAPE_ROWS) as done:
        for _ in range(SHAPE_ROWS):
            session.send(mix.transaction(1).statements[0])
    yield done()
    session.send("DELETE FROM account")
    bulks: dict[str, Callable[[int, int], str]] = {
        "inserts": lambda first, last: _insert("account", account.row, first, last),
        "updates": "UPDATE account SET balance=balance+1, updated_at=NOW(6) WHERE id BETWEEN {} AND {}".format,
        "deletes": "DELETE FROM account WHERE id BETWEEN {} AND {}".format,
    }
    for name, bulk in bulks.items():
        with _span(connection, f"account/bulk {name}", SHAPE_ROWS) as done:
            for at in range(0, SHAPE_ROWS, BULK_ROWS):
                session.send(bulk(at + 1, at + BULK_ROWS))
        yield done()
    session.send(f"CREATE TABLE eight ({_EIGHT}) CHARSET utf8mb4")
    for name, rows in (("bulk inserts", BULK_ROWS), ("one-row transactions", 1)):
        with _span(connection, f"eight/{name}", SHAPE_ROWS) as done:
            for at in range(0, SHAPE_ROWS, rows):
                session.send(_insert("eight", _eight, at + 1, at + rows))
        yield done()
        session.send("DELETE FROM eight")
    session.close()


@contextlib.contextmanager
def _span(connection: Connection, name: str, rows: int) -> Iterator[Callable[[], Span]]:
    """The stretch that is written inside, once that is done."""
    start = log_ends.current_position(connection)
    yield lambda: Span(name, start, end, rows)
    end = log_ends.current_position(connection)


def _insert(table: str, row: Callable[[int], Row], first: int, last: int) -> str:
    return f"INSERT INTO {table} VALUES " + ",".join(str(row(number)) for number in range(first, last + 1))


def _eight(number: int) -> Row:
    return (
        number,
        f"code-{number:09d}-{number * 7919 % 100_003}",
        f"{number * 37 % 1_000_000 / 100 - 5_000:.2f}",
        account.row(number)[3],
        f'{{"a": {number}, "b": "text {number}", "c": [1, 2.5, null]}}',
        number,
        f"{'some note text about the row ' * 4}{number}",
        number % 100,
    )


def _columns(connection: Connection) -> Iterator[Span]:
    rng = random.Random(1)
    for number, (type_, value) in enumerate(TYPES.items()):
        spec = type_.partition(", ")[0]
        columns = ", ".join(f"c{n} {spec}" for n in range(COLUMNS_OF_A_TYPE))
        server.rows(connection, f"CREATE TABLE {SCHEMA}.t{number} (id int PRIMARY KEY, {columns}) CHARSET utf8mb4")
        rows = (f"({n},{','.join(value(rng) for _ in range(COLUMNS_OF_A_TYPE))})" for n in range(COLUMN_ROWS))
        with _span(connection, f"column/{type_}", COLUMN_ROWS) as done:
            server.rows(connection, f"INSERT INTO {SCHEMA}.t{number} VALUES {','.join(rows)}")
        yield done()


def _moment(r: random.Random, fraction: str = "") -> str:
    clock = f"{r.randrange(24):02d}:{r.randrange(60):02d}:{r.randrange(60):02d}"
    return f"'{r.randrange(1971, 2037)}-{r.randrange(1, 13):02d}-{r.randrange(1, 29):02d} {clock}{fraction}'"


def main(names: Sequence[str]) -> None:
    for name in names or SERVERS:
        path = record(name)
        print(f"{path.name}: {path.stat().st_size:,} bytes, {len(recorded(name))} stretches", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
