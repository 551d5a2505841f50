"""The scan of a refused batch for rows in conflict, at PostgreSQL (`ApplyBatch.scan`).

Each of its queries is a transaction of its own and locks nothing.  It is a hint: where it fails, nothing is said.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from functools import partial

import msgspec

from tidelock.adapters.ports.sink import BatchAnswer
from tidelock.adapters.postgres.target.commit_audit import LostCommits
from tidelock.adapters.postgres.target.failures import SERVER_ERRORS
from tidelock.adapters.postgres.target.lane import Lane
from tidelock.adapters.postgres.target.session import TargetSession
from tidelock.adapters.postgres.target.suspect_statements import SuspectStatements
from tidelock.adapters.postgres.target.values import Unwritable, ZeroDates
from tidelock.adapters.target.suspect_looks import in_conflict, looks_of
from tidelock.engine.batch.conflict_cut import Suspect
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import ApplyBatch
from tidelock.engine.protocol.events import BatchFailed
from tidelock.engine.protocol.steps import Step


class SuspectScan:
    """Scans the batches of a sink."""

    def __init__(self, zero_dates: ZeroDates) -> None:
        self._zero_dates = zero_dates
        self._tables: dict[Binding, SuspectStatements] = {}

    def forget_tables(self) -> None:
        """Forget the tables as they were."""
        self._tables.clear()

    async def after(self, lane: Lane, effect: ApplyBatch, work: Awaitable[BatchAnswer]) -> BatchAnswer:
        """Return the batch's answer, with suspects where a row is refused."""
        answer = await work
        if not isinstance(answer, BatchFailed) or answer.failure.kind is not ErrorKind.ROW:
            return answer
        try:
            suspects = await self._scan(await lane.ready(), effect.steps)
        except (Unwritable, LostCommits, *SERVER_ERRORS):
            suspects = []
            await lane.leave()
        return msgspec.structs.replace(answer, suspects=tuple(suspects))

    async def _scan(self, session: TargetSession, steps: Sequence[Step]) -> list[Suspect]:
        found: list[Suspect] = []
        for table, looks in looks_of(steps).items():
            keys = await in_conflict(table, looks, self._of(table), partial(_numbers, session))
            found += [(table.name, key) for key in keys]
        return found

    def _of(self, table: Binding) -> SuspectStatements:
        statements = self._tables.get(table)
        if statements is None:
            statements = self._tables[table] = SuspectStatements(table, self._zero_dates)
        return statements


async def _numbers(session: TargetSession, queries: Iterable[str]) -> set[int]:
    return {int(n) for query in queries for (n,) in await session.connection.fetch(query)}
