"""Each row of a table is in exactly one chunk: the source's SQL and the ledger agree about every one."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.harness.servers import Server
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.loader import read as read_feed
from tidelock.adapters.mysql.schema import tables_of
from tidelock.adapters.ports.sink import Wanted
from tidelock.adapters.row_copy import splitting
from tidelock.adapters.row_copy.keyed import rows_of_keys
from tidelock.adapters.row_copy.scans import Scans
from tidelock.adapters.row_copy.selection import condition, listed, place
from tidelock.adapters.row_copy.source import CopySource, NotCopied, sources
from tidelock.adapters.row_copy.task import by_column
from tidelock.adapters.spark import keys
from tidelock.adapters.wiring.source_tables import MySqlTables, connect
from tidelock.engine.model.chunk_ranges import By, ChunkSplit, chunk_of
from tidelock.engine.model.records import Position, Row, TableName
from tidelock.engine.model.schema import Equality, TargetColumn, TargetTable
from tidelock.engine.protocol.effects import EffectId, ReadChunk

SOURCES = ["mariadb", "mysql"]
ROWS = 60


class Catalogued:
    """A source's tables, as if the target had the same."""

    def __init__(self, source: Server, shop: str, tables: str = "", chunk_rows: int = 10) -> None:
        rules = tables or f"[{{source: {shop}.*}}]"
        text = f"feed: f\nsource: {source.url()}\ntarget: postgresql://nobody@127.0.0.1:1/none\ntables: {rules}\n"
        feed = read_feed(text, Path("feed.yaml"))
        self.feed: Feed = replace(feed, copy=replace(feed.copy, chunk_rows=chunk_rows))  # fewer than a feed may say
        self.asked = connect(self.feed.source_url)
        self.shop = shop

    def name(self, table: str) -> TableName:
        return TableName(self.shop, table)

    def split(self, *tables: str, mode: str = "copy", wanted: tuple[Row, ...] = ()) -> tuple[ChunkSplit, ...]:
        names = [self.name(table) for table in tables]
        assert isinstance(self.asked, MySqlTables)
        there = asyncio.run(tables_of(self.asked.server, names))
        wishes = [Wanted(n, name, mode, key) for n, name in enumerate(names) for key in wanted or (None,)]
        return asyncio.run(splitting.splits(self.feed, self.asked, wishes, there))

    def source(self, table: str) -> CopySource:
        return asyncio.run(sources(self.feed, self.asked, [self.name(table)]))[self.name(table)]

    def rows(self, source: CopySource, where: str) -> list[Row]:
        """As the ledger sees them."""
        sql = f"SELECT {listed(source.read)} FROM {source.place} t WHERE {where}"
        came = by_column(self.asked.rows(sql), len(source.read))
        return list(zip(*source.reading.columns()(came), strict=True))


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest) -> Server:
    return request.getfixturevalue(request.param)


# name → (columns and key, values of row n, what it is split by)
TABLES = {
    "signed": ("n bigint PRIMARY KEY", lambda n: f"{(n - 30) * 307445734561825860}", By.NUMBERS),
    "positive": ("n bigint unsigned PRIMARY KEY", lambda n: f"{n * 307445734561825860}", By.NUMBERS),
    "filled": ("n int(8) unsigned zerofill PRIMARY KEY", lambda n: f"{n * 7}", By.NUMBERS),
    "small": ("n tinyint(1) PRIMARY KEY", lambda n: f"{n - 30}", By.NUMBERS),
    "pair": ("a int, b mediumint unsigned, PRIMARY KEY (a, b)", lambda n: f"{n // 7 - 3}, {n % 7}", By.NUMBERS),
    "skewed": ("a int, b int, PRIMARY KEY (a, b)", lambda n: f"{0 if n < 50 else n}, {n}", By.NUMBERS),
    "led": ("a int, b varchar(9), PRIMARY KEY (a, b)", lambda n: f"{n // 5}, 'b{n}'", By.NUMBERS),
    "tenants": ("a int, b varchar(9), PRIMARY KEY (a, b)", lambda n: f"{n // 59}, 'b{n}'", By.BUCKET),
    "words": ("t varchar(20) PRIMARY KEY", lambda n: f"'é{n} 日本 😀_'", By.BUCKET),
    "latin": ("t varchar(20) CHARACTER SET latin1 PRIMARY KEY", lambda n: f"'ñ{n} €'", By.BUCKET),
    "wide": ("t varchar(20) CHARACTER SET utf16 PRIMARY KEY", lambda n: f"'é{n} 😀'", By.BUCKET),
    "mixed": (
        "t varchar(9), d decimal(9,2), m datetime(3), b binary(4), y year, f int zerofill, PRIMARY KEY (t,d,m,b,y,f)",
        lambda n: f"'a{n % 5}', {n}.5, '2024-01-01 00:00:00.{n:03}', x'ff{n:02x}', {1950 + n}, {n}",
        By.BUCKET,
    ),
    "days": (
        "d date, z decimal(5,1) zerofill, PRIMARY KEY (d, z)", lambda n: f"'2024-01-{n % 28 + 1:02}', {n}", By.BUCKET
    ),
    "labels": (
        "e enum('é','b') CHARACTER SET latin1, s set('x','y'), t time(2), n int, PRIMARY KEY (e, s, t, n)",
        lambda n: f"{n % 2 + 1}, {n % 4}, '-{n}:00:00.5', {n}",
        By.BUCKET,
    ),
    "bits": ("b bit(64), t varchar(5), PRIMARY KEY (b, t)", lambda n: f"{2**63 + n}, 'x'", By.BUCKET),
    "odd": ("t varchar(20) CHARACTER SET gbk PRIMARY KEY", lambda n: f"'中{n}'", None),
    "floating": ("f double PRIMARY KEY", lambda n: f"{n}.1", None),
    "loose": ("n int", lambda n: f"{n}", None),
    "unique_": ("a int UNIQUE, n int NOT NULL UNIQUE", lambda n: f"{n}, {n}", By.NUMBERS),
    "nothing": ("n int PRIMARY KEY", lambda n: "", By.NUMBERS),
}


def test_every_row_is_in_one_chunk(source: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "BUCKET_CHUNKS", 1)
    shop = source.database("splits")
    for table, (columns, values, _) in TABLES.items():
        source.execute(f"CREATE TABLE {table} ({columns})", database=shop)
        rows = ", ".join(f"({values(n)})" for n in range(ROWS))
        if table != "nothing":
            source.execute(f"INSERT INTO {table} VALUES {rows}", database=shop)
        source.execute(f"ANALYZE TABLE {table}", database=shop)
    seen = Catalogued(source, shop)
    for split in seen.split(*TABLES):
        by = TABLES[split.table.table][2]
        table = seen.source(split.table.table)
        whole = seen.rows(table, "1 = 1")
        assert (split.chunks > 1) == (by is not None and bool(whole)), split
        assert not split.bounds or split.by is by, split
        assert split.fault() == ""
        column = table.columns.__getitem__
        parts = [seen.rows(table, condition(split, n, column)) for n in range(split.chunks)]
        told = chunk_of(split, table.mapping.shape)
        for n, rows in enumerate(parts):
            assert {told(row) for row in rows} <= {n}, (split, n)
            if split.by is By.BUCKET and split.bounds:
                assert sorted(rows) == sorted(seen.rows(table, f"{place(split, column)} = {n}"))
        assert sorted(row for rows in parts for row in rows) == sorted(whole), split
        assert len(whole) == (0 if split.table.table == "nothing" else ROWS)
        if split.by is By.NUMBERS and table.table.name.table != "led":
            assert max(map(len, parts), default=0) <= 10, split


def test_names_are_the_targets(source: Server) -> None:
    shop = source.database("splits")
    source.execute("CREATE TABLE t (a int, b int, c int, PRIMARY KEY (b, a))", database=shop)
    source.execute(f"INSERT INTO t VALUES {', '.join(f'({n}, {n % 3}, 0)' for n in range(ROWS))}", database=shop)
    rule = f"{{source: {shop}.t, target: {shop}.u, columns: {{exclude: [c], rename: {{b: first}}}}}}"
    seen = Catalogued(source, shop, f"[{rule}]")
    keyed = TargetTable(seen.name("u"), (TargetColumn("a", "int"), TargetColumn("first", "int")), ("a",))
    (split,) = asyncio.run(
        splitting.splits(seen.feed, seen.asked, [Wanted(1, seen.name("u"), "keep")], {seen.name("u"): keyed})
    )
    assert split.columns == ("first", "a") and split.keep and len(split.bounds) == 5
    table = seen.source("u")
    assert [c.name for c in table.mapping.shape.columns] == ["a", "first"]
    told = chunk_of(split, table.mapping.shape)
    for n in range(split.chunks):
        assert {told(row) for row in seen.rows(table, condition(split, n, table.columns.__getitem__))} == {n}


def test_what_cannot_be_copied(source: Server) -> None:
    shop = source.database("splits")
    source.execute("CREATE TABLE one (n int PRIMARY KEY)", database=shop)
    source.execute("CREATE TABLE two (n int PRIMARY KEY, up int, FOREIGN KEY (up) REFERENCES two (n))", database=shop)
    seen = Catalogued(source, shop, f"[{{source: {shop}.*, target: {shop}.one}}]")
    with pytest.raises(NotCopied, match=rf"{shop}\.one, {shop}\.two all become it"):
        seen.split("one")
    seen = Catalogued(source, shop)
    with pytest.raises(NotCopied, match=r"none: the target has no such table"):
        seen.split("none")
    source.execute(f"INSERT INTO two VALUES {', '.join(f'({n}, NULL)' for n in range(ROWS))}", database=shop)
    assert seen.split("two") == (ChunkSplit(seen.name("two")),)  # it refers to itself


def test_rows_of_keys(source: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the source's equality, some twice; taken once, by the target's."""
    monkeypatch.setattr(keys, "MOST_WIDE", 1)
    shop = source.database("splits")
    source.execute("CREATE TABLE t (k varchar(9), n int, v bit(3), PRIMARY KEY (k, n))", database=shop)
    rows = "('a', 1, 1), ('B', 1, 2), ('c', 1, 3), ('c', 2, 4), ('é', 1, 5)"
    source.execute(f"INSERT INTO t VALUES {rows}", database=shop)
    seen = Catalogued(source, shop)
    wanted = (("A", 1), ("b", 1), ("B", 1), ("c", 2), ("gone", 1))
    (split,) = seen.split("t", mode="repair", wanted=wanted)
    assert split == ChunkSplit(seen.name("t"), By.KEYS, ("k", "n"), keys=wanted)

    def read(equality: Equality) -> list[Row]:
        word = TargetColumn("k", "varchar(9)", equality=equality)
        target = TargetTable(seen.name("t"), (word, TargetColumn("n", "int"), TargetColumn("v", "int")), ("k", "n"))
        batches = rows_of_keys(seen.asked, seen.source("t"), split, target)
        return sorted(row for batch in batches for row in zip(*batch, strict=True))

    assert read(Equality.EXACT) == [("B", 1, 2), ("c", 2, 4)]
    assert read(Equality.FOLDED) == [("B", 1, 2), ("a", 1, 1), ("c", 2, 4)]


def effect(n: int, split: ChunkSplit, chunk: int = 0) -> ReadChunk:
    return ReadChunk(EffectId(1, n), split, chunk, Position("log.1", 4))


def test_chunks_that_share_a_scan() -> None:
    """Chunks asked for at once go together; those that come later wait until the first are merged or given up."""
    table = TableName("shop", "t")
    buckets = ChunkSplit(table, By.BUCKET, ("t",), ((10,), (20,), (30,)))
    numbers = ChunkSplit(table, By.NUMBERS, ("n",), ((10,),))
    scans = Scans()
    assert scans.add(effect(1, numbers)) and scans.add(effect(2, ChunkSplit(table)))
    a, b, c, d, e = (effect(n, buckets, n % 4) for n in range(10, 15))
    assert not scans.add(a) and not scans.add(b) and not scans.add(c)
    assert scans.ended(c.id)
    assert scans.due() == [[a, b]]
    assert not scans.add(d) and not scans.add(e)
    assert scans.due() == []
    assert not scans.ended(a.id)
    assert scans.due() == []
    assert not scans.ended(b.id)
    assert scans.due() == [[d, e]]
    assert scans.due() == []
