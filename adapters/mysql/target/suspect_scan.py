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
from tidelock.adapters.target.suspect_looks import in_conflict, looks_of
from tidelock.engine.batch.conflict_cut import Suspect
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import ApplyBatch
from tidelock.engine.protocol.steps import Step


class SuspectScan(ScannedBatches[Lane, SuspectStatements]):
    """Scans the batches of a sink."""

    async def _suspects(self, lane: Lane, effect: ApplyBatch) -> list[Suspect]:
        try:
            return await self._scan(await lane.ready(), effect.steps)
        except (Unwritable, StatementFailed, Fenced, *SERVER_ERRORS):
            return []
        finally:
            await lane.leave()

    async def _scan(self, session: TargetSession, steps: Sequence[Step]) -> list[Suspect]:
        found: list[Suspect] = []
        for table, looks in looks_of(steps).items():
            keys = await in_conflict(table, looks, self._of(session, table), partial(_numbers, session))
            found += [(table.name, key) for key in keys]
        return found

    def _of(self, session: TargetSession, table: Binding) -> SuspectStatements:
        statements = self._tables.get(table)
        if statements is None:
            made = SuspectStatements(table, session.dialect, session.packet_bytes)
            statements = self._tables[table] = made
        return statements


async def _numbers(session: TargetSession, queries: Iterable[bytes]) -> set[int]:
    return {int(n) for query in queries for answer in await session.run([query]) for (n,) in answer.rows}
