"""Two workers of one name: the second is refused, and where both run already exactly one ends, with the reason."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.servers.kafka import Kafka
from bench.harness.tidelock import Process
from bench.harness.workers import Workers
from bench.harness.workload.churn import Churn
from bench.harness.workload.family import Family
from bench.harness.workload.mix import Mix
from bench.harness.workload.several import Several


def second(rig: Rig, name: str) -> Process:
    return Process(["worker", str(rig.feed), "--name", name], rig.folder / f"{rig.name}-second.log")


def said(rig: Rig) -> str:
    return (rig.folder / f"{rig.name}-second.log").read_text()


def test_a_second_worker_of_the_name_is_refused_and_told_who_has_it(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, kafka: Kafka
) -> None:
    """With `consistency: transaction` all tables are one group, so a second worker finds none."""
    rig = make_rig(mariadb, postgres, "namesake", lanes=2, log=kafka.url(), consistency="transaction")
    rig.load(rig.make(Several(Mix(), Churn(), Family())), 300)
    with Workers(rig, ["w1"]) as workers:
        workers.start()
        workers.until_caught_up()
        assert workers.plan is not None and len({group for _, group in workers.plan.tables}) == 1 < len(rig.tables)
        pid, epochs = workers.pids["w1"], {number: report.epoch for number, report in workers.reports.items()}
        process = second(rig, "w1")
        assert process.code(60.0) == 1, said(rig)
        told = f"has the name w1: on {socket.gethostname()} as process {pid} since "
        assert told in said(rig) and re.search(r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", said(rig)), said(rig)
        assert "Traceback" not in said(rig) and "--name" in said(rig), said(rig)
        assert {number: report.epoch for number, report in workers.reports.items()} == epochs, "no group moved"
        assert workers.pids == {"w1": pid}
        other = second(rig, "w2")
        until(lambda: ": reserve, " in said(rig), "another name is welcome, with no group left for it")
        other.signal(signal.SIGTERM)
        assert other.code(30.0) == 0, said(rig)
        workers.assert_exact()
        assert workers.stop() == [0], workers.said()


@pytest.mark.proof
def test_of_two_that_run_under_one_name_exactly_one_ends(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, kafka: Kafka
) -> None:
    """The first stood still when the second asked, so the second has the name; awake, the first ends and says why."""
    rig = make_rig(mariadb, postgres, "twins", lanes=2, log=kafka.url())
    workload = rig.make(Churn())
    rig.load(workload, 100)
    with Workers(rig, ["w1"]) as workers:
        workers.start()
        workers.until_caught_up()
        first = workers.places["w1"].process
        assert first is not None
        workers.freeze("w1")
        process = second(rig, "w1")
        try:
            until(lambda: "running" in said(rig), "the second works", 60.0)
            with workers._lock:
                workers.places["w1"].due = None  # it ends of its own accord, and is not to come back
            workers.thaw("w1")
            workers.until(lambda: workers.places["w1"].ends == [1], "the first ends")
            assert f"has the name w1: on {socket.gethostname()} as process {process.pid} since" in workers.said()
            assert process.running, said(rig)
            rig.load(workload, 100, seed=2)
            workers.until_caught_up()
            workers.assert_exact()
            os.kill(process.pid, signal.SIGTERM)
            assert process.code(30.0) == 0, said(rig)
        finally:
            if process.running:
                process.kill()
