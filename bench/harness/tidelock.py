"""`tidelock` as its users run it: a feed file and processes, told apart from this one."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import Signals
from typing import Any, Final

import msgspec
import yaml

from bench.harness.forking import COMMAND, start
from bench.harness.servers.guard import guard
from tidelock.adapters.process import private_files
from tidelock.adapters.runtime.progress import Sample

STOP_SECONDS = 20.0
OUTPUT_TAIL_CHARACTERS = 4000
_SAMPLE: Final = msgspec.json.Decoder(Sample)
_PLAIN: Final = re.compile(r'^(tidelock_\w+)\{feed="[^"]*"\} ([-+.\deE]+)$', re.MULTILINE)


class TidelockFailed(RuntimeError):
    """The command ended with another exit code than 0, or ended when it should run; the text holds what it said."""


@dataclasses.dataclass(frozen=True)
class Feed:
    """A feed's YAML; all tables of `schema` go to the schema of the same name, unless `tables` says otherwise.

    `start`: `now` or `FILE:OFFSET`.  `http`: `HOST:PORT` of the metrics page, or empty.  `options`: all other keys.
    """

    name: str
    source: str
    target: str
    schema: str
    start: str = "now"
    lanes: int = 8
    http: str = ""
    tables: Sequence[Mapping[str, Any]] = ()
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def yaml(self) -> str:
        feed = {
            "feed": self.name,
            "source": self.source,
            "target": self.target,
            "tables": [dict(rule) for rule in self.tables] or [{"source": f"{self.schema}.*"}],
            "lanes": self.lanes,
            "start": self.start,
            **({"http": self.http} if self.http else {}),
            **self.options,
        }
        return yaml.safe_dump(feed, sort_keys=False)

    def write(self, folder: Path) -> Path:
        """Replaces the file as a whole: a command that was just started may read it."""
        path = folder / f"{self.name}.yaml"
        private_files.write(path, self.yaml().encode())  # the URLs hold passwords
        return path


class Process:
    """A running `tidelock` with its output in a file; ended by its owner, not by itself.

    `cwd`: where it is started, None for here.  Python looks there for modules first.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        output: Path,
        command: Sequence[str] = COMMAND,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self._arguments = arguments
        self._output = output
        with output.open("ab") as stream:
            self._process = start(arguments, stream, stream, command, environment, cwd)
        guard.process(self._process.pid, signal.SIGKILL)

    @property
    def pid(self) -> int:
        """Pid of the process itself, which leads the group of its children."""
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def signal(self, number: Signals) -> None:
        """To it and its children."""
        self._signal(number)

    def kill(self) -> None:
        """SIGKILL to it and its children, in the middle of whatever they do."""
        self._signal(signal.SIGKILL)
        self._ended(None)

    def stop(self) -> None:
        """SIGTERM; SIGKILL if that is not heeded in time."""
        self._signal(signal.SIGTERM)
        try:
            self._ended(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._failed(f"did not stop within {STOP_SECONDS:.0f} s of SIGTERM") from None

    def wait(self, seconds: float) -> None:
        """Raises TidelockFailed if it ends badly, or not in time (and then kills it)."""
        code = self.code(seconds)
        if code:
            raise self._failed(f"ended with exit code {code}")

    def code(self, seconds: float) -> int:
        """Its exit code.  Raises TidelockFailed if it does not end in time (and then kills it)."""
        try:
            return self._ended(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._failed(f"was not done after {seconds:.0f} s") from None

    def check(self) -> None:
        """Raises TidelockFailed unless it still runs."""
        if not self.running:
            raise self._failed(f"ended with exit code {self._process.returncode}")

    @property
    def said(self) -> str:
        """The end of its output."""
        return self._output.read_text(errors="replace")[-OUTPUT_TAIL_CHARACTERS:].strip()

    def _ended(self, seconds: float | None) -> int:
        code = self._process.wait(seconds)
        guard.ended(self._process.pid)
        return code

    def _signal(self, number: Signals) -> None:
        if self.running:
            # It leads a session of its own: the group is itself and its children.
            os.killpg(self._process.pid, number)

    def _failed(self, what: str) -> TidelockFailed:
        return TidelockFailed(f"`tidelock {' '.join(self._arguments)}` {what}:\n{self.said}")


def metrics(address: str) -> dict[str, float]:
    """The counters and gauges of a run's metrics page that have no label but the feed's, by name; empty while nobody
    answers."""
    return {name: float(value) for name, value in _PLAIN.findall(metrics_page(address))}


def metrics_page(address: str) -> str:
    """A run's metrics page; empty while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=1.0) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, OSError):
        return ""


def sample(address: str) -> Sample | None:
    """Read what a run says of itself at this moment; None while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://{address}/status", timeout=1.0) as answer:
            return _SAMPLE.decode(answer.read())
    except (urllib.error.URLError, OSError):
        return None
