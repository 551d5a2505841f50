"""Starts one Spark session for one command: on this machine (`local[*]`) or on the feed's cluster (`spark.master`).

Spark's settings go through a file that only we can read, because a command line is open to every user of a machine.
All that it writes on this machine, its log too, is in one temporary folder that goes with the session; a folder whose
owner was killed goes with the next session.  It prints nothing itself; where it does not start, the end of its log is
the error.

All that a session starts on this machine ends with the process that opened it, also when that is killed
(`adapters.spark.guard`).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelock.adapters.config.feed import Spark
from tidelock.adapters.process.host import Missing, java
from tidelock.adapters.spark import guard, kept_classes
from tidelock.adapters.spark.cluster import ClusterRefused, await_executors, is_cluster, private
from tidelock.adapters.spark.drivers import drivers
from tidelock.adapters.spark.worker_python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MARK: Final = "TIDELOCK_SPARK"
STOP_SECONDS: Final = 20.0
_FOLDER: Final = "tidelock-spark-"
_LOG_LINES: Final = 15
_PYTHON: Final = "spark.pyspark.python"
_QUIET: Final = """
status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
"""


class SparkFailed(Exception):
    """Spark did not start, or a job failed; the text says why."""

    exit_code = 1


@contextlib.contextmanager
def session(wanted: Spark, name: str, java_options: str = "") -> Iterator[SparkSession]:
    """Opens a session.  `java_options`: more of them for the driver.

    Raises Missing without pyspark, Java or the drivers, SparkFailed if it does not start.
    """
    home = str(Path(java("Spark")).resolve().parents[1])
    jars = sorted(drivers().there().glob("*.jar"))
    _sweep()
    with (
        tempfile.TemporaryDirectory(prefix=f"{_FOLDER}{os.getpid()}-") as text,
        _guarded(Path(text).name),
        _environment(home, _python(wanted, Path(text)), Path(text).name),
    ):
        folder = Path(text)
        if wanted.master.startswith("local-cluster"):
            _keep_out_of_the_installation(folder / "home")
        try:
            _write_settings(folder, wanted, name, jars, java_options)
        except ClusterRefused as refused:
            raise SparkFailed(str(refused)) from None
        spark = _started(folder)
        try:
            _await_executors(spark, wanted.master, folder)
            yield spark
        finally:
            _stop(spark)


@contextlib.contextmanager
def _guarded(mark: str) -> Iterator[None]:
    """Lets `adapters.spark.guard` end whatever carries the mark when this process does, or the block."""
    command = [sys.executable, "-I", "-S", str(Path(guard.__file__)), f"{MARK}={mark}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as process:
        yield
        assert process.stdin is not None
        process.stdin.close()


def _keep_out_of_the_installation(home: Path) -> None:
    """Gives workers of this machine a Spark whose folder they may write into, as they work below it.

    The environment is put back with the session.
    """
    installed = importlib.util.find_spec("pyspark")
    if installed is None or installed.origin is None:
        return  # which is told when the session is started
    home.mkdir()
    for entry in Path(installed.origin).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    os.environ["SPARK_HOME"] = str(home)


def _await_executors(spark: SparkSession, master: str, folder: Path) -> None:
    if is_cluster(master):
        try:
            await_executors(spark, master)
        except ClusterRefused as refused:
            raise SparkFailed("\n".join([str(refused), *_log_end(folder)])) from None


def _sweep() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*-*"):
        owner = folder.name.removeprefix(_FOLDER).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _write_settings(folder: Path, wanted: Spark, name: str, jars: list[Path], java_options: str) -> None:
    """Writes the settings; the feed's own come last, so they win."""
    (folder / "log4j2.properties").write_text(_QUIET)
    settings = {
        "spark.app.name": f"tidelock {name}",
        "spark.master": wanted.master,
        "spark.driver.memory": wanted.memory,
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder} -Dlog4j2.configurationFile=file:{folder}/"
        f"log4j2.properties -Dderby.system.home={folder} {_java_options()} {java_options}".rstrip(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "16",
        "spark.sql.legacy.charVarcharAsString": "true",  # else CHAR is padded with spaces
        "spark.log.structuredLogging.enabled": "false",
    }
    if wanted.master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if is_cluster(wanted.master):  # executors have temporary folders of their own
        settings |= private(wanted.master, wanted.settings)
    else:
        settings["spark.local.dir"] = str(folder / "local")
    lines = (f"{key} {_escaped(value)}\n" for key, value in {**settings, **wanted.settings}.items())
    path = folder / "spark.properties"
    path.touch(mode=0o600)
    path.write_text("".join(lines))


def _java_options() -> str:
    return f"{kept_classes.options()} {kept_classes.LATE}".lstrip()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _python(wanted: Spark, folder: Path) -> str:
    """Returns the Python of workers: the feed's, the environment's, or this one."""
    python = wanted.settings.get(_PYTHON, "") or os.environ.get("PYSPARK_PYTHON", "")
    return python or (sys.executable if is_cluster(wanted.master) else worker_python(folder))


@contextlib.contextmanager
def _environment(home: str, python: str, mark: str) -> Iterator[None]:
    """Sets the environment, so that workers run this Python, and Java is the one found; all that is started carries the
    mark."""
    before = dict(os.environ)
    os.environ["PYSPARK_PYTHON"] = python
    os.environ["JAVA_HOME"] = home
    os.environ[MARK] = mark
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _started(folder: Path) -> SparkSession:
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:
        raise Missing("pyspark is not installed: run `make setup`, or `pip install 'tidelock[bulk]'`") from None
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {folder}/spark.properties pyspark-shell"
    with _stderr_into(folder / "spark.log"):
        try:
            return SparkSession.builder.getOrCreate()
        except (PySparkException, Py4JError, OSError, RuntimeError, ImportError) as error:
            raise SparkFailed("\n".join(["Spark does not start:", *(_log_end(folder) or [str(error)])])) from None


def _log_end(folder: Path) -> list[str]:
    """Returns the end of the log, without the frames of Java's stacks, which would hide the cause."""
    lines = (folder / "spark.log").read_text(errors="replace").strip().splitlines()
    return [line for line in lines if not line.startswith("\tat ")][-_LOG_LINES:]


@contextlib.contextmanager
def _stderr_into(path: Path) -> Iterator[None]:
    """Redirects stderr inside the block: a process started there keeps it.  Java itself writes warnings before it reads
    any setting.
    """
    sys.stderr.flush()
    ours = os.dup(2)
    try:
        with path.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(ours, 2)
        os.close(ours)


def _stop(spark: SparkSession) -> None:
    """Ends the session and the Java process behind it, which pyspark would keep until Python ends; it may be gone."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = SparkContext._gateway
    with contextlib.suppress(Exception):  # a job that was interrupted may have broken the connection
        spark.stop()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    if gateway is not None:
        with contextlib.suppress(Exception):
            gateway.shutdown()
        process = gateway.proc
        process.stdin.close()
        with contextlib.suppress(Exception):
            process.wait(STOP_SECONDS)
        process.kill()
        process.wait()
