"""Spark's classes, as Java keeps them between processes: a start finds them there, and others are not disturbed."""

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

from bench.harness.servers.place import ServerMissing
from bench.harness.servers.spark_classes import java_options, there
from tidelock.adapters.config.feed import Spark
from tidelock.adapters.process.host import java_program
from tidelock.adapters.spark import session
from tidelock.adapters.spark.kept_classes import LATE, SHORT, options, place


def submit(given: str) -> subprocess.CompletedProcess[str]:
    """Spark's own command starts Java twice: the first, of another class path, tells how to start the second."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.origin is not None
    return subprocess.run(
        [Path(found.origin).parent / "bin" / "spark-submit", "--version"],
        env=os.environ | {"JDK_JAVA_OPTIONS": given},
        capture_output=True,
        text=True,
        check=True,
    )


def test_spark_starts_from_the_archive(tmp_path: Path) -> None:
    there()
    done = submit(f"{java_options()} -Xlog:class+load=info:file={tmp_path}/%p.log")
    logs = [path.read_text() for path in tmp_path.glob("*.log")]
    assert any("org.apache.spark.deploy.SparkSubmit source: shared objects file (top)" in log for log in logs)
    assert (done.stdout, "warning" in done.stderr) == ("", False)


def test_without_the_archive_java_is_told_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELOCK_CACHE", str(tmp_path))
    assert (java_options(), options()) == (SHORT, "")
    with pytest.raises(ServerMissing, match="run `make servers`"):
        there()


def test_a_session_names_the_archive_and_starts_without_one_that_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELOCK_CACHE", str(tmp_path))
    place().write_bytes(b"damaged" * 4000)
    session._write_settings(tmp_path, Spark(), "named", [], SHORT)
    assert f"{options()} {LATE} {SHORT}\n" in (tmp_path / "spark.properties").read_text()
    started = subprocess.run(
        [java_program(), *options().split(), "-version"],
        env={name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert started.stdout == "" and place().name in options()


def test_another_java_has_an_archive_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = place()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "modules").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert place().parent == ours.parent and place() != ours
