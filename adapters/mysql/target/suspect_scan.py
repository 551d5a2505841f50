"""The scan of a refused batch for rows in conflict, at MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from tidelock.adapters.mysql.target.failures import SERVER_ERRORS
from tidelock.adapters.mysql.target.fencing import Fenced
from tidelock.adapters.mysql.target.lane import Lane
from tidelock.adapters.mysql.target.literals import Unwritable
from tidelock.adapters.mysql.target.session import StatementFailed, TargetSession
from tidelock.adapters.mysql.target.suspect_statements import SuspectStatements
from tidelock.adapters.target.scanned_batches import ScannedBatches
from tidelock.adapters.target.statements_by_table import StatementsByTable
from tidelock.adapters.target.suspect_looks import suspects
from tidelock.engine.batch.conflict_cut import Suspect
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import ApplyBatch
from tidelock.engine.protocol.steps import Step


class SuspectScan(ScannedBatches[Lane]):
    """Scans the batches of a sink."""

    def __init__(self) -> None:
        self._tables = StatementsByTable(SuspectStatements)
        super().__init__(self._tables)

    async def _suspects(self, lane: Lane, effect: ApplyBatch) -> list[Suspect]:
        try:
            return await self._scan(await lane.ready(), effect.steps)
        except (Unwritable, StatementFailed, Fenced, *SERVER_ERRORS):
            return []
        finally:
            await lane.leave()

    async def _scan(self, session: TargetSession, steps: Sequence[Step]) -> list[Suspect]:
        def statements_of(table: Binding) -> SuspectStatements:
            return self._tables.of(table, session.dialect, session.packet_bytes)

        return await suspects(steps, statements_of, partial(_numbers, session))


async def _numbers(session: TargetSession, queries: Iterable[bytes]) -> set[int]:
    return {int(n) for query in queries for answer in await session.run([query]) for (n,) in answer.rows}
