"""Rows that a copy reads are, value by value, those that the log would give; which rows, and when, is told exactly."""

import asyncio
import struct
import threading
from collections import defaultdict
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import msgspec
import pytest

from bench.harness.decode import read
from bench.harness.servers import MariaDb, MySql, Server
from bench.harness.session import Flavor
from bench.harness.value_tables import Keyed, Keyless, Keys, Long, Named
from bench.harness.values import ZONE, column_values
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.loader import read as read_feed
from tidelock.adapters.mysql import connection as server
from tidelock.adapters.mysql.binlog import log_ends
from tidelock.adapters.mysql.binlog.visible import wait_until_visible
from tidelock.adapters.mysql.connection import reader_endpoint
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.row_copy.columns import TooLong
from tidelock.adapters.row_copy.direct import rows_of_chunk
from tidelock.adapters.row_copy.job import FETCH_BYTES, Job
from tidelock.adapters.row_copy.source import CopySource, sources
from tidelock.adapters.spark.jdbc import Database
from tidelock.adapters.wiring.source_tables import tables_of
from tidelock.adapters.wiring.sources import source_of
from tidelock.engine.capture.machine import CaptureMachine
from tidelock.engine.capture.mapping import Mapping, Rule
from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.model.records import Position, Row, TableName
from tidelock.engine.protocol.effects import Publish
from tidelock.engine.protocol.events import SourceRead

SOURCES = ["mariadb", "mysql"]


def feed_of(source: Server, tables: str, target: str = "postgresql://nobody@127.0.0.1:1/none") -> Feed:
    return read_feed(f"feed: f\nsource: {source.url()}\ntarget: {target}\ntables: {tables}\n", Path("feed.yaml"))


def here(source: Server) -> Position:
    connection = server.connect(reader_endpoint(feed_of(source, "[{source: a.b}]").source_url))
    try:
        return log_ends.current_position(connection)
    finally:
        connection.close()


def found(feed: Feed, names: list[TableName]) -> dict[TableName, CopySource]:
    with tables_of(feed.source_url) as asked:
        return asyncio.run(sources(feed, asked, names))


def read_rows(feed: Feed, spark: Any, source: CopySource) -> list[Row]:
    """Through Spark, as the task of a chunk has them."""
    frame = Job(source, ChunkSplit(source.target), (0,), ()).frame(spark, Database(feed.source_url))
    columns = source.reading.columns()
    rows = []
    for batch in frame.toArrow().to_batches():
        rows += zip(*columns([column.to_pylist() for column in batch.columns]), strict=True)
    return rows


def direct_rows(feed: Feed, source: CopySource) -> list[Row]:
    """Through one connection, as those of a small table come."""
    return [row for batch in direct_batches(feed, source) for row in batch]


def direct_batches(feed: Feed, source: CopySource) -> list[list[Row]]:
    with tables_of(feed.source_url) as server:
        batches = rows_of_chunk(server, source, ChunkSplit(source.target), 0)
        return [list(zip(*batch, strict=True)) for batch in batches]


def logged_rows(feed: Feed, rules: list[Rule], start: Position, end: Position) -> dict[TableName, list[Row]]:
    """The rows that were inserted, as the capture machine publishes them."""
    mapping = Mapping(rules)
    machine = CaptureMachine(mapping, start, "test")
    shapes, rows = {}, defaultdict(list)
    for chunk in read(reader_endpoint(feed.source_url), start, end, wanted=mapping.selects):
        for effect in machine.step(0, [SourceRead([chunk])]):
            if isinstance(effect, Publish):
                shapes |= effect.batch.shapes
                for change in effect.batch.rows:
                    rows[shapes[change.table].name].append(change.after)
    return rows


def exactly(row: Row) -> list[Any]:
    """Equal where the values are the same to the last bit."""
    return [
        struct.pack("<d", value) if isinstance(value, float) else (type(value).__name__, value) for value in row
    ]


@pytest.mark.parametrize(
    ("name", "by_spark"),
    [
        pytest.param("mariadb", True, id="mariadb"),
        pytest.param("mysql", False, id="mysql"),
        pytest.param("mysql", True, id="mysql-spark", marks=pytest.mark.proof),
    ],
)
def test_each_value_is_the_logs(name: str, by_spark: bool, spark: Any, request: pytest.FixtureRequest) -> None:
    source: MariaDb | MySql = request.getfixturevalue(name)
    shop = source.database("value")
    columns = column_values(Flavor(name))
    named = Named(shop)
    keys = Keys(columns)
    keyed = {column.name for column in keys.columns}  # of the types of `Keyed`, and each would be a job of Spark
    parts = (Keyed(columns, Flavor.POSTGRES), Keyless(columns, Flavor.POSTGRES), keys, Long(), named)
    source.execute_script(
        ";".join([f"SET sql_mode = '', time_zone = '{ZONE}'", *(ddl for part in parts for ddl in part.ddl)]),
        database=shop,
    )
    start = here(source)
    for part in parts:
        statements = [f"SET sql_mode = '', time_zone = '{ZONE}'", *part.before()]
        source.execute_script(";".join(statements), database=shop)
    source.execute_script("SET sql_mode = @@global.sql_mode, time_zone = @@global.time_zone", database=shop)
    feed = feed_of(source, f"[{{source: '{shop}.*'}}, {{source: {quoted(named.schema + '.*')}}}]")
    logged = logged_rows(feed, [Rule(f"{s}.*", f"{s}.*") for s in (shop, named.schema)], start, here(source))
    assert len(logged) > 40
    for target, table in found(feed, list(logged)).items():
        wanted = sorted(map(exactly, logged[target]), key=str)
        if by_spark and target.table not in keyed:
            assert sorted(map(exactly, read_rows(feed, spark, table)), key=str) == wanted, target
        assert sorted(map(exactly, direct_rows(feed, table)), key=str) == wanted, target


def quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


@pytest.mark.parametrize("name", SOURCES)
def test_random_values_are_the_logs(name: str, spark: Any, request: pytest.FixtureRequest) -> None:
    """Covers types that one side spells from bytes and the other from text, and every byte of the common charsets."""
    source: MariaDb | MySql = request.getfixturevalue(name)
    shop, chance = source.database("value"), Random(name)
    source.execute_script("SET sql_mode = ''", database=shop)
    types = RANDOM if name == "mysql" else RANDOM | OF_MARIADB
    columns = ", ".join(f"c{n} {type_}" for n, type_ in enumerate(types))
    source.execute(f"CREATE TABLE t (id int PRIMARY KEY, {columns})", database=shop)
    start = here(source)
    rows = (f"({n}, {', '.join(value(chance) for value in types.values())})" for n in range(256))
    source.execute(f"INSERT INTO t VALUES {', '.join(rows)}", database=shop)
    source.execute_script("SET sql_mode = @@global.sql_mode", database=shop)
    feed = feed_of(source, f"[{{source: {shop}.t}}]")
    target = TableName(shop, "t")
    logged = logged_rows(feed, [Rule(f"{shop}.t", f"{shop}.t")], start, here(source))[target]
    table = found(feed, [target])[target]
    for rows in (read_rows(feed, spark, table), direct_rows(feed, table)):
        assert [exactly(row) for row in sorted(rows)] == [exactly(row) for row in sorted(logged)]


def hexed(chance: Random, size: int) -> str:
    return f"x'{chance.randbytes(size).hex()}'"


def text_of(charset: str, most: int = 255) -> Callable[[Random], str]:
    return lambda chance: f"_{charset} x'{bytes(chance.randint(1, most) for _ in range(30)).hex()}'"


RANDOM: dict[str, Callable[[Random], str]] = {
    "double": lambda chance: repr(chance.uniform(-1, 1) * 10 ** chance.randint(-300, 300)),
    "float": lambda chance: repr(chance.uniform(-1, 1) * 10 ** chance.randint(-37, 37)),
    "float(9,4)": lambda chance: repr(round(chance.uniform(-99999, 99999), 4)),
    "double(22,5)": lambda chance: repr(chance.uniform(-1, 1) * 10 ** chance.randint(0, 16)),
    "decimal(20,6)": lambda chance: f"{chance.uniform(-1, 1) * 10 ** chance.randint(0, 13):.6f}",
    "bigint": lambda chance: str(chance.randint(-(2**63), 2**63 - 1)),
    "bigint unsigned": lambda chance: str(chance.randint(0, 2**64 - 1)),
    "bit(64)": lambda chance: str(chance.randint(0, 2**64 - 1)),
    "bit(17)": lambda chance: str(chance.randint(0, 2**17 - 1)),
    "decimal(9,2) zerofill": lambda chance: f"{chance.uniform(0, 99999):.2f}",
    "varchar(30) character set latin1": text_of("latin1"),
    "varchar(30) character set ascii": text_of("ascii", 127),
    "varchar(30) character set cp1251": text_of("cp1251"),
    "text character set koi8r": text_of("koi8r"),
    "char(30) character set latin2": text_of("latin2"),
    "varbinary(20)": lambda chance: hexed(chance, 20),
    "binary(20)": lambda chance: hexed(chance, chance.randint(0, 20)),
}
OF_MARIADB: dict[str, Callable[[Random], str]] = {
    "uuid": lambda chance: f"'{UUID(bytes=chance.randbytes(16))}'",
    "inet4": lambda chance: f"'{IPv4Address(chance.randbytes(4))}'",
    "inet6": lambda chance: f"'{IPv6Address(bytes(chance.choice((0, 0, 0, 1, 255)) for _ in range(16)))}'",
}


@pytest.mark.parametrize("name", SOURCES)
def test_values_longer_than_a_packet_are_whole_or_an_error(name: str, request: pytest.FixtureRequest) -> None:
    source: MariaDb | MySql = request.getfixturevalue(name)
    shop = source.database("value")
    longs = "t longtext CHARACTER SET gbk, l longtext CHARACTER SET latin1, u longtext, b longblob, j json"
    source.execute(f"CREATE TABLE t (id int PRIMARY KEY, {longs})", database=shop)
    source.execute(f"INSERT INTO t VALUES (1{4 * ', REPEAT(0x61, 2000000)'}, '[]')", database=shop)
    source.execute("CREATE TABLE d (id int PRIMARY KEY, j json)", database=shop)
    source.execute("INSERT INTO d VALUES (1, JSON_ARRAY(REPEAT('a', 2000000)))", database=shop)
    feed = feed_of(source, f"[{{source: {shop}.*}}]")
    texts, documents = found(feed, [TableName(shop, "t"), TableName(shop, "d")]).values()
    source.execute("SET GLOBAL max_allowed_packet = 1048576")
    try:
        text = 2_000_000 * "a"
        assert direct_rows(feed, texts) == [(1, text, text, text, text.encode(), "[]")]
        if name == "mysql":
            with pytest.raises(TooLong, match=r"column j: a JSON document is longer"):
                direct_rows(feed, documents)
        else:
            assert direct_rows(feed, documents) == [(1, f'["{text}"]')]
    finally:
        source.execute("SET GLOBAL max_allowed_packet = 67108864")


def test_only_the_rows_and_columns_of_the_feed(mariadb: MariaDb, spark: Any) -> None:
    shop = mariadb.database("value")
    mariadb.execute("CREATE TABLE t (id int PRIMARY KEY, mail text, note text, region char(2))", database=shop)
    values = "(1, 'a', 'x', 'eu'), (2, 'b', NULL, 'us'), (3, NULL, 'y', 'eu')"
    mariadb.execute(f"INSERT INTO t VALUES {values}", database=shop)
    target = TableName(shop, "u")
    columns = "columns: {exclude: [note], rename: {mail: email}}"
    all_of_them = [(1, "a", "eu"), (2, "b", "us"), (3, None, "eu")]
    for where, rows in (("", all_of_them), ("region = 'eu' AND note > ''", [all_of_them[0], all_of_them[2]])):
        filter_ = f', where: "{where}"' if where else ""
        feed = feed_of(mariadb, f"[{{source: {shop}.t, target: {shop}.u, {columns}{filter_}}}]")
        source = found(feed, [target])[target]
        assert [column.name for column in source.mapping.shape.columns] == ["id", "email", "region"]
        assert sorted(read_rows(feed, spark, source)) == rows
        assert sorted(direct_rows(feed, source)) == rows
        assert len(source.read) == (4 if where else 3)


@pytest.mark.parametrize("name", SOURCES)
def test_values_are_the_logs_whatever_the_servers_sql_mode_is(name: str, request: pytest.FixtureRequest) -> None:
    """A table without a key is read in a view, in a session of its own."""
    source: MariaDb | MySql = request.getfixturevalue(name)
    shop = source.database("value")
    source.execute("CREATE TABLE t (c char(9) PRIMARY KEY)", database=shop)
    source.execute("INSERT INTO t VALUES ('a')", database=shop)
    feed, target = feed_of(source, f"[{{source: {shop}.t}}]"), TableName(shop, "t")
    table = found(feed, [target])[target]
    ((before,),) = source.execute("SELECT @@GLOBAL.sql_mode")
    source.execute("SET GLOBAL sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'")
    try:
        assert direct_rows(feed, table) == [("a",)]
        with source_of(feed.source_url).view(target) as view:
            assert view is not None and list(view.batches(f"SELECT c FROM {shop}.t", 10)) == [[("a",)]]
    finally:
        source.execute(f"SET GLOBAL sql_mode = '{before}'")


def test_a_direct_read_holds_few_rows_at_once(mariadb: MariaDb) -> None:
    """Of a table that has grown, and of one whose rows are longer than the statistics say."""
    shop = mariadb.database("value")
    mariadb.execute("CREATE TABLE many (id int PRIMARY KEY)", database=shop)
    mariadb.execute("INSERT INTO many SELECT seq FROM seq_1_to_25000", database=shop)
    mariadb.execute("CREATE TABLE wide (id int PRIMARY KEY, t longtext)", database=shop)
    long = "SELECT seq, REPEAT('a', IF(seq = 4, 9, 3) << 20) FROM seq_1_to_5"
    mariadb.execute(f"INSERT INTO wide {long}", database=shop)
    feed = feed_of(mariadb, f"[{{source: {shop}.*}}]")
    many, wide = found(feed, [TableName(shop, "many"), TableName(shop, "wide")]).values()
    batches = direct_batches(feed, many)
    assert [len(batch) for batch in batches] == [10_000, 10_000, 5_000]
    assert sorted(row[0] for batch in batches for row in batch) == list(range(1, 25_001))
    lengths = [[len(text) for _, text in batch] for batch in direct_batches(feed, wide)]
    assert lengths == [[3 << 20, 3 << 20], [3 << 20], [9 << 20], [3 << 20]]
    assert all(sum(batch) <= FETCH_BYTES for batch in lengths if len(batch) > 1)


@pytest.mark.parametrize("name", SOURCES)
def test_reading_waits_until_the_log_is_visible(name: str, request: pytest.FixtureRequest) -> None:
    source: MariaDb | MySql = request.getfixturevalue(name)
    shop = source.database("value")
    source.execute("CREATE TABLE t (id int PRIMARY KEY)", database=shop)
    asking = server.connect(reader_endpoint(feed_of(source, f"[{{source: {shop}.t}}]").source_url))
    source.execute("INSERT INTO t VALUES (1)", database=shop)
    wait_until_visible(asking, here(source), 5)
    no_transaction = msgspec.structs.replace(here(source), offset=here(source).offset + 1)
    wait_until_visible(asking, no_transaction, 5)
    later = following(here(source))
    with pytest.raises(SourceError, match=r"cannot be read from the tables after 0\.2 s"):
        wait_until_visible(asking, later, 0.2)
    waiting = threading.Thread(target=wait_until_visible, args=(asking, later, 30))
    waiting.start()
    source.execute("INSERT INTO t VALUES (2)", database=shop)
    waiting.join(10)
    assert not waiting.is_alive()
    source.execute("FLUSH BINARY LOGS")  # a new file, and no transaction in it
    wait_until_visible(asking, here(source), 5)
    asking.close()


def following(place: Position) -> Position:
    """Behind one more transaction.  MySQL's set may end with tagged ones, `UUID:1-5:blue:1`, of another test."""
    if ":" in place.gtids:
        uuid, untagged = place.gtids.split(":")[:2]
        gtids = f"{place.gtids},{uuid}:{int(untagged.rpartition('-')[2]) + 1}"
    else:
        head, _, last = place.gtids.rpartition("-")
        gtids = f"{head}-{int(last) + 1}"
    return msgspec.structs.replace(place, offset=place.offset + 1, gtids=gtids)
