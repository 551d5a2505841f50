"""Workers whose files have other `tables`: by whose file rows come must not change as who coordinates does.

Rows have no later change: an update would bring a row that was missed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.harness.rig import Rig, tidelock
from bench.harness.servers import Server
from bench.harness.servers.kafka import Kafka
from bench.harness.workers import Workers

REFUSED = 1
COPY_SECONDS = 120.0


@pytest.fixture
def rig(make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, kafka: Kafka) -> Rig:
    made = make_rig(mariadb, postgres, "files", lanes=2, log=kafka.url())
    for table in ("account", "note"):
        made.table(table, "id int PRIMARY KEY")
    return made


def write(rig: Rig, number: int) -> None:
    rig.at_source(f"INSERT INTO account VALUES ({number})", f"INSERT INTO note VALUES ({number})")


def without_note(rig: Rig, folder: Path) -> Path:
    """Another file of the feed, as an older one may lie about."""
    rules, rig.rules = rig.rules, [{"source": f"{rig.schema}.account"}]
    path = folder / "older.yaml"
    path.write_text(rig.feed.read_text())
    rig.rules = rules
    return path


def waits(rig: Rig) -> str:
    told = rig.command("status", "@", "--json").json["scale_out"]
    return str(told["vacant"]) if told is not None else ""


@pytest.mark.proof
def test_a_worker_of_another_file_is_refused(rig: Rig, tmp_path: Path) -> None:
    with Workers(rig, ["w1"]) as workers:
        workers.start()
        write(rig, 1)
        workers.until_caught_up()
        refused = tidelock("worker", str(without_note(rig, tmp_path)), "--name", "w2")
        assert refused.code == REFUSED and "worker w1, which coordinates" in refused.err, refused
        assert "has other `tables` in its file" in refused.err and "end all workers" in refused.err
        write(rig, 2)
        workers.until_caught_up()
        workers.assert_exact()


@pytest.mark.proof
def test_rows_that_another_file_left_out_are_asked_for(rig: Rig, tmp_path: Path) -> None:
    """The older file runs while no worker of the other one does."""
    with Workers(rig, ["w1"]) as workers:
        workers.start()
        write(rig, 1)
        workers.until_caught_up()
        assert workers.stop() == [0]
        write(rig, 2)
        older = tidelock("worker", str(without_note(rig, tmp_path)), "--until-caught-up", seconds=COPY_SECONDS)
        assert older.code == 0, older
        write(rig, 3)
        workers.start()
        workers.until(lambda: f"{rig.schema}.note: comes in" in waits(rig), "`tidelock status` says what is left out")
        assert "`tidelock copy FEED`, with `--table DB.TABLE` for each of these tables," in waits(rig)
        copied = tidelock("copy", str(rig.feed), "--table", f"{rig.schema}.note", "--yes", seconds=COPY_SECONDS)
        assert copied.code == 0, copied
        workers.until_caught_up()
        assert not waits(rig)
        workers.assert_exact()


@pytest.mark.proof
def test_a_table_that_comes_in_without_its_rows(rig: Rig, tmp_path: Path) -> None:
    """Its group is made once somebody has said that only changes are to come."""
    older = without_note(rig, tmp_path)
    write(rig, 1)
    ran = tidelock("worker", str(older), "--until-caught-up", seconds=COPY_SECONDS)
    assert ran.code == 0, ran
    with Workers(rig, ["w1"]) as workers:
        workers.start()
        workers.until(lambda: "comes in" in waits(rig), "the refusal")
        said = rig.command("edit", "@", "@", "--apply")
        assert said.code == REFUSED and "`tidelock edit FEED FEED --apply --no-copy`" in said.err, said
        done = rig.command("edit", "@", "@", "--apply", "--no-copy")
        assert done.code == 0, done
        write(rig, 2)
        workers.until_caught_up()
    assert rig.rows(f"SELECT id::text FROM {rig.schema}.note") == [("2",)]
    assert rig.rows(f"SELECT count(*)::text FROM {rig.schema}.account") == [("2",)]
