"""A feed that is killed around a long schema change: the target has the shape once, and no row differs."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.session import Flavor, connect
from bench.harness.tidelock import Process
from bench.harness.workers import Workers

PROOF = pytest.mark.proof
KILLS = 10
LONGEST_SECONDS = 0.3
WAITING = {
    Flavor.POSTGRES: "SELECT 1 FROM pg_locks WHERE NOT granted",
    Flavor.MYSQL: "SELECT 1 FROM information_schema.processlist WHERE state = 'Waiting for table metadata lock'",
}
# Each with a number from 0 to 9; the tables have the columns that they need.
ALTERS = {
    "add": "ALTER TABLE t ADD COLUMN c{0} int NOT NULL DEFAULT 7, ADD COLUMN note{0} varchar(9)",
    "drop": "ALTER TABLE t DROP COLUMN d{0}",
    "rename": "ALTER TABLE t RENAME COLUMN d{0} TO e{0}, ADD COLUMN f{0} int",
    "unique": "ALTER TABLE t ADD UNIQUE KEY u{0} (v)",
    "index": "ALTER TABLE t ADD INDEX i{0} (v, d{0}), ADD COLUMN g{0} int, ALTER COLUMN v SET DEFAULT {0}",
    "primary": "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, d{0})",
}
COLUMNS = ", ".join(["id int", "v int", *(f"d{n} int NOT NULL DEFAULT {n}" for n in range(KILLS)), "PRIMARY KEY (id)"])


@contextmanager
def locked(rig: Rig) -> Iterator[Callable[[], None]]:
    """Hold the target's table, which a statement that alters it waits for; yields what lets go."""
    session = connect(rig.target.url())
    held = threading.Lock()
    session.send("BEGIN")
    session.send(f"DELETE FROM {rig.schema}.t WHERE id = -1")

    def let_go() -> None:
        with held:
            session.send("COMMIT")

    try:
        yield let_go
    finally:
        let_go()
        session.close()


def table(rig: Rig, rows: int) -> None:
    rig.table("t", COLUMNS)
    values = ",".join(f"({n},{n})" for n in range(1, rows + 1))
    rig.at_source(f"INSERT INTO t (id, v) VALUES {values}")


def waits(rig: Rig, process: Process | None = None) -> bool:
    if process is not None:
        process.check()
    flavor = Flavor.POSTGRES if "postgres" in rig.target_url else Flavor.MYSQL
    return bool(rig.rows(WAITING[flavor]))


def change(rig: Rig, alter: str, number: int) -> None:
    """Rows before and behind the statement."""
    rig.at_source(f"UPDATE t SET v = -id WHERE id < {number + 10}", ALTERS[alter].format(number))
    added = 10**6 + number
    rig.at_source(f"INSERT INTO t (id, v) VALUES ({added}, {added})", "UPDATE t SET v = id WHERE id = 1")


def test_killed_while_a_statement_runs(make_rig: Callable[..., Rig], mysql: Server, mariadb: Server) -> None:
    """MySQL and MariaDB go on with a statement whose client is gone; the next run ends it, or finds it done."""
    rig = make_rig(mysql, mariadb, "killed", lanes=2)
    table(rig, 20)
    rig.catch_up()
    with locked(rig) as let_go:
        change(rig, "rename", 0)
        process = rig.run()
        until(lambda: waits(rig), "a statement that waits")
        process.kill()
        let_go()
    rig.catch_up()
    rig.assert_exact()


@PROOF
@pytest.mark.parametrize("alter", ALTERS)
@pytest.mark.parametrize("target", ["postgres", "mariadb"])
@pytest.mark.parametrize("count", [0, 3], ids=["embedded", "workers"])
def test_killed_at_ten_moments(
    request: pytest.FixtureRequest,
    mysql: Server,
    target: str,
    alter: str,
    count: int,
) -> None:
    """Before the statement, while it waits for the table, while it runs, and behind it."""
    server, rng = request.getfixturevalue(target), random.Random(alter)
    workers: Workers | None = None
    if count:
        workers = request.getfixturevalue("make_workers")(mysql, server, "killed", count)
        rig = workers.rig
        rig.begin_here()
    else:
        rig = request.getfixturevalue("make_rig")(mysql, server, "killed", lanes=2)
    table(rig, 20_000)
    if workers is None:
        rig.catch_up()
    else:
        workers.start()
        until(rig.equal, "the first rows", 120)
    for number in range(KILLS):
        with locked(rig) as let_go:
            change(rig, alter, number)
            process = rig.run() if workers is None else None
            if number > 1:
                until(partial(waits, rig, process), "a statement that waits", 120)
            if number > 4:
                let_go()
            time.sleep(rng.uniform(0.0, LONGEST_SECONDS))
            if process is not None:
                process.kill()
            elif workers is not None:
                kill_all(workers)
    if workers is None:
        rig.catch_up()
    else:
        until(rig.equal, "equal ends", 240)
        workers.stop()
    rig.assert_exact()


def kill_all(workers: Workers) -> None:
    """The supervisor starts them again."""
    for name, place in workers.places.items():
        if place.running:
            workers.kill(name)
