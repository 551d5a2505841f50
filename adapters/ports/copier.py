"""Who reads tables at the source for a copy beside the stream (design 8), as the shell sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tidelock.adapters.ports.sink import Wanted
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.protocol.effects import EffectId, ReadChunk
from tidelock.engine.protocol.events import ChunkFailed, ChunksPlanned, ChunkStaged


class Copier(Protocol):
    """`tables`, everywhere: the target's tables as the apply machine knows them at that moment."""

    async def plan(self, wanted: Sequence[Wanted], tables: Mapping[TableName, TargetTable]) -> ChunksPlanned | Alarm:
        """How to split what is wanted, which is all of one mode; or why that cannot be, for the operator."""
        ...

    async def read(
        self, effect: ReadChunk, tables: Mapping[TableName, TargetTable]
    ) -> ChunkStaged | ChunkFailed:
        """Several at once.  Why a read failed is told to the operator by the copier itself."""
        ...

    def stop(self, staged: EffectId) -> None:
        """This attempt is over, given up or merged: stop its read, if that has not returned.  What it staged is the
        sink's to drop, once `read` has."""
        ...

    async def close(self) -> None:
        """Stop everything.  Nothing of ours runs on afterwards."""
        ...
