"""The end-to-end benchmark, small: it runs, its file is right, and it does not believe a wrong target."""

import json
from collections.abc import Callable
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bench.e2e import steady
from bench.e2e.backlog import Backlog, Round
from bench.e2e.command import Measuring, _groups, measure
from bench.e2e.report import report
from bench.e2e.setup import SERIAL, Setup, every
from bench.e2e.suites import BETWEEN, SUITES, Suite
from bench.harness.servers import MariaDb, MySql, Postgres

CHANGES = 600
TWO = (Setup("hot", system=SERIAL), Setup("hot", lanes=2, settings=(("batch_rows", 100),)))


@pytest.fixture
def lent(mariadb: MariaDb, mysql: MySql, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark takes the tests' servers in place of its own."""
    servers = {"mariadb": mariadb, "mysql": mysql, "postgres": postgres}

    def start(self: Measuring, stack: ExitStack, setups: object) -> None:
        self._stack, self._targets = stack, servers
        self._folder = Path(stack.enter_context(TemporaryDirectory()))
        self._sources = {(kind, 0): server for kind, server in servers.items()}

    monkeypatch.setattr(Measuring, "__init__", start)


@pytest.mark.proof
def test_setups_take_turns_and_the_file_has_what_they_did(
    lent: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = count(1.0)
    monkeypatch.setattr("os.getloadavg", lambda: (next(loads), 0.0, 0.0))
    measure(Suite("Quick?", TWO, goal=0.001, changes=CHANGES, rounds=2), "try", 1, tmp_path)
    found = json.loads((tmp_path / "e2e-try.json").read_text())
    serial, ours = found["setups"]
    assert (found["benchmark"], found["changes"], found["rounds"], found["met"]) == ("e2e-try", CHANGES, 2, True)
    machine = found["machine"]
    assert machine["servers"].keys() >= {"source mariadb", "target postgres"}
    assert (machine["load_before"], machine["load_after"]) == (1.0, 2.0 + len(found["setups"]) * 2)
    assert serial["against"] is None
    assert ours["against"] == serial["label"] == "hot, mariadb→postgres, serial"
    assert ours["label"] == "hot, mariadb→postgres, 2 lanes, batch_rows 100"
    assert ours["setup"]["settings"] == [["batch_rows", 100]]
    for setup in (serial, ours):
        assert 0 < setup["rows_per_second"]["low"] <= setup["rows_per_second"]["median"]
        assert all(seconds > 0 for seconds in (*setup["flowing_seconds"], *setup["seconds"]))
    assert 0 < ours["peak_mb"] < 400
    cost = ours["cpu_seconds_a_million"]
    assert {"run", "ours", "source", "target"} <= cost.keys() <= {"run", "capture", "ours", "source", "target"}
    assert cost["ours"] > max(cost["run"], cost.get("capture", 0.0))  # a capture may come and go between two looks


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param(Setup("wide", delay_ms=2.0, commit="sync", lanes=3, two_way="up"), marks=pytest.mark.proof),
        pytest.param(
            Setup("churn", "postgres", "mysql", consistency="transaction", two_way="sites"), marks=pytest.mark.proof
        ),
        pytest.param(
            Setup("oltp", "mysql", "mariadb", consistency="transaction", commit="sync"), marks=pytest.mark.proof
        ),
        pytest.param(Setup("toast", "postgres", commit="sync", identity="default"), marks=pytest.mark.proof),
    ],
    ids=lambda setup: setup.label,
)
def test_other_servers_and_ways(
    setup: Setup, mariadb: MariaDb, mysql: MySql, postgres: Postgres, tmp_path: Path
) -> None:
    servers = {"mariadb": mariadb, "mysql": mysql, "postgres": postgres}
    source, target = servers[setup.source], servers[setup.target]
    before = mariadb.execute("SELECT @@GLOBAL.sync_binlog, @@GLOBAL.innodb_flush_log_at_trx_commit")
    with closing(Backlog(source, target, tmp_path, setup.workload, CHANGES, 1, setup.identity)) as backlog:
        one = backlog.catch_up(setup, target)
        feed = backlog.rig.feed.read_text()
        changed = target.execute(f"SELECT count(*) FROM {backlog.rig.schema}.{backlog.rig.tables[0]}")
    assert 0 < one.flowing_seconds < one.seconds and one.target_log_bytes > 0
    assert ("sister: back" in feed, "arbiter: b" in feed) == (setup.two_way != "", setup.two_way == "up")
    assert changed[0][0] > 0
    assert (0 < one.wal_bytes < 3_000) == (setup.source == "postgres"), "an update's long values are not in the log"
    assert ("synchronous_commit: true" in feed) == (setup.target == "postgres")
    assert (f"target: {target.url()}" in feed) == (setup.delay_ms == 0)
    assert mariadb.execute("SELECT @@GLOBAL.sync_binlog, @@GLOBAL.innodb_flush_log_at_trx_commit") == before


def test_a_target_with_a_wrong_row_has_no_rate(
    mariadb: MariaDb, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Backlog(mariadb, postgres, tmp_path, "hot", CHANGES, 1)) as backlog:
        run: Callable[..., object] = backlog._run

        def run_and_spoil(target: Postgres) -> object:
            done = run(target)
            target.execute(f"UPDATE {backlog.rig.schema}.account SET balance = balance + 1 WHERE id = 3")
            return done

        monkeypatch.setattr(backlog, "_run", run_and_spoil)
        with pytest.raises(AssertionError, match="1 different"):
            backlog.catch_up(Setup("hot"), postgres)


@pytest.mark.proof
def test_steady_load(mariadb: MariaDb, postgres: Postgres, tmp_path: Path) -> None:
    one = steady.run(Setup("mix"), mariadb, postgres, tmp_path, 1000.0, 2.0)
    assert one.changes == 2000
    assert one.kept_rate <= 1010.0
    assert one.behind_seconds > 0
    (kept,) = steady.report([one, one], 2.0)["rates"]
    assert (kept["label"], kept["rate"]) == ("mix, mariadb→postgres, 8 lanes", 1000.0)
    assert kept["cpu_seconds_a_million"]["run"] > 0


def rounds(setup: Setup, *flowing: float) -> list[Round]:
    return [Round(setup, 1000, seconds + 1.0, seconds, {"run": 0.5}, 90.0, 0.1) for seconds in flowing]


def test_ratios_are_taken_round_by_round() -> None:
    one, other = Setup(lanes=1), Setup()
    turns = [
        turn for pair in zip(rounds(one, 1.0, 4.0, 2.0), rounds(other, 2.0, 2.0, 1.0), strict=True) for turn in pair
    ]
    found = report(Suite("?", (one, other), goal=2.0), 1, [turns])
    assert found["setups"][1]["ratio"] == {"median": 2.0, "low": 0.5, "high": 2.0}
    assert found["setups"][1]["flowing_rows_per_second"] == {"median": 500, "low": 500, "high": 1000}
    assert found["setups"][1]["cpu_seconds_a_million"] == {"run": 500.0}
    assert found["met"] is True
    assert report(Suite("?", (one, other), goal=2.1), 1, [turns])["met"] is False


def test_what_a_command_line_asks_for() -> None:
    setups = list(every(["mix", "hot"], ["mysql:postgres"], [1, 8], ["row"], ["async"], [0.0], ["batch_rows=5"], True))
    assert [(one.workload, one.system, one.lanes) for one in setups] == [
        ("mix", "serial", 1), ("mix", "tidelock", 1), ("mix", "tidelock", 8),
        ("hot", "serial", 1), ("hot", "tidelock", 1), ("hot", "tidelock", 8),
    ]  # fmt: skip
    assert setups[1].options == {"lanes": 1, "consistency": "row", "batch_rows": 5}
    for wrong in ("pair", "workload", "setting", "serial"):
        with pytest.raises(ValueError, match=r"no pair|no workload|KEY=VALUE|PostgreSQL targets only"):
            list(every(
                ["none" if wrong == "workload" else "mix"],
                ["a:b" if wrong == "pair" else "mysql:mariadb" if wrong == "serial" else "mysql:mysql"],
                [1], ["row"], ["async"], [0.0], ["x"] if wrong == "setting" else [], wrong == "serial",
            ))  # fmt: skip


def test_each_pair_of_servers_is_a_group_where_that_is_asked_for() -> None:
    groups = _groups(SUITES["sites"])
    assert [{(setup.source, setup.target) for setup in group} for group in groups] == [{pair} for pair in BETWEEN]
    assert all([setup.two_way for setup in group] == ["", "sites"] for group in groups)
    assert len(_groups(SUITES["pairs"])) == 2


def test_setups_of_a_suite_can_be_told_apart() -> None:
    for suite in SUITES.values():
        assert len({setup.label for setup in suite.setups}) == len(suite.setups)
