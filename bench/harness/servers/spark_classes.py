"""Spark's classes as Java keeps them between processes (class data sharing): a start of Spark then costs half.

Java looks itself whether the archive fits its build, the class path and each jar, and does without it where not; all
of that is in the archive's name too, so that a change makes a new one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tidelock.adapters.config.feed import Spark
from tidelock.adapters.process import host
from tidelock.adapters.process.host import Missing, cache
from tidelock.adapters.spark.session import session

# Lives are short in tests: Java's second compiler and its several collectors would take longer than they save.
SHORT: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Else Java mentions on stdout, where others read on, that an archive is not of their class path.
QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"
SECONDS: Final = 600.0


def java_options() -> str:
    """Options for short lives of Spark, with the archive where there is one."""
    try:
        path = archive()
    except Missing:
        return SHORT
    return f"{SHORT} {QUIET} -XX:SharedArchiveFile={path}" if path.exists() else SHORT


def archive() -> Path:
    """Returns the path where the archive of this Java and this Spark is, or would be.  Raises Missing."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise Missing("pyspark is not installed: run `make setup`")
    java = Path(host.program("java", host.JAVA_PACKAGE) if "JAVA_HOME" not in os.environ else _of_home())
    files = [java.resolve().parents[1] / "lib" / "modules", *sorted((Path(found.origin).parent / "jars").iterdir())]
    digest = hashlib.sha256()
    for path in files:
        there = path.stat()
        digest.update(f"{path} {there.st_size} {there.st_mtime_ns}\n".encode())
    return cache() / f"spark-classes-{digest.hexdigest()[:16]}.jsa"


def _of_home() -> str:
    return str(Path(os.environ["JAVA_HOME"]) / "bin" / "java")


def there() -> Path:
    """The archive.  Raises Missing where it was not made yet."""
    path = archive()
    if not path.exists():
        raise Missing(f"{path} is not here: run `make servers`")
    return path


def make() -> None:
    """Write the archive, from a Spark that does a little of all that tests do.  Raises Missing."""
    path = archive()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.stem}-", dir=path.parent) as folder:
        written = Path(folder) / path.name
        done = subprocess.run(
            [sys.executable, "-m", __name__, str(written)],
            env={**os.environ, "JDK_JAVA_OPTIONS": f"{SHORT} {QUIET}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
        if done.returncode != 0 or not written.exists():
            raise Missing(f"Java could not keep Spark's classes in {path}:\n{done.stdout.strip()[-2000:]}")
        written.rename(path)


def _run(written: Path) -> None:
    """Java writes the archive when it ends, which takes longer than a session waits."""
    from pyspark import SparkContext

    with session(Spark(), "classes", f"-XX:ArchiveClassesAtExit={written}") as spark:
        numbers = spark.range(100).selectExpr("id", "xxhash64(id) AS hash", "CAST(id AS STRING) AS text")
        numbers.createOrReplaceTempView("numbers")
        joined = numbers.join(numbers.groupBy("id").count(), "id", "full_outer").orderBy("id")
        assert joined.count() == 100
        assert len(joined.where("text LIKE '1%' AND hash IS NOT NULL").limit(5).collect()) == 5
        url, properties = "jdbc:derby:memory:classes;create=true", {"driver": "org.apache.derby.jdbc.EmbeddedDriver"}
        numbers.write.jdbc(url, "numbers", properties=properties)
        read = spark.read.jdbc(url, "numbers", predicates=["1 = 1"], properties=properties)
        assert read.rdd.mapPartitions(lambda rows: [len(list(rows))]).sum() == 100
        gateway = SparkContext._gateway
        assert gateway is not None
        process = gateway.proc
        process.stdin.close()
        process.wait(SECONDS)


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
