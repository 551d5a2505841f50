"""A column that a PostgreSQL source has got comes to each target, and old rows have the source's value there."""

from __future__ import annotations

from typing import Any

import pytest

from bench.harness.logical import decoded, log
from bench.harness.servers import MariaDb, MySql, Postgres
from tidelock.adapters.ddl.translate import translate
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind

# What is added, and what an old row has then: in PostgreSQL's spelling, and as MySQL's driver reads it.
ADDED: dict[str, tuple[str, Any, Any]] = {
    "nothing": ("c int", None, None),
    "a number": ("c int NOT NULL DEFAULT -7", "-7", -7),
    "a boolean": ("c bool DEFAULT true", "true", 1),
    "a decimal": ("c numeric(8,3) DEFAULT 1.5", "1.500", "1.500"),
    "a double": ("c float DEFAULT 0.1", "0.1", 0.1),
    "a word": ("c varchar(20) DEFAULT 'it''s übers'", "it's übers", "it's übers"),
    "a long text": ("c text DEFAULT 'a \\ and \"x\", {y}'", 'a \\ and "x", {y}', 'a \\ and "x", {y}'),
    "bytes": ("c bytea DEFAULT '\\x00ff27'", "\\x00ff27", b"\0\xff'"),
    "a day": ("c date DEFAULT '2026-11-25'", "2026-11-25", "2026-11-25"),
    "a moment": (
        "c timestamptz DEFAULT '2026-11-25 10:00:00.5+02'",
        "2026-11-25 08:00:00.5+00",
        "2026-11-25 08:00:00.500000",
    ),
    "a document": ("c jsonb DEFAULT '{\"a\": \"it''s\"}'", '{"a": "it\'s"}', '{"a": "it\'s"}'),
    "an array": ("c text[] DEFAULT ARRAY['a,b', NULL, '\\']", '{"a,b",NULL,"\\\\"}', '{"a,b",NULL,"\\\\"}'),
    "a name in need of quotes": ('"c ""C"" `" int DEFAULT 1', "1", 1),
}


@pytest.fixture(scope="module")
def statements(postgres: Postgres) -> dict[str, Ddl]:
    """Columns that the log of a PostgreSQL source tells of: a table for each, so that one log tells them all."""
    database = postgres.database("shop")
    tables = [f"t{number}" for number in range(len(ADDED))]
    postgres.execute_script("; ".join(f"CREATE TABLE {t} (id int PRIMARY KEY)" for t in tables), database=database)
    with log(postgres, database) as made:
        former = made.forms()
        for table, (added, *_) in zip(tables, ADDED.values(), strict=True):
            made.run([f"INSERT INTO {table} VALUES (1)", f"ALTER TABLE {table} ADD {added}"])
            made.run([f"INSERT INTO {table} VALUES (2)"])
        chunks, _ = decoded(made.messages(), made.start, made.catalogue, former=former)
    found = [one.ddl for chunk in chunks for one in chunk.transactions if one.ddl is not None]
    assert [ddl.tables[0].table for ddl in found] == tables
    assert {ddl.kind for ddl in found} == {DdlKind.ADD_COLUMN}
    return dict(zip(ADDED, found, strict=True))


def test_old_rows_of_a_postgres_target_have_the_value(postgres: Postgres, statements: dict[str, Ddl]) -> None:
    target = postgres.database("target")
    found = {}
    for name, ddl in statements.items():
        table = ddl.tables[0].table
        made = f"CREATE TABLE {table} (id int PRIMARY KEY); INSERT INTO {table} VALUES (1)"
        postgres.execute_script(made, database=target)
        for _ in range(2):  # a restart may run it once more
            postgres.execute_script("SET standard_conforming_strings = off", database=target)
            for statement in translate(ddl, "postgres", lambda table: table):
                postgres.execute_script(statement, database=target)
        postgres.execute_script("SET timezone = 'UTC'", database=target)
        ((found[name],),) = postgres.execute(f"SELECT {quoted_name(ddl)}::text FROM {table}", database=target)
    assert found == {name: value for name, (_, value, _) in ADDED.items()}


def quoted_name(ddl: Ddl) -> str:
    return '"' + ddl.added[0].column.name.replace('"', '""') + '"'


@pytest.mark.parametrize("target", ["mariadb", "mysql"])
def test_old_rows_of_another_target_have_the_value(
    target: str, statements: dict[str, Ddl], request: pytest.FixtureRequest
) -> None:
    there: MariaDb | MySql = request.getfixturevalue(target)
    database = there.database("added")
    found = {}
    for name, ddl in statements.items():
        there.execute("DROP TABLE IF EXISTS t", database=database)
        there.execute("CREATE TABLE t (id int PRIMARY KEY)", database=database)
        there.execute("INSERT INTO t VALUES (1)", database=database)
        for statement in translate(ddl, "mysql", lambda table: TableName(database, "t")):
            there.execute_script(f"SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'; {statement}", database=database)
        ((_, value),) = there.execute("SELECT * FROM t", database=database)
        found[name] = str(value) if isinstance(ADDED[name][2], str) else value
    assert found == {name: value for name, (_, _, value) in ADDED.items()}
