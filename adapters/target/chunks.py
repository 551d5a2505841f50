"""Chunks at a target: effects of a copy in, events out; how a chunk is merged is each database's own matter."""

from __future__ import annotations

from typing import Protocol

from tidelock.engine.model.errors import Failure
from tidelock.engine.protocol.effects import BeginCopy, EffectId, FindRefused, MergeChunk
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, CopyBegun, CopyFailed, RefusedFound, RefusedRow


class ChunkStore(Protocol):
    """The copies of one target.  Methods return why something failed; None: it is done."""

    async def begin(self, effect: BeginCopy) -> Failure | None:
        """Begins a copy."""
        ...

    async def merge(self, effect: MergeChunk) -> Failure | None:
        """Merges a staged chunk."""
        ...

    async def find_refused(self, effect: FindRefused) -> tuple[RefusedRow, ...] | Failure:
        """Finds the staged rows for which a merge is refused."""
        ...

    async def drop(self, staged: EffectId) -> None:
        """Drops what one attempt has staged."""
        ...


class ChunkSink:
    """The part of a sink that is about copies (`adapters.ports.sink.Sink`)."""

    def __init__(self, chunks: ChunkStore) -> None:
        self._chunks = chunks

    async def begin_copy(self, effect: BeginCopy) -> CopyBegun | CopyFailed:
        """Begins a copy."""
        failure = await self._chunks.begin(effect)
        return CopyBegun(effect.id) if failure is None else CopyFailed(effect.id, failure)

    async def merge_chunk(self, effect: MergeChunk) -> BatchCommitted | BatchFailed:
        """Merges a staged chunk."""
        failure = await self._chunks.merge(effect)
        return BatchCommitted(effect.id) if failure is None else BatchFailed(effect.id, failure)

    async def find_refused(self, effect: FindRefused) -> RefusedFound | BatchFailed:
        """Finds the staged rows for which a merge is refused."""
        found = await self._chunks.find_refused(effect)
        return BatchFailed(effect.id, found) if isinstance(found, Failure) else RefusedFound(effect.id, found)

    async def drop_staged(self, staged: EffectId) -> None:
        """Drops what one attempt has staged."""
        await self._chunks.drop(staged)
