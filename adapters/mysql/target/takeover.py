"""Taking a feed over at a MySQL or MariaDB target: fence older owners off, *then* read what is there (design 6)."""

from __future__ import annotations

from collections.abc import Sequence

from pymysql import err

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.mysql.schema import read_tables
from tidelock.adapters.mysql.target.bookkeeping_sql import BookkeepingSql
from tidelock.adapters.mysql.target.control_session import ControlSession
from tidelock.adapters.mysql.target.copying import TargetCopying
from tidelock.adapters.mysql.target.failures import target_error
from tidelock.adapters.mysql.target.fencing import Fenced, Fencing
from tidelock.adapters.mysql.target.session import StatementFailed, TargetSession
from tidelock.adapters.ports.sink import TargetError
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.protocol.events import TakenOver


class Takeover:
    """Makes this run the owner of one feed and table group."""

    def __init__(
        self, fencing: Fencing, bookkeeping: BookkeepingSql, control: ControlSession, copying: TargetCopying
    ) -> None:
        self._fencing = fencing
        self._bookkeeping = bookkeeping
        self._control = control
        self._copying = copying

    async def run(self, tables: Sequence[TableName], start: Position | None) -> TakenOver:
        """Take over, with the control session's `turn` held.  Raises Overtaken, TargetError."""
        endpoint = self._fencing.endpoint
        try:
            session = await self._control.take_over()
            async with session.transaction():
                taken = await self._read(session, tables, start)
            await self._copying.drop_older(session)
        except Fenced:
            raise TargetError(
                f"{endpoint}: another run took the feed over just now", "run each feed in one place only"
            ) from None
        except StatementFailed as failed:
            raise target_error(failed.error, endpoint) from failed
        except (err.MySQLError, OSError) as error:
            raise target_error(error, endpoint) from error
        return taken

    async def _read(self, session: TargetSession, tables: Sequence[TableName], start: Position | None) -> TakenOver:
        bookkeeping = self._bookkeeping
        await self._fencing.fence(session)
        checkpoint = await bookkeeping.read_checkpoint(session)
        statements = [bookkeeping.clear_halt()]
        if checkpoint is None:
            checkpoint = _given(start, self._fencing.endpoint)
            statements.append(bookkeeping.save_checkpoint(checkpoint))
        taken = TakenOver(
            epoch=self._fencing.epoch,
            checkpoint=checkpoint,
            receipts=await bookkeeping.read_receipts(session),
            parked=await bookkeeping.read_parked(session),
            tables=await read_tables(session.connection, tables),
            ddl_passed=await bookkeeping.read_ddl_passed(session),
            chunks=await bookkeeping.copies.read_chunks(session),
        )
        await session.run([*statements, b"COMMIT"])
        return taken


def _given(start: Position | None, endpoint: Endpoint) -> Position:
    if start is None:
        raise TargetError(
            f"{endpoint} holds no checkpoint of this feed, and there is no position to start from",
            "run `tidelock init`, which fixes where the feed starts",
        )
    return start
