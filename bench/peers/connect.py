"""A Kafka Connect worker (standalone) of our own, and the part of its REST interface that a comparison needs."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench.harness.servers.kafka_jars import java
from bench.harness.servers.process import Process
from bench.peers.connect_jars import connect_jars
from bench.peers.peer import PeerFailed

JVM: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-Xshare:auto", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
ANSWER_SECONDS: Final = 30.0


class Connect(Process):
    """A worker beside a broker; `bootstrap`: HOST:PORT of the broker."""

    scheme = "connect"
    accounts = ()
    stop_signal = signal.SIGTERM
    discard_signal = signal.SIGKILL  # keeps nothing outside its folder

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._bootstrap = bootstrap

    def create(self, name: str, config: Mapping[str, object]) -> None:
        """A connector that does not run yet.  Raises PeerFailed, as all that follow."""
        self._ask("POST", "connectors", {"name": name, "initial_state": "STOPPED", "config": _text(config)})

    def place(self, name: str, partition: Mapping[str, str], offset: Mapping[str, object]) -> None:
        """Set the place where a stopped source connector begins."""
        self._ask("PATCH", f"connectors/{name}/offsets", {"offsets": [{"partition": partition, "offset": offset}]})

    def resume(self, name: str) -> None:
        self._ask("PUT", f"connectors/{name}/resume")

    def delete_all(self) -> None:
        for name in self._ask("GET", "connectors"):
            self._ask("DELETE", f"connectors/{name}")

    def failure(self, name: str) -> str:
        """Returns what stopped a connector or its task; empty while nothing has."""
        status = self._ask("GET", f"connectors/{name}/status")
        parts = [status["connector"], *status["tasks"]]
        return next((_cause(part.get("trace", "")) for part in parts if part["state"] == "FAILED"), "")

    def runs(self, name: str) -> bool:
        """Tell whether its task has started."""
        return any(task["state"] == "RUNNING" for task in self._ask("GET", f"connectors/{name}/status")["tasks"])

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            f"http://{self.host}:{self.port}/{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
                said = answer.read()
        except urllib.error.HTTPError as error:
            raise PeerFailed(f"Kafka Connect refused {method} {path}: {error.read().decode()[:2000]}") from error
        return json.loads(said) if said else None

    def _probe(self) -> None:
        self._ask("GET", "connectors")

    def _template(self) -> Path:
        return self.folder  # nothing to copy: `_prepare` writes its one file

    def _prepare(self) -> None:
        self.log.touch()
        lines = {
            "bootstrap.servers": self._bootstrap,
            "listeners": f"http://{self.host}:{self.port}",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "offset.storage.file.filename": self.folder / "offsets",
            "plugin.discovery": "only_scan",
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))

    @property
    def _properties(self) -> Path:
        return self.folder / "worker.properties"

    def _command(self) -> list[str]:
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        return [java(), *JVM, "-cp", f"{connect_jars()}/*", main, str(self._properties)]


def _text(config: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in config.items()}


def _cause(trace: str) -> str:
    """The last cause of a Java stack trace."""
    causes = [line.strip() for line in trace.splitlines() if line.startswith("Caused by:")]
    return causes[-1].removeprefix("Caused by: ") if causes else trace.partition("\n")[0]
