"""`tidelock conflicts apply`: writes a row that lost in a conflict after all, as an operator's own change of today.

It is written without a mark, so feeds take it to the other sites as any other change of the site.
"""

from __future__ import annotations

from typing import Any

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.url import Dialect
from tidelock.adapters.mysql.target import literals as mysql
from tidelock.adapters.mysql.target.session import settings
from tidelock.adapters.mysql.target.statements import Dialect as Flavor
from tidelock.adapters.operator import feed_control
from tidelock.adapters.operator.lost_rows import APPLIED, LostRowDetail, lost_row, mark_applied
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.postgres.target import literals as postgres
from tidelock.adapters.postgres.target.values import Unwritable, ZeroDates, renderer
from tidelock.adapters.verify.catalogues import paired
from tidelock.adapters.verify.table_pairs import ComparedTable
from tidelock.adapters.wiring.session import TargetSession

LOCK_SECONDS = 10


async def apply_lost(feed: Feed, id: str) -> str:
    """Writes the row; returns what was done.  Raises TargetError, and what `paired` raises."""
    async with feed_control.books(feed) as book:
        detail = await lost_row(book, id)
        if detail.row.outcome == APPLIED:
            raise TargetError(f"{id} has been written already", "See `tidelock conflicts show`")
        pair = next((one for one in await paired(feed, ()) if str(one.name) == detail.row.table), None)
        if pair is None or not pair.key:
            raise TargetError(f"The feed {feed.name} has no table {detail.row.table} with a key", "Write it by hand")
        try:
            await _set_up(book.session)
            done = await _write(book.session, pair, detail, feed.zero_dates)
        except (Unwritable, mysql.Unwritable) as error:
            raise TargetError(f"{id}: {error}", "Write the row by hand") from None
        await mark_applied(book, id)
        place = id.rpartition(":")[0]
        ended = await book.queue_row(place, "skip")
    return f"{done}{'; its failed row is queued to be skipped' if ended else ''}"


async def _set_up(session: TargetSession) -> None:
    """Makes the session one in which literals mean what they say."""
    if session.dialect == "postgres":
        await session.execute("SET timezone = 'UTC'")
        await session.execute("SET datestyle = 'ISO, YMD'")
        return
    ((version,),) = await session.fetch("SELECT version()")
    flavor = Flavor.MARIADB if "mariadb" in str(version).lower() else Flavor.MYSQL
    for statement in settings(flavor, LOCK_SECONDS):
        await session.execute(statement.decode())
    await session.execute("SET SESSION autocommit = 1")


async def _write(session: TargetSession, pair: ComparedTable, detail: LostRowDetail, zero_dates: ZeroDates) -> str:
    place, columns = str(pair.target.table), pair.columns
    names = [quote(session.dialect, name) for name in columns]
    if detail.lost is None:
        if detail.stands is None:
            return "there was no row to be deleted"
        key = [_as_read(session.dialect, detail.stands[name]) for name in columns[: pair.key]]
        gone = await session.execute(f"DELETE FROM {place} WHERE {_equal(names, key)}")
        return "the row is deleted" if gone else "there is no row any more"
    values = _literals(session.dialect, pair, detail.lost, zero_dates)
    where = _equal(names, values[: pair.key])
    if not await session.fetch(f"SELECT 1 FROM {place} WHERE {where}"):
        await session.execute(f"INSERT INTO {place} ({', '.join(names)}) VALUES ({', '.join(values)})")
        return "the row is inserted"
    if len(names) > pair.key:
        sets = ", ".join(f"{name} = {value}" for name, value in zip(names[pair.key :], values[pair.key :], strict=True))
        await session.execute(f"UPDATE {place} SET {sets} WHERE {where}")
    return "the row is written"


def _equal(names: list[str], values: list[str]) -> str:
    return " AND ".join(f"{name} = {value}" for name, value in zip(names, values, strict=False))


def _literals(dialect: Dialect, pair: ComparedTable, row: dict[str, Any], zero_dates: ZeroDates) -> list[str]:
    missing = [column.name for column in pair.target.columns if column.name not in row]
    if missing:
        words = f"{pair.name} has columns that the lost row has not: {', '.join(missing)}"
        raise TargetError(words, "Write the row by hand")
    if dialect == "mysql":
        return [mysql.one(column.column, row[column.name], compare=False) for column in pair.target.columns]
    return [
        postgres.elements(column.name, renderer(column.column, column.type, zero_dates)([row[column.name]]))[0]
        for column in pair.target.columns
    ]


def _as_read(dialect: Dialect, value: str | bytes | None) -> str:
    """Returns the literal of a value as the database's own log has it."""
    if isinstance(value, bytes):
        return mysql.blob(value)
    assert value is not None, "a key has no NULL"
    return postgres.text(value) if dialect == "postgres" else mysql.text(value)
