"""Spark's classes, as Java keeps them between processes: a start finds them there, and others are not disturbed."""

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

from bench.harness.servers.place import ServerMissing
from bench.harness.servers.spark_classes import SHORT, archive, java_options, there


def submit(options: str) -> subprocess.CompletedProcess[str]:
    """Spark's own command starts Java twice: the first, of another class path, tells how to start the second."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.origin is not None
    return subprocess.run(
        [Path(found.origin).parent / "bin" / "spark-submit", "--version"],
        env=os.environ | {"JDK_JAVA_OPTIONS": options},
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
    assert java_options() == SHORT
    with pytest.raises(ServerMissing, match="run `make servers`"):
        there()


def test_another_java_has_an_archive_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = archive()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "modules").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert archive().parent == ours.parent and archive() != ours
