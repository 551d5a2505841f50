"""Schema changes drawn at random among rows, while the feed is killed: both ends are the same at the end.

A statement of which the page says that it is followed must not halt.  Before one that may change values the feed halts,
or has the same values behind it; then an operator does what the halt advises.
"""

from __future__ import annotations

import dataclasses
import os
import random
import signal
from collections.abc import Callable

import pymysql
import pytest

from bench.harness.rig import Rig, until
from bench.harness.session import connect
from tests.adapters.drawn_statements import Draw, Drawn

OPERATOR = 4
STATEMENTS = 250
SEEDS = os.environ.get("TIDELOCK_DRAWN_SEEDS", "1-5")
"""First and last seed."""
PAIRS = [("mysql", "postgres"), ("mariadb", "mysql"), ("mariadb", "postgres"), ("mysql", "mariadb")]
PAIRS += [("mysql", "other_mysql")]


def seeds() -> range:
    first, last = map(int, SEEDS.split("-"))
    return range(first, last + 1)


class Drawing:
    """A feed that follows drawn statements, and is killed now and then."""

    def __init__(self, rig: Rig, draw: Draw, rng: random.Random) -> None:
        self._rig, self._draw, self._rng = rig, draw, rng
        self._session = connect(rig.source_place)
        self._session.send(f"USE {rig.schema}")
        self._session.send("CREATE TABLE pulse (id int PRIMARY KEY)")
        self._process = rig.run()
        self._beats = 0
        self.ran: list[str] = []
        self.halts: list[str] = []

    def run(self, number: int) -> None:
        """Runs statements, and has the feed end with the same rows.  Raises AssertionError."""
        until_kill = self._rng.randint(20, 60)
        for drawn in self._draw.statements(number):
            drawn = dataclasses.replace(drawn, sql=drawn.sql.replace("{schema}", self._rig.schema))
            if not self._taken(drawn.sql, drawn.mode):
                self._note_tables()
                continue
            for sql in drawn.behind:
                assert self._taken(sql.replace("{schema}", self._rig.schema))
            drawn.done()
            if drawn.way:
                self._judged(drawn)
            until_kill -= 1
            if until_kill == 0:
                until_kill = self._rng.randint(20, 60)
                self._kill()
        self._beat("all statements")
        assert self._process.running, self._rig.said()[-1500:]
        until(lambda: not self._process.running or self._rig.equal(), "equal ends", 120)
        self._process.stop()
        assert self._rig.catch_up_code() == 0

    def _note_tables(self) -> None:
        """Forget tables that are gone: of several, MariaDB drops those that nothing refers to, and refuses the others.
        """
        there = {str(name) for (name,) in self._session.rows(
            f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{self._rig.schema}'"
        )}  # fmt: skip
        for name in self._draw.tables.keys() - there:
            del self._draw.tables[name]

    def _taken(self, sql: str, mode: str | None = None) -> bool:
        try:
            if mode is not None:
                self._session.send(f"SET SESSION sql_mode = '{mode}'")
            self._session.send(sql)
        except pymysql.Error:
            return False
        finally:
            if mode is not None:
                self._session.send("SET SESSION sql_mode = DEFAULT")
        self.ran.append(sql)
        return True

    def _kill(self) -> None:
        assert self._process.running, self._rig.said()[-1500:]
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.code(10.0)
        self._process = self._rig.run()

    def _beat(self, what: str) -> None:
        """Waits until the feed has passed all statements so far, or has ended."""
        self._beats += 1
        assert self._taken(f"INSERT INTO pulse VALUES ({self._beats})")
        beat = f"SELECT 1 FROM {self._rig.schema}.pulse WHERE id = {self._beats}"
        self._rig.tables = ["pulse", *sorted(self._draw.tables)]
        until(lambda: not self._process.running or self._has(beat), f"the feed behind {what}", 120)

    def _has(self, asked: str) -> bool:
        there = f"SELECT 1 FROM information_schema.tables WHERE table_schema = '{self._rig.schema}'"
        return bool(self._rig.rows(f"{there} AND table_name = 'pulse'")) and bool(self._rig.rows(asked))

    def _judged(self, drawn: Drawn) -> None:
        """Goes on as the halt advises, if the feed halts before a statement."""
        self._beat(drawn.sql)
        if self._process.running:
            until(lambda: not self._process.running or self._rig.equal(), f"equal ends behind {drawn.sql}", 60)
            assert self._process.running, self._rig.said()[-1500:]
            return
        assert self._process.code(10.0) == OPERATOR, self._rig.said()[-1500:]
        self.halts.append(drawn.sql)
        said = self._rig.said()[-2000:]
        assert drawn.sql in said, f"it halted at another statement than {drawn.sql}: {said}"
        if drawn.way == "same":
            self._rig.at_target(drawn.sql)
        if drawn.way == "database":
            there = "SELECT CONCAT(table_name, '') FROM information_schema.tables WHERE table_schema = "
            found = self._rig.rows(f"{there}'{self._rig.schema}'")
            self._rig.at_target(*(f"DROP TABLE IF EXISTS {row[0]}" for row in found))
        assert self._rig.command("ddl", "skip" if drawn.way == "drop" else "done").code == 0
        if drawn.way == "drop":
            self._session.send("SET foreign_key_checks = 0")
            self._taken(f"DROP TABLE {drawn.table}")
            self._session.send("SET foreign_key_checks = 1")
            del self._draw.tables[drawn.table]
        self._process = self._rig.run()


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.parametrize("pair", PAIRS, ids=["-".join(pair) for pair in PAIRS])
@pytest.mark.parametrize("seed", seeds())
def test_drawn_statements(
    pair: tuple[str, str], seed: int, make_rig: Callable[..., Rig], request: pytest.FixtureRequest
) -> None:
    source, target = (request.getfixturevalue(name) for name in pair)
    rng = random.Random(seed)
    rig = make_rig(source, target, "drawn", lanes=2, consistency=rng.choice(("row", "transaction")))
    rig.rules = [{"source": f"{rig.schema}.*"}]
    rig.catch_up()
    drawing = Drawing(rig, Draw(seed, swaps=pair[1] == "postgres", maria=pair[0] == "mariadb"), rng)
    try:
        drawing.run(STATEMENTS)
    except AssertionError:
        (rig.folder / "statements.sql").write_text(";\n".join(drawing.ran))
        print(rig.said()[-3000:], rig.folder)
        raise
    print(f"{len(drawing.ran)} statements, {len(drawing.halts)} halts", *drawing.halts, sep="\n  ")
    kept = rig.rows(f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{rig.schema}'")
    assert sorted(str(row[0]) for row in kept) == sorted(rig.tables)
    assert rig.parked() == 0
