"""Each cell of the page on schema changes of a PostgreSQL source, on real servers: rows before the change, rows behind
it, equal ends.

Where the page says that the feed halts, it halts for the reason that the page gives, an operator does what the halt
advises, and the ends are equal then.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from bench.harness.compare import NotComparable, Pair, compare
from bench.harness.rig import Rig, Said, tidelock, until
from bench.harness.servers import Postgres
from tests.adapters.postgres_change_cells import CHANGES, Change
from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.reference.schema_changes import changes

OPERATOR = 4
SECONDS = 240.0


def test_each_change_of_the_page_has_its_statements() -> None:
    assert [*CHANGES] == [*changes()]


class Cells:
    """A feed with one table for each change."""

    def __init__(self, rig: Rig, *, postgres: bool) -> None:
        self._rig, self._postgres = rig, postgres
        self._tables = {name: f"t{number}" for number, name in enumerate(CHANGES)}
        for table in self._tables.values():
            rig.at_source(f"CREATE TABLE {table} (id int PRIMARY KEY, a int, b int)")
        rig.begin_here()
        rig.at_source(*(f"INSERT INTO {table} VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)"
                        for table in self._tables.values()))  # fmt: skip
        self._kept = dict(self._tables.items())
        self._process = rig.run()
        self._ends("the first rows")

    def followed(self, *names: str) -> None:
        """Makes changes of which none halts, one behind the other."""
        for name in names:
            if not CHANGES[name].seen:
                self._make(name)
                self._rows_behind(name)
        self._ends("what is followed")
        self._process.stop()
        seen = [name for name in names if CHANGES[name].seen]
        for name in seen:
            self._make(name)
        self._rig.catch_up()  # it looks at the tables when it begins, and not in half a minute
        for name in seen:
            self._rows_behind(name)
        self._process = self._rig.run()
        self._ends("what is followed")
        gone = self._tables["DROP TABLE"]
        there = "SELECT 1 FROM information_schema.tables WHERE table_schema = '{}' AND table_name = '{}'"
        assert not self._rig.rows(there.format(self._rig.schema, gone)), "dropped there too"

    def halts(self, name: str, why: str) -> None:
        """Makes a change before which the feed halts, and goes on as it advises."""
        self._process.stop()
        self._make(name)
        if not CHANGES[name].seen:
            self._rows_behind(name)
        for by_hand in CHANGES[name].postgres if self._postgres else CHANGES[name].mysql:
            before = len(self._rig.said())
            assert self._rig.catch_up_code() == OPERATOR, self._rig.said()[-2000:]
            said = self._rig.said()[before:]
            assert self._named(name, why) in said or "d is gone" in said, said
            self._rig.at_target(*(sql for sql in self._named(name, by_hand).split("; ") if sql))
            assert self._rig.command("ddl", "done").code == 0
        if CHANGES[name].seen:
            self._rows_behind(name)
        self._process = self._rig.run()
        done = self._copied(f"{self._rig.schema}.{self._kept[name]}")
        assert done.code == 0, f"{name}: {done.out} {done.err}"
        self._ends(name)

    def end(self) -> None:
        self._process.stop()
        assert self._rig.parked() == self._rig.unique_violations() == 0

    def _copied(self, table: str) -> Said:
        return tidelock("copy", str(self._rig.feed), "--table", table, "--yes", seconds=SECONDS)

    def _named(self, name: str, text: str) -> str:
        """A text of the page or of a change, with the test's own names."""
        table = self._tables[name]
        text = text.replace("{t}", table).replace("{p}", slot_name(self._rig.name))
        return re.sub(r"\bpublic\.t\b", f"{self._rig.schema}.{table}", text)

    def _make(self, name: str) -> None:
        change: Change = CHANGES[name]
        self._rig.at_source(self._named(name, f"DO $do$ BEGIN {change.sql}; END $do$"))
        self._kept[name] = self._named(name, change.name)

    def _rows_behind(self, name: str) -> None:
        change = CHANGES[name]
        self._rig.at_source(*(self._named(name, sql) for sql in (*change.rows, *change.behind)))

    def _ends(self, behind: str) -> None:
        until(lambda: not self._process.running or self._equal(), f"equal ends behind {behind}", SECONDS)
        assert self._process.running, f"{behind}: {self._rig.said()[-2000:]}"

    def _equal(self) -> bool:
        """Tells whether no row differs; a generated column is the source's alone."""
        made = []
        for name, table in self._kept.items():
            columns = tuple((column, column) for column in ("id", "a", "b")) if "GENERATED" in name else ()
            made += [Pair(f"{self._rig.schema}.{table}", f"{self._rig.schema}.{table}", columns)] if table else []
        try:
            return compare(self._rig.source_place, self._rig.target, made).total == 0
        except NotComparable:
            return False


@pytest.mark.proof
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("consistency", ["row", "transaction"])
@pytest.mark.parametrize("target", ["postgres", "mysql", "mariadb"])
def test_each_change_of_the_page(
    target: str,
    consistency: str,
    make_rig: Callable[..., Rig],
    postgres_source: Postgres,
    request: pytest.FixtureRequest,
) -> None:
    rig = make_rig(postgres_source, request.getfixturevalue(target), "changes", lanes=4, consistency=consistency)
    cells = Cells(rig, postgres=target == "postgres")
    outcomes = {name: cell[0 if target == "postgres" else 1] for name, cell in changes().items()}
    cells.followed(*(name for name, outcome in outcomes.items() if outcome != "halts"))
    for name, (*_, why) in changes().items():
        if outcomes[name] == "halts":
            cells.halts(name, why)
    cells.end()
