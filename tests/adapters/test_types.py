"""Capacity of target types: the mapping, and the judgement that refuses whatever would lose something."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from bench.harness.servers import MariaDb, MySql, Postgres
from tidelock.adapters.config.url import Dialect
from tidelock.adapters.postgres.catalogue import read_tables
from tidelock.adapters.reference.types import reference
from tidelock.adapters.schema.compatibility import compatible
from tidelock.adapters.schema.type_map import integer_range, mysql_type, postgres_type
from tidelock.engine.model.records import Column, Kind, TableName
from tidelock.engine.model.schema import TargetColumn

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "types.md"

TINY = Column("c", Kind.INT, False, 1)
INT = Column("c", Kind.INT, False, 4)
UNSIGNED = Column("c", Kind.INT, True, 4)
BIG = Column("c", Kind.INT, False, 8)
BIG_UNSIGNED = Column("c", Kind.INT, True, 8)
DECIMAL = Column("c", Kind.DECIMAL, precision=10, scale=2)
VARCHAR = Column("c", Kind.TEXT, length=64, charset="utf8mb4")
LONG = Column("c", Kind.TEXT, charset="utf8mb4")
MICRO = Column("c", Kind.DATETIME, scale=6)
STAMP = Column("c", Kind.TIMESTAMP, scale=3)
TIME = Column("c", Kind.TIME, scale=3)
BYTES = Column("c", Kind.BINARY, length=16)
ENUM = Column("c", Kind.ENUM, labels=("on", "it's"))
SET = Column("c", Kind.SET, labels=("a", "bc"))
JSON = Column("c", Kind.JSON)
FLOAT = Column("c", Kind.FLOAT)
DOUBLE = Column("c", Kind.DOUBLE)
BIT1 = Column("c", Kind.BIT, length=1)
BIT9 = Column("c", Kind.BIT, length=9)

POSTGRES_REFUSED = [
    (INT, "smallint"), (UNSIGNED, "integer"), (BIG_UNSIGNED, "bigint"), (BIG_UNSIGNED, "numeric(19,0)"),
    (INT, "numeric(10,1)"), (INT, "real"), (BIG, "double precision"), (INT, "character varying(10)"), (INT, "boolean"),
    (DECIMAL, "numeric(10,1)"), (DECIMAL, "numeric(9,2)"), (DECIMAL, "bigint"), (DECIMAL, "double precision"),
    (VARCHAR, "character varying(63)"), (VARCHAR, "character(64)"), (VARCHAR, "uuid"),
    (LONG, "character varying(65535)"), (LONG, "jsonb"), (VARCHAR, "public.mood"),
    (MICRO, "timestamp(5) without time zone"),
    (MICRO, "timestamp with time zone"), (MICRO, "date"), (STAMP, "timestamp(2) with time zone"), (STAMP, "date"),
    (TIME, "interval(2)"), (TIME, "timestamp without time zone"), (BYTES, "text"), (Column("c", Kind.BINARY), "uuid"),
    (ENUM, "character varying(3)"), (SET, "character varying(3)"), (ENUM, "integer"), (JSON, "bytea"),
    (JSON, "integer"), (FLOAT, "numeric"), (FLOAT, "text"), (DOUBLE, "real"), (BIT9, "bit(8)"), (BIT9, "boolean"),
    (BIT9, "text"),
    (Column("c", Kind.GEOMETRY), "text"), (Column("c", Kind.UUID), "character varying(35)"),
    (Column("c", Kind.INET6), "uuid"), (Column("c", Kind.YEAR), "date"), (Column("c", Kind.DATE), "integer"),
]  # fmt: skip
POSTGRES_ACCEPTED = [
    (INT, "integer"), (INT, "bigint"), (INT, "numeric"), (INT, "numeric(12,2)"), (UNSIGNED, "bigint"),
    (BIG_UNSIGNED, "numeric(20,0)"), (TINY, "boolean"), (TINY, "smallint"), (INT, "text"),
    (INT, "character varying(11)"), (INT, "double precision"), (DECIMAL, "numeric(10,2)"),
    (DECIMAL, "numeric(20,5)"), (DECIMAL, "numeric"),
    (Column("c", Kind.DECIMAL, precision=18), "bigint"), (VARCHAR, "character varying(64)"), (VARCHAR, "text"),
    (VARCHAR, "citext"), (LONG, "character varying"), (LONG, "json"), (MICRO, "timestamp without time zone"),
    (MICRO, "timestamp(6) without time zone"), (STAMP, "timestamp(3) with time zone"),
    (STAMP, "timestamp without time zone"), (TIME, "interval"), (TIME, "interval(3)"), (TIME, "time without time zone"),
    (BYTES, "bytea"), (BYTES, "uuid"), (ENUM, "text"), (ENUM, "character varying(4)"), (SET, "character varying(4)"),
    (JSON, "jsonb"), (JSON, "json"), (JSON, "text"), (FLOAT, "real"), (FLOAT, "double precision"),
    (DOUBLE, "double precision"), (BIT1, "boolean"), (BIT1, "bit(1)"), (BIT9, "bit(9)"), (BIT9, "bit varying"),
    (BIT9, "smallint"), (Column("c", Kind.YEAR), "smallint"), (Column("c", Kind.DATE), "date"),
]  # fmt: skip
MYSQL_REFUSED = [
    (INT, "smallint", ""), (INT, "int unsigned", ""), (UNSIGNED, "int(11)", ""), (BIG, "double", ""),
    (INT, "varchar(20)", ""), (DECIMAL, "decimal(10,1)", ""), (DECIMAL, "decimal(10,2) unsigned", ""),
    (VARCHAR, "varchar(63)", "varchar(64)"), (VARCHAR, "char(64)", "varchar(64)"), (VARCHAR, "tinytext", "varchar(64)"),
    (LONG, "text", "mediumtext"), (LONG, "text", ""), (MICRO, "datetime(5)", ""), (MICRO, "timestamp(6)", ""),
    (MICRO, "datetime", ""), (STAMP, "time(3)", ""), (BYTES, "varbinary(15)", "varbinary(16)"),
    (BYTES, "binary(16)", "varbinary(16)"), (BYTES, "text", ""), (ENUM, "enum('on')", ""), (SET, "set('a')", ""),
    (ENUM, "varchar(3)", ""), (FLOAT, "float(5,2)", ""), (DOUBLE, "float", ""), (BIT9, "bit(8)", ""),
    (JSON, "text", ""), (Column("c", Kind.BINARY), "blob", "mediumblob"), (Column("c", Kind.DATE), "time", ""),
]  # fmt: skip
MYSQL_ACCEPTED = [
    (INT, "int(11)", ""), (INT, "bigint", ""), (UNSIGNED, "int(10) unsigned", ""), (UNSIGNED, "bigint(20)", ""),
    (INT, "decimal(10,0)", ""), (DECIMAL, "decimal(12,4)", ""), (VARCHAR, "varchar(64)", ""), (VARCHAR, "text", ""),
    (VARCHAR, "char(64)", "char(64)"), (LONG, "longtext", ""), (LONG, "mediumtext", "text"), (LONG, "text", "text"),
    (MICRO, "datetime(6)", ""), (STAMP, "timestamp(3)", ""), (STAMP, "datetime(6)", ""), (TIME, "time(6)", ""),
    (BYTES, "varbinary(16)", ""), (BYTES, "binary(16)", "binary(16)"), (BYTES, "blob", ""),
    (ENUM, "enum('x','it''s','on')", ""), (SET, "set('a','bc')", ""), (ENUM, "varchar(4)", ""), (JSON, "json", ""),
    (JSON, "longtext", ""), (FLOAT, "double", ""), (DOUBLE, "double", ""), (BIT9, "bit(9)", ""),
    (BIT1, "tinyint(1)", ""),
    (VARCHAR, "varchar(64) /*M!100301 COMPRESSED*/", "varchar(64)"),
    (VARCHAR, "varchar(64)", "varchar(64) /*M!100301 COMPRESSED*/"),
    (Column("c", Kind.GEOMETRY), "geometrycollection", "geomcollection"),
    (Column("c", Kind.GEOMETRY), "point", "point"), (Column("c", Kind.YEAR), "year(4)", ""),
    (Column("c", Kind.UUID), "char(36)", ""), (Column("c", Kind.INET6), "inet6", "inet6"),
]  # fmt: skip


@pytest.mark.parametrize(("column", "type_"), POSTGRES_REFUSED)
def test_postgres_refuses_what_would_lose(column: Column, type_: str) -> None:
    reason = compatible(column, TargetColumn("c", type_), "postgres")
    assert reason.startswith(type_)
    assert reason.endswith(f"; {postgres_type(column)} would do")


@pytest.mark.parametrize(("column", "type_"), POSTGRES_ACCEPTED)
def test_postgres_accepts_what_loses_nothing(column: Column, type_: str) -> None:
    assert compatible(column, TargetColumn("c", type_), "postgres") == ""


@pytest.mark.parametrize(("column", "type_", "declared"), MYSQL_REFUSED)
def test_mysql_refuses_what_would_lose(column: Column, type_: str, declared: str) -> None:
    assert compatible(column, TargetColumn("c", type_), "mysql", declared).startswith(type_)


@pytest.mark.parametrize(("column", "type_", "declared"), MYSQL_ACCEPTED)
def test_mysql_accepts_what_loses_nothing(column: Column, type_: str, declared: str) -> None:
    assert compatible(column, TargetColumn("c", type_), "mysql", declared) == ""


EVERY = [
    TINY, INT, UNSIGNED, BIG, BIG_UNSIGNED, DECIMAL, VARCHAR, LONG, MICRO, STAMP, TIME, BYTES, ENUM, SET, JSON, FLOAT,
    DOUBLE, BIT1, BIT9, Column("c", Kind.DATE), Column("c", Kind.YEAR), Column("c", Kind.GEOMETRY),
    Column("c", Kind.UUID), Column("c", Kind.INET4), Column("c", Kind.INET6), Column("c", Kind.BINARY),
    Column("c", Kind.INT, True, 3), Column("c", Kind.INT, False, 2),
]  # fmt: skip


async def test_a_made_postgres_column_is_accepted(postgres: Postgres) -> None:
    """The type that `init` makes, as the server spells it afterwards, holds the column it was made for."""
    database = postgres.database("types")
    columns = ", ".join(f"c{n} {postgres_type(c)}" for n, c in enumerate(EVERY))
    postgres.execute(f"CREATE TABLE t ({columns})", database=database)
    connection = await asyncpg.connect(postgres.url(database))
    table = (await read_tables(connection, [TableName("public", "t")]))[TableName("public", "t")]
    await connection.close()
    for column, target in zip(EVERY, table.columns, strict=True):
        assert compatible(column, target, "postgres") == "", target.type


def test_a_made_mysql_column_is_accepted(mariadb: MariaDb, mysql: MySql) -> None:
    for server in (mariadb, mysql):
        schema = server.database("types")
        columns = ", ".join(f"c{n} {mysql_type(c)}" for n, c in enumerate(EVERY))
        server.execute(f"CREATE TABLE t ({columns})", database=schema)
        spelled = server.execute(
            "SELECT COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s ORDER BY ORDINAL_POSITION",
            schema,
        )
        for column, (type_,) in zip(EVERY, spelled, strict=True):
            assert compatible(column, TargetColumn("c", str(type_)), "mysql") == "", type_


@pytest.mark.parametrize("dialect", ["postgres", "mysql"])
def test_the_extremes_of_every_integer_fit(dialect: Dialect, postgres: Postgres, mysql: MySql) -> None:
    server = postgres if dialect == "postgres" else mysql
    database = server.database("extremes")
    for length in (1, 2, 3, 4, 8):
        for unsigned in (False, True):
            column = Column("c", Kind.INT, unsigned, length)
            made = postgres_type(column) if dialect == "postgres" else mysql_type(column)
            name = f"t{length}{'u' if unsigned else 's'}"
            server.execute(f"CREATE TABLE {name} (c {made})", database=database)
            for value in integer_range(column):
                server.execute(f"INSERT INTO {name} VALUES ({value})", database=database)
            kept = server.execute(f"SELECT c FROM {name} ORDER BY c", database=database)
            assert tuple(int(v) for (v,) in kept) == integer_range(column)


def test_the_reference_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), (
        "python -m tidelock.adapters.reference.types > docs/reference/types.md"
    )
