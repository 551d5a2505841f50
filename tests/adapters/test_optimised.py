"""A Python that leaves out assertions is refused, whatever is started with it."""

import os
import subprocess
import sys

import pytest

ENTRIES = {
    "cli": ["-m", "tidelock", "--help"],
    "console script": ["-c", "from tidelock.adapters.cli import main; main()"],
    "capture process": ["-m", "tidelock.adapters.mysql.binlog.capture_process", "0"],
    "copying process": ["-m", "tidelock.adapters.row_copy.process", "0"],
    "publisher process": ["-m", "tidelock.adapters.workers.publisher_process", "0"],
    "faust": ["-m", "faust", "-A", "tidelock.faust_app", "worker"],
    "compiler": ["-m", "tidelock.adapters.compiled.build"],
}


@pytest.mark.parametrize("how", ["-O", pytest.param("PYTHONOPTIMIZE", marks=pytest.mark.proof)])
@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_refuses_to_run_without_assertions(entry: str, how: str) -> None:
    flags = ["-O"] if how == "-O" else []
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **({"PYTHONOPTIMIZE": "2"} if not flags else {})}
    done = subprocess.run(
        [sys.executable, *flags, *ENTRIES[entry]],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "leaves out assertions (-O, or PYTHONOPTIMIZE is set)" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
