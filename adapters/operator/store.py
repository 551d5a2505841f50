"""Reads and writes a feed's bookkeeping at its target for an operator: one method for a statement, or for a group of
them.

An operator thinks of a feed, so each request reaches all its groups.  An embedded run is group 0 alone.  A scaled-out
feed has one group for each partition, and the coordinator's, `COORDINATOR`.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from tidelock.adapters.bookkeeping.checkpoints import COORDINATOR
from tidelock.adapters.bookkeeping.moved_copies import MovedCopiesSql
from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.former_words import share
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.wiring.session import TargetSession
from tidelock.engine.batch.parked_rows import ParkedChange, decode_change
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Position, Row, Shape, TableName
from tidelock.engine.model.schema_change import Ddl

_THIS = "WHERE feed = %s"
_IDENTITY = "source, number, ordinal"
_POSITION: Final = msgspec.json.Decoder(Position)


class FailedTable(msgspec.Struct, frozen=True):
    """Failed rows of one table.

    `queued_retry`, `queued_skip`: those that the feed is to retry or to skip; `wished_…` are their former names.
    `oldest_seconds`: the age of the oldest.
    """

    table: str
    rows: int
    queued_retry: int
    queued_skip: int
    oldest_seconds: float
    wished_retry: int = 0
    wished_skip: int = 0

    def __post_init__(self) -> None:
        share(self, queued_retry="wished_retry", queued_skip="wished_skip")


class Halted(msgspec.Struct, frozen=True):
    """`tidelock_owner.halt` as JSON."""

    alarm: Alarm
    ddl: Ddl | None = None


_HALTED: Final = msgspec.json.Decoder(Halted)


class Owner(msgspec.Struct, frozen=True):
    """One row of `tidelock_owner`; `halt`: `Halted` as JSON."""

    epoch: int
    desired_state: str
    halt: str | None
    ddl_passed: str | None

    @property
    def halted(self) -> Halted | None:
        """The halt, None where there is none."""
        return _HALTED.decode(self.halt) if self.halt else None


class FailedRow(msgspec.Struct, frozen=True):
    """A row change that is set aside: one row of `tidelock_parked`.

    `id`: `source:number:ordinal`.  `queued`: `retry`, `skip` or ''.  `failed_seconds`: its age.  `wish` and
    `parked_seconds` are former names.
    """

    id: str
    table: str
    key: str
    error: str
    queued: str
    failed_seconds: float
    wish: str = ""
    parked_seconds: float = 0.0

    def __post_init__(self) -> None:
        share(self, queued="wish", failed_seconds="parked_seconds")


class FailedRowDetail(msgspec.Struct, frozen=True):
    """A failed row before and after its change, by column name (None: no such image)."""

    change: FailedRow
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class Books:
    """A feed's bookkeeping over an open session.  Every method raises TargetError."""

    def __init__(self, feed: Feed, target: TargetSession) -> None:
        self.feed = feed
        self.session = target

    def table(self, name: str) -> str:
        """Returns the qualified name of a table of the bookkeeping."""
        return f"{quote(self.session.dialect, self.feed.schema)}.{name}"

    def age(self, column: str) -> str:
        """Returns SQL for the seconds since the time in `column`."""
        if self.session.dialect == "postgres":
            return f"cast(extract(epoch FROM now() - {column}) AS double precision)"
        return f"timestampdiff(microsecond, {column}, now(6)) / 1e6"

    async def owners(self) -> dict[int, Owner]:
        """Returns the owner of each group, by group; none where the feed has never run."""
        sql = f"SELECT grp, epoch, desired_state, halt, ddl_passed FROM {self.table('tidelock_owner')} {_THIS}"
        rows = await self.session.fetch(f"{sql} ORDER BY grp", self.feed.name)
        return {int(row[0]): Owner(int(row[1]), *row[2:]) for row in rows}

    async def halted(self) -> Halted:
        """Returns the halt that waits for a decision about a statement, or else the first one.

        Raises TargetError where none is halted.
        """
        halts = [owner.halted for owner in (await self.owners()).values() if owner.halted]
        if not halts:
            raise TargetError(f"The feed {self.feed.name} is not halted", "See `tidelock status`")
        return next((halt for halt in halts if halt.ddl), halts[0])

    async def checkpoints(self) -> dict[int, tuple[Position, float]]:
        """Returns for each group its position, and the seconds since it was stored."""
        sql = f"SELECT grp, position, {self.age('saved_at')} FROM {self.table('tidelock_checkpoint')} {_THIS}"
        rows = await self.session.fetch(sql, self.feed.name)
        return {int(row[0]): (_POSITION.decode(row[1]), float(row[2])) for row in rows}

    async def receipts(self) -> int:
        """Returns the number of stored receipts."""
        sql = f"SELECT count(*) FROM {self.table('tidelock_progress')} {_THIS}"
        return int((await self.session.fetch(sql, self.feed.name))[0][0])

    async def failed_tables(self) -> tuple[FailedTable, ...]:
        """Returns the tables with failed rows."""
        sql = (
            "SELECT table_schema, table_name, count(*), count(CASE wish WHEN 'retry' THEN 1 END), "
            f"count(CASE wish WHEN 'skip' THEN 1 END), max({self.age('parked_at')}) "
            f"FROM {self.table('tidelock_parked')} {_THIS} GROUP BY table_schema, table_name ORDER BY 1, 2"
        )
        rows = await self.session.fetch(sql, self.feed.name)
        return tuple(FailedTable(f"{r[0]}.{r[1]}", int(r[2]), int(r[3]), int(r[4]), float(r[5])) for r in rows)

    async def failed_rows(self, table: str, limit: int) -> list[FailedRow]:
        """Returns the first `limit` failed rows, oldest first; of all tables where `table` is ''."""
        where, args = _of_table(table) if table else ("", ())
        sql = (
            f"SELECT {_IDENTITY}, table_schema, table_name, row_key, error, wish, {self.age('parked_at')} "
            f"FROM {self.table('tidelock_parked')} {_THIS}{where} ORDER BY parked_at, {_IDENTITY} LIMIT {limit:d}"
        )
        return [_failed(row) for row in await self.session.fetch(sql, self.feed.name, *args)]

    async def detail(self, row_id: str) -> FailedRowDetail:
        """Returns one failed row with its values."""
        sql = (
            f"SELECT {_IDENTITY}, table_schema, table_name, row_key, error, wish, {self.age('parked_at')}, change_data "
            f"FROM {self.table('tidelock_parked')} {_THIS} AND source = %s AND number = %s AND ordinal = %s"
        )
        rows = await self.session.fetch(sql, self.feed.name, *_identity(row_id))
        if not rows:
            raise TargetError(f"No failed row {row_id} in the feed {self.feed.name}", "See `tidelock rows list`")
        change = decode_change(rows[0][-1])
        before, after = _named(change.shape, change.before), _named(change.shape, change.after)
        return FailedRowDetail(_failed(rows[0]), before, after)

    async def failed_changes(self, table: str) -> list[tuple[str, TableName, ParkedChange]]:
        """Returns all failed rows, of all tables where `table` is '': id, table and change."""
        where, args = _of_table(table) if table else ("", ())
        sql = (
            f"SELECT {_IDENTITY}, table_schema, table_name, change_data "
            f"FROM {self.table('tidelock_parked')} {_THIS}{where} ORDER BY {_IDENTITY}"
        )
        rows = await self.session.fetch(sql, self.feed.name, *args)
        return [(f"{r[0]}:{r[1]}:{r[2]}", TableName(str(r[3]), str(r[4])), decode_change(r[5])) for r in rows]

    async def set_state(self, state: str) -> None:
        """Stores the desired state of all groups."""
        changed = await self.session.execute(
            f"UPDATE {self.table('tidelock_owner')} SET desired_state = %s {_THIS}", state, self.feed.name
        )
        # MySQL counts only rows that changed, so a second `pause` looks like a feed that is not there.
        if not changed and not await self.owners():
            raise never_ran(self.feed)

    async def clear_halts(self) -> None:
        """Removes all halts, so that workers which wait take their groups over anew."""
        await self.session.execute(f"UPDATE {self.table('tidelock_owner')} SET halt = NULL {_THIS}", self.feed.name)

    async def queue_table(self, table: str, what: str) -> int:
        """Queues the failed rows of `table` ('': of all tables) for `what`, and returns how many were not yet.

        Rows that are queued to be skipped stay so when the rest is retried.
        """
        where, args = _of_table(table) if table else ("", ())
        kept = " AND wish <> 'skip'" if what == "retry" else ""
        sql = f"UPDATE {self.table('tidelock_parked')} SET wish = %s {_THIS}{where}{kept} AND wish <> %s"
        return await self.session.execute(sql, what, self.feed.name, *args, what)

    async def _forget_parked(self, group: int, ddl: Ddl) -> None:
        parked = self.table("tidelock_parked")
        this = f"{_THIS} AND grp = %s"
        found = await self.session.fetch(
            f"SELECT DISTINCT table_schema, table_name FROM {parked} {this}", self.feed.name, group
        )
        mapping = Mapping(rules_of(self.feed), self.feed.schema)
        for table in (TableName(str(schema), str(name)) for schema, name in found):
            if _without_rows(mapping, table, ddl):
                where, args = _of_table(str(table))
                await self.session.execute(f"DELETE FROM {parked} {this}{where}", self.feed.name, group, *args)

    async def _forget_shadows(self, ddl: Ddl) -> None:
        """Removes what is known of shadows of the tables that a statement has changed: of all where it names none."""
        sql = f"DELETE FROM {self.table('tidelock_shadows')} {_THIS}"
        for table in ddl.tables:
            await self.session.execute(
                f"{sql} AND of_schema = %s AND of_table = %s", self.feed.name, table.schema, table.table
            )
        if not ddl.tables:
            await self.session.execute(sql, self.feed.name)

    async def _move_copies(self, ddl: Ddl, *, done: bool) -> None:
        """Gives the copies of tables that a statement renames or drops their names of now; `done`: the target's tables
        have them, else those copies end."""
        from tidelock.adapters.ddl.moved import moved  # DDL is rare

        sql = MovedCopiesSql(self.session.dialect, self.table, self.feed.name)
        chunks, queued = [await self.session.fetch(query) for query in (sql.chunks, sql.queued)]
        moves = dict(moved(ddl, self.feed.target_name)) if done else dict.fromkeys(moved(ddl, self.feed.target_name))
        if ddl.databases:
            mapping = Mapping(rules_of(self.feed), self.feed.schema)
            copied = {TableName(str(row[1]), str(row[2])) for row in chunks}
            moves.update({table: None for table in copied if _without_rows(mapping, table, ddl)})
        for statement in sql.moved(moves, chunks, queued) if moves else ():
            await self.session.execute(statement)

    async def queue_row(self, row_id: str, what: str) -> int:
        """Queues one failed row for `what`; returns 0 where it was already."""
        sql = (
            f"UPDATE {self.table('tidelock_parked')} SET wish = %s {_THIS} "
            "AND source = %s AND number = %s AND ordinal = %s AND wish <> %s"
        )
        return await self.session.execute(sql, what, self.feed.name, *_identity(row_id), what)

    async def pass_ddl(self, *, done: bool = False) -> Ddl:
        """Lets all groups go on behind the statement that halted them, if those halts are still the ones read.

        `done`: the operator made the same change at the target.  Then failed rows of tables that the statement emptied
        are removed: retried later they would come back.  Where a group has not come to the statement yet, rows from
        before it are still on their way there.
        """
        halted = await self.halted()
        ddl = halted.ddl
        if ddl is None:
            raise TargetError(
                f"The feed {self.feed.name} is halted, but not by a statement: {halted.alarm}", "See `tidelock status`"
            )
        passed = f"{ddl.source}:{ddl.number}"
        waiting: dict[int, str] = {}
        for group, owner in (await self.owners()).items():
            at_it = owner.halted is not None and owner.halted.ddl == ddl
            if at_it and owner.halt is not None:
                waiting[group] = owner.halt
            elif group != COORDINATOR and owner.ddl_passed != passed:
                raise TargetError(
                    f"Group {group} of the feed {self.feed.name} has not come to this statement yet",
                    "Wait until all groups are halted by it (`tidelock status`), then do it again",
                )
        if done:
            for group in waiting:
                await self._forget_parked(group, ddl)
        await self._forget_shadows(ddl)
        await self._move_copies(ddl, done=done)
        sql = f"UPDATE {self.table('tidelock_owner')} SET ddl_passed = %s, halt = NULL {_THIS} AND grp = %s"
        for group, halt in waiting.items():
            if not await self.session.execute(f"{sql} AND halt = %s", passed, self.feed.name, group, halt):
                raise TargetError("The feed changed its state meanwhile", "Look at `tidelock ddl show` and try again")
        return ddl


def _without_rows(mapping: Mapping, target: TableName, ddl: Ddl) -> bool:
    """Returns whether all source tables that map to `target` lost all their rows by the statement."""
    from tidelock.adapters.ddl.classify import gone  # DDL is rare

    tables, databases = gone(ddl)
    sources = [name for _, name in mapping.sources(target)]
    return bool(sources) and all(n is not None and (n in tables or n.schema in databases) for n in sources)


def never_ran(feed: Feed) -> TargetError:
    """Returns the error about a feed that has never run."""
    return TargetError(
        f"{feed.target_url} knows no feed {feed.name} in its schema {feed.schema}",
        "Has it run yet? `tidelock run` makes the bookkeeping",
    )


def _of_table(table: str) -> tuple[str, tuple[str, str]]:
    schema, _, name = table.partition(".")
    return " AND table_schema = %s AND table_name = %s", (schema, name)


def _identity(row_id: str) -> tuple[str, int, int]:
    """Parses the id of a failed row.  Raises TargetError."""
    found = re.fullmatch(r"(.+):(\d+):(\d+)", row_id, re.ASCII)
    if not found:
        raise TargetError(
            f"{row_id!r} is no id of a failed row", "Ids look like 0-101:55:3, as `tidelock rows list` shows them"
        )
    return found[1], int(found[2]), int(found[3])


def _failed(row: tuple[Any, ...]) -> FailedRow:
    source, number, ordinal, schema, table, key, error, queued, age = row[:9]
    return FailedRow(f"{source}:{number}:{ordinal}", f"{schema}.{table}", key, error, queued, float(age))


def _named(shape: Shape, row: Row | None) -> dict[str, Any] | None:
    return None if row is None else {column.name: value for column, value in zip(shape.columns, row, strict=True)}
