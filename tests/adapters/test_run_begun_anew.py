"""A run that takes its feed over anew lets go of the machine before, and of the rows that it had in flight.

Told in a process of its own: what is alive there is counted.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench.rig import Rig
from bench.servers import Server

RUN = """
import asyncio, gc, sys
import uvloop
import adapters.run
from adapters.capture import CaptureProcess
from adapters.config import load
from adapters.progress import PlainLines
from engine.apply import ApplyMachine

collect = adapters.run.forget

def forget():
    collect()
    left = sum(isinstance(one, ApplyMachine) for one in gc.get_objects())
    print("machines left:", left, flush=True)

adapters.run.forget = forget
feed = load(sys.argv[1])
uvloop.run(adapters.run.run(feed, True, PlainLines(sys.stderr, feed.name), CaptureProcess()))
"""
ROWS = 40_000


def test_a_run_begun_anew_holds_no_machine_of_before(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    """Its journal of a megabyte is full again and again."""
    rig = make_rig(mariadb, postgres, "anew", lanes=4, journal=str(tmp_path / "journal"), journal_mb=1)
    rig.table("note", "id bigint PRIMARY KEY, note varchar(200)")
    rig.at_source(f"INSERT INTO note SELECT seq, REPEAT('x', 150) FROM seq_1_to_{ROWS}")
    ran = subprocess.run(
        [sys.executable, "-c", RUN, str(rig.feed)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    told = ran.stdout.splitlines()
    assert len(told) >= 2, ran.stderr
    assert set(told) == {"machines left: 0"}
    assert rig.rows(f"SELECT CAST(count(*) AS text) FROM {rig.schema}.note") == [(str(ROWS),)]
