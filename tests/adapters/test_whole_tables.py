"""`init` makes whole tables: defaults, counters, plain indexes, checks and comments, where they mean the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.harness.servers import MariaDb, MySql, Postgres
from tidelock.adapters.app.init_plan import init_plan
from tidelock.adapters.app.planned_statement import PlannedStatement
from tidelock.adapters.checks.feed import check
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.loader import read
from tidelock.adapters.ports.definition import Definition
from tidelock.adapters.wiring.inspection import opened
from tidelock.engine.model.records import TableName

MYSQL_TABLES = """
CREATE TABLE shop (id int PRIMARY KEY, name varchar(20) COLLATE utf8mb4_bin);
CREATE TABLE item (
    id int AUTO_INCREMENT PRIMARY KEY COMMENT 'a number', shop int NOT NULL DEFAULT 1, price decimal(9,2) NOT NULL
    DEFAULT '1.50', name varchar(40) NOT NULL DEFAULT 'it''s 100% new', state enum('new','sold') DEFAULT 'new',
    day date DEFAULT '2020-02-29', made datetime(3) DEFAULT CURRENT_TIMESTAMP(3),
    seen timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, note text,
    code varchar(20) COLLATE utf8mb4_bin, flag bit(1) DEFAULT b'1', big bigint unsigned DEFAULT 18446744073709551615,
    KEY by_shop (shop, price), KEY by_name (name(10)), KEY by_note (note(100)), FULLTEXT KEY words (note),
    CONSTRAINT dear CHECK (price >= 0 AND shop <> 5),
    CONSTRAINT coded CHECK (state IN ('new', 'sold') OR char_length(code) > 2),
    CONSTRAINT named CHECK (name <> 'nobody'), CONSTRAINT of_shop FOREIGN KEY (shop) REFERENCES shop (id)
) COMMENT='what is 100% sold';
"""
POSTGRES_TABLES = """
CREATE TABLE shop (id int PRIMARY KEY, name text);
CREATE TABLE item (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, shop int NOT NULL DEFAULT 1 REFERENCES shop, number serial,
    price numeric(9,2) NOT NULL DEFAULT 1.50, name varchar(40) NOT NULL DEFAULT 'it''s 100% new',
    day date DEFAULT '2020-02-29',
    made timestamp(3) DEFAULT now(), seen timestamptz DEFAULT CURRENT_TIMESTAMP, note text, flag boolean DEFAULT true,
    token uuid DEFAULT gen_random_uuid(),
    CONSTRAINT dear CHECK (price >= 0 AND shop <> 5),
    CONSTRAINT coded CHECK (name IN ('a', 'b') OR char_length(name) > 2),
    CONSTRAINT odd CHECK (name ~ '^[a-z]')
);
CREATE INDEX by_shop ON item (shop, price DESC);
CREATE INDEX by_note ON item (note);
CREATE INDEX cheap ON item (price) WHERE price < 2;
CREATE INDEX folded ON item (lower(name));
COMMENT ON TABLE item IS 'what is 100% sold';
COMMENT ON COLUMN item.id IS 'a number';
"""


class Pair:
    """A source with tables, and an empty target.  `place`: the target's schema."""

    def __init__(self, source: Any, target: Any) -> None:
        self.source, self.target = source, target
        self.of_postgres = isinstance(source, Postgres)
        self.database = source.database("whole")
        self.to_postgres = isinstance(target, Postgres)
        self.at_target = target.database("whole")
        self.schema = "public" if self.of_postgres else self.database
        self.place = "whole" if self.to_postgres else self.at_target
        source.execute_script(POSTGRES_TABLES if self.of_postgres else MYSQL_TABLES, database=self.database)

    def feed(self, options: str = "") -> Feed:
        source = self.source.url(self.database) if self.of_postgres else self.source.url()
        target = self.target.url(self.at_target)
        text = f"feed: whole\nsource: {source}\ntarget: {target}\nschema: own_{self.at_target}\n"
        tables = f"tables: [{{source: {self.schema}.*, target: {self.place}.*}}]\n"
        return read(text + tables + options, Path("whole.yaml"))

    async def apply(self, plan: list[PlannedStatement]) -> None:
        async with opened(self.feed().target_url) as target:
            for statement in plan:
                if statement.side == "target" and statement.applied:
                    await target.execute(statement.sql)

    async def definition(self) -> Definition:
        async with opened(self.feed().target_url) as target:
            return (await target.definitions([TableName(self.place, "item")]))[TableName(self.place, "item")]

    def inserted(self) -> list[Any]:
        """A row of defaults alone."""
        place = f"{self.place}.item"
        self.target.execute(f"INSERT INTO {self.place}.shop (id) VALUES (1)", database=self.at_target)
        self.target.execute(f"INSERT INTO {place} (shop) VALUES (1)", database=self.at_target)
        columns = "id, price, name, CAST(day AS char(10)), made IS NULL, seen IS NULL"
        rows = self.target.execute(f"SELECT {columns} FROM {place}", database=self.at_target)
        return [str(value) for value in rows[0]]


def left_out(plan: list[PlannedStatement]) -> set[str]:
    return {s.sql.split(" (")[0] for s in plan if s.left_out}


@pytest.fixture
def pair(request: pytest.FixtureRequest) -> Pair:
    source, target = (request.getfixturevalue(name) for name in request.param)
    return Pair(source, target)


@pytest.mark.parametrize(
    "pair", [("mysql", "postgres"), ("mariadb", "postgres"), ("mysql", "mariadb"), ("mariadb", "mariadb")],
    indirect=True, ids="-".join,
)  # fmt: skip
async def test_tables_of_mysql_are_made_whole(pair: Pair, mysql: MySql, mariadb: MariaDb, postgres: Postgres) -> None:
    plan = await init_plan(pair.feed())
    await pair.apply(plan)
    assert [f.kind for f in (await check(pair.feed())).findings if f.level == "error"] == []
    made = await pair.definition()
    names = {index.name.removeprefix("item_") for index in made.indexes} - {"of_shop"}
    checks = {name for name, _ in made.checks}
    assert {"by_shop", "by_name", "by_note"} <= names
    assert made.comment == "what is 100% sold" and made.comments["id"] == "a number"
    assert "id" in made.counters and {"price", "name", "state", "day", "made", "seen", "flag"} <= made.defaults.keys()
    if pair.to_postgres:
        assert checks == {"dear", "coded", "item_state_label"}
        assert left_out(plan) == {"seen ON UPDATE CURRENT_TIMESTAMP", "CHECK named", "INDEX words"}
    elif pair.source is not mysql:
        assert checks == {"dear", "coded", "named"} and "words" in names
    no = "False" if pair.to_postgres else "0"
    assert pair.inserted() == ["1", "1.50", "it's 100% new", "2020-02-29", no, no]
    assert [s for s in await init_plan(pair.feed(), indexes=True) if s.applied] == []


@pytest.mark.parametrize(
    "pair", [("postgres_source", "postgres"), ("postgres_source", "mariadb"), ("postgres_source", "mysql")],
    indirect=True, ids="-".join,
)  # fmt: skip
async def test_tables_of_postgres_are_made_whole(pair: Pair) -> None:
    plan = await init_plan(pair.feed())
    await pair.apply(plan)
    made = await pair.definition()
    checks, names = {name for name, _ in made.checks}, {index.name for index in made.indexes}
    assert made.comment == "what is 100% sold" and made.comments["id"] == "a number"
    assert {"price", "name", "day", "made", "seen", "flag"} <= made.defaults.keys()
    assert "id" in made.counters
    if pair.to_postgres:
        assert checks == {"dear", "coded", "odd"} and names == {"by_shop", "by_note", "cheap", "folded"}
        assert left_out(plan) == set()
    else:
        assert {"dear", "coded"} <= checks and "odd" not in checks
        assert {"by_shop", "by_note"} <= names and not {"cheap", "folded"} & names
        assert {"INDEX cheap", "INDEX folded", "CHECK odd", "number as a counter"} <= left_out(plan)
    assert [s for s in await init_plan(pair.feed(), indexes=True) if s.applied and s.side == "target"] == []


async def test_indexes_wait_for_rows_that_are_copied(mariadb: MariaDb, postgres: Postgres) -> None:
    pair = Pair(mariadb, postgres)
    plan = await init_plan(pair.feed("start: copy\n"))
    waiting = [s for s in plan if s.later]
    assert {"index item_by_shop", "check dear"} <= {" ".join(s.why.split()[:2]) for s in waiting}
    await pair.apply(plan)
    made = await pair.definition()
    assert made.indexes == () and made.checks == () and made.defaults
    then = await init_plan(pair.feed("start: copy\n"), indexes=True)
    assert [s.sql for s in then if s.applied] == [s.sql for s in waiting]
    await pair.apply(then)
    assert [s for s in await init_plan(pair.feed("start: copy\n"), indexes=True) if s.applied] == []
