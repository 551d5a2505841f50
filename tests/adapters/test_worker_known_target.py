"""Workers whose target is not what the log in Kafka says (put back from a backup, another one, without bookkeeping), or
whose log is not what the target says: another cluster, a control topic that is gone.

Each follows docs/how-to/backup.md, or the message, to the letter; then no row differs.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.harness.rig import Rig, tidelock
from bench.harness.servers import Server
from bench.harness.servers.kafka import Kafka
from bench.harness.workers import Workers
from tidelock.adapters.kafka.topics import control_topic


def two_tables(rig: Rig) -> None:
    rig.table("account", "id bigint PRIMARY KEY, v int")
    rig.table("note", "id bigint PRIMARY KEY, v int")
    rig.at_source("INSERT INTO account VALUES (1, 1), (2, 2), (3, 3)", "INSERT INTO note VALUES (1, 1), (2, 2)")


def change(rig: Rig, number: int) -> None:
    rig.at_source(
        f"INSERT INTO account (id, v) VALUES ({number}, 0)",
        f"INSERT INTO note (id, v) VALUES ({number}, 0)",
        "UPDATE note SET v = v + 1",
        f"DELETE FROM account WHERE id = {number - 1}",
    )


class Backup:
    """A copy of a server's data, taken while it is stopped."""

    def __init__(self, server: Server | Kafka, folder: Path) -> None:
        self._server, self._copy = server, folder / "backup"
        server.stop()
        shutil.copytree(server.data, self._copy, symlinks=True)
        server.start()

    def restore(self) -> None:
        data = self._server.data
        self._server.stop()
        shutil.rmtree(data)
        shutil.copytree(self._copy, data, symlinks=True)
        subprocess.run(["chown", "-R", "--reference", str(data.parent), str(data)], check=True)
        self._server.start()


@pytest.mark.proof
@pytest.mark.parametrize("altered", [False, True], ids=["rows", "a statement and rows"])
@pytest.mark.parametrize("owners", [1, 3])
def test_a_target_that_is_put_back(
    owners: int,
    altered: bool,
    mariadb: Server,
    make_mariadb: Callable[..., Server],
    kafka: Kafka,
    make_rig: Callable[..., Rig],
    tmp_path: Path,
) -> None:
    """After the backup so many owners come, and maybe a statement; after the restore the source is idle."""
    rig = make_rig(mariadb, make_mariadb(), "back", log=kafka.url())
    two_tables(rig)
    with Workers(rig, ["w1"]) as workers:
        workers.start()
        workers.until_caught_up()
        assert workers.stop() == [0]
        backup = Backup(rig.target, tmp_path)
        rig.reconnect()
        for number in range(owners):
            change(rig, 10 + number)
            if altered and number == 0:
                rig.at_source("ALTER TABLE note ADD COLUMN extra int", "UPDATE note SET extra = id")
            workers.start()
            workers.until_caught_up()
            assert workers.stop() == [0]
        workers.assert_exact()
        backup.restore()
        rig.reconnect()
        workers.work_off()
        workers.assert_exact()
        rig.at_source("ALTER TABLE account ADD COLUMN later int", "UPDATE account SET later = id")
        change(rig, 30)
        workers.start()
        workers.until_caught_up()
        workers.assert_exact()
        assert rig.command("status").code == 0


@pytest.mark.proof
@pytest.mark.parametrize("altered", [False, True], ids=["rows", "a statement and rows"])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("maker", ["make_mariadb", "make_postgres"])
def test_a_target_that_is_put_back_under_workers(
    maker: str,
    count: int,
    altered: bool,
    mariadb: Server,
    kafka: Kafka,
    make_rig: Callable[..., Rig],
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    """They found it, and waited for ever for a coordinator who did not know it; nobody ends them here."""
    rig = make_rig(mariadb, request.getfixturevalue(maker)(), "under", log=kafka.url())
    two_tables(rig)
    with Workers(rig, ["w1", "w2"][:count]) as workers:
        workers.start()
        workers.until_caught_up()
        assert set(workers.stop()) == {0}
        backup = Backup(rig.target, tmp_path)
        rig.reconnect()
        workers.start()
        for number in range(10, 14):
            change(rig, number)
            if altered and number == 11:
                rig.at_source("ALTER TABLE note ADD COLUMN extra int", "UPDATE note SET extra = id")
            workers.until_caught_up()
        workers.assert_exact()
        backup.restore()
        rig.reconnect()
        change(rig, 30)
        workers.until_caught_up()
        workers.assert_exact()
        assert "the target was put back to an older state" in workers.said()
        assert not workers.restarts_of_their_own


@pytest.mark.proof
def test_bookkeeping_that_is_lost(
    mariadb: Server, make_mariadb: Callable[..., Server], kafka: Kafka, make_rig: Callable[..., Rig]
) -> None:
    rig = make_rig(mariadb, make_mariadb(), "lost", log=kafka.url())
    two_tables(rig)
    with Workers(rig, ["w1"]) as workers:
        workers.start()
        workers.until_caught_up()
        assert workers.stop() == [0]
    change(rig, 10)
    rig.at_target("DROP DATABASE tidelock")
    assert rig.command("init", "@", "--apply").code == 0
    refused = rig.command("worker", "@", "--until-caught-up")
    assert refused.code == 1 and "knows nothing of" in refused.err, refused
    checked = rig.command("check", "@")
    assert checked.code == 1 and "knows nothing of" in checked.out, checked
    assert "`tidelock remove FEED --apply`" in refused.err
    removed = rig.command("remove", "@", "--apply")
    assert removed.code == 0, removed
    rig.start_at, rig.options["copy"] = "copy", {"existing": "replace"}
    assert rig.command("init", "@", "--apply").code == 0
    with Workers(rig, ["w2"]) as workers:
        workers.work_off()
        change(rig, 20)
        workers.work_off()
    rig.assert_exact()


@pytest.mark.proof
def test_a_feed_of_one_name_to_another_target(
    mariadb: Server, postgres: Server, mysql: Server, kafka: Kafka, make_rig: Callable[..., Rig], tmp_path: Path
) -> None:
    """It is refused before it shares out any group; those that have the log go on."""
    rig = make_rig(mariadb, postgres, "namesake", log=kafka.url())
    two_tables(rig)
    with Workers(rig, ["w1"]) as workers:
        workers.start()
        workers.until_caught_up()
        other = tmp_path / "other.yaml"
        other.write_text(rig.feed.read_text().replace(rig.target_url, mysql.url()))
        assert tidelock("init", str(other), "--apply").code == 0
        refused = tidelock("worker", str(other), "--name", "w2")
        assert refused.code == 1 and "knows nothing of (worker w1 told of it last)" in refused.err, refused
        assert "give this one another (`feed:`)" in refused.err
        change(rig, 10)
        workers.until_caught_up()
        workers.assert_exact()
        assert not workers.restarts_of_their_own
    other.write_text(other.read_text().replace(f"feed: {rig.name}\n", f"feed: {rig.name}b\n"))
    assert tidelock("worker", str(other), "--until-caught-up").code == 0


@pytest.mark.proof
@pytest.mark.parametrize("running", [False, True], ids=["while none runs", "while they run"])
def test_a_new_cluster_in_the_place_of_the_old_one(
    running: bool,
    mariadb: Server,
    postgres: Server,
    make_kafka: Callable[..., Kafka],
    make_rig: Callable[..., Rig],
    tmp_path: Path,
) -> None:
    """A worker that runs ends itself, is started again, and goes on from the groups' place."""
    kafka = make_kafka()
    empty = Backup(kafka, tmp_path)
    rig = make_rig(mariadb, postgres, "cluster", log=kafka.url())
    two_tables(rig)
    with Workers(rig, ["w1"]) as workers:
        workers.start()
        workers.until_caught_up()
        if not running:
            assert workers.stop() == [0]
        empty.restore()
        change(rig, 10)
        if not running:
            workers.start()
        workers.until_caught_up()
        workers.assert_exact()
        assert not running or "is gone from Kafka; start the worker again" in workers.said()
        assert workers.stop() == [0]


@pytest.mark.proof
def test_what_a_lost_plan_has_published_is_not_read(
    mariadb: Server, postgres: Server, kafka: Kafka, make_rig: Callable[..., Rig]
) -> None:
    """The control topic is deleted while unread records of both tables are in one partition; the next plan has two."""
    rig = make_rig(mariadb, postgres, "planless", log=kafka.url())
    rig.table("zebra", "id bigint PRIMARY KEY, v int")
    with Workers(rig, ["w1", "w2"]) as workers:
        workers.start("w1")
        workers.until_caught_up()
        rig.at_source("CREATE TABLE ape (id bigint PRIMARY KEY, v int)", "INSERT INTO ape VALUES (1, 1)")
        rig.tables.append("ape")
        workers.until_caught_up()
        assert workers.plan is not None and workers.plan.partitions == 1
        assert rig.command("pause").code == 0
        workers.until(lambda: workers.reports[0].state == "paused", "the pause")
        rig.at_source("INSERT INTO zebra VALUES (2, 0), (3, 0)", "INSERT INTO ape VALUES (2, 0)")
        goal = rig.place()

        def published() -> bool:
            return workers.state is not None and workers.state.published.order >= goal.order

        workers.until(published, "the records in the topic")
        workers.kill("w1", back_after=None)
        kafka.delete_topic(control_topic(rig.name))
        rig.at_source("UPDATE zebra SET v = 1", "DELETE FROM ape WHERE id = 2")
        assert rig.command("resume").code == 0
        workers.start("w2")
        workers.until_caught_up()
        workers.assert_exact()
    with Workers(rig, ["w3"]) as workers:
        workers.start()
        workers.until_owned(2)
        assert workers.plan is not None and workers.plan.partitions == 2
