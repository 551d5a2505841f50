"""Each cell of the page on schema changes, on real servers: rows before the statement, rows behind it, equal ends.

Where the page says that the feed halts, it halts for the reason that the page gives, an operator does what the halt
advises, and the ends are equal then.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import pymysql
import pytest

from bench.harness.rig import Rig, until
from bench.harness.session import connect
from tests.adapters.sample_values import sample
from tests.adapters.schema_change_cells import AGAIN, BY_HAND, FIRST, LAST, LOGGED, REFUSED, ByHand
from tidelock.adapters.app.ddl_plan import PlannedStatement, split
from tidelock.adapters.reference.schema_changes import BESIDE, TABLE, planned, statements

OPERATOR = 4
SECONDS = 180.0
CELLS = os.environ.get("TIDELOCK_CELLS", "1-1000")
"""First and last of the page's statements."""
WIDTH = re.compile(r"(?<=\bint)\(\d+\)")
"""The width of an integer, which MariaDB's catalogue tells and the page does not."""
NOT_APPLIED = "in a way that is not applied by itself"
"""What a feed says in the place of a reason that only the statement's own words give."""
PAIRS = [("mysql", "postgres"), ("mysql", "mariadb"), ("mariadb", "postgres"), ("mariadb", "mysql")]
DIALECTS = {"postgres": "postgresql", "mysql": "mysql", "mariadb": "mariadb"}
ROWS = """
INSERT INTO t VALUES (1, 1, 'abcde ', 'x'), (2, 2, 'é', 'y'), (3, 3, '', 'y')
INSERT INTO u VALUES (1), (2)
INSERT INTO new VALUES (1)
UPDATE t SET b = 'third' WHERE id = 3
""".strip().splitlines()


@pytest.mark.parametrize("pair", PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_each_halt_of_the_page_has_its_way_out(pair: tuple[str, str]) -> None:
    source, target = pair
    taken = [one for one in statements() if source not in REFUSED.get(one, ()) and LOGGED.get(one, {}).get(source, one)]
    halting = {one for one in taken if planned(one, source, DIALECTS[target]).outcome == "halts"}
    assert halting <= BY_HAND.keys()


class Cells:
    """A feed that takes all tables of a schema, before which the statements of the page are carried out in turn."""

    def __init__(self, rig: Rig, source: str, target: str) -> None:
        self._rig, self._source, self._target = rig, source, target
        self._session = connect(rig.source_place)
        self._session.send(f"USE {rig.schema}")
        self._session.send("CREATE TABLE pulse (id int PRIMARY KEY)")
        self._process = rig.run()
        self._beats = 0
        self.refused: dict[str, str] = {}

    def run(self, statement: str) -> None:
        """Carries one statement out between rows.  Raises AssertionError."""
        told = planned(statement, self._source, DIALECTS[self._target])
        sql = self._named(statement)
        self._send(*split(TABLE), *split(BESIDE), *ROWS, *FIRST.get(statement, ()))
        try:
            self._session.send(sql)
        except pymysql.Error as error:
            self.refused[statement] = str(error)
        else:
            self._send(*map(self._named, AGAIN.get(statement, ())))
            self._rows_behind()
            if told.outcome == "halts" and self._logged(statement):
                self._halted(statement, told)
            self._ends(sql)
            self._send(*map(self._named, LAST.get(statement, ())))
        self._empty()

    def end(self) -> None:
        """Ends the feed, which has nothing left to do."""
        self._ends("all")
        self._process.stop()
        assert self._rig.parked() == 0

    def _named(self, text: str) -> str:
        """A text of the page with the test's own database and account."""
        schema = self._rig.schema
        return re.sub(r"\b(shop|other|someone)\b", lambda m: schema if m[0] == "shop" else f"{m[0]}_{schema}", text)

    def _send(self, *sql: str) -> None:
        for statement in sql:
            self._session.send(statement)

    # ------------------------------------------------------------------ rows

    def _tables(self) -> dict[str, set[str]]:
        """Columns by table at the source."""
        made: dict[str, set[str]] = {}
        for table, column in self._session.rows(
            "SELECT c.table_name, c.column_name FROM information_schema.columns c JOIN information_schema.tables t "
            f"USING (table_schema, table_name) WHERE table_type = 'BASE TABLE' AND table_schema = '{self._rig.schema}'"
        ):
            made.setdefault(str(table), set()).add(str(column))
        return made

    def _rows_behind(self) -> None:
        """Rows of each table that there is now: new ones, changed ones, one with another key, one that goes."""
        for table in sorted(self._tables(), key=lambda name: (name != "t", name)):
            if table != "pulse":
                self._filled(table)

    def _filled(self, table: str) -> None:
        own = [(str(name), str(kind), str(type_)) for name, kind, type_ in self._session.rows(
            "SELECT column_name, data_type, column_type FROM information_schema.columns WHERE table_schema = "
            f"'{self._rig.schema}' AND table_name = '{table}' AND COALESCE(generation_expression, '') = ''"
        )]  # fmt: skip
        for number in (5, 6):
            names = ", ".join(f"`{name}`" for name, *_ in own)
            values = ", ".join(sample(kind, type_, number) for _, kind, type_ in own)
            self._send(f"INSERT IGNORE INTO {table} ({names}) VALUES ({values})")
        for name, kind, _ in own:
            if name != "id" and kind in ("int", "bigint", "smallint", "decimal", "varchar"):
                self._send(f"UPDATE IGNORE {table} SET `{name}` = 4 WHERE id = 3")
        self._send(f"UPDATE IGNORE {table} SET id = 7 WHERE id = 6", f"DELETE IGNORE FROM {table} WHERE id = 1")

    def _empty(self) -> None:
        """Drops all tables, which the feed follows."""
        self._send("SET foreign_key_checks = 0")
        for table in sorted(self._tables()):
            if table != "pulse":
                self._send(f"DROP TABLE {table}")
        self._send("SET foreign_key_checks = 1")

    # ------------------------------------------------------------------ the feed

    def _ends(self, behind: str) -> None:
        """Waits for the feed to have passed all that there is, with equal ends."""
        self._beats += 1
        self._send(f"INSERT INTO pulse VALUES ({self._beats})")
        until(lambda: not self._process.running or self._equal(), f"equal ends behind {behind}", SECONDS)
        assert self._process.running, f"{behind}: {self._rig.said()[-2000:]}"

    def _equal(self) -> bool:
        here, there = self._tables(), dict[str, set[str]]()
        for table, column in self._rig.rows(
            "SELECT CONCAT(table_name, ''), CONCAT(column_name, '') FROM information_schema.columns "
            f"WHERE table_schema = '{self._rig.schema}'"
        ):
            there.setdefault(str(table), set()).add(str(column))
        self._rig.tables = sorted(here)
        return here == there and self._rig.equal()

    def _halted(self, statement: str, told: PlannedStatement) -> None:
        """Has the feed halt for the reason that the page gives, and goes on as it advises."""
        until(lambda: not self._process.running, f"a halt before {statement}", SECONDS)
        assert self._process.code(10.0) == OPERATOR, self._rig.said()[-2000:]
        said = WIDTH.sub("", self._rig.said()[-4000:])
        assert self._logged(statement) in said, f"{statement}: {said}"
        assert self._why(statement, told) in said or NOT_APPLIED in said, f"{statement}: {said}"
        by_hand = BY_HAND[statement]
        self._rig.at_target(*self._at_target(statement, by_hand))
        assert self._rig.command("ddl", "done").code == 0
        self._process = self._rig.run()
        for table in by_hand.copied:
            done = self._rig.command("copy", "@", "--table", f"{self._rig.schema}.{table}", "--yes")
            assert done.code == 0, f"{statement}: {done.out} {done.err}"

    def _why(self, statement: str, told: PlannedStatement) -> str:
        """The reason that the page gives."""
        return self._named(told.why.partition(f": {statement}")[0].partition(" (it would")[0].partition(". ")[0])

    def _logged(self, statement: str) -> str:
        """Words of the statement in the source's log."""
        return LOGGED.get(statement, {}).get(self._source, self._named(statement))

    def _at_target(self, statement: str, by_hand: ByHand) -> tuple[str, ...]:
        if self._target == "postgres":
            return by_hand.postgres
        return (self._named(statement),) if by_hand.mysql is None else by_hand.mysql


@pytest.mark.proof
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("consistency", ["row", "transaction"])
@pytest.mark.parametrize("pair", PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_each_statement_of_the_page(
    pair: tuple[str, str], consistency: str, make_rig: Callable[..., Rig], request: pytest.FixtureRequest
) -> None:
    source, target = (request.getfixturevalue(name) for name in pair)
    rig = make_rig(source, target, "cells", lanes=4, consistency=consistency)
    rig.rules = [{"source": f"{rig.schema}.*"}]
    rig.catch_up()
    cells = Cells(rig, *pair)
    first, last = map(int, CELLS.split("-"))
    tried = statements()[first - 1 : last]
    for statement in tried:
        print(statement)
        cells.run(statement)
    cells.end()
    expected = {statement for statement in tried if pair[0] in REFUSED.get(statement, ())}
    assert {*cells.refused} == expected, cells.refused
