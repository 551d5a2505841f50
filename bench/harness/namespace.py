"""Tests that mount a file system, where we are not root: in a namespace of mounts of our own, by a pytest of their own.

The account stays what it is, since database servers refuse root, and has the right to mount in that namespace alone.
"""

from __future__ import annotations

import functools
import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

INSIDE: Final = "TIDELOCK_INSIDE_NAMESPACE"
UNSHARE: Final = ("unshare", "--user", "--map-current-user", "--keep-caps", "--mount", "--")
SECONDS: Final = 280.0  # below pytest's own limit
TAIL: Final = 6000

Test = Callable[..., Any]


def mounting(test: Test) -> Test:
    """The test itself as root; else one that runs it inside, with fixtures of its own."""
    if os.geteuid() == 0 or INSIDE in os.environ:
        return test

    @functools.wraps(test)
    def inside() -> None:
        import pytest

        if refusal := refused():
            pytest.skip(f"this system has no namespaces for accounts that are not root: {refusal}")
        name = f"{inspect.getfile(test)}::{test.__name__}"
        done = subprocess.run(
            [*UNSHARE, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name],
            env={**os.environ, INSIDE: "1"},
            capture_output=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-TAIL:] + done.stderr[-TAIL:]

    del inside.__wrapped__  # its fixtures are wanted inside
    return inside


def refused() -> str:
    """Returns why there can be no such namespace here, or ''."""
    try:
        done = subprocess.run([*UNSHARE, "true"], capture_output=True, encoding="utf-8", check=False)
    except OSError as error:
        return f"unshare: {error.strerror}"
    return done.stderr.strip() or "unshare failed" if done.returncode else ""
