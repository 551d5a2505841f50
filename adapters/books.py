"""A feed's bookkeeping at its target, read and written for an operator: one method a statement."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from adapters.bookkeeping import quote
from adapters.config import Feed
from adapters.session import Session
from adapters.sink import TargetError
from engine.errors import Alarm
from engine.parking import decode_change
from engine.records import Ddl, Position, Row, Shape

GROUP = 0


_THIS = "WHERE feed = %s AND grp = %s"
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


class ParkedChange(msgspec.Struct, frozen=True):
    """One row of `tidelock_parked`; `id` is `source:number:ordinal`."""

    id: str
    table: str
    key: str
    error: str
    wish: str
    parked_seconds: float


class ParkedDetail(msgspec.Struct, frozen=True):
    """A parked change with its row before and after, by column name (None: no such image)."""

    change: ParkedChange
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class Books:
    """A feed's bookkeeping over an open session.  Every method raises TargetError."""

    def __init__(self, feed: Feed, target: Session) -> None:
        self.feed = feed
        self.session = target

    def table(self, name: str) -> str:
        return f"{quote(self.session.dialect, self.feed.schema)}.{name}"

    def age(self, column: str) -> str:
        if self.session.dialect == "postgres":
            return f"cast(extract(epoch FROM now() - {column}) AS double precision)"
        return f"timestampdiff(microsecond, {column}, now(6)) / 1e6"

    async def owner(self) -> tuple[int, str, str | None, str | None] | None:
        """(epoch, desired_state, halt, ddl_passed), None where the feed has never run."""
        sql = f"SELECT epoch, desired_state, halt, ddl_passed FROM {self.table('tidelock_owner')} {_THIS}"
        rows = await self.session.fetch(sql, self.feed.name, GROUP)
        return (int(rows[0][0]), rows[0][1], rows[0][2], rows[0][3]) if rows else None

    async def halted(self) -> tuple[Halted, str]:
        """The halt and its stored text.  Raises TargetError where the feed is not halted."""
        owner = await self.owner()
        if owner is None or owner[2] is None:
            raise TargetError(f"The feed {self.feed.name} is not halted", "See `tidelock status`")
        return msgspec.json.decode(owner[2], type=Halted), owner[2]

    async def checkpoint(self) -> tuple[Position, float] | None:
        sql = f"SELECT position, {self.age('saved_at')} FROM {self.table('tidelock_checkpoint')} {_THIS}"
        rows = await self.session.fetch(sql, self.feed.name, GROUP)
        return (msgspec.json.decode(rows[0][0], type=Position), float(rows[0][1])) if rows else None

    async def receipts(self) -> int:
        sql = f"SELECT count(*) FROM {self.table('tidelock_progress')} {_THIS}"
        return int((await self.session.fetch(sql, self.feed.name, GROUP))[0][0])

    async def parked_tables(self) -> tuple[ParkedTable, ...]:
        sql = (
            "SELECT table_schema, table_name, count(*), count(CASE wish WHEN 'retry' THEN 1 END), "
            f"count(CASE wish WHEN 'skip' THEN 1 END), max({self.age('parked_at')}) "
            f"FROM {self.table('tidelock_parked')} {_THIS} GROUP BY table_schema, table_name ORDER BY 1, 2"
        )
        rows = await self.session.fetch(sql, self.feed.name, GROUP)
        return tuple(ParkedTable(f"{r[0]}.{r[1]}", int(r[2]), int(r[3]), int(r[4]), float(r[5])) for r in rows)

    async def parked(self, table: str, limit: int) -> list[ParkedChange]:
        """In the order they were parked; `table` '' for all."""
        where, args = _of_table(table) if table else ("", ())
        sql = (
            f"SELECT {_IDENTITY}, table_schema, table_name, row_key, error, wish, {self.age('parked_at')} "
            f"FROM {self.table('tidelock_parked')} {_THIS}{where} ORDER BY parked_at, {_IDENTITY} LIMIT {limit:d}"
        )
        return [_parked(row) for row in await self.session.fetch(sql, self.feed.name, GROUP, *args)]

    async def detail(self, row_id: str) -> ParkedDetail:
        sql = (
            f"SELECT {_IDENTITY}, table_schema, table_name, row_key, error, wish, {self.age('parked_at')}, change_data "
            f"FROM {self.table('tidelock_parked')} {_THIS} AND source = %s AND number = %s AND ordinal = %s"
        )
        rows = await self.session.fetch(sql, self.feed.name, GROUP, *_identity(row_id))
        if not rows:
            raise TargetError(f"No parked row {row_id} in the feed {self.feed.name}", "See `tidelock rows list`")
        change = decode_change(rows[0][-1])
        return ParkedDetail(_parked(rows[0]), _named(change.shape, change.before), _named(change.shape, change.after))

    async def set_state(self, state: str) -> None:
        changed = await self.session.execute(
            f"UPDATE {self.table('tidelock_owner')} SET desired_state = %s {_THIS}", state, self.feed.name, GROUP
        )
        # MySQL counts only rows that changed, so a second `pause` looks like a feed that is not there.
        if not changed and await self.owner() is None:
            raise never_ran(self.feed)

    async def wish_table(self, table: str, wish: str) -> int:
        """How many now have this wish and had not; `table` '' for all.

        What an operator already chose to skip stays skipped when the rest is retried.
        """
        where, args = _of_table(table) if table else ("", ())
        kept = " AND wish <> 'skip'" if wish == "retry" else ""
        sql = f"UPDATE {self.table('tidelock_parked')} SET wish = %s {_THIS}{where}{kept} AND wish <> %s"
        return await self.session.execute(sql, wish, self.feed.name, GROUP, *args, wish)

    async def wish_row(self, row_id: str, wish: str) -> int:
        sql = (
            f"UPDATE {self.table('tidelock_parked')} SET wish = %s {_THIS} "
            "AND source = %s AND number = %s AND ordinal = %s AND wish <> %s"
        )
        return await self.session.execute(sql, wish, self.feed.name, GROUP, *_identity(row_id), wish)

    async def pass_ddl(self) -> Ddl:
        """Let the run go on behind the statement that halted it.  Only if that halt is still the one that was read."""
        halted, text = await self.halted()
        if halted.ddl is None:
            raise TargetError(
                f"The feed {self.feed.name} is halted, but not by a statement: {halted.alarm}", "See `tidelock status`"
            )
        sql = f"UPDATE {self.table('tidelock_owner')} SET ddl_passed = %s, halt = NULL {_THIS} AND halt = %s"
        passed = f"{halted.ddl.source}:{halted.ddl.number}"
        if not await self.session.execute(sql, passed, self.feed.name, GROUP, text):
            raise TargetError("The feed changed its state meanwhile", "Look at `tidelock ddl show` and try again")
        return halted.ddl


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


def _parked(row: tuple[Any, ...]) -> ParkedChange:
    source, number, ordinal, schema, table, key, error, wished, age = row[:9]
    return ParkedChange(f"{source}:{number}:{ordinal}", f"{schema}.{table}", key, error, wished, float(age))


def _named(shape: Shape, row: Row | None) -> dict[str, Any] | None:
    return None if row is None else {column.name: value for column, value in zip(shape.columns, row, strict=True)}
