"""Journals: private, bounded, never written over, and no reason for a feed to fall over."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.harness.forking import COMMAND
from bench.harness.rig import Rig, tidelock, until
from bench.harness.servers import Server
from bench.harness.servers.kafka import Kafka
from bench.harness.tidelock import Process
from tidelock.adapters.runtime.journal import Journal, JournalEnding, JournalError, read, replay, rotate
from tidelock.engine.apply.machine import Options
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import UNKNOWN, Position, RowChange, Shape, TableName, Transaction
from tidelock.engine.protocol.events import LogArrived, Tick

OPERATOR = 4
FULL = "No space left on device"


def ending(path: Path) -> JournalEnding:
    *_, last = read(path)
    assert isinstance(last, JournalEnding)
    return last


def small_disk(folder: Path) -> list[str]:
    """A command that runs what follows with a file system of 256 KiB, which only it sees, mounted at `folder`."""
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    return [*unshare, "sh", "-c", f'mount -t tmpfs -o size=256k tmpfs {folder} && exec "$@"', "sh"]


@pytest.fixture
def rig(make_rig: Callable[..., Rig], mariadb: Server, postgres: Server) -> Rig:
    made = make_rig(mariadb, postgres, "journal", lanes=2)
    made.table("account", "id int PRIMARY KEY, note varchar(200)")
    made.catch_up()
    made.at_source("INSERT INTO account SELECT seq, REPEAT('x', 100) FROM seq_1_to_5000")
    return made


@pytest.mark.parametrize("fault", [pytest.param("go on", marks=pytest.mark.proof), "stop"])
def test_a_full_disk_is_told_and_the_feed_does_as_it_was_told(fault: str, rig: Rig, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    rig.options |= {"journal": str(disk / "run.journal"), "journal_fault": fault}
    process = Process(["run", str(rig.feed), "--until-caught-up"], rig.output, [*small_disk(disk), *COMMAND])
    code = process.code(60.0)
    said = rig.said()
    assert f"journal {disk}/run.journal cannot be written: {FULL}" in said
    assert "Traceback" not in said
    if fault == "go on":
        assert (code, "the feed goes on without it" in said) == (0, True), said
    else:
        assert (code, "the feed stops" in said) == (OPERATOR, True), said
        del rig.options["journal"]
        rig.catch_up()
    rig.assert_exact()


def test_a_disk_that_is_full_at_the_start(rig: Rig, tmp_path: Path) -> None:
    rig.options["journal"] = str(tmp_path / "full")
    (tmp_path / "full").symlink_to("/dev/full")
    assert rig.catch_up_code() == 0, rig.said()
    assert FULL in rig.said()
    rig.options["journal"] = str(tmp_path / "missing" / "run.journal")
    assert rig.catch_up_code() == 1
    assert "No such file or directory. Correct the feed's `journal`" in rig.said()
    rig.assert_exact()


def test_a_killed_run_s_journal_stays_private_and_says_that_it_has_no_end(rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    rig.options["journal"] = str(path)
    process = rig.run()
    until(rig.equal, "all rows")
    process.signal(signal.SIGKILL)
    process.code(10.0)
    killed = path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "the run was killed" in tidelock("replay", str(path)).out.splitlines()[-1]
    rig.catch_up()
    assert (tmp_path / "run.journal.1").read_bytes() == killed
    assert stat.S_IMODE((tmp_path / "run.journal.1").stat().st_mode) == 0o600
    assert tidelock("replay", str(path)).out.rstrip().endswith("→ caught up")


@pytest.mark.proof
def test_a_full_journal_is_followed_by_a_new_one_that_can_be_replayed_too(rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    rig.options |= {"journal": str(path), "journal_mb": 1, "journal_keep": 1, "batch_rows": 500}
    process = rig.run()
    for first in range(10_001, 40_001, 10_000):
        rig.at_source(f"INSERT INTO account SELECT seq, REPEAT('x', 100) FROM seq_{first}_to_{first + 9_999}")
        arrived = [(str(first + 4_999),)]  # counted, not compared: a comparison reads them all
        until(lambda all_=arrived: rig.rows("SELECT CONCAT(count(*), '') FROM account") == all_, "all rows", 60.0)
    process.check()
    process.stop()
    assert "the journal is full: it goes on in a new one" in rig.said()
    files = sorted(file.name for file in tmp_path.glob("run.journal*"))
    assert files == ["run.journal", "run.journal.1"]
    for file in files:
        assert ending(tmp_path / file).why == "the run ended"
        assert list(replay(tmp_path / file))
    rig.assert_exact()


# ------------------------------------------------------------------------------------------------------------ the file


def test_files_of_before_move_on_and_the_oldest_go(tmp_path: Path) -> None:
    path = tmp_path / "j"
    for content in "abcd":
        rotate(path, keep=2)
        path.write_text(content)
        path.chmod(0o644)
    assert [file.read_text() for file in sorted(tmp_path.iterdir())] == ["d", "c", "b"]
    assert stat.S_IMODE((tmp_path / "j.1").stat().st_mode) == 0o600
    rotate(path, keep=0)
    assert not path.exists()


def test_a_record_that_is_not_whole_is_told(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = Journal(path, Options())
    journal.record(1, [Tick()])
    whole = path.stat().st_size
    journal.record(2, [Tick()])
    os.truncate(path, path.stat().st_size - 1)
    assert str(ending(path)) == f"the journal is cut off: the record at byte {whole} is not whole"
    os.truncate(path, whole)
    assert "has no end" in str(ending(path))
    assert [step for step in read(path) if isinstance(step, tuple)] == [(1, [Tick()])]


def test_it_stops_at_twice_its_size_and_says_so(tmp_path: Path) -> None:
    told: list[str] = []
    journal = Journal(tmp_path / "j", Options(), told.append, most_bytes=1000)
    for now in range(1000):
        journal.record(now, [Tick()])
    journal.close()
    assert journal.full is False
    assert 2000 < (tmp_path / "j").stat().st_size < 2200
    assert ending(tmp_path / "j").why == "it was full"
    assert len(told) == 1 and "too large" in told[0]


def test_no_folder_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="Is a directory"):
        Journal(tmp_path, Options())


def test_unshare_is_there() -> None:
    """The tests of a full disk stand on it."""
    assert subprocess.run([*small_disk(Path("/mnt")), "true"], check=False).returncode == 0


@pytest.mark.proof
def test_a_group_of_workers_halts_where_its_journal_is_cut_short(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, kafka: Kafka, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    options = {"journal": str(disk / "run.journal"), "journal_fault": "stop"}
    rig = make_rig(mariadb, postgres, "cut", log=kafka.url(), lanes=2, **options)
    rig.table("account", "id int PRIMARY KEY, note varchar(200)")
    rig.at_source("INSERT INTO account SELECT seq, REPEAT('x', 100) FROM seq_1_to_5000")
    worker = Process(["worker", str(rig.feed), "--name", "w1"], rig.output, [*small_disk(disk), *COMMAND])

    def halt() -> list[str]:
        said = rig.command("status", "@", "--json")
        found = said.json["halted"] if said.out else None
        return list(found["alarm"]) if found else []

    until(lambda: bool(halt()), "the halt", 60.0)
    kind, message, hint, *_ = halt()
    assert kind == "journal" and FULL in message and "run.journal.group0" in message, halt()
    assert "`tidelock resume FEED`" in hint, hint
    os.kill(worker.pid, signal.SIGTERM)
    assert worker.code(60.0) == 0, rig.said()
    rig.options["journal"] = str(tmp_path / "run.journal")
    again = Process(["worker", str(rig.feed), "--until-caught-up"], rig.output)
    again.wait(60.0)
    rig.assert_exact()
    assert ending(tmp_path / "run.journal.group0").why == "the run ended"


def test_a_value_that_the_log_does_not_tell_is_read_back_as_it_was(tmp_path: Path) -> None:
    path, place = tmp_path / "run.journal", Position("log.000001", 4)
    rows = (RowChange(0, (1, UNKNOWN), (1, UNKNOWN), 0),)
    shapes = {0: Shape(TableName("shop", "note"), (), ("id",), "key")}
    event = LogArrived([LogBatch(place, place, (Transaction("1/db", 7, 0),), rows, shapes)])
    journal = Journal(path, Options())
    journal.record(1, [event])
    journal.close()
    _, (now, (back,)), _ = read(path)  # type: ignore[misc]
    assert (now, back) == (1, event)
    assert back.batches[0].rows[0].after[1] is UNKNOWN
