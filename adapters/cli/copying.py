"""`tidelock copy`: asks a feed for a copy of tables through its bookkeeping, and shows how far it is."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from tidelock.adapters.checks.changed_tables import left_out
from tidelock.adapters.cli.failure import OK, OPERATOR, REFUSED, CommandError
from tidelock.adapters.cli.output import print_json, print_table
from tidelock.adapters.cli.termination import terminated
from tidelock.adapters.cli.watching import copy_cells
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.feed_file import load
from tidelock.adapters.operator import copies as copy_books
from tidelock.adapters.operator import feed_control, held_copies, known_tables
from tidelock.adapters.operator.copies import CopiedTable
from tidelock.adapters.operator.scale_out import log_of
from tidelock.adapters.operator.store import Books
from tidelock.adapters.runtime.table_copy import TableCopy, bars
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.model.records import TableName

if TYPE_CHECKING:
    from rich.live import Live

POLL_SECONDS = 1.0
ASK_SECONDS = 5.0
INTERRUPTED = 130
_OTHER_FILE: Final = (
    "the run that is there began with another file, which takes other rows of {}: end it, then `tidelock run FEED` "
    "with this one"
)


def copy(path: str, tables: Sequence[str], keep: bool, watch: bool, yes: bool, json: bool) -> int:
    """Queues a copy unless `watch`, and shows its progress until it is done; returns the exit code."""
    feed = load(path)
    if feed.target_url.scheme == "hive":
        hint = "A feed of a new name with `start: copy` fills its tables anew"
        raise CommandError(f"{path}: a Hive target has no `tidelock copy` yet", hint)
    asyncio.run(_known(feed))
    mapping, sources = _chosen(feed, tables)
    chosen = list(dict.fromkeys(map(mapping.target, sources)))
    asyncio.run(_each_has_a_group(feed, chosen))
    if not watch:
        if not keep and not yes:
            _confirm(feed, chosen)
        asyncio.run(_queue(feed, mapping, sources, keep))
    screen = _Screen(feed.name, sys.stdout.isatty() and not json, json)
    try:
        with terminated():
            seen, halted = asyncio.run(_watch(feed, {str(name) for name in chosen}, screen))
    except KeyboardInterrupt:
        print("The copy goes on; `tidelock copy FEED --watch` or `tidelock status FEED` shows it", file=sys.stderr)
        return INTERRUPTED
    finally:
        screen.close()
    return _told(feed, seen, halted, json)


async def _known(feed: Feed) -> None:
    """Checks that the feed has run.  Raises CommandError, TargetError."""
    async with feed_control.books(feed) as book:
        if not await book.owners():
            raise CommandError(
                f"The feed {feed.name} has never run", "`start: copy` in the feed lets its first `tidelock run` copy"
            )


def _chosen(feed: Feed, tables: Sequence[str]) -> tuple[Mapping, list[TableName]]:
    """Returns the feed's mapping, and the source tables of these names, all of them where there are none.  Raises
    CommandError, SourceError."""
    from tidelock.adapters.config.rules import rules_of
    from tidelock.adapters.wiring.sources import overview_of

    mapping = Mapping(rules_of(feed), feed.schema)
    source = overview_of(feed)
    there = {str(name): name for name in source.tables if mapping.selects(name)}
    for name in tables:
        if name not in there:
            raise CommandError(f"{name} is no source table of the feed {feed.name}: {', '.join(there)}")
    return mapping, [there[name] for name in tables or there]


async def _each_has_a_group(feed: Feed, tables: Sequence[TableName]) -> None:
    """Checks that workers have a group for each table, which copies it, or will have once their coordinator begins with
    this file.  Raises CommandError, LogError, TargetError."""
    log = await log_of(feed) if feed.log_url is not None else None
    if isinstance(log, Exception):
        raise log
    if log is None or log.plan is None:
        return
    known = {name for name, _ in log.plan.tables}
    missing = [str(name) for name in tables if name not in known]
    if missing and not await _is_new(feed):
        raise CommandError(
            f"No table group of the feed {feed.name} has {', '.join(missing)}: the target had no such table when the "
            "workers began",
            "Create it there (`tidelock init FEED` prints the statement) and start the workers anew",
        )


async def _is_new(feed: Feed) -> bool:
    """Tells whether the feed has not run with this file's tables yet."""
    async with feed_control.books(feed) as book:
        return await known_tables.former(book) is not feed


def _confirm(feed: Feed, tables: Sequence[TableName]) -> None:
    names = ", ".join(map(str, tables))
    if not sys.stdin.isatty():
        raise CommandError(
            f"What {feed.target_url} holds of {names} would be replaced", "Say --yes if that is meant, or --keep"
        )
    print(f"What {feed.target_url} holds of {names} is replaced by the source's rows.")
    if input("Go on? [y/N] ").strip().lower() not in ("y", "yes"):
        raise CommandError("Nothing was asked for", exit_code=REFUSED)


async def _queue(feed: Feed, mapping: Mapping, sources: Sequence[TableName], keep: bool) -> None:
    """Asks for the copies.  A run that has another filter or other columns of a table would copy by those, so that copy
    is held for one with this file.  With them workers may have the file's tables, if all their rows come so: a group
    may have taken the request before a coordinator looks for it."""
    mode: Literal["copy", "keep"] = "keep" if keep else "copy"
    async with feed_control.books(feed) as book:
        held = await held_copies.ask(book, mapping, dict.fromkeys(sources, mode)) if feed.log_url is None else ()
        tables = [name for name in dict.fromkeys(map(mapping.target, sources)) if name not in held]
        lacks = {one.target for one in await left_out(book)} if feed.log_url is not None else set()
        if tables:
            await copy_books.queue(book, mode, [(name, None) for name in tables])
        if lacks and lacks <= {str(name) for name in tables}:
            await known_tables.accept(book, await known_tables.former(book))


async def _watch(feed: Feed, names: set[str], screen: _Screen) -> tuple[list[CopiedTable], str]:
    """Shows progress until all of these tables are copied or refused, or the feed halts: (the tables, why it halted).
    """
    asked = 0.0
    async with feed_control.books(feed) as book:
        while True:
            seen = [table for table in await copy_books.copies(book) if table.table in names]
            halted = await _halted(book)
            screen.show(seen)
            if halted or all(table.done or table.refused for table in seen):
                return seen, halted
            if not asked or time.monotonic() - asked > ASK_SECONDS:
                asked = time.monotonic()
                if nobody := await feed_control.nobody_runs(feed):
                    screen.say_once(nobody)
                elif waits := [table.table for table in seen if table.held]:
                    screen.say_once(_OTHER_FILE.format(", ".join(waits)))
            await asyncio.sleep(POLL_SECONDS)


async def _halted(book: Books) -> str:
    return next((str(owner.halted.alarm) for owner in (await book.owners()).values() if owner.halted), "")


class _Screen:
    """Shows bars in place on a terminal, a line for each table and change elsewhere, nothing with `--json`."""

    def __init__(self, name: str, terminal: bool, silent: bool) -> None:
        self._name, self._silent = name, silent
        self._live: Live | None = None
        self._seen: dict[str, _Seen] = {}
        self._told: dict[str, str] = {}
        if terminal:
            from rich.live import Live

            self._live = Live(auto_refresh=False)
            self._live.start()

    def show(self, tables: Sequence[CopiedTable]) -> None:
        """Shows how far the tables are."""
        copies = [self._since_first(table) for table in tables if table.chunks]
        if self._live is not None:
            self._live.update(bars(copies), refresh=True)
        elif not self._silent:
            for copy in copies:
                self._tell(copy.table, str(copy))

    def say_once(self, text: str) -> None:
        """Shows a line, unless it is the last one that was shown."""
        if self._live is not None and self._told.get("") != text:
            self._live.console.print(text)
            self._told[""] = text
        elif self._live is None and not self._silent:
            self._tell("", text)

    def close(self) -> None:
        """Leaves the last view on the terminal."""
        if self._live is not None:
            self._live.stop()

    def _tell(self, about: str, text: str) -> None:
        if self._told.get(about) != text:
            self._told[about] = text
            print(f"{self._name}: {text}", flush=True)

    def _since_first(self, table: CopiedTable) -> TableCopy:
        seen = self._seen.get(table.table)
        if seen is None or table.merged < seen.first.merged:  # begun anew
            seen = self._seen[table.table] = _Seen(table)
        return seen.until(table)


class _Seen:
    """A table since it was first looked at; time counts from the last look without a merge to the last with one."""

    def __init__(self, table: CopiedTable) -> None:
        self.first = table
        self._merged = table.merged
        self._begun = self._last = time.monotonic()

    def until(self, table: CopiedTable) -> TableCopy:
        """Returns the progress from the first look to this one."""
        now = time.monotonic()
        if table.merged == self.first.merged:
            self._begun = now
        if table.merged != self._merged:
            self._merged, self._last = table.merged, now
        return TableCopy(
            table.table,
            table.chunks,
            table.merged,
            rows=table.rows - self.first.rows,
            seconds=max(self._last - self._begun, 0.0),
            found=self.first.merged,
            before=self.first.rows,
        )


def _told(feed: Feed, seen: Sequence[CopiedTable], halted: str, json: bool) -> int:
    refused = [table for table in seen if table.refused]
    if json:
        print_json({"tables": seen, "halted": halted or None})
    elif not seen:
        print(f"{feed.name}: nothing was copied, and nothing is queued")
    else:
        print_table(("table", "chunks", "rows", "state"), [copy_cells(table) for table in seen])
        if halted:
            print(f"{feed.name}: halted: {halted}")
    return OPERATOR if halted else REFUSED if refused else OK
