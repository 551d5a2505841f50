"""Answers the routes: each method of `Control` is what one kind of route does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from tidelock.adapters.api import fleet as feeds
from tidelock.adapters.api.answers import Job, Jobs, Queued, ShownFeed, Who
from tidelock.adapters.api.commands import Commands, line
from tidelock.adapters.api.failures import AWAY, NOT_NOW, ApiError
from tidelock.adapters.api.fleet import Fleet
from tidelock.adapters.api.jobs import Jobs as RunningJobs
from tidelock.adapters.api.kept_lanes import KeptLanes
from tidelock.adapters.api.openapi import document
from tidelock.adapters.api.parameters import Parameters, Repaired
from tidelock.adapters.api.roles import Holder
from tidelock.adapters.api.routes import ROUTES, Route
from tidelock.adapters.api.shown_feeds import shown_feed, with_config
from tidelock.adapters.fleet.supervisor import Wish
from tidelock.adapters.process.command_answer import Run

WISH_SECONDS: Final = 10.0
_WISHES: Final[dict[str, Wish]] = {"start": "start", "stop": "stop", "restart": "restart"}


class Asked(NamedTuple):
    """A request that was let in.  `place`: the parts of its path.  `given`: its parameters or its body, checked.
    `who`: whose it is.
    """

    route: Route
    place: dict[str, str]
    given: Parameters
    who: Holder


class Control:
    """The answers about one fleet."""

    def __init__(self, fleet: Fleet, folder: Path, run: Run) -> None:
        """`folder`: of its own, for reports.  `run`: runs the commands."""
        self._fleet = fleet
        self._lanes = KeptLanes(fleet)
        self._commands = Commands(fleet.tell, run)
        self._jobs = RunningJobs(folder, fleet.tell, run)

    async def answer(self, asked: Asked) -> Any:
        """Returns what is answered, as JSON.  Raises ApiError."""
        match asked.route.does:
            case "document":
                return document()
            case "who":
                return who_is(asked.who)
            case "feeds":
                return feeds.known_feeds(self._fleet)
            case "feed":
                return await asyncio.to_thread(with_config, feeds.member(self._fleet, asked.place["feed"]))
            case "lanes":
                return await self._lanes.page(feeds.member(self._fleet, asked.place["feed"]))
            case "read":
                return await self._read(asked)
            case "act":
                one = feeds.readable(self._fleet, asked.place["feed"])
                return await self._commands.act(asked.route.command, one.file.path, asked.given.options())
            case "process":
                return await self._process(asked)
            case "begin":
                return self._begin(asked)
            case "jobs":
                return Jobs(tuple(self._jobs.all()))
            case "job":
                return self._jobs.job(_number(asked))
            case "end job":
                return await self._end(asked)
            case "events":
                raise ValueError("a stream has no one answer")

    async def _read(self, asked: Asked) -> Any:
        one = feeds.readable(self._fleet, asked.place["feed"])
        route = asked.route
        row = asked.place.get("row", "")
        told = await self._commands.read(route.command, one.file.path, asked.given.options(), row)
        if not route.part:
            return told
        parts = msgspec.json.decode(told)
        return parts.get(route.part) if isinstance(parts, dict) else None

    async def _process(self, asked: Asked) -> ShownFeed:
        one = feeds.readable(self._fleet, asked.place["feed"])
        wish = _WISHES[asked.route.path.rpartition("/")[2]]
        try:
            async with asyncio.timeout(WISH_SECONDS):
                done = await asyncio.wrap_future(self._fleet.want(one.file.path, wish))
        except TimeoutError:
            raise ApiError(AWAY, "The supervisor is busy: look at the feed's state, and ask again") from None
        if not done:
            raise ApiError(NOT_NOW, f"{one.name} is being ended: its file is gone, or `serve` was told to stop")
        return shown_feed(one)

    def _begin(self, asked: Asked) -> Queued:
        one = feeds.readable(self._fleet, asked.place["feed"])
        if self._fleet.stopping:
            raise ApiError(NOT_NOW, "No job begins: `serve` was told to stop")
        options = asked.given.options()
        if isinstance(asked.given, Repaired):
            options.append(f"--from-report={self._jobs.differences(one.name, asked.given.job)}")
        command = asked.route.command
        return Queued(self._jobs.begin(one.name, command, line(command, one.file.path, options), asked.who.name))

    async def _end(self, asked: Asked) -> Job:
        return await self._jobs.end(_number(asked))


def who_is(who: Holder) -> Who:
    """Returns what is answered about who asks."""
    return Who(*who, tuple(one.path for one in ROUTES if one.method == "POST" and who.may(one.role)))


def _number(asked: Asked) -> int:
    text = asked.place["job"]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
