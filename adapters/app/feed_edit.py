"""Changes the file of a feed that runs or is stopped (`tidelock edit`, `add-table`, `drop-table`).

What the new file needs at the target is made first, then what `check` finds wrong with it refuses it.  Copies are asked
for before the file is replaced, and held for a run that has the new file (`operator.held_copies`): such a run begins
them before it reads the log.  So from the first change on that is applied to a table that comes in, its copy is under
way, and no row of before is left.  A crash at any step leaves the file of before, or the new one with its copies.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tidelock.adapters.app.planned import prepare
from tidelock.adapters.app.planned_statement import PlannedStatement
from tidelock.adapters.checks.changed_tables import at_source
from tidelock.adapters.checks.feed import check
from tidelock.adapters.checks.same_tables import check_more_tables
from tidelock.adapters.config import loader
from tidelock.adapters.config.feed import ConfigError, Feed, TableRule
from tidelock.adapters.config.feed_change import FeedChange, difference
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.operator import held_copies, known_tables
from tidelock.adapters.operator.copies import CopiedTable
from tidelock.adapters.operator.copies import copies as copies_of
from tidelock.adapters.operator.feed_control import books
from tidelock.adapters.operator.runs import Run
from tidelock.adapters.operator.runs import read as read_run
from tidelock.adapters.operator.store import Books
from tidelock.adapters.operator.tables_lock import tables_lock
from tidelock.adapters.operator.upgrade import look, tables_of
from tidelock.adapters.ports.finding import Finding, error
from tidelock.adapters.ports.target_inspection import CannotRun
from tidelock.adapters.process.host import Missing
from tidelock.adapters.row_copy.direct import large
from tidelock.adapters.row_copy.failing import look_for_spark
from tidelock.adapters.row_copy.source import NotCopied, sources
from tidelock.adapters.wiring.inspection import opened
from tidelock.adapters.wiring.session import session
from tidelock.adapters.wiring.source_tables import tables_at
from tidelock.adapters.wiring.sources import source_of
from tidelock.engine.capture.mapping import Mapping as TableMappings
from tidelock.engine.copy.copy_validation import fault
from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.model.records import TableName


class FeedEdit(msgspec.Struct, frozen=True):
    """A planned change.  `was`, `text`: the file as it is, and as it is to be.  `former`: with the tables that the feed
    last ran with, where the file was changed by hand since.  `begun`: the feed has a place in the log.  `run`: the run
    that is alive.  `statements`: what the new file needs, as `init` would make it.
    """

    path: Path
    was: str
    text: str
    former: Feed
    new: Feed
    change: FeedChange
    begun: bool = False
    run: Run | None = None
    statements: tuple[PlannedStatement, ...] = ()

    @property
    def keeps_books(self) -> bool:
        """Tells whether the feed has bookkeeping at its target that says what is copied."""
        return self.begun and self.former.target_url.scheme != "hive"


async def plan(path: Path, text: str, named: str, *, copies: bool = True, keep: bool = False) -> FeedEdit:
    """Plans a change; writes nothing.  `text`: of the new file; `named`: what errors call it.  `copies`, `keep`: as in
    `difference`.  Raises ConfigError, CannotRun, SourceError, TargetError, LogError."""
    was = loader.text_of(path)
    former, new = loader.read(was, path), _read(text, path, named)
    change = difference(former, new, {})
    edit = FeedEdit(path, was, text, former, new, change)
    if change.refused:
        return edit
    begun, run, former, earlier = await _stands(former)
    there = await asyncio.to_thread(at_source, former, new)
    hive = former.target_url.scheme == "hive"
    change = difference(former, new, there, begun=begun, copies=copies and not hive, keep=keep, earlier=earlier)
    needs = any(one.what in ("comes in", "other target", "columns") for one in change.tables)
    statements = await prepare(new, False) if needs and not hive else []
    return msgspec.structs.replace(
        edit, former=former, change=change, begun=begun, run=run,
        statements=tuple(s for s in statements if s.applied or s.administrator),
    )  # fmt: skip


def _read(text: str, path: Path, named: str) -> Feed:
    """Reads the new file's text, whose secrets are where the feed's file is.  Raises ConfigError."""
    try:
        return loader.read(text, path)
    except ConfigError as problem:
        raise ConfigError(str(problem).replace(str(path), named, 1), problem.key, problem.line) from None


async def carry_out(edit: FeedEdit) -> None:
    """Makes what the new file needs, asks for the copies, and replaces the file, of which another edit of it sees all
    or nothing.  Raises CannotRun, StatementFailed, SourceError, TargetError, LogError; then the file is the one of
    before, unless the target was lost behind all of it."""
    _refuse(edit)
    await _leave_to_others(edit)
    if edit.keeps_books:
        await _require_copied(edit)
    if any(not s.administrator for s in edit.statements):
        await prepare(edit.new, True)
    await _fit(edit)
    asked = edit.change.copies
    if asked:
        await _can_be_copied(edit.new, {edit.new.target_name(name): mode == "keep" for name, mode in asked.items()})
    if not edit.keeps_books:
        _replace(edit)
        return
    async with tables_lock(edit.new), books(edit.new) as book:
        await _leave_to_others(edit)
        _require_unchanged(edit)
        mapping = TableMappings(rules_of(edit.new), edit.new.schema)
        await held_copies.hold(book, mapping, asked, edit.change.targets, edit.former)
        _replace(edit)


def _require_unchanged(edit: FeedEdit) -> None:
    """Raises CannotRun where the file is another one by now."""
    if loader.text_of(edit.path) != edit.was:
        raise _refused("changed", f"{edit.path} was changed by somebody else meanwhile", "Look at it, then try again")


def _replace(edit: FeedEdit) -> None:
    """Replaces the file.  Raises CannotRun."""
    try:
        with _alone(edit.path):
            _require_unchanged(edit)
            replace_file(edit.path, edit.text)
    except OSError as problem:
        words = f"{edit.path} cannot be replaced: {problem.strerror or problem}"
        raise _refused("file", words, "Have its folder be writable and have room, then try again") from None


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Has no other edit on this machine look at the file and replace it meanwhile.  Raises OSError."""
    with contextlib.ExitStack() as stack:
        while True:
            file = stack.enter_context(path.open("rb"))
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):  # else it was replaced while we waited
                break
        yield


def replace_file(path: Path, text: str) -> None:
    """Replaces a file by another of the same rights, at once.  Raises OSError."""
    place = path.resolve()
    rights = place.stat()
    handle, made = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    try:
        with open(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), rights.st_mode & 0o7777)
            with contextlib.suppress(PermissionError):  # whoever may write to the folder need not be the owner
                os.fchown(file.fileno(), rights.st_uid, rights.st_gid)
            os.fsync(file.fileno())
        os.replace(made, place)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise
    folder = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


async def run_of(feed: Feed) -> Run | None:
    """Returns the run that is alive, if any.  Raises TargetError."""
    async with session(feed.target_url) as target:
        if "tidelock_runs" in (await look(target, feed.schema)).tables:
            return None
        run = await read_run(target, feed.schema, feed.name)
        return run if run is not None and run.alive else None


async def _stands(feed: Feed) -> tuple[bool, Run | None, Feed, tuple[TableRule, ...]]:
    """Returns whether the feed has begun, the run that is alive, the feed with the tables that it last ran with, where
    its file was changed by hand since, and the rules of before those."""
    if feed.target_url.scheme == "hive":
        return True, None, feed, ()
    async with session(feed.target_url) as target:
        if (await look(target, feed.schema, tables_of(feed))).everything:
            return False, None, feed, ()
        book = Books(feed, target)
        begun, former = bool(await book.checkpoints()), await known_tables.former(book)
        earlier = await known_tables.earlier(book)
    return begun, await run_of(feed), former, earlier


# ---------------------------------------------------------------------- what would keep it from being done


def _refuse(edit: FeedEdit) -> None:
    """Raises CannotRun where the file cannot be replaced at all."""
    for one in edit.change.refused:
        raise _refused("fixed", f"{one.key}: {one.after} {one.means}", one.hint)
    if edit.new.log_url is not None and (edit.text != edit.was or edit.change.copies):
        raise _refused(
            "workers",
            f"the workers of feed {edit.new.name} have divided its tables among them, each by a file of its own",
            "End all workers, put the new file on each machine, start them anew; then `tidelock copy FEED --table …` "
            "for each table that is to be copied. Where rows that are there are not wanted, `tidelock edit FEED FEED "
            "--apply --no-copy` with the new file twice",
        )
    by_hand = [s for s in edit.statements if s.administrator]
    if by_hand:
        told = "\n".join(f"{s.sql};  -- {s.side}: {s.why}" for s in by_hand)
        raise _refused("rights", "an administrator has to run some statements first", f"\n{told}\nThen try again")


async def _require_copied(edit: FeedEdit) -> None:
    """Raises CannotRun while a table that changes is being copied."""
    changing = {one.target for one in edit.change.tables} | {
        str(edit.former.target_name(TableName(*one.table.split(".", 1)))) for one in edit.change.tables
    }
    async with books(edit.former) as book:
        busy = [one.table for one in await copies_of(book) if one.table in changing and _goes_on(one)]
    if busy:
        raise _refused(
            "copying",
            f"{', '.join(busy)} is being copied, as the file of before says",
            f"`tidelock copy {edit.path} --watch` shows how far it is; then try again",
        )


async def _leave_to_others(edit: FeedEdit) -> None:
    """Raises CannotRun where another feed brings rows that this one would take too."""
    more = [rule for rule in edit.new.tables if rule not in edit.former.tables]
    for found in await check_more_tables(edit.new, more) if edit.keeps_books else ():
        raise CannotRun(found)


async def _fit(edit: FeedEdit) -> None:
    """Runs `check`.  Raises CannotRun with everything that it finds wrong with the new file and not with the former."""
    errors = (await check(edit.new)).errors
    if errors:
        known = {(one.kind, one.message) for one in (await check(edit.former)).errors}
        errors = tuple(one for one in errors if (one.kind, one.message) not in known)
    if errors:
        told = "\n".join(f"- {one}" for one in errors)
        raise _refused("unfit", f"feed {edit.new.name} cannot run with the new file:\n{told}\n", "Correct it first")


async def _can_be_copied(feed: Feed, tables: Mapping[TableName, bool]) -> None:
    """Checks that tables at the target can be copied; True: what is there stays.  Raises CannotRun."""
    try:
        async with tables_at(feed.source_url) as source:
            found = await sources(feed, source, list(tables))
            if await large(source, found.values(), feed.spark.small_rows):
                look_for_spark()
            names = [one.table.name for one in found.values()]
            await asyncio.to_thread(source_of(feed.source_url).require_visibility, names)
    except NotCopied as problem:
        raise _refused("not-copied", str(problem), f"{problem.hint}; or try again with --no-copy") from None
    except Missing as problem:
        words = f"larger tables are copied by Spark, and {problem}"
        raise _refused("spark", words, "Then try again; or --no-copy") from None
    async with books(feed) as book, opened(feed.target_url) as target:
        under_way = [ChunkSplit(_name(one.table)) for one in await copies_of(book) if _goes_on(one)]
        known = await target.tables(list(dict.fromkeys((*tables, *(_targets(feed))))))
    if why := fault([ChunkSplit(name, keep=keep) for name, keep in tables.items()], under_way, known):
        hint = "Name all of them, try again with --keep, which leaves the target's rows, or with --no-copy"
        raise _refused("not-copied", f"tables of feed {feed.name} cannot be copied: {why}", hint)


def _goes_on(copy: CopiedTable) -> bool:
    return not (copy.done or copy.refused or copy.held)


def _targets(feed: Feed) -> list[TableName]:
    names = source_of(feed.source_url).look([rule.source for rule in feed.tables], earliest=False).tables
    return [feed.target_name(name) for name in names]


def _name(text: str) -> TableName:
    schema, _, table = text.partition(".")
    return TableName(schema, table)


def _refused(kind: str, message: str, hint: str) -> CannotRun:
    finding: Finding = error(f"edit-{kind}", message, hint)
    return CannotRun(finding)
