"""Findings of a benchmark, as a file that says where it was found: `bench/results/NAME.json`.

A figure without its machine, versions and load is a rumour.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.harness.servers import Server

RESULTS: Final = Path(__file__).parent / "results"


class Outcome:
    """Opened before the first measurement, written after the last.

    `servers`: their versions are kept, by label; those that start later are made known by `on`.
    """

    def __init__(self, name: str, servers: Mapping[str, Server] | None = None) -> None:
        self.name = name
        self._begun = datetime.now(UTC)
        self._load = os.getloadavg()[0]
        self._versions: dict[str, str] = {}
        self.on(servers or {})

    def on(self, servers: Mapping[str, Server]) -> None:
        self._versions |= {label: version(server) for label, server in servers.items()}

    def write(self, measured: Mapping[str, Any], folder: Path = RESULTS) -> Path:
        """`measured`: what JSON can hold, and dataclasses.  Returns the file's path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        content = {"benchmark": self.name, "machine": self.machine(), **measured}
        path.write_text(json.dumps(content, indent=1, default=dataclasses.asdict) + "\n")
        return path

    def machine(self) -> dict[str, Any]:
        return {
            "at": self._begun.isoformat(timespec="seconds"),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "servers": self._versions,
            "load_before": round(self._load, 2),
            "load_after": round(os.getloadavg()[0], 2),
        }


def version(server: Server) -> str:
    return f"{type(server).__name__} {server.execute('SELECT version()')[0][0]}"


def read(name: str, folder: Path = RESULTS) -> dict[str, Any] | None:
    """Read the outcome that was written last; None: it was never measured."""
    path = folder / f"{name}.json"
    found: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
    return found


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; every column but the first is of numbers."""
    lines = [header, ["---", *("---:" for _ in header[1:])], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
