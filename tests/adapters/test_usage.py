"""Use of a process: what it was made to use, its children told apart."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.harness import usage
from bench.harness.rig import until
from bench.harness.usage import Usage

HOLDS_MB = 150
BUSY = f"""
import os, subprocess, sys, time
held = b"x" * ({HOLDS_MB} << 20)
while time.process_time() < 0.6: pass
sys.stdout.write("ready"); sys.stdout.flush()
time.sleep(60)
"""
CAPTURE = "tidelock.adapters.mysql.binlog.capture_process"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}, {CAPTURE!r}])"


@contextmanager
def leading(program: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True)
    try:
        yield process
    finally:
        for pid in usage.group(process.pid):
            subprocess.run(["kill", "-9", str(pid)], check=True)
        process.communicate()


def test_memory_and_processor_time_of_a_process_and_its_child() -> None:
    with leading(PARENT) as process, Usage(lambda: {"parent": process.pid}) as seen:
        assert process.stdout is not None
        assert process.stdout.read(5) == b"ready"
        until(lambda: seen.cpu_seconds.get("capture", 0.0) >= 0.5, "a sample of the busy child")
        assert len(usage.group(process.pid)) == 2
    assert HOLDS_MB * 1.04e6 < seen.peak_bytes["capture"] < HOLDS_MB * 2e6
    assert seen.peak_bytes["parent"] < HOLDS_MB * 1e6
    assert max(value for _, value in seen.curve("capture")) > HOLDS_MB


def test_what_a_process_used_before_is_not_counted() -> None:
    with leading(BUSY) as process:
        assert process.stdout is not None
        assert process.stdout.read(5) == b"ready"
        with Usage(lambda: {"busy": process.pid}) as seen:
            deadline = time.monotonic() + 10.0
            while not seen.samples and time.monotonic() < deadline:
                time.sleep(0.05)
        assert seen.cpu_seconds["busy"] < 0.3
