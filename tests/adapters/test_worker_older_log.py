"""The broker is put back to an older state: the log in Kafka ends before what all groups have applied.

It is not read on from there: the source may not have its log any more, and the plan may be as old.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.harness.rig import Rig
from bench.harness.servers import Postgres, Server
from bench.harness.servers.kafka import Kafka
from bench.harness.workers import Workers
from tests.adapters.test_worker_known_target import Backup, change
from tests.adapters.test_worker_lost_log import TABLES, alarm, part, three_tables, write

pytestmark = pytest.mark.proof


@pytest.mark.parametrize("source", ["mariadb", "postgres_source"])
@pytest.mark.parametrize("stopped", [True, False], ids=["workers stopped", "workers running"])
def test_a_broker_that_is_put_back(
    source: str,
    stopped: bool,
    make_rig: Callable[..., Rig],
    request: pytest.FixtureRequest,
    postgres: Server,
    make_kafka: Callable[..., Kafka],
    tmp_path: Path,
) -> None:
    """All groups stand at one place: the log begins anew there."""
    kafka = make_kafka()
    rig = make_rig(request.getfixturevalue(source), postgres, "older", log=kafka.url())
    with Workers(rig, ["w1", "w2"]) as workers:
        for table in ("account", "note"):
            rig.table(table, "id bigint PRIMARY KEY, v int")
            if isinstance(rig.source, Postgres):
                rig.at_source(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
        workers.start("w1")
        workers.until_owned(2)  # a slot's log begins where the feed does
        change(rig, 9)
        workers.until_caught_up()
        assert workers.stop("w1") == [0]
        backup = Backup(kafka, tmp_path)
        workers.start("w1")
        change(rig, 10)
        rig.at_source("ALTER TABLE note ADD COLUMN extra int", "UPDATE note SET extra = id")
        change(rig, 11)
        workers.until_caught_up()
        if stopped:
            assert workers.stop("w1") == [0]
        backup.restore()
        change(rig, 12)
        workers.start("w2" if stopped else "w1")
        workers.until(lambda: bool(alarm(rig)), "the halt", 120.0)
        _, message, hint, *_ = alarm(rig)
        assert "ends at" in message and "its broker was put back to an older state" in message, message
        assert "Every group stands at" in hint and "`tidelock resume FEED` publishes again from there" in hint, hint
        assert rig.command("resume").code == 0
        workers.until_caught_up()
        assert not alarm(rig)
        change(rig, 13)
        workers.until_caught_up()
        workers.assert_exact()


def test_a_broker_that_is_put_back_while_groups_are_apart(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, make_kafka: Callable[..., Kafka], tmp_path: Path
) -> None:
    """Tables may have come into other groups since: each is copied anew."""
    kafka = make_kafka()
    rig = make_rig(mariadb, postgres, "older", log=kafka.url())
    three_tables(rig)
    with Workers(rig, ["w1", "w2"]) as workers:
        workers.start("w1")
        workers.until_owned(len(TABLES))
        write(rig, 1, 3)
        workers.until_caught_up()
        assert workers.stop("w1") == [0]
        backup = Backup(kafka, tmp_path)
        workers.start("w1")
        write(rig, 10, 3)
        workers.until_caught_up()
        part(rig, workers)
        backup.restore()
        workers.start("w2")
        workers.until(lambda: bool(alarm(rig)), "the halt", 120.0)
        _, message, hint, *_ = alarm(rig)
        assert "ends at" in message and "Which group had which tables is not known" in hint, (message, hint)
        assert "`tidelock resync FEED`" in hint
        workers.copy_anew()
    write(rig, 300, 2)
    with Workers(rig, ["w3"]) as workers:
        workers.work_off()
    rig.assert_exact()
