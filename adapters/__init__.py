"""Adapters act: they read source logs, write targets, and carry the engine's effects out.

Every entry point comes through here, child processes and `faust -A tidelock.faust_app` included: what
guards rows against our own mistakes are assertions, and a Python that leaves them out is refused.
"""

import sys

if sys.flags.optimize:
    sys.stderr.write(
        "tidelock: this Python leaves out assertions (-O, or PYTHONOPTIMIZE is set), and they guard your rows. "
        "Start it without -O and unset PYTHONOPTIMIZE.\n"
    )
    raise SystemExit(2)
