"""Python's garbage collector in processes that move rows.

Rows in flight are young, many and free of cycles: at the default thresholds the collector would walk them all again
and again.
"""

from __future__ import annotations

import gc


def calm() -> None:
    """What is loaded by now is not looked at again; the rest rarely."""
    gc.freeze()
    gc.set_threshold(500_000, 20, 100)
