"""Questions and wishes of the API to the supervisor of `serve`."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

from tidelock.adapters.api.answers import Feeds
from tidelock.adapters.api.failures import AWAY, UNKNOWN, ApiError
from tidelock.adapters.api.shown_feeds import shown_feed
from tidelock.adapters.fleet.member import Member
from tidelock.adapters.fleet.supervisor import Wish


class Fleet(Protocol):
    """The feeds of a folder, from any thread."""

    @property
    def members(self) -> dict[Path, Member]:
        """The feeds, by their files."""

    @property
    def begun(self) -> bool:
        """Tells whether the folder was read once: before, no feed is known, and any may be there."""

    @property
    def stopping(self) -> bool:
        """Tells whether all feeds are being ended."""

    def tell(self, text: str) -> None:
        """Shows a line where the fleet shows its own."""

    def want(self, path: Path, wish: Wish) -> Future[bool]:
        """Starts, stops or restarts the process of one feed."""


def shown_feeds(fleet: Fleet) -> Feeds:
    """Returns all feeds, by name."""
    return Feeds(tuple(sorted(map(shown_feed, list(fleet.members.values())), key=lambda one: one.name)))


def known_feeds(fleet: Fleet) -> Feeds:
    """Returns all feeds, by name.  Raises ApiError where the folder was not read yet."""
    _ready(fleet)
    return shown_feeds(fleet)


def member(fleet: Fleet, name: str) -> Member:
    """Returns a feed by its name, which is looked for among those that are known.  Raises ApiError."""
    _ready(fleet)
    for one in list(fleet.members.values()):
        if one.name == name:
            return one
    raise ApiError(UNKNOWN, f"There is no feed {name[:64]!r} in the folder: GET /feeds lists them")


def readable(fleet: Fleet, name: str) -> Member:
    """Returns a feed whose file can be read.  Raises ApiError."""
    one = member(fleet, name)
    if one.file.feed is None:
        raise ApiError(409, f"Its file cannot be read as a feed: {one.file.problem}")
    return one


def _ready(fleet: Fleet) -> None:
    if not fleet.begun:
        raise ApiError(AWAY, "`serve` has just begun, and has not read its folder yet: ask again")
