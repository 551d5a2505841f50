"""A run that takes its feed over anew lets go of the machine before, and of the rows that it had in flight.

Told in a process of its own: what is alive there is counted.
"""

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.servers.place import free_port

RUN = """
import asyncio, gc, sys
import uvloop
import tidelock.adapters.app.run
from tidelock.adapters.wiring.capture import CaptureProcess
from tidelock.adapters.config.loader import load
from tidelock.adapters.runtime.progress import PlainLines
from tidelock.engine.apply.machine import ApplyMachine

collect = tidelock.adapters.app.run.forget

def forget():
    collect()
    left = sum(isinstance(one, ApplyMachine) for one in gc.get_objects())
    print("machines left:", left, flush=True)

tidelock.adapters.app.run.forget = forget
feed = load(sys.argv[1])
capture = CaptureProcess(feed.source_url)
uvloop.run(tidelock.adapters.app.run.run(feed, True, PlainLines(sys.stderr, feed.name), capture))
"""
ROWS = 3_000


@pytest.mark.proof
def test_a_run_begun_anew_holds_no_machine_of_before(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    """Its journal of a megabyte is full again and again."""
    rig = make_rig(mariadb, postgres, "anew", lanes=2, journal=str(tmp_path / "journal"), journal_mb=1)
    rig.table("note", "id bigint PRIMARY KEY, note varchar(900)")
    rig.at_source(f"INSERT INTO note SELECT seq, REPEAT('x', 800) FROM seq_1_to_{ROWS}")
    ran = subprocess.run(
        [sys.executable, "-c", RUN, str(rig.feed)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    told = ran.stdout.splitlines()
    assert len(told) >= 2, ran.stderr
    assert set(told) == {"machines left: 0"}
    assert rig.rows(f"SELECT CAST(count(*) AS text) FROM {rig.schema}.note") == [(str(ROWS),)]


def asked(port: int, page: str) -> tuple[int, str]:
    """The status code and the text of a page."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5.0) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


HELD = """
import sys
import uvloop
import tidelock.adapters.app.run
from tidelock.adapters.wiring.capture import CaptureProcess
from tidelock.adapters.config.loader import load
from tidelock.adapters.runtime.progress import PlainLines

collect = tidelock.adapters.app.run.forget

def forget():
    collect()
    print("between two machines", flush=True)
    sys.stdin.readline()

tidelock.adapters.app.run.forget = forget
feed = load(sys.argv[1])
capture = CaptureProcess(feed.source_url)
uvloop.run(tidelock.adapters.app.run.run(feed, True, PlainLines(sys.stderr, feed.name), capture))
"""


@pytest.mark.proof
@pytest.mark.parametrize("end", ["source", pytest.param("target", marks=pytest.mark.proof)])
def test_a_server_that_is_away_between_two_machines_is_waited_for(
    end: str, make_rig: Callable[..., Rig], make_mariadb: Callable[..., Server], make_postgres: Callable[..., Server],
    tmp_path: Path,
) -> None:  # fmt: skip
    """A first run ends where it cannot reach a server; one that had the feed goes on once it can."""
    source, target = make_mariadb(), make_postgres()
    port = free_port()
    journal = {"journal": str(tmp_path / "journal"), "journal_mb": 1}
    rig = make_rig(source, target, "away", lanes=2, http=f"127.0.0.1:{port}", **journal)
    rig.table("note", "id bigint PRIMARY KEY, note varchar(900)")
    rig.at_source(f"INSERT INTO note SELECT seq, REPEAT('x', 800) FROM seq_1_to_{ROWS}")
    away = source if end == "source" else target
    told = tmp_path / "told"
    with (
        told.open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-c", HELD, str(rig.feed)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        ) as process,
    ):  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline() == "between two machines\n"
            away.stop()
            process.stdin.write("\n" * 100)  # and go on at once every time after this one
            process.stdin.flush()
            until(lambda: "tried again in" in told.read_text() or process.poll() is not None, "a word of it")
            assert asked(port, "livez") == (200, "ok\n")
            answer, why = asked(port, "readyz")
            assert answer == 503 and why.startswith("starting: ") and str(away.port) in why
            away.start()
            code = process.wait(120)
        finally:
            process.kill()
    assert code == 0, told.read_text()
    rig.reconnect()
    rig.assert_exact()
