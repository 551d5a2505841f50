"""A feed of MariaDB or MySQL that is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.harness.servers import MariaDb, MySql
from tidelock.adapters.checks.feed import check
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.loader import read
from tidelock.adapters.ports.finding import Finding

SOURCE = "id int PRIMARY KEY, name varchar(20), amount decimal(9,2) NOT NULL"

TARGET = "id int PRIMARY KEY, name varchar(20), amount numeric(9,2) NOT NULL"


class Place:
    """One feed from a fresh MariaDB (or MySQL) database to a fresh target of the same schema name."""

    def __init__(self, source: MariaDb | MySql, target: Any, dialect: str) -> None:
        self.source, self.target, self.dialect = source, target, dialect
        self.schema = source.database("check")
        self.database = target.database("check")
        self.place = self.schema if dialect == "postgres" else self.database
        if dialect == "postgres":
            target.execute(f"CREATE SCHEMA {self.schema}", database=self.database)
        self.options = ""

    def at_source(self, sql: str) -> None:
        self.source.execute(sql, database=self.schema)

    def at_target(self, sql: str) -> None:
        path = f"SET search_path = {self.place}, public; " if self.dialect == "postgres" else ""
        self.target.execute_script(path + sql, database=self.database)

    def both(self, source: str = SOURCE, target: str = TARGET) -> None:
        self.at_source(f"CREATE TABLE t ({source})")
        self.at_target(f"CREATE TABLE t ({target})")

    def feed(self, **other: str) -> Feed:
        urls = {"source": self.source.url(), "target": self.target.url(self.database)} | other
        rule = other.get("tables") or f"[{{source: {self.schema}.*, target: {self.place}.*}}]"
        text = f"feed: shop\nsource: {urls['source']}\ntarget: {urls['target']}\ntables: {rule}\n"
        return read(text + self.options, Path("shop.yaml"))

    async def findings(self, **other: str) -> list[Finding]:
        """Returns what is found, but for feeds that go the other way: other tests have some there."""
        return [one for one in (await check(self.feed(**other))).findings if one.kind != "other-way"]


def kinds(findings: list[Finding], *levels: str) -> list[str]:
    return [f.kind for f in findings if f.level in (levels or ("error", "warning", "note"))]


def only(findings: list[Finding], kind: str) -> Finding:
    assert kinds(findings) == [kind], findings
    return findings[0]


# ----------------------------------------------------------------------------------------------------- cascades, keys

PARENT = "CREATE TABLE p (id int PRIMARY KEY)"
