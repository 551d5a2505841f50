"""Processor time of each test with all that it starts: a pytest plugin, and the table of what it wrote.

    CPU_BY_TEST=FOLDER .venv/bin/pytest -p tests.cpu_by_test -n 4 tests    # as root, where cgroups can be made
    .venv/bin/python tests/cpu_by_test.py FOLDER [ROWS]

Each pytest worker moves into a control group of its own, in which its servers, Java and commands stay.  The group's
processor time is read before and after each test and fixture; so what servers do between two tests counts for the
next.  One Kafka serves all workers and counts for the one that started it.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

V1, V2 = Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup")
LEAST_SECONDS = 0.02  # of a fixture that is told


class Meter:
    """The group of this process, and the file of what its tests used."""

    def __init__(self, folder: Path, name: str) -> None:
        self._group = (V1 if V1.exists() else V2) / f"tidelock-{name}-{os.getpid()}"
        self._group.mkdir()
        (self._group / "cgroup.procs").write_text(str(os.getpid()))
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / f"{name}-{os.getpid()}.jsonl").open("w", buffering=1)
        self._inside: list[float] = []
        self._fixtures: list[tuple[str, float]] = []
        self._last = self._used()

    def _used(self) -> float:
        """Seconds so far, of the processor."""
        if self._group.parent == V1:
            return int((self._group / "cpuacct.usage").read_text()) / 1e9
        return int((self._group / "cpu.stat").read_text().split()[1]) / 1e6

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        before = self._used()
        self._inside.append(0.0)
        try:
            return (yield)
        finally:
            seconds = self._used() - before
            own = seconds - self._inside.pop()
            if self._inside:
                self._inside[-1] += seconds
            if own > LEAST_SECONDS:
                self._fixtures.append((fixturedef.argname, round(own, 3)))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._fixtures.clear()
        try:
            return (yield)
        finally:
            now = self._used()
            told = {"test": item.nodeid, "seconds": round(now - self._last, 3), "fixtures": self._fixtures}
            self._file.write(json.dumps(told) + "\n")
            self._last = now


def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", {}).get("workerid", "")
    if worker or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Meter(Path(os.environ["CPU_BY_TEST"]), worker or "alone"), "processor time")


def main(folder: Path, rows: int) -> None:
    """Prints the files, tests and fixtures that took most."""
    tests = [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    files, fixtures = Counter[str](), Counter[str]()
    for one in tests:
        files[one["test"].partition("::")[0]] += one["seconds"]
        for name, seconds in one["fixtures"]:
            fixtures[name] += seconds
    by_test = Counter({one["test"]: one["seconds"] for one in tests})
    print(f"{len(tests)} tests, {files.total():.0f} s")
    for counted in (files, by_test, fixtures):
        print(*(f"{seconds:9.2f}  {name}" for name, seconds in counted.most_common(rows)), "", sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 40)
