"""A column that a PostgreSQL source has got comes to each target, and old rows have the source's value there."""

from __future__ import annotations

from typing import Any

import pytest

from bench.harness.logical import decoded, log
from bench.harness.servers import MariaDb, MySql, Postgres
from tidelock.adapters.ddl.translate import translate
from tidelock.engine.model.records import Ddl, DdlKind, TableName

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
def server() -> Any:
    with Postgres() as made:
        yield made


def statement_of(server: Postgres, database: str, added: str) -> Ddl:
    """What the log of a PostgreSQL source tells of `added`."""
    server.execute_script("CREATE TABLE t (id int PRIMARY KEY)", database=database)
    with log(server, database) as made:
        made.run(["INSERT INTO t VALUES (1)", f"ALTER TABLE t ADD {added}", "INSERT INTO t VALUES (2)"])
        chunks, _ = decoded(made.messages(), made.start, made.catalogue)
    (ddl,) = [one.ddl for chunk in chunks for one in chunk.transactions if one.ddl is not None]
    assert ddl.kind is DdlKind.ADD_COLUMN
    return ddl


@pytest.mark.parametrize("name", ADDED)
def test_old_rows_of_a_postgres_target_have_the_value(server: Postgres, name: str) -> None:
    added, value, _ = ADDED[name]
    ddl = statement_of(server, server.database("shop"), added)
    target = server.database("target")
    server.execute_script("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)", database=target)
    for _ in range(2):  # a restart may run it once more
        server.execute_script("SET standard_conforming_strings = off", database=target)
        for statement in translate(ddl, "postgres", lambda table: table):
            server.execute_script(statement, database=target)
    server.execute_script("SET timezone = 'UTC'", database=target)
    ((text,),) = server.execute(f"SELECT {quoted_name(ddl)}::text FROM t", database=target)
    assert text == value


def quoted_name(ddl: Ddl) -> str:
    return '"' + ddl.added[0].column.name.replace('"', '""') + '"'


@pytest.mark.parametrize("name", ADDED)
@pytest.mark.parametrize("target", ["mariadb", "mysql"])
def test_old_rows_of_another_target_have_the_value(
    server: Postgres, target: str, name: str, request: pytest.FixtureRequest
) -> None:
    added, _, value = ADDED[name]
    ddl = statement_of(server, server.database("shop"), added)
    there: MariaDb | MySql = request.getfixturevalue(target)
    database = there.database("added")
    there.execute("CREATE TABLE t (id int PRIMARY KEY)", database=database)
    there.execute("INSERT INTO t VALUES (1)", database=database)
    for statement in translate(ddl, "mysql", lambda table: TableName(database, "t")):
        there.execute_script(f"SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'; {statement}", database=database)
    ((_, found),) = there.execute("SELECT * FROM t", database=database)
    assert (str(found) if isinstance(value, str) else found) == value
