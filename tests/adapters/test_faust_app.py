"""`faust -A tidelock.faust_app worker`: the same worker under Faust's own command."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.servers.kafka import Kafka
from bench.harness.workload.churn import Churn

ROOT = Path(__file__).parents[2]
FAUST = [sys.executable, "-m", "faust", "-A", "tidelock.faust_app", "worker", "--loglevel", "warn"]


def test_fausts_own_command_runs_a_worker_and_ends_it_in_order(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, kafka: Kafka, tmp_path: Path
) -> None:
    rig = make_rig(mariadb, postgres, "faust", lanes=2, log=kafka.url())
    rig.load(rig.make(Churn()), 1000)
    folder = tmp_path / "here"
    folder.mkdir()
    environment = {**os.environ, "TIDELOCK_FEED": str(rig.feed), "PYTHONPATH": str(ROOT)}
    with rig.output.open("wb") as output:
        worker = subprocess.Popen(FAUST, cwd=folder, env=environment, stdout=output, stderr=output)
    try:
        until(lambda: rig.equal() or worker.poll() is not None, "equal ends", 60.0)
        assert worker.poll() is None, rig.said()[-3000:]
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30.0) == 0, rig.said()[-3000:]
    finally:
        if worker.poll() is None:
            worker.kill()
            worker.wait()
    rig.assert_exact()
    assert list(folder.iterdir()) == [], "it left files behind"


def test_without_a_feed_it_says_what_is_missing(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TIDELOCK_FEED"}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(FAUST, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "TIDELOCK_FEED is not set" in done.stderr + done.stdout
