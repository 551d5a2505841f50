"""`tidelock pair init`: makes the sites of an edge equal, and opens both to writers.

The order is what keeps changes: bookkeeping and names at both ends; then the place of the way back is fixed, before the
copy writes a row at the child, so that nothing that is written there later is passed over; then the rows are copied, by
the feed's own copy, whose rows are marked and do not come back; then both ends are compared; then the edge is open.
Each step looks first whether it is done, so it can be run again after it died anywhere.

Sites that are equal already are compared and not copied.  An edge that closes a circle needs neither: both its sites
have their rows by other edges, and what either writes goes on by those too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from tidelock.adapters.app.planned import prepare
from tidelock.adapters.app.run import fix_start
from tidelock.adapters.checks.inspection import source_inspected
from tidelock.adapters.config.edges import Edge
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.pair import Pair, PairFeed
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.operator import copies
from tidelock.adapters.operator.feed_control import books
from tidelock.adapters.pair.checking import check_edge
from tidelock.adapters.pair.opening import opening, set_opening
from tidelock.adapters.pair.runner import Runner
from tidelock.adapters.ports.finding import Finding
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.process.command_process import Tell
from tidelock.adapters.schema.create_table import full_identity
from tidelock.adapters.wiring.sources import overview_of
from tidelock.engine.capture.mapping import Mapping

if TYPE_CHECKING:
    from tidelock.adapters.app.planned_statement import PlannedStatement
    from tidelock.adapters.verify.report import VerifyReport

LOOK_SECONDS: Final = 0.5
Rows: TypeAlias = Literal["none", "replaced", "equal"]
"""Rows that the child has before: none, some that the copy replaces, or the parent's."""


class CannotBegin(TargetError):
    """The edge cannot be opened; what was done stays, and it goes on there."""


class Refused(Exception):
    """`findings`: what must be corrected first."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__(f"{len(findings)} findings")
        self.findings = findings


class Beginning:
    """Opens one edge.  `tell`: takes lines of the feeds.  `rows`: those that the child has.  `verify`: compares both
    ends of the forward feed."""

    def __init__(
        self, pair: Pair, edge: Edge, tell: Tell, verify: Callable[[Feed], VerifyReport], rows: Rows = "none"
    ) -> None:
        found = pair.way(edge.parent, edge.child)
        assert found is not None, "an edge has a feed away from the root"
        self._pair, self._edge, self._tell, self._verify = pair, edge, tell, verify
        self._replace, self._copies_rows = rows == "replaced", rows != "equal" and not edge.closing
        self._forward: PairFeed = found
        self._back = pair.way(edge.child, edge.parent)

    @property
    def feeds(self) -> list[PairFeed]:
        """The edge's feeds, away from the root first."""
        return [self._forward, *([self._back] if self._back is not None else [])]

    def run(self) -> None:
        """Opens the edge.  Raises Refused, CannotBegin, CannotRun, StatementFailed, SourceError, TargetError."""
        name = f"{self._edge.parent} to {self._edge.child}"
        if asyncio.run(self._is_open()):
            self._say(f"{name}: is open already")
            return
        asyncio.run(self._prepare())
        if not self._edge.closing:
            self._make_equal(name)
        asyncio.run(self._open())
        begin = f"begin at {self._edge.child}{' once all edges are open' if self._pair.tree.circles else ''}"
        self._say(f"{name}: open. Writers may {begin}; `tidelock pair run` runs the feeds")

    def _make_equal(self, name: str) -> None:
        """Copies the rows, unless they are said to be there, and compares both ends.  Raises CannotBegin."""
        options = ["--without-permit"] if self._forward.feed.permit is not None else []
        with Runner(self._pair, self._forward, self._tell, options) as runner:
            if self._copies_rows:
                self._say(f"{name}: copying rows")
                self._await_copies(runner)
            self._say(f"{name}: comparing both ends")
            report = self._verify(self._forward.feed)
        if report.equal:
            return
        where = f"{self._pair.path}#{self._forward.name}"
        shown = f"`tidelock verify {where}` shows them. Whoever writes at {self._edge.child} already must stop; then "
        if self._copies_rows:
            raise CannotBegin(f"{name}: {report.verdict} after the copy", f"{shown}`--replace` copies anew")
        raise CannotBegin(
            f"{name}: {report.verdict}, so the sites are not equal yet",
            f"{shown}correct the rows at {self._edge.child}, or at both, and run it again; or `--replace` instead of "
            "`--equal` copies all",
        )

    async def _is_open(self) -> bool:
        return all([await opening(one) == "open" for one in self.feeds])

    async def _prepare(self) -> None:
        """Makes all that stands before the first row is copied."""
        for one in self.feeds:
            await prepare(one.feed, apply=True)
            if one.feed.conflicts is not None:
                await _log_whole_rows(one.feed)
        forward = self._forward.feed
        report = await check_edge(self._pair, self._edge, self._first(forward) if self._copies_rows else forward)
        if report.errors:
            raise Refused(report.errors)
        for one in self.feeds:
            await set_opening(self._pair, one, "copying")
        if self._back is not None and (place := await fix_start(self._back.feed)) is not None:
            self._say(f"{self._back.name}: begins at {place}")
        if self._copies_rows:
            await self._queue_copy()
        if (place := await fix_start(self._forward.feed)) is not None:
            self._say(f"{self._forward.name}: begins at {place}")

    def _first(self, feed: Feed) -> Feed:
        """Returns the forward feed as one that begins with a copy."""
        existing = "replace" if self._replace else "refuse"
        return msgspec.structs.replace(
            feed, start="copy", copy=msgspec.structs.replace(feed.copy, existing=existing)
        )

    async def _queue_copy(self) -> None:
        """Queues the copy, unless it is queued or has begun.  Nothing is applied without it, whoever runs the feed."""
        feed = self._forward.feed
        source = await asyncio.to_thread(overview_of, feed, first_run=True)
        mapping = Mapping(rules_of(feed), feed.schema)
        names = dict.fromkeys(mapping.target(name) for name in source.tables if mapping.selects(name))
        async with books(feed) as book:
            seen = {one.table: one for one in await copies.copies(book)}
            due = [name for name in names if _is_due(seen.get(str(name)))]
            if self._replace:
                await copies.change_fills(book, "resync")
            mode: copies.Mode = "resync" if self._replace else "fill"
            await copies.queue(book, mode, [(name, None) for name in due])

    def _await_copies(self, runner: Runner) -> None:
        """Waits until all tables are copied.  Raises CannotBegin."""
        while True:
            found = asyncio.run(self._copies())
            if refused := [one for one in found if one.refused]:
                raise CannotBegin(
                    f"{self._forward.name}: {refused[0].table} is not copied: {refused[0].refused}",
                    "Correct that, then run `tidelock pair init` again; `--replace` replaces the rows that are there",
                )
            if all(one.done for one in found):
                return
            if runner.code is not None:
                raise CannotBegin(
                    f"{self._forward.name} ended with exit code {runner.code} before all was copied",
                    "Its lines above say why; `tidelock pair init` goes on where it stopped",
                )
            time.sleep(LOOK_SECONDS)  # until the next look

    async def _copies(self) -> tuple[copies.CopiedTable, ...]:
        async with books(self._forward.feed) as book:
            return await copies.copies(book)

    async def _open(self) -> None:
        for one in reversed(self.feeds):
            await set_opening(self._pair, one, "open")

    def _say(self, text: str) -> None:
        self._tell("", text)


async def _log_whole_rows(feed: Feed) -> None:
    """Has a PostgreSQL source log the whole old row of each table: conflicts are found by it.  Raises SourceError."""
    if feed.source_url.dialect != "postgres":
        return
    async with source_inspected(feed) as source:
        for table in source.view.tables.values():
            if table.identity == "key":
                await source.execute(full_identity(table))


def _is_due(seen: copies.CopiedTable | None) -> bool:
    return seen is None or bool(seen.refused)


async def planned(pair: Pair) -> list[tuple[PairFeed, list[PlannedStatement] | Exception]]:
    """Returns what each feed needs, or why that is not known yet: the tables at the child may be missing."""
    found = list[tuple[PairFeed, list["PlannedStatement"] | Exception]]()
    for one in pair.feeds:
        try:
            found.append((one, await prepare(one.feed, apply=False)))
        except Exception as error:
            if not hasattr(error, "finding"):
                raise
            found.append((one, error))
    return found

