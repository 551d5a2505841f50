"""The rules of copying, each broken in turn."""

from __future__ import annotations

import msgspec

from tidelock.engine.copy.chunk import Chunk
from tidelock.engine.copy.chunk_ledger import ChunkLedger
from tidelock.engine.model.records import Row
from tidelock.simulations.explore.chunks import ChunkModel, Story


class ChunkRule(msgspec.Struct, frozen=True):
    """`broken`: what is done instead.  `row`: of the table of counter-examples (0: of none).  `story`: a
    history that shows it, where a search for one would take long."""

    broken: str
    row: int
    model: type[ChunkModel]
    story: Story | None = None


class _DoesNotWait(ChunkModel):
    def _may_read(self, chunk: Chunk) -> bool:
        return True


class _BesideOthers(ChunkModel):
    def _drained(self) -> bool:
        return True


class _SavesNothing(ChunkModel):
    def _save(self) -> None:
        pass


class _HidesWhatReceiptsCover(ChunkModel):
    def _seen(self, number: int) -> bool:
        return number not in self.applied


class _ForgetsTouched(ChunkModel):
    def _die(self, behind: int) -> None:
        """Keep what was read, and forget what was touched meanwhile."""
        read, wanted = self.read, self.wanted
        kept = [(c.number, c.state, c.high, c.attempt) for c in self.ledger.chunks if c.open]
        super()._die(behind)
        self.read, self.wanted = read, wanted
        for number, state, high, attempt in kept:
            chunk = self._chunk(number)
            chunk.state, chunk.high, chunk.attempt = state, high, attempt


class _Remembers(ChunkLedger):
    def _takes_effect(self, chunk: Chunk, binding: object, before: Row | None, after: Row | None) -> bool:
        return not chunk.open and super()._takes_effect(chunk, binding, before, after)  # type: ignore[arg-type]


class _RemembersNothing(ChunkModel):
    def _ledger(self) -> ChunkLedger:
        ledger = super()._ledger()
        ledger.__class__ = _Remembers
        return ledger


CHUNK_RULES = {
    "visible": ChunkRule("a chunk is read before what the stream has taken can be seen", 5, _DoesNotWait),
    "touched": ChunkRule("changes of a chunk that is open are forgotten", 0, _RemembersNothing),
    "drained": ChunkRule("a chunk is merged while changes are in flight", 7, _BesideOthers),
    "merge-checkpoint": ChunkRule(
        "a merge saves no checkpoint", 6, _SavesNothing, Story((), [(None, (1, "a", 1)), ((1, "a", 1), (1, "a", 2))])
    ),
    "covered-is-seen": ChunkRule("the ledger does not see what receipts cover", 6, _HidesWhatReceiptsCover),
    "back-to-pending": ChunkRule("what was read survives a restart, what was touched does not", 6, _ForgetsTouched),
}
