"""Tables of a PostgreSQL source, as its catalogue tells them: columns, keys, identities, the types of users."""

from __future__ import annotations

import asyncpg
import pytest

from bench.harness.servers import Postgres
from tidelock.adapters.postgres.catalogue import AsyncServer
from tidelock.adapters.postgres.column_types import OUTPUT_SETTINGS, TYPE_FACTS, column_of, spelled_type, types_of
from tidelock.adapters.postgres.schema import read_rules, read_shapes
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.engine.model.records import Kind, Shape, TableName

T = TableName("public", "t")
SPELLED = [
    "smallint", "integer", "bigint", "oid", "boolean", "real", "double precision", "numeric", "numeric(10,2)",
    "numeric(3,-2)", "numeric(2,4)", "numeric(1000,1000)", "character varying", "character varying(7)", "character(1)",
    "character(99)", "bpchar", '"char"', "name", "text", "bytea", "bit(1)", "bit(70)", "bit varying",
    "bit varying(12)", "date", "time without time zone", "time(0) without time zone", "time(3) with time zone",
    "timestamp(6) without time zone", "timestamp without time zone", "timestamp(0) with time zone", "interval",
    "interval(3)", "interval day to second(2)", "interval year to month", "interval hour", "interval second(1)",
    "uuid", "json", "jsonb", "inet", "cidr", "money", "xml", "point", "tsvector", "int4range", "int4multirange",
    "integer[]", "numeric(6,2)[]", "character varying(3)[]", "bit varying(9)[]", "timestamp(2) with time zone[]",
    "int2vector", "oidvector", "words.mood", "words.mood[]", 'words."A ""type"""', "words.pair", "words.spread",
]  # fmt: skip
TYPES = '''CREATE SCHEMA words; CREATE TYPE words.mood AS ENUM ('sad', 'it''s');
CREATE TYPE words.pair AS (a int, b text); CREATE TYPE words."A ""type""" AS ENUM ();
CREATE TYPE words.spread AS RANGE (subtype = float8)'''


class Database:
    def __init__(self, server: Postgres) -> None:
        self.server = server
        self.name = server.database("tables")

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.server.execute_script(statement, database=self.name)

    async def open(self) -> asyncpg.Connection[asyncpg.Record]:
        return await asyncpg.connect(self.server.url(self.name), server_settings=dict(OUTPUT_SETTINGS))

    async def tables(self) -> dict[TableName, SourceTable]:
        connection = await self.open()
        try:
            return await read_shapes(AsyncServer(connection), lambda name: True)
        finally:
            await connection.close()


@pytest.fixture
def database(postgres: Postgres) -> Database:
    return Database(postgres)


async def test_a_type_is_spelled_as_the_server_spells_it(database: Database) -> None:
    """Then the catalogue's columns and the stream's are the same, and so is what CREATE TABLE makes."""
    database.run(TYPES, f"CREATE TABLE t ({', '.join(f'c{n} {type_}' for n, type_ in enumerate(SPELLED))})")
    connection = await database.open()
    rows = await connection.fetch(
        "SELECT attname::text, atttypid::bigint, atttypmod, format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = 'public.t'::regclass AND attnum > 0 ORDER BY attnum"
    )
    types = types_of(await AsyncServer(connection).ask(TYPE_FACTS, [row[1] for row in rows]))
    await connection.close()
    assert [spelled_type(types[oid], modifier) for _, oid, modifier, _ in rows] == [row[3] for row in rows]
    assert [column_of(name, types[oid], modifier).type for name, oid, modifier, _ in rows] == SPELLED


async def test_columns(database: Database) -> None:
    database.run(
        TYPES,
        "CREATE DOMAIN words.cents AS numeric(10,2) NOT NULL",
        "CREATE DOMAIN words.more AS words.cents CHECK (VALUE > 0)",
        """CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, s serial, a words.more DEFAULT 1.5,
        b text COLLATE "C" DEFAULT 'it''s', c timestamptz DEFAULT now(), m words.mood DEFAULT 'sad',
        twice numeric GENERATED ALWAYS AS (id * 2) STORED, gone int, n int DEFAULT -5)""",
        "ALTER TABLE t DROP COLUMN gone",
    )
    table = (await database.tables())[T]
    by_name = {c.name: c for c in table.columns}
    assert list(by_name) == ["id", "s", "a", "b", "c", "m", "twice", "n"]
    assert {n: c.default for n, c in by_name.items() if c.default} == {
        "a": "1.5", "b": "'it''s'::text", "m": "'sad'::words.mood", "n": "'-5'::integer",
    }  # fmt: skip
    amount = by_name["a"].column
    assert (amount.kind, amount.precision, amount.scale, amount.type) == (Kind.DECIMAL, 10, 2, "numeric(10,2)")
    assert by_name["m"].column.labels == ("sad", "it's")
    assert by_name["b"].collation == "C"
    assert [n for n, c in by_name.items() if c.nullable] == ["a", "b", "c", "m", "twice", "n"]
    assert [(c.name, c.logged, c.expression) for c in table.columns if c.generated] == [("twice", False, "(id * 2)")]
    assert "twice" not in [c.name for c in table.shape.columns]
    assert table.primary_key == ("id",)


INDEXES = [
    ("CREATE UNIQUE INDEX u ON t (a)", ("a",), ""),
    ("CREATE UNIQUE INDEX u ON t (a) INCLUDE (c)", ("a",), ""),
    ("CREATE UNIQUE INDEX u ON t (a, b) WHERE c > 0", ("a", "b", "c"), "partial"),
    ("CREATE UNIQUE INDEX u ON t (lower(b))", ("b",), "over an expression"),
    ("ALTER TABLE t ADD CONSTRAINT u UNIQUE (a) DEFERRABLE", ("a",), "deferrable"),
    ("CREATE UNIQUE INDEX u ON t (a) NULLS NOT DISTINCT", ("a",), "NULLS NOT DISTINCT"),
    ("CREATE UNIQUE INDEX u ON t (twice)", ("twice",), "over the generated column"),
    ("CREATE UNIQUE INDEX u ON t (f)", ("f",), "values of type float8"),
    ("CREATE UNIQUE INDEX u ON t (j)", ("j",), "values of type jsonb"),
    ("CREATE UNIQUE INDEX u ON t (l)", ("l",), "values of type _int4"),
    ("CREATE UNIQUE INDEX u ON t (b COLLATE folded)", ("b",), "the collation folded"),
    ("ALTER TABLE t ADD CONSTRAINT u EXCLUDE USING gist (r WITH &&)", ("r",), "an exclusion constraint"),
]


@pytest.mark.parametrize(("statement", "columns", "opaque"), INDEXES)
async def test_unique_indexes(database: Database, statement: str, columns: tuple[str, ...], opaque: str) -> None:
    database.run(
        "CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "CREATE TABLE t (id int PRIMARY KEY, a int, b text, c int, f float8, j jsonb, l int[], r int4range, "
        "twice int GENERATED ALWAYS AS (id * 2) STORED)",
        statement,
    )
    primary, unique = (await database.tables())[T].uniques
    assert (primary.name, primary.columns, primary.opaque) == ("PRIMARY", ("id",), "")
    assert (unique.name, unique.columns) == ("u", columns)
    assert unique.opaque.startswith(opaque)
    assert bool(unique.opaque) == bool(opaque)


IDENTITIES = [
    ("id int PRIMARY KEY, u int UNIQUE NOT NULL", "", "key", ("id",)),
    ("id int, u int UNIQUE NOT NULL", "", "nothing", ()),
    ("id int PRIMARY KEY DEFERRABLE, u int UNIQUE NOT NULL", "", "nothing", ()),
    ("id int PRIMARY KEY, u int UNIQUE NOT NULL", "USING INDEX t_u_key", "key", ("u",)),
    ("id int PRIMARY KEY, u int UNIQUE NOT NULL", "NOTHING", "nothing", ()),
    ("id int, u int UNIQUE NOT NULL", "FULL", "full", ()),
]


@pytest.mark.parametrize(("columns", "identity", "told", "key"), IDENTITIES)
async def test_replica_identities(
    database: Database, columns: str, identity: str, told: str, key: tuple[str, ...]
) -> None:
    database.run(f"CREATE TABLE t ({columns})", *([f"ALTER TABLE t REPLICA IDENTITY {identity}"] if identity else []))
    table = (await database.tables())[T]
    assert (table.identity, table.identity_columns) == (told, key)
    shape = table.shape
    assert isinstance(shape, Shape)
    assert (shape.identity, shape.primary_key) == (told, key or table.primary_key)


async def test_an_identity_whose_index_is_gone_tells_nothing(database: Database) -> None:
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE NOT NULL)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX t_u_key",
        "ALTER TABLE t DROP CONSTRAINT t_u_key",
    )
    assert (await database.tables())[T].identity == "nothing"


@pytest.mark.parametrize(("last", "told"), [("FULL", "key"), ("NOTHING", "nothing"), ("DEFAULT", "key")])
async def test_a_partitioned_table_tells_what_its_partitions_tell(database: Database, last: str, told: str) -> None:
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE high PARTITION OF t FOR VALUES FROM (10) TO (30) PARTITION BY RANGE (id)",
        "CREATE TABLE higher PARTITION OF high FOR VALUES FROM (20) TO (30)",
        "ALTER TABLE t REPLICA IDENTITY NOTHING", f"ALTER TABLE higher REPLICA IDENTITY {last}",
    )  # fmt: skip
    tables = await database.tables()
    assert list(tables) == [T], "rows of partitions are in the log under the name of the table"
    assert tables[T].identity == told
    assert tables[T].partitions == (TableName("public", "higher"), TableName("public", "low"))


async def test_foreign_keys_and_rules(database: Database) -> None:
    database.run(
        "CREATE TABLE p (a int, b int, PRIMARY KEY (a, b))",
        "CREATE TABLE t (id int PRIMARY KEY, x int CHECK (x > 0), y int, CONSTRAINT up FOREIGN KEY (y, x) "
        "REFERENCES p (a, b) MATCH FULL ON UPDATE CASCADE ON DELETE SET NULL DEFERRABLE)",
    )
    table = (await database.tables())[T]
    (key,) = table.foreign_keys
    assert (key.name, key.columns, key.parent_columns, key.cascades) == ("up", ("y", "x"), ("a", "b"), True)
    assert table.deferrable == ("up",)
    connection = await database.open()
    rules, checks = await read_rules(AsyncServer(connection), [T])
    await connection.close()
    assert rules == {(T, "up"): ("CASCADE", "SET NULL")}
    assert checks == {T: [("t_x_check", "CHECK ((x > 0))")]}


async def test_what_the_log_has_no_rows_of_is_no_table(database: Database) -> None:
    database.run(
        "CREATE TABLE t (id int)", "CREATE UNLOGGED TABLE fast (id int)", "CREATE VIEW v AS SELECT 1",
        "CREATE MATERIALIZED VIEW w AS SELECT 1", "CREATE EXTENSION postgres_fdw",
        "CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw", "CREATE FOREIGN TABLE away (id int) SERVER far",
    )  # fmt: skip
    assert list(await database.tables()) == [T]
