"""A pair, star or tree of sites as `tidelock pair` knows it, for tests: its YAML, its commands, its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from bench.harness.network import Network
from bench.harness.rig import Said, tidelock
from bench.harness.servers import Server
from bench.harness.tidelock import Process
from tidelock.adapters.process import private_files

COMMAND_SECONDS = 400.0
"""How long a command may take: some run feeds, and compare all rows."""


class Pair(Network):
    """Sites whose feeds `tidelock pair` runs.  `lines`: edges as its YAML has them.  `options`: further keys there."""

    def __init__(self, folder: Path, servers: Mapping[str, Server], lines: Sequence[str], **options: Any) -> None:
        ways = [way for line in lines for way in (line.replace("-", ">"), ">".join(reversed(line.split("-"))))]
        super().__init__(folder, servers, ways)
        self.lines = list(lines)
        self.options = options
        self.output = folder / "pair.log"
        self.supervisor: Process | None = None

    @property
    def file(self) -> Path:
        path = self.folder / "pair.yaml"
        words = {
            "pair": self.schema,
            "sites": {site: node.url for site, node in self.nodes.items()},
            "edges": self.lines,
            "schema": self.books,
            "lanes": 2,
            "tables": [{"source": f"{self.schema}.*"}],
            "feeds": {feed.name: {"journal": str(feed.journal)} for feed in self.feeds.values()},
            **self.options,
        }
        private_files.write(path, yaml.safe_dump(words, sort_keys=False).encode())
        return path

    def command(self, *words: str) -> Said:
        """`tidelock pair WORD PAIR.yaml …`."""
        first, *rest = words
        return tidelock("pair", first, str(self.file), *rest, seconds=COMMAND_SECONDS)

    def begin(self, site: str, *options: str) -> Said:
        return self.command("init", "--from", site, "--apply", *options)

    def start(self) -> Process:
        """`tidelock pair run`, until each feed has begun."""
        self.supervisor = Process(["pair", "run", str(self.file)], self.output)
        return self.supervisor

    def said(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def equal(self, sites: Any = ()) -> bool:
        if self.supervisor is not None:
            self.supervisor.check()
        return super().equal(sites)

    def come_to_rest(self, sites: Any = ()) -> None:
        super().come_to_rest(sites)
        if self.supervisor is not None:
            self.supervisor.stop()

    def close(self) -> None:
        if self.supervisor is not None and self.supervisor.running:
            self.supervisor.kill()
        super().close()
