"""Batches that are looked through where a row of theirs is refused (`ApplyBatch.scan`), whichever database it is.

The look reads in a transaction of its own and locks nothing.  It is a hint: where it fails, nothing is said.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Any, Generic, TypeVar

import msgspec

from tidelock.adapters.ports.sink import BatchAnswer
from tidelock.adapters.target.lane import BatchLane
from tidelock.adapters.target.statements_by_table import StatementsByTable
from tidelock.engine.batch.conflict_cut import Suspect
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.protocol.effects import ApplyBatch
from tidelock.engine.protocol.events import BatchFailed

Lane = TypeVar("Lane", bound=BatchLane[Any])


class ScannedBatches(ABC, Generic[Lane]):
    """The look through the batches of a sink.  `tables`: what it asks of them."""

    def __init__(self, tables: StatementsByTable[..., Any]) -> None:
        self._known = tables

    @abstractmethod
    async def _suspects(self, lane: Lane, effect: ApplyBatch) -> list[Suspect]:
        """Returns the rows that are in conflict, none where that cannot be told; the lane is left as it was found."""

    def forget_tables(self) -> None:
        """Forget the tables as they were."""
        self._known.forget()

    async def after(self, lane: Lane, effect: ApplyBatch, work: Awaitable[BatchAnswer]) -> BatchAnswer:
        """Return the batch's answer, with suspects where a row is refused."""
        answer = await work
        if not isinstance(answer, BatchFailed) or answer.failure.kind is not ErrorKind.ROW:
            return answer
        return msgspec.structs.replace(answer, suspects=tuple(await self._suspects(lane, effect)))
