"""The statements that Debezium and TiCDC are tested with, run at a source with rows between them: what a feed reads of
them leaves the same tables and rows at PostgreSQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pymysql
import pytest

from bench.harness.compare import NotComparable, Pair, compare
from bench.harness.rig import Rig, until
from bench.harness.servers import Postgres, Server
from bench.harness.session import Record, connect
from bench.harness.tidelock import Process
from tests.adapters.ddl_corpora import DATA, cases, files, source_of
from tests.adapters.sample_values import sample
from tidelock.adapters.app.ddl_plan import USE, split

_PLACES: Final = re.compile(
    r"\b(?:USE|DATABASE|SCHEMA)\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?(?:`([^`]+)`|([\w$]+))", re.IGNORECASE
)
_NOT_RUN: Final = re.compile(r"\s*(FLUSH|INSTALL|UNINSTALL)\b", re.IGNORECASE)
"""Statements that would stop or change the server for all that follow; no feed sees them."""
_ODD: Final = re.compile(r"[\"'`.\\]")
"""Characters of a name that the comparison cannot spell."""
_OWN: Final = "'information_schema', 'mysql', 'performance_schema', 'sys'"


class Ends:
    """A source and a target with a feed between them, which takes all tables."""

    def __init__(self, source: Server, target: Server) -> None:
        self.source, self.target = connect(source), connect(target)
        self._number = 0
        self._filled: dict[Record, Record] = {}

    def close(self) -> None:
        self.source.close()
        self.target.close()

    def begin(self, process: Process) -> None:
        """See the feed flow: one that reads a DROP DATABASE before it knows all tables halts, as the page says."""
        for statement in ("CREATE DATABASE IF NOT EXISTS test", "USE test", "CREATE TABLE begun (id int PRIMARY KEY)"):
            self.source.send(statement)
        self.source.send("INSERT INTO begun VALUES (1)")
        until(lambda: self._equal(process), "a row at the target")
        self._empty()

    def run(self, file: Path, process: Process) -> int:
        """Run the statements of a file that need nobody; returns how many the source took.  Raises AssertionError."""
        text = file.read_text(encoding="utf-8")
        for place in sorted({"test", *("".join(found) for found in _PLACES.findall(text))}):
            self.source.send(f"CREATE DATABASE IF NOT EXISTS `{place}`")
            self.target.send(f'CREATE SCHEMA IF NOT EXISTS "{place}"')
        self.source.send("USE test")
        ran = sum(map(self._taken, self._readable(file)))
        until(lambda: self._equal(process), f"equal ends behind {file.name}", 120)
        self._empty()
        return ran

    def _readable(self, file: Path) -> Iterator[str]:
        found = iter(cases(file))
        for statement in split(file.read_text(encoding="utf-8")):
            outcome = "passed" if USE.match(statement) else next(found).outcome("postgresql")
            if outcome in ("translated", "passed") and not _NOT_RUN.match(statement):
                yield statement

    def _taken(self, statement: str) -> bool:
        """Run a statement, and put rows into the tables that it made or changed; returns whether the source took it."""
        try:
            self.source.send(statement)
        except pymysql.Error:
            return False
        for table, columns in self._tables().items():
            if self._filled.get(table) != columns:
                self._filled[table] = columns
                self._fill(table)
        return True

    def _tables(self) -> dict[Record, Record]:
        rows = self.source.rows(
            "SELECT c.table_schema, c.table_name, c.column_name FROM information_schema.columns c JOIN "
            "information_schema.tables t USING (table_schema, table_name) WHERE table_type = 'BASE TABLE' AND "
            f"c.table_schema NOT IN ({_OWN}) ORDER BY 1, 2, c.ordinal_position"
        )
        made: dict[Record, Record] = {}
        for schema, table, column in rows:
            if not _ODD.search(table):
                made[schema, table] = (*made.get((schema, table), ()), column)
        return made

    def _fill(self, table: Record) -> None:
        """Put two rows into a table, unless the source refuses them."""
        columns = self.source.rows(
            "SELECT column_name, data_type, column_type, extra FROM information_schema.columns WHERE table_schema = "
            f"'{table[0]}' AND table_name = '{table[1]}' AND COALESCE(generation_expression, '') = ''"
        )
        own = [(name, kind, type_) for name, kind, type_, extra in columns if "auto_increment" not in extra]
        for _ in range(2):
            self._number = self._number % 100 + 1
            names = ", ".join(f"`{name}`" for name, *_ in own)
            values = ", ".join(sample(kind, type_, self._number) for _, kind, type_ in own)
            try:
                self.source.send(f"INSERT IGNORE INTO `{table[0]}`.`{table[1]}` ({names}) VALUES ({values})")
            except pymysql.Error:
                return

    def _equal(self, process: Process) -> bool:
        """Tells whether both ends have the same tables with the same columns and rows."""
        process.check()
        found = self._tables()
        there = {(schema, table): columns for schema, table, columns in self.target.rows(_TARGET_TABLES)}
        kept = {table: {*columns.split("\n")} for table, columns in there.items() if not _ODD.search(table[1])}
        if kept != {table: {*columns} for table, columns in found.items()}:
            return False
        pairs = [Pair(f"{schema}.{table}", f"{schema}.{table}") for schema, table in found]
        try:
            return compare(self.source, self.target, pairs).total == 0
        except NotComparable:
            return False

    def _empty(self) -> None:
        """Drop all tables, which the feed follows."""
        self.source.send("SET foreign_key_checks = 0")
        for schema, view in self.source.rows(
            f"SELECT table_schema, table_name FROM information_schema.views WHERE table_schema NOT IN ({_OWN})"
        ):
            self.source.send(f"DROP VIEW `{schema}`.`{view}`")
        for schema, table in self._tables():
            self.source.send(f"DROP TABLE `{schema}`.`{table}`")
        self.source.send("SET foreign_key_checks = 1")
        self._filled.clear()


_TARGET_TABLES: Final = (
    "SELECT table_schema::text, table_name::text, string_agg(column_name, E'\\n') FROM information_schema.columns "
    "WHERE table_schema NOT IN ('pg_catalog', 'information_schema', 'tidelock') GROUP BY 1, 2"
)


@pytest.mark.proof
@pytest.mark.parametrize(("corpus", "server"), [("debezium", "mysql"), ("debezium", "mariadb"), ("ticdc", "mysql")])
def test_what_is_read_leaves_equal_ends(
    corpus: str,
    server: str,
    request: pytest.FixtureRequest,
    make_rig: Callable[..., Rig],
    make_postgres: Callable[..., Postgres],
) -> None:
    source = request.getfixturevalue(f"make_{server}")()
    target = make_postgres()
    rig = make_rig(source, target, "corpora", lanes=1)
    rig.rules = [{"source": "*.*"}]
    rig.catch_up()
    process = rig.run()
    ran = dict[Path, int]()
    with closing(Ends(source, target)) as ends:
        ends.begin(process)
        for file in files():
            if corpus in file.parts and source_of(file) == server:
                ran[file] = ends.run(file, process)
                print(f"{file.name}: {ran[file]}", flush=True)
    process.stop()
    assert rig.parked() == 0
    assert sum(ran.values()) > len(ran), DATA
