"""Numbers for names of what tests make on servers that several processes share."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

A_PROCESS = 10_000


def numbers() -> Iterator[int]:
    """Count as no other worker of pytest-xdist does; from 1 in the first, and where there is only one process."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return itertools.count(1 + int(worker) * A_PROCESS)
