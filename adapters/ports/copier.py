"""Protocol of the reader of source tables for a copy beside the stream (design 8), as the shell sees it."""

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
    """Reads tables at the source.  `tables`, everywhere: the target's tables as the apply machine knows them at that
    moment.
    """

    async def plan(self, wanted: Sequence[Wanted], tables: Mapping[TableName, TargetTable]) -> ChunksPlanned | Alarm:
        """Returns how to split the queued tables or rows, which all have one mode; or why that cannot be, for the
        operator.
        """
        ...

    async def read(
        self, effect: ReadChunk, tables: Mapping[TableName, TargetTable]
    ) -> ChunkStaged | ChunkFailed:
        """Reads a chunk; several may be read at once.  The copier itself tells the operator why a read failed."""
        ...

    def stop(self, staged: EffectId) -> None:
        """Stops the read of an attempt that is over, given up or merged, if it has not returned.

        The sink drops what the attempt staged, once `read` has returned.
        """
        ...

    async def close(self) -> None:
        """Stops everything.  Nothing of the copier runs on afterwards."""
        ...
