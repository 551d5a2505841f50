"""The scan of a refused batch for rows in conflict, at PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from tidelock.adapters.postgres.target.commit_audit import LostCommits
from tidelock.adapters.postgres.target.failures import SERVER_ERRORS
from tidelock.adapters.postgres.target.lane import Lane
from tidelock.adapters.postgres.target.session import TargetSession
from tidelock.adapters.postgres.target.suspect_statements import SuspectStatements
from tidelock.adapters.postgres.target.values import Unwritable, ZeroDates
from tidelock.adapters.target.scanned_batches import ScannedBatches
from tidelock.adapters.target.statements_by_table import StatementsByTable
from tidelock.adapters.target.suspect_looks import suspects
from tidelock.engine.batch.conflict_cut import Suspect
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import ApplyBatch
from tidelock.engine.protocol.steps import Step


class SuspectScan(ScannedBatches[Lane]):
    """Scans the batches of a sink."""

    def __init__(self, zero_dates: ZeroDates) -> None:
        self._tables = StatementsByTable(SuspectStatements)
        super().__init__(self._tables)
        self._zero_dates = zero_dates

    async def _suspects(self, lane: Lane, effect: ApplyBatch) -> list[Suspect]:
        try:
            return await self._scan(await lane.ready(), effect.steps)
        except (Unwritable, LostCommits, *SERVER_ERRORS):
            await lane.leave()
            return []

    async def _scan(self, session: TargetSession, steps: Sequence[Step]) -> list[Suspect]:
        def statements_of(table: Binding) -> SuspectStatements:
            return self._tables.of(table, self._zero_dates)

        return await suspects(steps, statements_of, partial(_numbers, session))


async def _numbers(session: TargetSession, queries: Iterable[str]) -> set[int]:
    return {int(n) for query in queries for (n,) in await session.connection.fetch(query)}
