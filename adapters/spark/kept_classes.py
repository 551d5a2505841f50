"""Spark's classes as Java keeps them between processes (class data sharing): a session then starts with half the CPU.

`python -m tidelock.adapters.spark.kept_classes` has Java write them, once, into the cache (half a minute of a core, 180
MB), and prints the options by which any Java on this machine starts Spark with the least CPU.  Sessions of ours have
those by themselves.

Java looks itself whether they fit its build, the class path and each jar, and does without them where not; all of that
is in the file's name too, so that a change makes a new one.
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

from tidelock.adapters.process.host import Missing, cache, java_program

# For lives of minutes: Java's second compiler and its several collectors take longer than they save.
SHORT: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# For any life: the second compiler takes what has run ten times as often as it waits for by default.  What a start of
# Spark runs is not among that, and what a job of minutes runs is within its first second.
LATE: Final = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
# Else Java mentions on stdout, where others read on, that the file is not of their class path.
_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"
_SECONDS: Final = 600.0
_TRAINING: Final = "tidelock.adapters.spark.training"


def place() -> Path:
    """Returns the path where the classes of this Java and this Spark are, or would be.  Raises Missing."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise Missing("pyspark is not installed: run `make setup`, or `pip install 'tidelock[bulk]'`")
    home = Path(java_program()).resolve().parents[1]
    digest = hashlib.sha256()
    for path in (home / "lib" / "modules", *sorted((Path(found.origin).parent / "jars").iterdir())):
        there = path.stat()
        digest.update(f"{path} {there.st_size} {there.st_mtime_ns}\n".encode())
    return cache() / f"spark-classes-{digest.hexdigest()[:16]}.jsa"


def options() -> str:
    """Returns Java's options for the classes; '' where they were not written."""
    try:
        path = place()
        return f"{_QUIET} -XX:SharedArchiveFile={path}" if os.access(path, os.R_OK) else ""
    except (Missing, OSError):
        return ""


def make() -> None:
    """Has Java write the classes, from a Spark that does a little of all that we do.  Raises Missing."""
    path = place()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.stem}-", dir=path.parent) as folder:
        written = Path(folder) / path.name
        done = subprocess.run(
            [sys.executable, "-m", _TRAINING, str(written)],
            env={**os.environ, "JDK_JAVA_OPTIONS": f"{SHORT} {_QUIET}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode != 0 or not written.exists():
            raise Missing(f"Java could not keep Spark's classes in {path}:\n{done.stdout.strip()[-2000:]}")
        written.rename(path)


def main() -> int:
    """Makes them where they are not there, and prints the options."""
    try:
        if not options():
            make()
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 1
    print(f"{options()} {LATE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
