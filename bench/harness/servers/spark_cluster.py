"""A standalone cluster of Spark: a master and its workers, processes of this machine, on loopback.

They know a secret, as a cluster does that is given passwords; an application needs it too.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
import socket
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.harness.servers.metastore import JVM, class_path, short_lived, spark_jars
from bench.harness.servers.place import free_port
from bench.harness.servers.process import Process
from tidelock.adapters.process.host import java

WORKER_MEMORY: Final = "600m"
EXECUTOR: Final = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.cores.max": "2"}


class _Node(Process):
    scheme = "spark"
    accounts = ()
    stop_signal = signal.SIGTERM
    discard_signal = signal.SIGKILL
    main = ""

    def __init__(self, secret: str, master: str = "") -> None:
        super().__init__()
        self.account = None  # executors run the Python of this checkout, which others may not read
        self.secret, self.master = secret, master

    def _template(self) -> Path:
        raise NotImplementedError  # it keeps no data

    def _prepare(self) -> None:
        for folder in (self.folder / "tmp", self.folder / "work", self.data):
            folder.mkdir()
        self.log.touch()

    def _probe(self) -> None:
        socket.create_connection((self.host, self.port), timeout=1).close()

    def _command(self) -> list[str]:
        settings = {"java.io.tmpdir": f"{self.folder}/tmp", "spark.master.rest.enabled": "false"}
        if self.secret:
            settings |= {
                "spark.authenticate": "true",
                "spark.authenticate.secret": self.secret,
                "spark.network.crypto.enabled": "true",
            }
        options = [f"-D{key}={value}" for key, value in settings.items()]
        main = ["-cp", class_path(), f"org.apache.spark.deploy.{self.main}"]
        place = ["--host", self.host, "--port", str(self.port), "--webui-port", str(free_port())]
        jars = spark_jars()  # whose place and Scala a worker needs to start executors
        scala = next(jars.glob("spark-core_*.jar")).name.removeprefix("spark-core_").partition("-")[0]
        home = [*short_lived(), f"SPARK_HOME={jars.parent}", f"SPARK_SCALA_VERSION={scala}"]
        return [*home, java("Spark"), *JVM, *options, *main, *place, *self._more()]

    def _more(self) -> list[str]:
        return []


class _Master(_Node):
    main = "master.Master"


class _Worker(_Node):
    main = "worker.Worker"

    def _more(self) -> list[str]:
        return ["--cores", "1", "--memory", WORKER_MEMORY, "--work-dir", str(self.folder / "work"), self.master]


class SparkCluster:
    """A context manager.  `url`: for `spark.master`; `settings`: what an application needs to be let in and to fit.

    `nodes`: the master, then the workers.  `private`: it lets in who knows its secret; else anybody.
    """

    def __init__(self, workers: int = 2, *, private: bool = True) -> None:
        secret = secrets.token_hex(16) if private else ""
        known = {"spark.authenticate.secret": secret} if private else {}
        self.settings = {**EXECUTOR, **known, "spark.driver.host": "127.0.0.1"}
        self._stack = contextlib.ExitStack()
        self._secret, self._workers = secret, workers
        self.url = ""
        self.nodes: list[Process] = []

    def __enter__(self) -> Self:
        with self._stack:
            master = self._stack.enter_context(_Master(self._secret))
            self.url = f"spark://{master.host}:{master.port}"
            workers = [self._stack.enter_context(_Worker(self._secret, self.url)) for _ in range(self._workers)]
            self.nodes = [master, *workers]
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
