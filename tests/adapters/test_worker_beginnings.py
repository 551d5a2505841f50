"""Workers that begin beside an embedded run of their feed: they wait for its end, which `tidelock status` tells, and
shut it out before they note where they begin.

A table without a key shows rows that come twice.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.servers.kafka import Kafka
from bench.harness.tidelock import Process
from bench.harness.workers import Workers
from tidelock.adapters.app import at_target
from tidelock.adapters.app import run as embedded
from tidelock.adapters.bookkeeping.checkpoints import COORDINATOR
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.loader import load
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.kafka import topics
from tidelock.adapters.kafka.control import ControlTopic, SoleWriter
from tidelock.adapters.runtime.progress import progress_on
from tidelock.adapters.wiring.capture import CaptureProcess
from tidelock.adapters.wiring.session import TargetSession
from tidelock.adapters.wiring.sinks import make_sink
from tidelock.adapters.workers import coordinator_takeover
from tidelock.engine.capture.mapping import Mapping

ENDED, REFUSED = 0, 1
SECONDS = 30.0


def begun(rig: Rig) -> Process:
    """An embedded run that has applied rows, and has nothing to do."""
    for table in ("account", "tally"):
        rig.table(table, "v int" if table == "tally" else "id int PRIMARY KEY, v int")
    run = rig.run()
    write(rig, 1)
    until(lambda: count(rig) == 1 and rig.rows(_RECEIPTS.format(rig.name)) == [("0",)], "a run that rests")
    return run


_RECEIPTS = "SELECT count(*)::text FROM tidelock.tidelock_progress WHERE feed = '{}'"


async def fence(feed: Feed) -> None:
    """Does as a coordinator before it notes where its feed begins."""
    mapping = Mapping(rules_of(feed), feed.schema)
    await topics.ensure(feed.log_url, feed.name, 1)
    sink, pen = make_sink(feed, mapping, group=COORDINATOR), SoleWriter(feed)
    async with ControlTopic(feed) as control:
        try:
            takeover = coordinator_takeover.CoordinatorTakeover(feed, mapping, "w1", control, sink, pen, None)
            await takeover._fence()
        finally:
            await pen.close()
            await sink.close()


def count(rig: Rig) -> int:
    return int(rig.rows(f"SELECT count(*)::text FROM {rig.schema}.tally")[0][0])


def write(rig: Rig, number: int) -> None:
    rows = (f"INSERT INTO account VALUES ({number}, 0)", f"INSERT INTO tally VALUES ({number})")
    rig.at_source("BEGIN", *rows, "COMMIT")


@pytest.mark.proof
def test_workers_wait_for_the_end_of_an_embedded_run(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, kafka: Kafka
) -> None:
    rig = make_rig(mariadb, postgres, "beside", lanes=2)
    run = begun(rig)
    rig.options["log"] = kafka.url()
    with Workers(rig, ["w1"]) as workers:
        workers.start()

        def told() -> bool:
            return "is run by an embedded `tidelock run`" in rig.command("status").out

        workers.until(told, "`tidelock status` says whom the workers wait for")
        write(rig, 2)
        until(lambda: count(rig) == 2, "the run goes on")
        os.kill(run.pid, signal.SIGTERM)
        assert run.code(SECONDS) == ENDED
        write(rig, 3)
        workers.until_caught_up()
        assert not told()
        workers.assert_exact()


@pytest.mark.proof
def test_a_run_that_nobody_saw_is_shut_out_before_the_workers_note_where_they_begin(
    make_rig: Callable[..., Rig],
    mariadb: Server,
    postgres: Server,
    kafka: Kafka,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def not_seen(_: object) -> None: ...

    monkeypatch.setattr(coordinator_takeover, "require_no_run", not_seen)
    rig = make_rig(mariadb, postgres, "unseen", lanes=2)
    run = begun(rig)
    rig.options["log"] = kafka.url()
    asyncio.run(fence(load(rig.feed)))
    write(rig, 2)
    assert run.code(SECONDS) == REFUSED, rig.said()
    assert "a newer owner has taken the feed over" in rig.said()
    assert count(rig) == 1


def test_a_run_that_workers_overtake_at_its_start_is_refused(
    make_rig: Callable[..., Rig],
    mariadb: Server,
    postgres: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They take the feed over when it has looked whether they have it."""
    rig = make_rig(mariadb, postgres, "overtaken", lanes=2)
    rig.table("account", "id int PRIMARY KEY, v int")
    rig.catch_up()
    looks = at_target.refusals

    async def then_workers_come(feed: Feed, target: TargetSession) -> object:
        found = await looks(feed, target)
        if not found:
            owner = "INSERT INTO tidelock.tidelock_owner (feed, grp, epoch) VALUES ('{}', {}, 1)"
            await asyncio.to_thread(rig.at_target, owner.format(rig.name, COORDINATOR))
        return found

    monkeypatch.setattr(at_target, "refusals", then_workers_come)
    feed = load(rig.feed)
    progress = progress_on(sys.stdout, feed.name, False)

    async def run() -> int:
        return await embedded.run(feed, True, progress, CaptureProcess(feed.source_url))

    assert asyncio.run(run()) == REFUSED
    assert "has run as workers over Kafka" in capsys.readouterr().err
