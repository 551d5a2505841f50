"""Crashes and restarts on either side, under load: nothing lost, nothing twice, nothing out of order.

The recorder's history at the target shows what every committed transaction did: an end state that is right by luck
would still hold a row version applied twice, or an older one after a newer one.
"""

import os
import random
import signal
import time
from collections.abc import Callable

import pytest

from bench.harness import recorder
from bench.harness.recorder import Recorder
from bench.harness.rig import Rig, Work, kill_at_random, until
from bench.harness.servers import MariaDb, Postgres, Server
from bench.harness.tidelock import Process
from bench.harness.workload.churn import Churn
from bench.harness.workload.mix import Mix
from bench.harness.workload.workload import Workload

WORK = [(Mix, "row"), (Churn, "transaction"), (Churn, "row"), (Mix, "transaction")]


def killed(rig: Rig, workload: Workload, kills: int, rate: float, seed: int) -> None:
    """Work, kill at random moments, catch up, and look at both ends and at the history."""
    rig.make(workload)
    with Recorder(rig.target.url(), [f"{rig.schema}.{table}" for table in rig.tables]) as history:
        rig.catch_up()
        work = rig.work(workload, 1_000_000, seed, rate)
        kill_at_random(rig, kills, random.Random(seed), 1.2, work)
        counts = work.stop()
        rig.catch_up()
        rig.assert_exact()
        violations = recorder.check(history.events(), workload.deleted)
    assert rig.epoch() > kills * 4 // 5, "too many runs died before they took over"
    assert counts.changes > kills * 100
    assert violations == [], "\n".join(map(str, violations[:10]))


def test_sigkill_at_random_moments(make_rig: Callable[..., Rig], mariadb: Server, postgres: Server) -> None:
    """The same by rows is tested with a MySQL target, and in the proof."""
    rig = make_rig(mariadb, postgres, "killed", lanes=4, consistency="transaction", batch_rows=200)
    killed(rig, Churn(), kills=5, rate=1500, seed=3)


@pytest.mark.proof
def test_sigkill_at_random_moments_with_a_mysql_target(
    make_rig: Callable[..., Rig], mariadb: Server, mysql: Server
) -> None:
    rig = make_rig(mariadb, mysql, "killed", lanes=4, batch_rows=200)
    killed(rig, Churn(), kills=5, rate=1500, seed=4)


@pytest.mark.proof
@pytest.mark.parametrize("target", ["postgres", "mysql"])
@pytest.mark.parametrize(("kind", "consistency"), WORK, ids=lambda v: getattr(v, "name", v))
def test_sigkill_at_twenty_random_moments(
    kind: type[Workload],
    consistency: str,
    target: str,
    make_rig: Callable[..., Rig],
    mariadb: Server,
    request: pytest.FixtureRequest,
) -> None:
    rig = make_rig(mariadb, request.getfixturevalue(target), "killed", lanes=8, consistency=consistency)
    killed(rig, kind(), kills=20, rate=4000, seed=5)


@pytest.mark.proof
@pytest.mark.parametrize("target", ["postgres", "mysql"])
def test_sigkill_around_truncate(
    target: str, make_rig: Callable[..., Rig], mariadb: Server, request: pytest.FixtureRequest
) -> None:
    """No receipt covers a statement: a TRUNCATE that is applied again takes rows with it that came after it."""
    rig = make_rig(mariadb, request.getfixturevalue(target), "truncated", lanes=4, batch_rows=50)
    rig.table("item", "id bigint PRIMARY KEY, v int UNIQUE")
    rig.catch_up()
    rng = random.Random(7)
    for number in range(4):
        epoch = rig.epoch()
        process = rig.run()
        until(lambda epoch=epoch: rig.epoch() > epoch, "a takeover")
        for _ in range(3):
            rig.at_source("TRUNCATE TABLE item", "ALTER TABLE item COMMENT 'x'")
            rig.at_source(f"INSERT INTO item SELECT seq, seq + {number} FROM seq_1_to_200", "DELETE FROM item LIMIT 20")
        time.sleep(rng.uniform(0.0, 0.4))
        process.kill()
    rig.catch_up()
    rig.assert_exact()


@pytest.mark.proof
def test_the_target_goes_away_and_comes_back(
    make_rig: Callable[..., Rig], mariadb: Server, make_postgres: Callable[..., Postgres]
) -> None:
    """Restarted, and killed: with `fsync` off and `synchronous_commit` off it may lose its last commits, which are
    applied again."""
    target = make_postgres()
    rig, work, process = live(make_rig(mariadb, target, "target", lanes=4, batch_rows=100))
    target.restart()
    rig.reconnect()
    before = applied(rig)
    until(lambda: applied(rig) != before or not process.running, "rows behind the restart", 60.0)
    target.kill()
    target.start()
    rig.reconnect()
    goes_on(rig, work, process)


@pytest.mark.proof
def test_a_mysql_target_goes_away_and_comes_back(
    make_rig: Callable[..., Rig], mariadb: Server, make_mariadb: Callable[..., MariaDb]
) -> None:
    target = make_mariadb()
    rig, work, process = live(make_rig(mariadb, target, "target", lanes=4, batch_rows=100))
    target.kill()
    target.start()
    rig.reconnect()
    goes_on(rig, work, process)


def live(rig: Rig) -> tuple[Rig, Work, Process]:
    """Churn at a steady rate, and a run that has begun to apply it."""
    workload = rig.make(Churn())
    work = rig.work(workload, 1_000_000, 6, 800)
    process = rig.run()
    until(lambda: applied(rig) > 100, "rows at the target")
    return rig, work, process


def applied(rig: Rig) -> int:
    return int(rig.rows(f"SELECT CONCAT(count(*), '') FROM {rig.schema}.{rig.tables[0]}")[0][0])


def goes_on(rig: Rig, work: Work, process: Process) -> None:
    """The same process applies what comes after; then nothing differs."""
    time.sleep(2.0)
    work.stop()
    until(lambda: rig.equal() or not process.running, "equal ends", 60.0)
    if process.running:
        process.stop()
    rig.catch_up()
    differences = rig.differences()
    assert differences.total == 0, f"{differences}\n{rig.said()[-2000:]}"
    assert rig.parked() == 0


def test_the_source_restarts_and_its_log_rotates(
    make_rig: Callable[..., Rig], make_mariadb: Callable[..., MariaDb], postgres: Server
) -> None:
    source = make_mariadb(extra=["--max-binlog-size=16384"], durable=True)
    rig = make_rig(source, postgres, "source", lanes=2)
    workload = rig.make(Churn())
    rig.load(workload, 400)
    process = rig.run()
    until(rig.equal, "equal ends", 120.0)
    source.restart()
    rig.reconnect()
    rig.load(workload, 400, seed=2)
    source.kill()
    source.start()
    rig.reconnect()
    rig.load(workload, 400, seed=3)
    until(rig.equal, "equal ends", 120.0)
    process.check()
    process.stop()
    assert len(source.execute("SHOW BINARY LOGS")) > 5
    rig.catch_up()
    rig.assert_exact()


@pytest.mark.parametrize("kind", ["mariadb", pytest.param("mysql", marks=pytest.mark.proof)])
def test_start_from_a_gtid_set(
    kind: str, make_rig: Callable[..., Rig], postgres: Server, request: pytest.FixtureRequest
) -> None:
    source: Server = request.getfixturevalue(kind)
    rig = make_rig(source, postgres, "gtid", lanes=2)
    workload = rig.make(Churn())
    variable = "@@gtid_binlog_pos" if kind == "mariadb" else "@@gtid_executed"
    gtids = source.execute(f"SELECT {variable}")[0][0].replace("\n", "")
    rig.options["start"] = f"gtid:{gtids}"
    rig.load(workload, 800)
    rig.catch_up()
    rig.assert_exact()
    rig.load(workload, 800, seed=2)
    rig.catch_up()
    rig.assert_exact()


def test_a_stopped_run_that_wakes_after_another_took_over_writes_nothing(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server
) -> None:
    rig, work, zombie = live(make_rig(mariadb, postgres, "zombie", lanes=4, batch_rows=100))
    os.killpg(zombie.pid, signal.SIGSTOP)
    heir = rig.run("--take-over")
    before = applied(rig)
    until(lambda: applied(rig) != before, "rows from the new owner", 60.0)
    os.killpg(zombie.pid, signal.SIGCONT)
    assert zombie.code(30.0) == 1
    assert "has taken the feed over" in rig.said()
    heir.check()
    work.stop()
    heir.stop()
    rig.catch_up()
    rig.assert_exact()


def test_a_mysql_target_that_forgets_its_last_commits_in_a_crash(
    make_rig: Callable[..., Rig], mariadb: Server, make_mariadb: Callable[..., Server]
) -> None:
    """Its log reaches the disk only when something else makes it; the feed goes on by itself, from what is there."""
    lazy = ["--innodb-flush-log-at-trx-commit=0", "--innodb-flush-log-at-timeout=2700", "--skip-log-bin"]
    target = make_mariadb(extra=lazy, on_disk=True)  # it maps a log that is in memory, which then outlives it
    rig = make_rig(mariadb, target, "lazy", lanes=2)
    rig.table("t", "id int PRIMARY KEY, v int UNIQUE")
    process = rig.run()
    told = "lost transactions it had reported as committed"
    for number in range(1, 6):  # a server may write its log just before it is killed
        if told in rig.said():
            break
        rig.at_source(f"INSERT INTO t SELECT seq, seq FROM seq_{number * 1000}_to_{number * 1000 + 500}")
        until(rig.equal, "equal ends")
        target.kill()
        target.start()
        rig.reconnect()
        rig.at_source(f"DELETE FROM t WHERE id = {number * 1000 + 1}")
        until(rig.equal, "equal ends after the crash")
    assert told in rig.said(), "all commits survived: this test proves nothing"
    process.check()
    process.stop()
    rig.assert_exact()
