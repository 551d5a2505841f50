"""A Hive metastore as others run it: a service of its own, here over a Derby in its folder.

It needs no jars but Spark's, which hold Hive's metastore whole.  Killed, it starts again on the same data.
"""

from __future__ import annotations

import importlib.util
import signal
import socket
from pathlib import Path
from typing import Final

from bench.harness.servers.process import Process
from bench.harness.servers.spark_classes import java_options
from tidelock.adapters.process.host import Missing, java

JVM: Final = [
    "-Xmx400m",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.lang", "java.net", "java.util", "java.nio")),
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
]


class Metastore(Process):
    """`extra` are settings of Hive, `name=value`.  `warehouse`: the folder where it lets databases lie."""

    scheme = "hive"
    accounts = ()
    stop_signal = signal.SIGTERM
    discard_signal = signal.SIGKILL  # keeps nothing outside its folder

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    def url(self, database: str = "default") -> str:
        return f"hive://{self.host}:{self.port}/{database}"

    def _template(self) -> Path:
        raise NotImplementedError  # it makes its data itself

    def _prepare(self) -> None:
        for folder in (self.warehouse, self.folder / "tmp", self.data):
            folder.mkdir()
        self.log.touch()

    def _probe(self) -> None:
        socket.create_connection((self.host, self.port), timeout=1).close()

    def _command(self) -> list[str]:
        settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={self.data}/derby;create=true",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": str(self.warehouse),
            "hive.async.log.enabled": "false",
        }
        words = [*(f"{name}={value}" for name, value in settings.items()), *self.extra]
        options = [word for pair in words for word in ("--hiveconf", pair)]
        main = ["-cp", class_path(), "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(self.port)]
        return [*short_lived(), java("Hive's metastore"), *JVM, f"-Dderby.system.home={self.data}", *main, *options]


def class_path() -> str:
    """The class path of Spark's own programs: only for that one Java takes the classes that were kept."""
    jars = spark_jars()
    (first,) = jars.glob("slf4j-api-*.jar")
    return f"{jars.parent}/conf:{first}:{jars}/*"


def short_lived() -> list[str]:
    """The beginning of a command that starts Java as tests start Spark: with kept classes, for a short life."""
    return ["/usr/bin/env", f"JDK_JAVA_OPTIONS={java_options()}"]


def spark_jars() -> Path:
    """The folder of Spark's jars.  Raises Missing."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise Missing("pyspark is not installed: run `make setup`")
    return Path(found.origin).parent / "jars"
