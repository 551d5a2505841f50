"""`tidelock tombstones`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tidelock.adapters.cli.failure import OK
from tidelock.adapters.cli.output import print_json
from tidelock.adapters.config.loader import load


def tombstones(paths: Sequence[str], json: bool) -> int:
    """Takes tombstones away that nothing older can meet; returns the exit code."""
    feeds = [load(path) for path in paths]
    from tidelock.adapters.app.tombstones import purge

    gone = asyncio.run(purge(feeds, (lambda _: None) if json else print))
    if json:
        print_json({"purged": gone})
        return OK
    for one in gone:
        print(f"{one.site}: {one.tombstones:,} tombstones of {one.table} have gone")
    return OK
