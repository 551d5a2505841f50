"""Settings of a feed, end to end: columns, filters, patterns, weights; and how a run is paused, ended and replayed."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.harness.compare import Pair, compare
from bench.harness.rig import Rig, tidelock, until
from bench.harness.servers import Server
from bench.harness.servers.place import free_port
from bench.harness.tidelock import metrics, metrics_page, sample
from bench.harness.workload.churn import Churn
from bench.harness.workload.family import Family
from bench.harness.workload.shop import Shop


@pytest.fixture(params=["postgres", "mysql"])
def rig(request: pytest.FixtureRequest, make_rig: Callable[..., Rig], mariadb: Server) -> Rig:
    return make_rig(mariadb, request.getfixturevalue(request.param), "feed", lanes=2)


PROOF = pytest.mark.proof
AT_POSTGRES = pytest.mark.parametrize("rig", ["postgres", pytest.param("mysql", marks=PROOF)], indirect=True)
AT_MYSQL = pytest.mark.parametrize("rig", ["mysql", pytest.param("postgres", marks=PROOF)], indirect=True)


@AT_MYSQL
def test_columns_are_renamed_and_left_out(rig: Rig) -> None:
    rig.at_source("CREATE TABLE person (id int PRIMARY KEY, first varchar(20) UNIQUE, secret varchar(20), n int)")
    rig.at_source("CREATE TABLE item (a int PRIMARY KEY, b int, c int)")
    rig.at_target(f"CREATE TABLE {rig.schema}.people (number int PRIMARY KEY, n int, name varchar(20) UNIQUE)")
    rig.at_target(f"CREATE TABLE {rig.schema}.item (a int PRIMARY KEY, c int)")
    rig.rules = [
        {
            "source": f"{rig.schema}.person",
            "target": f"{rig.schema}.people",
            "columns": {"exclude": ["secret"], "rename": {"id": "number", "first": "name"}},
        },
        {"source": f"{rig.schema}.item", "columns": {"include": ["a", "c"]}},
    ]
    rig.at_source("INSERT INTO person VALUES (1, 'ada', 'x', 1), (2, 'bob', 'y', NULL), (3, 'cy', 'z', 3)")
    rig.at_source("UPDATE person SET secret = 'changed' WHERE id = 1", "UPDATE person SET first = 'bea' WHERE id = 2")
    rig.at_source("DELETE FROM person WHERE id = 3", "INSERT INTO person VALUES (4, 'bob', 'w', 4)")
    rig.at_source("INSERT INTO item VALUES (1, 2, 3), (4, 5, 6)", "UPDATE item SET b = 9, c = 7 WHERE a = 1")
    rig.catch_up()
    people = Pair(f"{rig.schema}.person", f"{rig.schema}.people", (("id", "number"), ("first", "name"), ("n", "n")))
    items = Pair(f"{rig.schema}.item", f"{rig.schema}.item", (("a", "a"), ("c", "c")))
    differences = compare(rig.source, rig.target, [people, items])
    assert (differences.matched, differences.total) == (5, 0), differences


@AT_POSTGRES
def test_rows_enter_and_leave_a_filter(rig: Rig) -> None:
    """A unique value that leaves with its row is free for another."""
    rig.table("account", "id int PRIMARY KEY, region varchar(4), email varchar(20) UNIQUE, n int")
    rig.rules = [{"source": f"{rig.schema}.account", "where": "region = 'eu' AND (n >= 10 OR n IS NULL)"}]
    rig.at_source("INSERT INTO account SELECT seq, IF(seq % 2, 'eu', 'us'), CONCAT('m', seq), seq FROM seq_1_to_400")
    rig.at_source(
        "UPDATE account SET region = 'us' WHERE id = 101",
        "UPDATE account SET email = 'gone' WHERE id = 101",
        "UPDATE account SET email = 'm101' WHERE id = 103",
        "UPDATE account SET region = 'eu', email = 'm103' WHERE id = 102",
        "UPDATE account SET n = NULL WHERE id = 1",
        "UPDATE account SET n = 5 WHERE id = 301",
        "UPDATE account SET region = NULL WHERE id = 303",
        "DELETE FROM account WHERE id IN (2, 305)",
    )
    rig.catch_up()
    name = f"{rig.schema}.account"
    kept = "region = 'eu' AND (n >= 10 OR n IS NULL)"
    differences = compare(rig.source, rig.target, [Pair(name, name, where=kept)])
    assert differences.total == 0, differences
    assert differences.matched > 150
    assert rig.unique_violations() + rig.parked() == 0


@AT_POSTGRES
def test_a_pattern_takes_all_tables_of_a_database(rig: Rig) -> None:
    """The first rule that matches wins; the target's `*` carries the table's name; heavier tables come later."""
    workload = Shop()
    rig.at_source(*workload.ddl("mariadb"), "CREATE TABLE other (id int PRIMARY KEY)", "INSERT INTO other VALUES (1)")
    rig.make_target(workload)
    rig.at_target(*(f"ALTER TABLE {table} RENAME TO to_{table}" for table in workload.tables))
    rig.at_target(f"CREATE TABLE {rig.schema}.elsewhere (id int PRIMARY KEY)")
    rig.rules = [
        {"source": f"{rig.schema}.other", "target": f"{rig.schema}.elsewhere"},
        {"source": f"{rig.schema}.*", "target": f"{rig.schema}.to_*", "weight": 10},
    ]
    rig.load(workload, 1000)
    rig.catch_up()
    pairs = [Pair(f"{rig.schema}.{table}", f"{rig.schema}.to_{table}") for table in workload.tables]
    differences = compare(rig.source, rig.target, [*pairs, Pair(f"{rig.schema}.other", f"{rig.schema}.elsewhere")])
    assert differences.total == 0, differences
    assert rig.unique_violations() + rig.parked() == 0


def test_tables_that_are_not_selected_are_left_alone(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server
) -> None:
    rig = make_rig(mariadb, postgres, "feed", lanes=2)
    workload = rig.make(Family())
    rig.at_source("CREATE TABLE noise (id int PRIMARY KEY, v longtext)")
    rig.rules = [{"source": f"{rig.schema}.parent"}, {"source": f"{rig.schema}.child"}]
    rig.at_source("INSERT INTO noise SELECT seq, REPEAT('x', 1000) FROM seq_1_to_3000")
    rig.load(workload, 800)
    rig.at_source("ALTER TABLE noise DROP COLUMN v", "RENAME TABLE noise TO louder", "DROP TABLE louder")
    rig.load(workload, 400, seed=2)
    rig.catch_up()
    rig.assert_exact()


def test_pause_and_resume_while_running(make_rig: Callable[..., Rig], mariadb: Server, postgres: Server) -> None:
    page = f"127.0.0.1:{free_port()}"
    rig = make_rig(mariadb, postgres, "paused", lanes=4, http=page)
    workload = rig.make(Churn())
    rig.load(workload, 500)
    process = rig.run()
    until(rig.equal, "equal ends")
    assert rig.command("pause").code == 0
    until(lambda: (told := sample(page)) is not None and told.state == "paused", "the pause")
    rig.load(workload, 1000, seed=2)
    time.sleep(1.5)
    assert rig.differences().total > 0
    assert rig.command("status", "@", "--json").json["desired_state"] == "paused"
    assert rig.command("resume").code == 0
    until(rig.equal, "equal ends")
    process.check()
    process.stop()
    rig.assert_exact()


def listed(rig: Rig) -> dict[str, Any]:
    """What `tidelock feeds` says of the feed."""
    (found,) = [one for one in rig.command("feeds", "@", "--json").json if one["feed"] == rig.name]
    return dict(found)


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *(pytest.param(number, marks=pytest.mark.proof) for number in (signal.SIGINT, signal.SIGHUP))],
    ids=lambda number: number.name,
)
def test_a_signal_ends_a_run_cleanly(
    number: signal.Signals, make_rig: Callable[..., Rig], mariadb: Server, postgres: Server
) -> None:
    port = free_port()
    rig = make_rig(mariadb, postgres, "ended", lanes=2, http=f"127.0.0.1:{port}")
    workload = rig.make(Churn())
    work = rig.work(workload, 100_000, 1, 1000)
    process = rig.run()
    until(lambda: metrics(f"127.0.0.1:{port}").get("tidelock_rows_total", 0) > 300, "rows in the metrics")
    family = group(process.pid)
    assert len(family) > 1
    page = metrics_page(f"127.0.0.1:{port}")
    assert set(re.findall(r"^tidelock_\w+_bucket(?=.*\} [1-9])", page, re.MULTILINE)) == {
        f"tidelock_{name}_bucket" for name in ("batch_rows", "batch_seconds", "latency_seconds")
    }
    assert f'tidelock_table_rows_total{{feed="{rig.name}",group="0",table="{rig.schema}.' in page
    assert listed(rig)["activity"] == "running" and listed(rig)["run"]["pid"] == process.pid
    until(lambda: listed(rig)["lag_seconds"] is not None, "the lag in the bookkeeping")
    os.kill(process.pid, number)  # to the process alone, as a supervisor does
    assert process.code(15.0) == 0, rig.said()
    work.stop()
    assert group(process.pid) == []
    assert not any(alive(pid) for pid in family)
    assert metrics(f"127.0.0.1:{port}") == {}
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'tidelock%'"
    until(lambda: postgres.execute(sessions)[0][0] == 0, "closed sessions", 5.0)
    rig.catch_up()
    rig.assert_exact()


@pytest.mark.proof
def test_a_terminal_that_is_closed_ends_a_run_but_not_one_under_nohup(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server
) -> None:
    """SIGHUP goes to the whole group, capture process and all."""
    rig = make_rig(mariadb, postgres, "hangup", lanes=2)
    rig.table("account", "id int PRIMARY KEY")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; what we start inherits it
    try:
        process = rig.run()
    finally:
        signal.signal(signal.SIGHUP, before)
    rig.at_source("INSERT INTO account VALUES (1)")
    until(rig.equal, "a row")
    process.signal(signal.SIGHUP)
    rig.at_source("INSERT INTO account VALUES (2)")
    until(rig.equal, "a row behind the signal")
    process.stop()
    process = rig.run()
    rig.at_source("INSERT INTO account VALUES (3)")
    until(rig.equal, "a row")
    process.signal(signal.SIGHUP)
    assert process.code(15.0) == 0, rig.said()
    assert "process ended by itself" not in rig.said()


def group(pid: int) -> list[int]:
    """The processes of a group."""
    found = subprocess.run(["ps", "-eo", "pid=,pgid="], capture_output=True, encoding="utf-8", check=True).stdout
    return [int(one) for one, leader in (line.split() for line in found.splitlines()) if int(leader) == pid]


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_recorded_run_is_replayed(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    rig = make_rig(mariadb, postgres, "journal", lanes=2, journal=str(tmp_path / "run.journal"))
    rig.load(rig.make(Churn()), 1000)
    rig.catch_up()
    once, again = (tidelock("replay", str(tmp_path / "run.journal")) for _ in range(2))
    assert once.code == 0, once.err
    assert once.out == again.out
    assert "taken over: epoch 1" in once.out
    assert once.out.rstrip().endswith("→ caught up")


def test_two_feeds_share_a_source_and_a_target(make_rig: Callable[..., Rig], mariadb: Server, postgres: Server) -> None:
    rigs = [make_rig(mariadb, postgres, "twin", lanes=2) for _ in range(2)]
    for rig in rigs:
        rig.load(rig.make(Churn()), 1500)
    processes = [rig.run("--until-caught-up") for rig in rigs]
    for process in processes:
        process.wait(60.0)
    for rig in rigs:
        rig.assert_exact()


def test_a_table_dropped_since_the_last_run(make_rig: Callable[..., Rig], mariadb: Server, postgres: Server) -> None:
    """The log still holds its rows, the catalogue does not know it any more: they are applied, then the DROP is, unless
    the feed says otherwise."""
    rig = make_rig(mariadb, postgres, "dropped", lanes=2)
    rig.table("lasting", "id int PRIMARY KEY")
    rig.table("brief", "id int PRIMARY KEY")
    rig.catch_up()
    rig.options["ddl"] = {"drop_table": "halt"}
    rig.at_source("INSERT INTO brief VALUES (1), (2)", "DROP TABLE brief", "INSERT INTO lasting VALUES (1)")
    assert rig.catch_up_code() == 4
    assert "`ddl` says `halt` for drop_table" in rig.said()
    assert rig.rows(f"SELECT count(*)::text FROM {rig.schema}.brief") == [("2",)]
    del rig.options["ddl"]
    rig.catch_up()
    rig.tables.remove("brief")
    rig.assert_exact()
    assert not rig.rows(f"SELECT 1 FROM information_schema.tables WHERE table_name = 'brief' "
                        f"AND table_schema = '{rig.schema}'")  # fmt: skip
