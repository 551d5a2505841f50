"""A feed of a PostgreSQL source that is checked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from bench.harness.servers import Postgres
from tidelock.adapters.bookkeeping.tables import create_statements
from tidelock.adapters.checks.feed import check
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.loader import read
from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.ports.finding import Finding
from tidelock.engine.model.records import Position

ITEM = "id int PRIMARY KEY, name varchar(20), amount numeric(9,2) NOT NULL"


class Place:
    """One feed `shop` from a fresh database of a PostgreSQL server to a fresh one of a target."""

    def __init__(self, source: Postgres, target: Any) -> None:
        self.source, self.target = source, target
        self.schema = source.database("check")
        self.database = target.database("check")
        self.name = self.schema  # slots of all databases of a server share their names
        self.slot = slot_name(self.name)
        self.to_postgres = isinstance(target, Postgres)
        self.there = "public" if self.to_postgres else self.database

    def at_source(self, *statements: str) -> None:
        for sql in statements:
            self.source.execute_script(sql, database=self.schema)

    def at_target(self, *statements: str) -> None:
        for sql in statements:
            self.target.execute_script(sql, database=self.database)

    def both(self, columns: str = ITEM, there: str = "") -> None:
        self.at_source(f"CREATE TABLE t ({columns})")
        self.at_target(f"CREATE TABLE t ({there or columns})")

    def make_slot(self, plugin: str = "pgoutput") -> None:
        self.at_source(f"SELECT pg_create_logical_replication_slot('{self.slot}', '{plugin}')")

    def slots(self) -> int:
        sql = "SELECT count(*)::int FROM pg_replication_slots WHERE slot_name = $1"
        return int(self.source.execute(sql, self.slot)[0][0])

    def publish(self, tables: str = "t", more: str = "WITH (publish_via_partition_root = true)") -> None:
        self.at_source(f"CREATE PUBLICATION {self.slot} FOR TABLE {tables} {more}")

    def text(self, tables: str = "", **other: str) -> str:
        urls = {"source": self.source.url(self.schema), "target": self.target.url(self.database)} | other
        rule = tables or f"[{{source: public.t, target: {self.there}.t}}]"
        return f"feed: {self.name}\nsource: {urls['source']}\ntarget: {urls['target']}\ntables: {rule}\n"

    def feed(self, tables: str = "", **other: str) -> Feed:
        return read(self.text(tables, **other), Path("shop.yaml"))

    def everything(self) -> str:
        return f"[{{source: public.*, target: {self.there}.*}}]"

    async def findings(self, tables: str = "", **other: str) -> list[Finding]:
        return list((await check(self.feed(tables, **other))).findings)

    def follow(self, finding: Finding) -> None:
        """Run what the finding advises, where it says."""
        advised = finding.hint.removeprefix("At the source ")
        for statement in re.split(r"(?<=;)\s+", advised):
            self.source.execute_script(statement, database=self.schema)

    async def gone(self, kind: str, tables: str = "", **other: str) -> Finding:
        """The one finding of its kind, which goes when its advice is followed."""
        found = only(await self.findings(tables, **other), kind)
        self.follow(found)
        assert kind not in kinds(await self.findings(tables, **other))
        return found

    def store(self, place: Position) -> None:
        """A checkpoint, as a run has left it."""
        dialect = "postgres" if self.to_postgres else "mysql"
        self.at_target(*create_statements(dialect, "tidelock"))
        words = msgspec.json.encode(place).decode()
        values = f"('{self.name}', 0, '{words}')"
        self.at_target(f"INSERT INTO tidelock.tidelock_checkpoint (feed, grp, position) VALUES {values}")

    def system(self) -> str:
        return str(self.source.execute("SELECT system_identifier::text FROM pg_control_system()")[0][0])


def kinds(findings: list[Finding]) -> list[str]:
    return [finding.kind for finding in findings]


def only(findings: list[Finding], kind: str) -> Finding:
    found = [finding for finding in findings if finding.kind == kind]
    assert len(found) == 1, findings
    return found[0]
