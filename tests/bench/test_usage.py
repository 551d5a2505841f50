"""Use of a run, which is seen however short it is, and by the names of its processes."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.harness.usage import SAMPLE_SECONDS, Sample, Usage

NAMED_CHILD = "'tidelock.adapters.mysql.binlog.capture_process'"  # what a child runs is looked for in its command line


@contextmanager
def running(program: str) -> Iterator[subprocess.Popen[str]]:
    """A leader of its own group that has said that it is ready."""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_a_process_that_ends_at_once_is_seen() -> None:
    with running("print(flush=True); input()") as process, Usage(lambda: {"run": process.pid}) as usage:
        pass
    assert usage.peak_bytes["run"] > 1_000_000


def test_pauses_grow_with_the_time_that_a_run_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lives for a third of the time before it is seen, be the machine fast or slow."""
    pauses: list[float] = []

    class Impatient(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            pauses.append(timeout)
            return len(pauses) == 40

    usage = Usage(dict)
    monkeypatch.setattr(usage, "_stop", Impatient())
    with usage:
        pass
    assert all(pause <= 0.01 + sum(pauses[:number]) / 3 for number, pause in enumerate(pauses))
    assert pauses[-1] == SAMPLE_SECONDS


def test_children_go_by_what_they_run_and_what_was_used_before_is_not_counted() -> None:
    program = f"""
import subprocess, sys, time
while time.process_time() < 1.0: pass
print(flush=True)
input()
subprocess.run([sys.executable, "-c", "{NAMED_CHILD}; input()"])
"""
    with running(program) as process, Usage(lambda: {"run": process.pid}) as usage:
        assert process.stdin is not None
        process.stdin.write("go on\n")
        process.stdin.flush()
        deadline = time.monotonic() + 20.0
        while not any(resident > 0.1 for _, resident in usage.curve("capture")):
            assert time.monotonic() < deadline, usage.samples
            time.sleep(0.005)
    assert usage.peak_bytes.keys() == {"run", "capture"}
    assert usage.cpu_seconds["run"] < 0.5
    assert all(resident < 100.0 for _, resident in usage.curve("capture")), "seen first, it may hold nothing yet"


def test_what_was_used_between_two_moments() -> None:
    """By name, of all processes of a name; one that began in between has used all of it there."""
    usage = Usage(dict)
    usage.samples = [
        Sample(at, name, pid, 0, 0, cpu)
        for name, pid, seen in (
            ("w1", 1, [(0.5, 1.0), (1.5, 1.4), (2.5, 2.4), (3.5, 3.0)]),
            ("publisher", 2, [(1.5, 0.3), (2.5, 1.1)]),
            ("publisher", 3, [(2.7, 0.2), (3.5, 0.9)]),
        )
        for at, cpu in seen
    ]
    assert usage.used_between(1.0, 3.0) == {"w1": 1.4, "publisher": 1.3}
