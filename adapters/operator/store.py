"""A feed's bookkeeping at its target, read and written for an operator: one method a statement, or one a group.

An operator thinks of a feed, so what is asked for reaches all its groups.  An embedded run is group 0 alone; of a
scaled-out feed there is one a partition, and the conductor's, `CONDUCTOR`.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.ddl.translate import gone
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.wiring.session import TargetSession
from tidelock.engine.batch.parked_rows import decode_change
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Ddl, Position, Row, Shape, TableName

CONDUCTOR = -1
_THIS = "WHERE feed = %s"
_IDENTITY = "source, number, ordinal"


class ParkedTable(msgspec.Struct, frozen=True):
    """Parked changes of one table: how many, how many with which wish, and how old the oldest is."""

    table: str
    rows: int
    wished_retry: int
    wished_skip: int
    oldest_seconds: float


class Halted(msgspec.Struct, frozen=True):
    """`tidelock_owner.halt` as JSON."""

    alarm: Alarm
    ddl: Ddl | None = None


class Owner(msgspec.Struct, frozen=True):
    """One row of `tidelock_owner`; `halt`: `Halted` as JSON."""

    epoch: int
    desired_state: str
    halt: str | None
    ddl_passed: str | None

    @property
    def halted(self) -> Halted | None:
        return msgspec.json.decode(self.halt, type=Halted) if self.halt else None


class ParkedListing(msgspec.Struct, frozen=True):
    """One row of `tidelock_parked`; `id` is `source:number:ordinal`."""

    id: str
    table: str
    key: str
    error: str
    wish: str
    parked_seconds: float


class ParkedDetail(msgspec.Struct, frozen=True):
    """A parked change with its row before and after, by column name (None: no such image)."""

    change: ParkedListing
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class Books:
    """A feed's bookkeeping over an open session.  Every method raises TargetError."""

    def __init__(self, feed: Feed, target: TargetSession) -> None:
        self.feed = feed
        self.session = target

    def table(self, name: str) -> str:
        return f"{quote(self.session.dialect, self.feed.schema)}.{name}"

    def age(self, column: str) -> str:
        if self.session.dialect == "postgres":
            return f"cast(extract(epoch FROM now() - {column}) AS double precision)"
        return f"timestampdiff(microsecond, {column}, now(6)) / 1e6"

    async def owners(self) -> dict[int, Owner]:
        """By group; none where the feed has never run."""
        sql = f"SELECT grp, epoch, desired_state, halt, ddl_passed FROM {self.table('tidelock_owner')} {_THIS}"
        rows = await self.session.fetch(f"{sql} ORDER BY grp", self.feed.name)
        return {int(row[0]): Owner(int(row[1]), *row[2:]) for row in rows}

    async def halted(self) -> Halted:
        """Of the group that waits for an operator's word on a statement, or else of the first that halted.

        Raises TargetError where none is halted.
        """
        halts = [owner.halted for owner in (await self.owners()).values() if owner.halted]
        if not halts:
            raise TargetError(f"The feed {self.feed.name} is not halted", "See `tidelock status`")
        return next((halt for halt in halts if halt.ddl), halts[0])

    async def checkpoints(self) -> dict[int, tuple[Position, float]]:
        """By group: where, and how many seconds ago it was stored."""
        sql = f"SELECT grp, position, {self.age('saved_at')} FROM {self.table('tidelock_checkpoint')} {_THIS}"
        rows = await self.session.fetch(sql, self.feed.name)
        return {int(row[0]): (msgspec.json.decode(row[1], type=Position), float(row[2])) for row in rows}

    async def receipts(self) -> int:
        sql = f"SELECT count(*) FROM {self.table('tidelock_progress')} {_THIS}"
        return int((await self.session.fetch(sql, self.feed.name))[0][0])

    async def parked_tables(self) -> tuple[ParkedTable, ...]:
        sql = (
            "SELECT table_schema, table_name, count(*), count(CASE wish WHEN 'retry' THEN 1 END), "
            f"count(CASE wish WHEN 'skip' THEN 1 END), max({self.age('parked_at')}) "
            f"FROM {self.table('tidelock_parked')} {_THIS} GROUP BY table_schema, table_name ORDER BY 1, 2"
        )
        rows = await self.session.fetch(sql, self.feed.name)
        return tuple(ParkedTable(f"{r[0]}.{r[1]}", int(r[2]), int(r[3]), int(r[4]), float(r[5])) for r in rows)

    async def parked(self, table: str, limit: int) -> list[ParkedListing]:
        """In the order they were parked; `table` '' for all."""
        where, args = _of_table(table) if table else ("", ())
        sql = (
            f"SELECT {_IDENTITY}, table_schema, table_name, row_key, error, wish, {self.age('parked_at')} "
            f"FROM {self.table('tidelock_parked')} {_THIS}{where} ORDER BY parked_at, {_IDENTITY} LIMIT {limit:d}"
        )
        return [_parked(row) for row in await self.session.fetch(sql, self.feed.name, *args)]

    async def detail(self, row_id: str) -> ParkedDetail:
        sql = (
            f"SELECT {_IDENTITY}, table_schema, table_name, row_key, error, wish, {self.age('parked_at')}, change_data "
            f"FROM {self.table('tidelock_parked')} {_THIS} AND source = %s AND number = %s AND ordinal = %s"
        )
        rows = await self.session.fetch(sql, self.feed.name, *_identity(row_id))
        if not rows:
            raise TargetError(f"No parked row {row_id} in the feed {self.feed.name}", "See `tidelock rows list`")
        change = decode_change(rows[0][-1])
        return ParkedDetail(_parked(rows[0]), _named(change.shape, change.before), _named(change.shape, change.after))

    async def set_state(self, state: str) -> None:
        changed = await self.session.execute(
            f"UPDATE {self.table('tidelock_owner')} SET desired_state = %s {_THIS}", state, self.feed.name
        )
        # MySQL counts only rows that changed, so a second `pause` looks like a feed that is not there.
        if not changed and not await self.owners():
            raise never_ran(self.feed)

    async def clear_halts(self) -> None:
        """So that workers which stand still take their groups over anew."""
        await self.session.execute(f"UPDATE {self.table('tidelock_owner')} SET halt = NULL {_THIS}", self.feed.name)

    async def wish_table(self, table: str, wish: str) -> int:
        """How many now have this wish and had not; `table` '' for all.

        What an operator already chose to skip stays skipped when the rest is retried.
        """
        where, args = _of_table(table) if table else ("", ())
        kept = " AND wish <> 'skip'" if wish == "retry" else ""
        sql = f"UPDATE {self.table('tidelock_parked')} SET wish = %s {_THIS}{where}{kept} AND wish <> %s"
        return await self.session.execute(sql, wish, self.feed.name, *args, wish)

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

    async def wish_row(self, row_id: str, wish: str) -> int:
        sql = (
            f"UPDATE {self.table('tidelock_parked')} SET wish = %s {_THIS} "
            "AND source = %s AND number = %s AND ordinal = %s AND wish <> %s"
        )
        return await self.session.execute(sql, wish, self.feed.name, *_identity(row_id), wish)

    async def pass_ddl(self, *, done: bool = False) -> Ddl:
        """Let all groups go on behind the statement that halted them.  Only if those halts are still the ones read.
        `done`: the target was made alike, so what is parked for rows that are gone at the source is gone too: retried
        later it would come back.

        Where a group has not come to the statement yet, rows from before it are still on their way there.
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
            elif group != CONDUCTOR and owner.ddl_passed != passed:
                raise TargetError(
                    f"Group {group} of the feed {self.feed.name} has not come to this statement yet",
                    "Wait until all groups are halted by it (`tidelock status`), then do it again",
                )
        if done:
            for group in waiting:
                await self._forget_parked(group, ddl)
        sql = f"UPDATE {self.table('tidelock_owner')} SET ddl_passed = %s, halt = NULL {_THIS} AND grp = %s"
        for group, halt in waiting.items():
            if not await self.session.execute(f"{sql} AND halt = %s", passed, self.feed.name, group, halt):
                raise TargetError("The feed changed its state meanwhile", "Look at `tidelock ddl show` and try again")
        return ddl


def _without_rows(mapping: Mapping, target: TableName, ddl: Ddl) -> bool:
    """Have all tables of the source that become `target` lost all their rows by the statement?"""
    tables, databases = gone(ddl)
    sources = [name for _, name in mapping.sources(target)]
    return bool(sources) and all(n is not None and (n in tables or n.schema in databases) for n in sources)


def never_ran(feed: Feed) -> TargetError:
    return TargetError(
        f"{feed.target_url} knows no feed {feed.name} in its schema {feed.schema}",
        "Has it run yet? `tidelock run` makes the bookkeeping",
    )


def _of_table(table: str) -> tuple[str, tuple[str, str]]:
    schema, _, name = table.partition(".")
    return " AND table_schema = %s AND table_name = %s", (schema, name)


def _identity(row_id: str) -> tuple[str, int, int]:
    """Raises TargetError."""
    found = re.fullmatch(r"(.+):(\d+):(\d+)", row_id, re.ASCII)
    if not found:
        raise TargetError(
            f"{row_id!r} is no parked row", "Ids look like 0-101:55:3, as `tidelock rows list` shows them"
        )
    return found[1], int(found[2]), int(found[3])


def _parked(row: tuple[Any, ...]) -> ParkedListing:
    source, number, ordinal, schema, table, key, error, wished, age = row[:9]
    return ParkedListing(f"{source}:{number}:{ordinal}", f"{schema}.{table}", key, error, wished, float(age))


def _named(shape: Shape, row: Row | None) -> dict[str, Any] | None:
    return None if row is None else {column.name: value for column, value in zip(shape.columns, row, strict=True)}
