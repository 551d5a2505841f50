"""Answers about lanes: what a feed's process tells, or what it told last where it is too busy to tell anything now.

A process that plans a large window answers nobody for some seconds.  Then an older look with its age is worth more than
none.  It is of the very process that runs: with another one, all that it told of is gone.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from tidelock.adapters.api.failures import AWAY, ApiError
from tidelock.adapters.api.fleet import Fleet
from tidelock.adapters.fleet.member import Member
from tidelock.adapters.fleet.pages import asked

MOST_BYTES: Final = 1 << 20
_PAGE: Final = msgspec.json.Decoder(dict[str, Any])


class _Look(NamedTuple):
    """A page as it was told.  `start`: which process of the feed told it.  `at`: when, by the monotonic clock."""

    page: bytes
    start: int
    at: float


class KeptLanes:
    """The last page of lanes of each feed of one fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._looks: dict[Path, _Look] = {}

    async def page(self, one: Member) -> dict[str, Any]:
        """Returns the page with `age_seconds`, which is 0 where it was told just now.  Raises ApiError."""
        start = one.starts
        page = await asyncio.to_thread(asked, one.socket, "/lanes") if one.running else None
        there = self._fleet.members
        self._looks = {path: look for path, look in self._looks.items() if path in there}
        if page is not None:
            told = _decoded(one.name, page)
            self._looks[one.file.path] = _Look(page, start, time.monotonic())
            return told | {"age_seconds": 0.0}
        kept = self._looks.get(one.file.path)
        if kept is None or kept.start != one.starts or not one.running:
            words = "it does not run, has just begun, or is busy"
            raise ApiError(AWAY, f"No process of {one.name} tells of its lanes: {words}")
        return _decoded(one.name, kept.page) | {"age_seconds": round(time.monotonic() - kept.at, 1)}


def _decoded(name: str, page: bytes) -> dict[str, Any]:
    try:
        if len(page) <= MOST_BYTES:
            return _PAGE.decode(page)
    except msgspec.MsgspecError:
        pass
    raise ApiError(AWAY, f"The process of {name} tells of its lanes what is no JSON object of at most 1 MB")
