"""The Python that a session of Spark starts its workers by."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidelock.adapters.config.feed import Spark
from tidelock.adapters.spark.session import _python
from tidelock.adapters.spark.worker_python import worker_python


def test_workers_import_pyspark_from_where_it_is_installed(tmp_path: Path) -> None:
    """And not from the zip that Spark puts before all else, of which each process would compile what it imports."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.origin is not None
    (zipped,) = (Path(found.origin).parent / "python/lib").glob("pyspark.zip")
    told = subprocess.run(
        [worker_python(tmp_path), "-c", "import sys, pyspark; print(pyspark.__file__, *sys.argv)", "a b"],
        env={**os.environ, "PYTHONPATH": str(zipped)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == [found.origin, "-c", "a", "b"]


def test_a_python_that_is_chosen_is_the_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the feed, else by the environment; executors of a cluster have no folder of ours."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert _python(Spark(), tmp_path) == str(tmp_path / "python")
    assert _python(Spark(master="spark://other:7077"), tmp_path) == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "/their/python")
    assert _python(Spark(), tmp_path) == "/their/python"
    assert _python(Spark(settings={"spark.pyspark.python": "/a/python"}), tmp_path) == "/a/python"
