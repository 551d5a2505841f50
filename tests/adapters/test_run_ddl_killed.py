"""A feed that is killed around a long schema change: it runs once at the target, and no row differs."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from bench.harness.altering import Altering
from bench.harness.moments import Deployment, Embedded, Moments, Scaled
from bench.harness.rig import Rig
from bench.harness.servers import Server

PROOF = pytest.mark.proof
ROWS = 40_000
PACKET_ROWS = 20_000
MOMENTS = 10


@dataclasses.dataclass(frozen=True)
class Change:
    """A statement of which each table has ten.  `{0}`: its number.

    `columns`: of the table, with what it needs.  `there`: a query that tells whether the shape has it, in words that
    all servers know.  `behind`: a change of rows that needs it.
    """

    alter: str
    there: str
    columns: str = ""
    behind: str = "SELECT 1"

    def table(self) -> str:
        made = [self.columns.format(number) for number in range(MOMENTS)] if self.columns else []
        return ", ".join(["id int", "v int", *made, "PRIMARY KEY (id)"])


_COLUMNS = "SELECT 1 FROM information_schema.columns WHERE table_schema = '{1}' AND table_name = 't' AND column_name "
_KEYS = "SELECT 1 FROM information_schema.key_column_usage WHERE table_schema = '{1}' AND table_name = 't' AND "
CHANGES = {
    "add": Change(
        "ALTER TABLE t ADD COLUMN c{0} int NOT NULL DEFAULT 7, ADD COLUMN note{0} varchar(9)",
        _COLUMNS + "= 'note{0}'",
        behind="UPDATE t SET c{0} = id, note{0} = 'n' WHERE id < 9",
    ),
    "modify": Change(
        "ALTER TABLE t MODIFY m{0} bigint NOT NULL DEFAULT 3",
        _COLUMNS + "= 'm{0}' AND data_type = 'bigint'",
        "m{0} int NOT NULL DEFAULT {0}",
        "UPDATE t SET m{0} = 5000000000 + id WHERE id < 9",
    ),
    "unique": Change("ALTER TABLE t ADD UNIQUE KEY u{0} (v)", _KEYS + "constraint_name IN ('u{0}', 't_u{0}')"),
    "index": Change(
        "ALTER TABLE t ADD INDEX i{0} (v, d{0}), ADD COLUMN g{0} int, ALTER COLUMN v SET DEFAULT {0}",
        _COLUMNS + "= 'g{0}'",
        "d{0} int NOT NULL DEFAULT {0}",
        "UPDATE t SET g{0} = 1 WHERE id < 9",
    ),
    "primary": Change(
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, d{0})",
        _KEYS + "column_name = 'd{0}'",
        "d{0} int NOT NULL DEFAULT {0}",
        "UPDATE t SET d{0} = d{0} + 1 WHERE id < 9",
    ),
    "rename": Change(
        "ALTER TABLE t RENAME COLUMN d{0} TO e{0}, ADD COLUMN f{0} int",
        _COLUMNS + "= 'e{0}'",
        "d{0} int NOT NULL DEFAULT {0}",
        "UPDATE t SET e{0} = -1, f{0} = 1 WHERE id < 9",
    ),
    "drop": Change(
        "ALTER TABLE t DROP COLUMN d{0}",
        "SELECT 1 WHERE NOT EXISTS (" + _COLUMNS + "= 'd{0}')",
        "d{0} int NOT NULL DEFAULT {0}",
    ),
}
FROM_POSTGRES = {
    "add": CHANGES["add"],
    "rename": dataclasses.replace(
        CHANGES["rename"],
        alter="ALTER TABLE t RENAME COLUMN d{0} TO e{0}",
        behind="UPDATE t SET e{0} = -1 WHERE id < 9",
    ),
    "drop": CHANGES["drop"],
}


def filled(rig: Rig, change: Change, rows: int = ROWS) -> None:
    """The tables at both ends, with the same rows, which no feed has carried."""
    rig.table("t", change.table())
    for table in ("u", "w"):
        rig.table(table, "id int PRIMARY KEY, v int")
    for first in range(1, rows, PACKET_ROWS):
        values = ",".join(f"({n},{n})" for n in range(first, min(rows, first + PACKET_ROWS)))
        for run in (rig.at_source, rig.at_target):
            run(f"INSERT INTO t (id, v) VALUES {values}")
    for run in (rig.at_source, rig.at_target):
        run("INSERT INTO u VALUES (1, 0)", "INSERT INTO w VALUES (1, 0)")
    rig.start_at = rig.here()
    rig.begin_here()


def write(rig: Rig, change: Change, number: int) -> None:
    """Rows of three tables before the statement and behind it."""
    rig.at_source(
        f"UPDATE t SET v = -v WHERE id < {number + 10}",
        f"UPDATE w SET v = v - {number} WHERE id = 1",
        change.alter.format(number, rig.schema),
        change.behind.format(number),
        f"INSERT INTO t (id, v) VALUES ({10**6 + number}, {10**6 + number})",
        f"UPDATE u SET v = {number + 1} WHERE id = 1",
        f"UPDATE w SET v = {1000 + number} WHERE id = 1",
    )


def arrived(rig: Rig, number: int) -> bool:
    """Tells whether the rows behind the statement are there, of all three tables."""
    found = rig.rows(
        f"SELECT CONCAT(u.v, ''), CONCAT(w.v, '') FROM u, w WHERE EXISTS (SELECT 1 FROM t WHERE id = {10**6 + number})"
    )
    return found == [(str(number + 1), str(1000 + number))]


def altered(rig: Rig, change: Change, number: int) -> bool:
    return bool(rig.rows(change.there.format(number, rig.schema)))


def known(rig: Rig) -> bool:
    """Tells whether the feed has kept the form that the table has at first, which MODIFY is judged by."""
    kept = f"FROM {rig.options.get('schema', 'tidelock')}.tidelock_forms WHERE feed = '{rig.name}'"
    return bool(rig.rows(f"SELECT 1 {kept} AND table_name = 't'"))


_DEFAULT_ALONE = re.compile(r"ALTER TABLE \S+ ALTER COLUMN `\w+` SET DEFAULT '?\d+'?")


def ran(statements: Altering) -> list[str]:
    """Returns the statements that ran, but those that do nothing but set a default: nothing tells whether it is set."""
    return [words for words in statements.told() if not _DEFAULT_ALONE.search(words)]


def kill_around(feed: Deployment, change: Change, names: list[str] | None = None) -> None:
    """Kill the feed at each moment of a statement of its own, and have it end what it began."""
    rig, rng = feed.rig, random.Random(change.alter)
    statements, moments = Altering(rig), Moments(feed, rng)
    feed.start()
    feed.until(lambda: feed.owners() > 0 and known(rig), "the first takeover, and the first look at the tables")
    try:
        for number, (name, moment) in enumerate(moments.all.items()):
            if names is not None and name not in names:
                continue
            moments.arrived = partial(arrived, rig, number)
            moments.altered = partial(altered, rig, change, number)
            with moment(partial(write, rig, change, number)):
                feed.kill()
            print(name, flush=True)
            feed.start()
            feed.until(moments.arrived, f"rows behind the statement, killed when {name}")
            assert moments.altered(), name
            assert len(ran(statements)) == (number + 1 if names is None else names.index(name) + 1), ran(statements)
    finally:
        statements.close()
    feed.kill()
    rig.assert_exact()


def test_killed_while_a_statement_runs(make_rig: Callable[..., Rig], mysql: Server, mariadb: Server) -> None:
    """MySQL and MariaDB go on with a statement whose client is gone; the next run ends it, or finds it done."""
    rig = make_rig(mysql, mariadb, "killed", lanes=2)
    filled(rig, CHANGES["primary"], 200)
    kill_around(Embedded(rig), CHANGES["primary"], ["it waits for the table", "it ran and nobody heard"])


EMBEDDED = [
    (source, target, change, consistency)
    for source, target, changes in (
        ("mysql", "postgres", CHANGES),
        ("mysql", "mariadb", CHANGES),
        ("mariadb", "mysql", CHANGES),
        ("postgres_source", "postgres", FROM_POSTGRES),
        ("postgres_source", "mysql", FROM_POSTGRES),
    )
    for change in changes
    for consistency in ("row", "transaction")
]


def made(request: pytest.FixtureRequest, make: str, source: str, target: str, *words: Any, **options: Any) -> Any:
    servers = [request.getfixturevalue(name) for name in (source, target)]
    return request.getfixturevalue(make)(*servers, "killed", *words, lanes=2, **options)


def change_of(source: str, name: str) -> Change:
    return (FROM_POSTGRES if source == "postgres_source" else CHANGES)[name]


@PROOF
@pytest.mark.parametrize(("source", "target", "change", "consistency"), EMBEDDED)
def test_killed_at_ten_moments(
    request: pytest.FixtureRequest, source: str, target: str, change: str, consistency: str
) -> None:
    rig = made(request, "make_rig", source, target, consistency=consistency)
    filled(rig, change_of(source, change))
    kill_around(Embedded(rig), change_of(source, change))


@PROOF
@pytest.mark.parametrize(("source", "target", "change", "consistency"), EMBEDDED)
def test_three_workers_killed_at_ten_moments(
    request: pytest.FixtureRequest, source: str, target: str, change: str, consistency: str
) -> None:
    """All of them, or who coordinates."""
    workers = made(request, "make_workers", source, target, 3, consistency=consistency)
    filled(workers.rig, change_of(source, change))
    kill_around(Scaled(workers, random.Random(change)), change_of(source, change))
