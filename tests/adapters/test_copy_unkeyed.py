"""A table without a key is copied exactly while equal rows of it come, go and change, and nothing staged is left."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bench.harness import usage
from bench.harness.rig import Rig, until
from bench.harness.servers import MySql, Postgres, Server
from bench.harness.session import connect
from tidelock.adapters.ports.staging import staged_prefix

COPY_SECONDS = 150.0
COLUMNS = "a int, b varchar(5), c decimal(8,2), d double precision, e text"
PAIRS = pytest.mark.parametrize("pair", [("mariadb", "postgres"), ("mysql", "mysql")], ids="-".join)
NUMBERS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"


@pytest.fixture
def rig(pair: tuple[str, str], request: pytest.FixtureRequest, make_rig: Callable[..., Rig]) -> Rig:
    source, target = pair
    there = request.getfixturevalue(f"other_{target}") if source == target else request.getfixturevalue(target)
    made = make_rig(request.getfixturevalue(source), there, "unkeyed")
    fill(made)
    return made


def fill(rig: Rig) -> None:
    rig.table("heap", COLUMNS)
    rig.at_source(
        f"INSERT INTO heap {NUMBERS} SELECT i % 20, IF(i % 3, 'x', NULL), i % 7 + 0.25, i % 2, 'é ' FROM n",
        *("INSERT INTO heap SELECT * FROM heap" for _ in range(4)),
    )
    rig.start_at = "copy"


@contextmanager
def busy(rig: Rig, *more: str) -> Iterator[list[int]]:
    """Equal rows come, go and change all the time; yields how many statements there were, as the last of the list."""
    over, done = threading.Event(), [0]

    def work() -> None:
        session, chance = connect(rig.source.url(rig.schema)), Random(4)
        while not over.wait(0.004):
            a = chance.randrange(20)
            made = (
                f"INSERT INTO heap VALUES ({a}, 'x', 1.25, 0, 'é '), ({a}, 'x', 1.25, 0, 'é ')",
                f"DELETE FROM heap WHERE a = {a} LIMIT 2",
                f"UPDATE heap SET a = {chance.randrange(20)}, d = -d WHERE a = {a} LIMIT 2",
                *(statement.format(a=a) for statement in more),
            )
            session.send(chance.choice(made))
            done.append(done[-1] + 1)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()


def counted(server: Server, rig: Rig) -> Counter[tuple[Any, ...]]:
    rows = server.execute(f"SELECT a, b, c, d, e FROM {rig.schema}.heap")
    return Counter((row[0], row[1], str(row[2]), float(row[3]), row[4]) for row in rows)


def left_over(rig: Rig) -> list[str]:
    found = rig.target.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'tidelock'")
    return sorted(name for (name,) in found if name.startswith(staged_prefix(rig.name, 0)))


def merged(rig: Rig) -> bool:
    copies = json.loads(rig.command("status", "@", "--json").out or "{}").get("copies", [])
    return bool(copies) and all(copy["chunks"] == copy["merged"] > 0 for copy in copies)


def exact(rig: Rig) -> None:
    assert counted(rig.source, rig) == counted(rig.target, rig), rig.said()[-2000:]
    assert left_over(rig) == [] and rig.parked() == 0


@PAIRS
def test_a_table_without_a_key_is_copied_while_equal_rows_change(pair: tuple[str, str], rig: Rig) -> None:
    with busy(rig) as done:
        process = rig.run()
        until(lambda: merged(rig), "the copy", COPY_SECONDS)
        copied = done[-1]
        until(lambda: done[-1] > copied + 50, "changes after the copy")
        process.check()
        running = [Path(f"/proc/{pid}/comm").read_text() for pid in usage.group(process.pid)]
        assert "java\n" not in running, "Spark was started, and one connection reads the table"
    process.stop()
    rig.catch_up(COPY_SECONDS)
    assert copied > 100
    exact(rig)


@pytest.mark.proof
def test_a_source_without_gtids_is_copied_while_it_changes(
    make_mysql: Callable[..., MySql], postgres: Postgres, make_rig: Callable[..., Rig]
) -> None:
    """A table with a key is read in chunks, once nobody has uncommitted changes of it."""
    source = make_mysql(extra=["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"])
    rig = make_rig(source, postgres, "unkeyed", copy={"chunk_rows": 4000})
    fill(rig)
    rig.table("item", "id bigint PRIMARY KEY, a int")
    rig.at_source(f"INSERT INTO item {NUMBERS} SELECT i, i % 20 FROM n")
    with busy(rig, "UPDATE item SET a = a + 1 WHERE id = {a}", "DELETE FROM item WHERE id = 100 + {a}"):
        process = rig.run()
        until(lambda: merged(rig), "the copy", COPY_SECONDS)
        process.check()
    process.stop()
    rig.catch_up(COPY_SECONDS)
    exact(rig)
    asked = f"SELECT id, a FROM {rig.schema}.item ORDER BY id"
    assert [tuple(row) for row in rig.source.execute(asked)] == [tuple(row) for row in rig.target.execute(asked)]


def hinder(rig: Rig) -> Callable[[], None]:
    """The target answers each merge with a deadlock; returns what ends that."""
    if isinstance(rig.target, Postgres):
        rig.at_target(
            f"CREATE FUNCTION {rig.schema}.wait() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN RAISE EXCEPTION 'not yet' USING ERRCODE = '40P01'; END$$",
            f"CREATE TRIGGER wait BEFORE INSERT ON heap FOR EACH ROW EXECUTE FUNCTION {rig.schema}.wait()",
        )
        return lambda: rig.at_target("DROP TRIGGER wait ON heap")
    rig.at_target(
        "CREATE TRIGGER wait BEFORE INSERT ON heap FOR EACH ROW "
        "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'not yet'"
    )
    return lambda: rig.at_target("DROP TRIGGER wait")


@pytest.mark.proof
@pytest.mark.parametrize(
    "pair", [("mariadb", "postgres"), pytest.param(("mysql", "mysql"), marks=pytest.mark.proof)], ids="-".join
)
def test_what_a_killed_run_has_staged_is_told_and_goes_at_the_next_start(pair: tuple[str, str], rig: Rig) -> None:
    end = hinder(rig)
    with busy(rig):
        process = rig.run()
        until(lambda: left_over(rig) != [] and "not yet" in rig.said(), "a staged table and its merge", COPY_SECONDS)
        os.kill(process.pid, signal.SIGKILL)
        process.code(10.0)
        staged = left_over(rig)
        assert staged
        assert json.loads(rig.command("status", "@", "--json").out)["staged"] == staged
        assert "left over" in rig.command("status", "@").out
        end()
        process = rig.run()
        until(lambda: merged(rig), "the copy", COPY_SECONDS)
        process.check()
    process.stop()
    rig.catch_up(COPY_SECONDS)
    exact(rig)


@pytest.mark.proof
@pytest.mark.parametrize(
    "pair", [("mysql", "mysql"), pytest.param(("mariadb", "postgres"), marks=pytest.mark.proof)], ids="-".join
)
def test_what_a_run_has_staged_goes_when_it_is_stopped(pair: tuple[str, str], rig: Rig) -> None:
    hinder(rig)
    process = rig.run()
    until(lambda: left_over(rig) != [] and "not yet" in rig.said(), "a staged table and its merge", COPY_SECONDS)
    process.stop()
    assert left_over(rig) == []
