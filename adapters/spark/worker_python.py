"""Python for Spark's workers on this machine: this one, which imports pyspark from where it is installed.

Spark puts `pyspark.zip` of its installation before all else in the workers' PYTHONPATH.  What Python imports from a zip
it compiles anew in each process, 0.6 CPU seconds of pyspark alone, and the start of a stream takes five processes.  So
workers are started by a script that sets PYTHONPATH back to what it is here.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import site
import sys
from pathlib import Path


def worker_python(folder: Path) -> str:
    """Returns the program that workers are started by: a script in `folder`, or this Python where it has pyspark from
    elsewhere than its own packages."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None or str(Path(found.origin).parents[1]) not in site.getsitepackages():
        return sys.executable
    script = folder / "python"
    path = shlex.quote(os.environ.get("PYTHONPATH", ""))
    script.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {shlex.quote(sys.executable)} "$@"\n')
    script.chmod(0o700)
    return str(script) if os.access(script, os.X_OK) else sys.executable  # some temporary folders run nothing
