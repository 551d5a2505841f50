"""`tidelock sequences`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tidelock.adapters.cli.failure import OK
from tidelock.adapters.cli.output import print_json
from tidelock.adapters.config.feed_file import load


def sequences(path: str, only: Sequence[str], apply: bool, json: bool) -> int:
    """Prints, or with `apply` runs, the statements that set the target's sequences; returns the exit code."""
    feed = load(path)
    from tidelock.adapters.app.sequences import sequences as compared

    states = asyncio.run(compared(feed, only, apply))
    if json:
        print_json({"applied": apply, "sequences": states})
        return OK
    for state in states:
        place = f"{state.table}.{state.column}"
        if state.why:
            print(f"-- {place}: {state.why}")
        elif state.sql:
            print(f"-- {place}: the source gives {state.source:,} next, the target {state.target:,}")
            if not apply:
                print(f"{state.sql};")
    behind = sum(bool(state.sql) for state in states)
    words = "set" if apply else "to be set (--apply)"
    print(f"-- {feed.name}: {len(states)} sequence{'s' if len(states) != 1 else ''}, {behind} {words}")
    return OK
