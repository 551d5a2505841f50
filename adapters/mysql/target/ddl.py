"""DDL statements at a MySQL or MariaDB target: each runs once, also where it ran before and the checkpoint was lost.

MySQL commits implicitly around DDL, so nothing in the same transaction can say that it ran: the catalogue must.  The
control session keeps the fence while another runs the statement, whose implicit commit would drop it.  The note that it
ran commits with a DELETE, and after DDL, which may be run again until then.

Between sites a statement carries a mark, and its text is stored before it runs: the feed that goes back finds both
(`bookkeeping.statements`).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from tidelock.adapters.bookkeeping import statements as statements_of_feeds
from tidelock.adapters.mysql.schema import read_tables
from tidelock.adapters.mysql.target.bookkeeping_sql import BookkeepingSql
from tidelock.adapters.mysql.target.control_session import ControlSession
from tidelock.adapters.mysql.target.failures import code_of
from tidelock.adapters.mysql.target.fencing import Fenced, Fencing
from tidelock.adapters.mysql.target.literals import text
from tidelock.adapters.mysql.target.session import StatementFailed, TargetSession
from tidelock.adapters.ports.sink import TargetError
from tidelock.engine.model.errors import Failure
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import Copied

TABLE_EXISTS = 1050
COLUMN_EXISTS = 1060
_NAME = r"`(?:[^`]|``)+`"
_TABLE = re.compile(rf"\s*ALTER\s+TABLE\s+({_NAME})\s*\.\s*({_NAME})", re.IGNORECASE)
_WIDTH = re.compile(r"\b(tinyint|smallint|mediumint|int|bigint|year)\s*\(\s*\d+\s*\)")


class Translated(NamedTuple):
    """The statements that one becomes.  `along`: goes with a DELETE among them, else with the note that they ran."""

    statements: Sequence[str]
    along: Sequence[bytes]


class Behind(NamedTuple):
    """The target's tables behind a statement, and the copies of them that have begun."""

    tables: dict[TableName, TargetTable]
    copied: tuple[Copied, ...]


class DdlRunner:
    """Runs statements, and notes that they ran.  `number`: the user lock of the session that runs them."""

    def __init__(
        self, control: ControlSession, fencing: Fencing, bookkeeping: BookkeepingSql, number: int
    ) -> None:
        self._control = control
        self._fencing = fencing
        self._bookkeeping = bookkeeping
        self._number = number

    async def run(
        self,
        ddl: Ddl,
        translated: Callable[[TargetSession], Awaitable[Translated]],
        votes: Mapping[int, int],
        id: EffectId,
    ) -> Failure | None:
        """Run what `ddl` is `translated` to at the tables as they are, unless it ran.

        `votes` (group to epoch): owners that must stay until the statements have run.  `id`: what a DELETE is marked
        with, as a batch is.
        """

        async def run(session: TargetSession) -> None:
            if await self._has_passed(session, ddl):
                return
            worker = await self._fencing.open(self._number)  # ends an older one first, which may be altering a table
            try:
                async with session.transaction():
                    statements, along = await translated(session)
                marked = await self._announced(session, ddl, statements)
                async with session.transaction():
                    await self._note(session, ddl)
                    await self._fencing.fence_votes(session, votes)
                    marks = self._bookkeeping.marks(session, id)
                    for statement, text in zip(statements, marked, strict=True):
                        await _run(ddl, statement, text, session, worker, along, marks)
                    if along and not (statements and ddl.kind is DdlKind.TRUNCATE):
                        await session.run(list(along))
                    await session.commit()
            finally:
                await worker.close()

        return await self._control.do(run)

    async def _announced(self, session: TargetSession, ddl: Ddl, statements: Sequence[str]) -> list[str]:
        """Store the statements as they will stand in the log, and return them.  Raises Fenced."""
        if not ddl.path:
            return list(statements)
        feed = self._bookkeeping.feed
        marked = [statements_of_feeds.marked(statement, feed, ddl.source, ddl.number) for statement in statements]
        async with session.transaction():
            await self._fencing.fence(session)
            await session.run([*self._bookkeeping.announce(ddl, marked), b"COMMIT"])
        return marked

    async def note_passed(self, ddl: Ddl, tables: Sequence[TableName]) -> Behind | Failure:
        """Note that `ddl` ran, or passed without us, and read the tables and copies."""

        async def note(session: TargetSession) -> Behind:
            if not await self._has_passed(session, ddl):
                await self._note(session, ddl)
                await session.commit()
            found = await read_tables(session.connection, tables)
            return Behind(found, await self._bookkeeping.copies.read_chunks(session))

        return await self._control.do(note)

    async def _note(self, session: TargetSession, ddl: Ddl) -> None:
        """Note that the statement ran, which is the fence as well.

        Not after a shared lock on the same row: with a takeover that waits for it, that would be a deadlock.
        Raises Fenced.
        """
        (answer,) = await session.run([self._bookkeeping.pass_ddl(ddl)])
        if answer.affected != 1:
            raise Fenced

    async def _has_passed(self, session: TargetSession, ddl: Ddl) -> bool:
        """Tell whether the statement ran, in a transaction that then ends.  Raises Fenced."""
        async with session.transaction():
            await self._fencing.fence(session)
            return await self._bookkeeping.read_ddl_passed(session) == (ddl.source, ddl.number)


async def _run(
    ddl: Ddl,
    statement: str,
    marked: str,
    fenced: TargetSession,
    worker: TargetSession,
    along: Sequence[bytes] = (),
    marks: Sequence[bytes] = (),
) -> None:
    """Run `statement` as it is `marked` in `worker`, while `fenced` holds the owner's row in its transaction.

    A DELETE (a translated TRUNCATE) runs in `fenced`, behind `marks`, with the statements `along`, and commits it.
    Raises what `TargetSession.run` raises, and TargetError where a column that should be added is there with another
    type.
    """
    if statement.lstrip()[:6].upper() == "DELETE":
        await fenced.run([*marks, statement.encode(), *along, b"COMMIT"])
        return
    try:
        await worker.ask(marked)
    except StatementFailed as failed:
        match code_of(failed.error):
            case int(code) if code == TABLE_EXISTS:
                return
            case int(code) if code == COLUMN_EXISTS and ddl.kind is DdlKind.ADD_COLUMN:
                await _check_columns(statement, worker)
            case _:
                raise


async def _check_columns(statement: str, session: TargetSession) -> None:
    """Check that the columns that `statement` adds are there as it spells them."""
    found = _TABLE.match(statement)
    if found is None:
        raise TargetError(f"a column of this statement exists already: {statement}", _HINT)
    table = TableName(*(part[1:-1].replace("``", "`") for part in found.groups()))
    rows = await session.ask(
        "SELECT COLUMN_NAME,COLUMN_TYPE FROM information_schema.COLUMNS "
        f"WHERE TABLE_SCHEMA={text(table.schema)} AND TABLE_NAME={text(table.table)}"
    )
    types = {str(name).lower(): _canonical(str(type_)) for name, type_ in rows.rows}
    for name in re.findall(rf"\bADD\s+(?:COLUMN\s+)?(?:IF\s+NOT\s+EXISTS\s+)?({_NAME})", statement, re.IGNORECASE):
        there = types.get(name[1:-1].replace("``", "`").lower())
        wanted = _canonical(statement[statement.index(name, found.end()) + len(name) :])
        if there is None or not re.match(re.escape(there) + r"(?![\w(])", wanted):
            raise TargetError(
                f"{table} has {name} as {there or 'no column'}, which is not what this adds: {statement}", _HINT
            )


_HINT = "make the column as the statement says, then `tidelock ddl done`"


def _canonical(definition: str) -> str:
    """Lower case, single spaces, no display widths."""
    narrow = _WIDTH.sub(r"\1", " ".join(definition.split()).lower())
    return re.sub(r"\s*([(),])\s*", r"\1", narrow)
