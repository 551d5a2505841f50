"""Values of a PostgreSQL source, written by each target's sink into the table that `init` makes, and read back."""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from bench.harness import rig
from bench.harness.postgres_values import HELD, TYPES, UNHELD
from bench.harness.servers import MariaDb, Postgres, Server
from tidelock.adapters.bookkeeping.tables import create_statements
from tidelock.adapters.config.loader import load
from tidelock.adapters.mysql.target import read_back as mysql_back
from tidelock.adapters.mysql.target.sink import MySqlSink
from tidelock.adapters.postgres.catalogue import AsyncServer
from tidelock.adapters.postgres.column_types import OUTPUT_SETTINGS, is_padded
from tidelock.adapters.postgres.logical.row_values import code, reading
from tidelock.adapters.postgres.schema import read_shapes
from tidelock.adapters.postgres.target import read_back as postgres_back
from tidelock.adapters.postgres.target.sink import PostgresSink
from tidelock.adapters.schema.compatibility import compatible
from tidelock.adapters.schema.create_table import create_table
from tidelock.adapters.schema.dialects import from_postgres
from tidelock.adapters.schema.log_spelling import spelled
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.adapters.target.options import SinkOptions
from tidelock.adapters.wiring.inspection import opened
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.model.records import Column, Kind, Position, Row, Shape, TableName, Value
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import ApplyBatch, EffectId
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, TakenOver
from tidelock.engine.protocol.steps import DeleteRows, Step, UpdateRows, UpsertRows

START = Position("1/1", 4)
T = TableName("public", "t")


# What a database may have set, each of which changes how values are written or read.
ODD = {
    "datestyle": "'SQL, DMY'", "intervalstyle": "'sql_standard'", "timezone": "'Asia/Kolkata'",
    "bytea_output": "'escape'", "extra_float_digits": "-3", "xmloption": "'document'",
}  # fmt: skip


def canonical(column: Column, text: str | None) -> Value:
    """A value of the stream, from its text: the table of `engine.model.records`, said a second time."""
    if text is None:
        return None
    match column.kind:
        case Kind.INT:
            return int(text)
        case Kind.BOOL:
            return int(text == "t")
        case Kind.BIT:
            return int(text, 2)
        case Kind.BINARY:
            return bytes.fromhex(text[2:])
        case Kind.FLOAT | Kind.DOUBLE if text.lstrip("-") not in ("NaN", "Infinity"):
            return struct.unpack("f", struct.pack("f", float(text)))[0] if column.kind is Kind.FLOAT else float(text)
        case Kind.DATETIME | Kind.TIMESTAMP | Kind.TIME:
            found = re.fullmatch(r"((?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d)(?:\.(\d+))?(?:\+00)?", text)
            if found is None:
                return text
            digits = (found[2] or "").ljust(column.scale, "0")
            return found[1] + (f".{digits}" if digits else "")
        case _:
            return text.rstrip(" ") if is_padded(column) else text


class Source:
    """A table with one column of each type, and the rows of it as the stream has them."""

    def __init__(self, server: Postgres) -> None:
        self.server = server
        self.database = server.database("types")
        server.execute_script(TYPES, database=self.database)

    async def table(self, types: list[str], *, key: str = "", keyed: str = "") -> SourceTable:
        columns = ", ".join([*(f"c{n} {type_}" for n, type_ in enumerate(types)), *([keyed] if keyed else [])])
        self.server.execute_script(f"CREATE TABLE t (id int {key}, {columns})", database=self.database)
        connection = await asyncpg.connect(self.server.url(self.database))
        try:
            return (await read_shapes(AsyncServer(connection), T.__eq__))[T]
        finally:
            await connection.close()

    def fill(self, values: list[list[str | None]]) -> None:
        for n, row in enumerate(values):
            texts = ", ".join("NULL" if v is None else "'" + v.replace("'", "''") + "'" for v in row)
            self.server.execute_script(f"INSERT INTO t VALUES ({n}, {texts})", database=self.database)

    async def rows(self, shape: Shape) -> list[Row]:
        """The rows as the table of `engine.model.records` has them, which is what the stream's reader makes of them."""
        lines = await texts(self.server.url(self.database), "t")
        wanted = [tuple(map(canonical, shape.columns, line)) for line in lines]
        read = [reading(code(column)) for column in shape.columns]
        assert wanted == [
            tuple(None if cell is None else make(cell.encode()) for make, cell in zip(read, line, strict=True))
            for line in lines
        ]
        return wanted


async def texts(url: str, table: str) -> list[list[str | None]]:
    """The rows of a table as output functions write them, as pgoutput does."""
    connection = await asyncpg.connect(url, server_settings=dict(OUTPUT_SETTINGS))
    found = bytearray()

    async def take(data: bytes) -> None:
        found.extend(data)

    try:
        await connection.copy_from_query(f"SELECT * FROM public.{table} ORDER BY id", output=take)
    finally:
        await connection.close()
    return [[_unescaped(cell) for cell in line.split("\t")] for line in found.decode().split("\n")[:-1]]


def _unescaped(cell: str) -> str | None:
    if cell == "\\N":
        return None
    signs = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
    return re.sub(r"\\(.)", lambda found: signs.get(found[1], found[1]), cell)


def differences(types: list[str], found: list[Row], wanted: list[Row]) -> list[tuple[str, Value, Value]]:
    """The values that differ, so that a failure names the type."""
    assert len(found) == len(wanted)
    return [
        (type_, value, other)
        for row, expected in zip(found, wanted, strict=True)
        for type_, value, other in zip(["id", *types], row, expected, strict=True)
        if value != other
    ]


class Target:
    """A fresh database with the table that `init` makes for the source's, and a sink on it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.postgres = isinstance(server, Postgres)
        self.database = server.database("typed")
        self.name = TableName("public" if self.postgres else self.database, "t")
        self.sink: Any = None
        self.made: list[str] = []
        self.counter = 0

    def make(self, table: SourceTable) -> None:
        dialect = "postgres" if self.postgres else "mysql"
        books = "tidelock" if self.postgres else f"{self.database}_books"
        if self.postgres:
            statements = [type_.statement for type_ in table.types if type_.statement not in self.made]
            self.made += statements
        else:
            table, statements = from_postgres(table, mariadb=isinstance(self.server, MariaDb)), []
        statements += [*create_table(table, self.name, dialect), *create_statements(dialect, books)]
        for statement in statements:
            self.server.execute(statement, database=self.database)
        kind = PostgresSink if self.postgres else MySqlSink
        self.sink = kind(self.server.url(self.database), SinkOptions("feed", lanes=1, schema=books))

    async def clear(self) -> None:
        """Without the table, for the next one; types of users stay."""
        await self.sink.close()
        self.server.execute("DROP TABLE t", database=self.database)

    async def bound(self, shape: Shape) -> tuple[TakenOver, Binding]:
        taken = await self.sink.take_over([self.name], START)
        return taken, Binding(0, shape, taken.tables[self.name])

    async def apply(self, taken: TakenOver, *steps: Step) -> BatchCommitted | BatchFailed:
        self.counter += 1
        answer = await self.sink.apply(ApplyBatch(EffectId(taken.epoch, self.counter), 0, list(steps), b"covered", 1))
        assert isinstance(answer, BatchCommitted | BatchFailed), answer
        return answer

    async def rows(self, shape: Shape, binding: Binding) -> list[Row]:
        """What is in the table, in the source's words."""
        types = {c.name: c.type for c in binding.target.columns}
        if self.postgres:
            asked = [postgres_back.asked(c, types[c.name], "t") for c in shape.columns]
            read: list[Callable[[Any], Value]] = [postgres_back.reader(c, types[c.name]) for c in shape.columns]
            connection = await asyncpg.connect(self.server.url(self.database), server_settings=dict(OUTPUT_SETTINGS))
            found = await connection.fetch(f"SELECT {', '.join(asked)} FROM public.t ORDER BY t.id")
            await connection.close()
        else:
            asked = [mysql_back.asked(c, "t") for c in shape.columns]
            read = [lambda shown, c=c: spelled(c, shown) for c in shape.columns]  # type: ignore[misc]
            found = self.server.execute(f"SELECT {', '.join(asked)} FROM t ORDER BY t.id", database=self.database)
        return [tuple(reader(value) for reader, value in zip(read, row, strict=True)) for row in found]


@pytest.fixture(params=["postgres", "mariadb", "mysql"])
async def target(request: pytest.FixtureRequest) -> AsyncIterator[Target]:
    target = Target(request.getfixturevalue(request.param))
    yield target
    if target.sink is not None:
        await target.sink.close()


@pytest.fixture
def source(postgres: Postgres) -> Source:
    return Source(postgres)


def _rows_of(values: list[list[str]]) -> list[list[str | None]]:
    """As many rows as the longest column has values, and one of NULLs."""
    longest = max(map(len, values))
    return [[column[n % len(column)] for column in values] for n in range(longest)] + [[None] * len(values)]


async def test_every_value_of_every_type_arrives(source: Source, target: Target) -> None:
    """Few rows are VALUES or COPY, many an array of each column; both are what the source has."""
    types = list(HELD)
    table = await source.table(types, key="PRIMARY KEY")
    shape = table.shape
    assert {t: c.kind for t, c in zip(types, shape.columns[1:], strict=True)} == {t: HELD[t][0] for t in types}
    source.fill(_rows_of([HELD[t][1] for t in types]))
    rows = await source.rows(shape)
    target.make(table)
    taken, binding = await target.bound(shape)
    for column, found in zip(shape.columns, binding.target.columns, strict=True):
        assert compatible(column, found, "postgres" if target.postgres else "mysql") == "", found.type
    answer = await target.apply(taken, UpsertRows(binding, rows, fresh=True))
    assert isinstance(answer, BatchCommitted), answer
    assert differences(types, await target.rows(shape, binding), rows) == []
    many = [(n, *rows[n % len(rows)][1:]) for n in range(50)]
    assert isinstance(await target.apply(taken, UpsertRows(binding, many, fresh=False)), BatchCommitted)
    assert differences(types, await target.rows(shape, binding), many) == []


def set_oddly(server: Postgres, database: str) -> None:
    for name, value in ODD.items():
        server.execute(f"ALTER DATABASE {database} SET {name} = {value}")


async def test_a_postgres_target_is_byte_for_byte_the_source(source: Source, postgres: Postgres) -> None:
    target = Target(postgres)
    set_oddly(postgres, target.database)
    types = list(HELD)
    table = await source.table(types, key="PRIMARY KEY")
    source.fill(_rows_of([[*HELD[t][1], *UNHELD.get(t, ())] for t in types]))
    target.make(table)
    taken, binding = await target.bound(table.shape)
    rows = await source.rows(table.shape)
    assert isinstance(await target.apply(taken, UpsertRows(binding, rows, fresh=True)), BatchCommitted)
    wanted = await texts(postgres.url(source.database), "t")
    assert await texts(postgres.url(target.database), "t") == wanted
    assert differences(types, await target.rows(table.shape, binding), rows) == []
    await target.sink.close()


@pytest.mark.parametrize("type_", UNHELD)
async def test_what_no_kind_holds_fails_elsewhere_with_a_reason(source: Source, target: Target, type_: str) -> None:
    table = await source.table([type_], key="PRIMARY KEY")
    source.fill([[value] for value in UNHELD[type_]])
    rows = await source.rows(table.shape)
    target.make(table)
    taken, binding = await target.bound(table.shape)
    for row in rows:
        answer = await target.apply(taken, UpsertRows(binding, [row], fresh=True))
        if target.postgres:
            assert isinstance(answer, BatchCommitted), answer
            continue
        assert isinstance(answer, BatchFailed), row
        assert answer.failure.kind is ErrorKind.ROW
        assert "column c0: " in answer.failure.message
        assert row[1] in answer.failure.message
    assert await target.rows(table.shape, binding) == (rows if target.postgres else [])


async def test_equal_values_that_differ_are_different_rows_without_a_key(source: Source, target: Target) -> None:
    """Of two rows that PostgreSQL takes as equal, the one that is spelled so goes."""
    table = await source.table(["numeric", "interval", "pair"])
    one = ["1.0", "1 day", "(,)"]
    source.fill([one, ["1.00", *one[1:]], ["1.0", "24:00:00", "(,)"], one, ["1.0", "1 day", None]])
    rows = [(0, *row[1:]) for row in await source.rows(table.shape)]
    target.make(table)
    taken, binding = await target.bound(table.shape)
    assert not binding.key
    assert isinstance(await target.apply(taken, UpsertRows(binding, rows, fresh=True)), BatchCommitted)
    gone = [rows[1], rows[2], rows[0], rows[4]]
    assert isinstance(await target.apply(taken, DeleteRows(binding, gone)), BatchCommitted)
    assert await target.rows(table.shape, binding) == [rows[0]]


async def test_types_that_users_made_are_made_once_and_in_order(source: Source, postgres: Postgres) -> None:
    """A composite of a composite needs the inner one first; a domain is left out, and what it is made of is not."""
    table = await source.table(["nest[]", "moods", "spread", "hstore", "pair"])
    assert [t.name for t in table.types] == ["pair", "mood", "nest", "spread", "hstore"]
    target = Target(postgres)
    target.make(table)
    spelled_there = postgres.execute(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 1 "
        "ORDER BY attnum",
        database=target.database,
    )
    assert [type_ for (type_,) in spelled_there] == ["nest[]", "mood[]", "spread", "hstore", "pair"]
    await target.sink.close()


def test_a_column_without_a_spelling_is_of_mysql() -> None:
    """The checked literals cost a look at each value, which rows of a MySQL source do without."""
    from tidelock.adapters.mysql.target.literals import stored

    column = Column("d", Kind.DATE)
    assert stored([column], [0])([("0000-00-00",)]) == ["('0000-00-00')"]
    with pytest.raises(ValueError, match="not a moment"):
        stored([msgspec.structs.replace(column, type="date")], [0])([("10000-01-01",)])


# Two keys of each type, which are different at every target.
KEYS: dict[str, list[str | None]] = {
    "smallint": ["1", "2"],
    "oid": ["4294967295", "1"],
    "boolean": ["t", "f"],
    "numeric(10,2)": ["-1.50", "2.00"],
    "date": ["2024-01-01", "0001-01-01"],
    "time": ["10:00:00", "24:00:00"],
    "timestamp": ["2024-01-01 00:00:00.5", "2024-01-01"],
    "timestamptz": ["2024-01-01 00:00:00.5+02", "2024-01-01"],
    "timetz": ["10:00:00+02", "10:00:00+03"],
    "interval": ["1 day", "-00:00:01"],
    "varchar(20)": ["A", "a"],
    "char(8)": ["A", "a"],
    "bit(9)": ["000000001", "100000000"],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"],
    "mood": ["sad", "glad"],
    "inet": ["10.0.0.1", "10.0.0.1/24"],
    "macaddr": ["08:00:2b:01:02:03", "08:00:2b:01:02:04"],
    "int4range": ["[1,5)", "empty"],
    "money": ["1", "-2"],
    "xid8": ["1", "18446744073709551615"],
}
ONLY_POSTGRES: dict[str, list[str | None]] = {
    "numeric": ["1.0", "NaN"],
    "text": ["it's", ""],
    "bytea": ["\\x00", "\\x"],
    "int[]": ["{1,NULL}", "{}"],
    "text[]": ['{"a,b","c\\"d"}', "{NULL}"],
    "pair": ['(1,"a ""b""")', "(,)"],
    "jsonb": ['{"a": 1}', "null"],
    "citext": ["A", "b"],
    "float8": ["NaN", "-Infinity"],
    "tstzrange": ['["2024-01-01 00:00:00+00",infinity)', "empty"],
    "bit varying(12)": ["1", "01"],
    "hstore": ['"a"=>"1"', ""],
    "tsvector": ["'a':1", "'b'"],
}


@pytest.mark.parametrize(
    ("target", "copies"),
    [
        pytest.param("postgres", 1, id="postgres-alone"),
        pytest.param("mysql", 1, id="mysql-alone"),
        pytest.param("mariadb", 20, id="mariadb-beside-a-number"),
        pytest.param("postgres", 20, id="postgres-beside-a-number", marks=pytest.mark.proof),
        pytest.param("mysql", 20, id="mysql-beside-a-number", marks=pytest.mark.proof),
        pytest.param("mariadb", 1, id="mariadb-alone", marks=pytest.mark.proof),
    ],
    indirect=["target"],
)
async def test_rows_are_found_by_keys_of_every_type(source: Source, target: Target, copies: int) -> None:
    """Each row is written, written over, moved in log order, and deleted by its key: few rows, and many."""
    key = "c0" if copies == 1 else "c0, id"
    for type_, values in (KEYS | ONLY_POSTGRES if target.postgres else KEYS).items():
        table = await source.table([type_, "text"], keyed=f"PRIMARY KEY ({key})")
        source.fill([[values[n % 2], f"v{n}"] for n in range(2 * copies)])
        rows = await source.rows(table.shape)
        target.make(table)
        taken, binding = await target.bound(table.shape)
        assert [table.columns[i].name for i in binding.key] == key.split(", ")
        changed = [(*row[:2], "new") for row in rows]
        last = (rows[-1][0] + 1, *changed[-1][1:])
        gone = [binding.key_of(row) for row in changed[1:-1]] + [binding.key_of(last)]
        for step in (
            UpsertRows(binding, rows, fresh=True),
            UpsertRows(binding, changed, fresh=False),
            UpdateRows(binding, [binding.key_of(rows[-1])], [last], moves=True),
        ):
            answer = await target.apply(taken, step)
            assert isinstance(answer, BatchCommitted), (type_, answer)
        assert await target.rows(table.shape, binding) == [*changed[:-1], last], type_
        answer = await target.apply(taken, DeleteRows(binding, gone))
        assert isinstance(answer, BatchCommitted), (type_, answer)
        assert await target.rows(table.shape, binding) == changed[:1], type_
        await target.clear()
        source.server.execute("DROP TABLE t", database=source.database)


async def test_a_feed_carries_every_type_to_every_target(source: Source, target: Target, tmp_path: Path) -> None:
    """`init --apply` makes the target, a run fills it; what a target has not is a failed row, and the rest goes on.

    With `verify: image` no value is taken for another where each row is updated."""
    types = list(HELD)
    table = await source.table(types, key="PRIMARY KEY")
    source.server.execute("ALTER TABLE t REPLICA IDENTITY FULL", database=source.database)
    feed = tmp_path / "types.yaml"
    there = target.server.url(target.database if target.postgres else "")
    feed.write_text(
        f"feed: {source.database}\nsource: {source.server.url(source.database)}\ntarget: {there}\nlanes: 2\n"
        f"verify: image\ntables: [{{source: public.t, target: {target.name}}}]\nschema: {target.database}_books\n"
    )
    feed.chmod(0o600)

    async def tidelock(*words: str) -> tuple[int, str]:
        said = await asyncio.to_thread(rig.tidelock, *words, str(feed))
        return said.code, said.out

    assert (await tidelock("init", "--apply"))[0] == 0
    source.fill(_rows_of([HELD[t][1] for t in types]))
    assert (await tidelock("run", "--until-caught-up"))[0] == 0  # as row images, which hold no NaN
    unheld = [(type_, value) for type_, values in UNHELD.items() for value in values]
    for n, (type_, value) in enumerate(unheld):
        name = f"c{types.index(type_)}"
        source.server.execute(f"INSERT INTO t (id, {name}) VALUES ({100 + n}, '{value}')", database=source.database)
    source.server.execute("UPDATE t SET id = id WHERE id < 100", database=source.database)
    source.server.execute("UPDATE t SET c0 = 7 WHERE id = 1", database=source.database)
    source.server.execute("DELETE FROM t WHERE id = 2", database=source.database)
    set_oddly(source.server, source.database)
    code, said = await tidelock("run", "--until-caught-up")
    assert code == (0 if target.postgres else 4), said
    rows = await source.rows(table.shape)
    for type_ in ("interval", "timestamptz[]", "bytea[]", "double precision"):  # spelled as the settings say
        spelled_so = {"timestamptz[]": '{"2024-02-29 05:11:12+00",infinity}', "double precision": 0.30000000000000004}
        assert rows[0][1 + types.index(type_)] == spelled_so.get(type_, HELD[type_][1][0])
    kept = rows if target.postgres else [row for row in rows if row[0] < 100]
    async with opened(load(str(feed)).target_url) as looked:
        binding = Binding(0, table.shape, (await looked.tables([target.name]))[target.name])
    assert differences(types, await target.rows(table.shape, binding), kept) == []
    listed = msgspec.json.decode((await tidelock("rows", "list", "--json"))[1])
    assert len(listed) == (0 if target.postgres else len(unheld))
    assert all("column c" in row["error"] for row in listed)
    assert (await tidelock("remove", "--apply"))[0] == 0
