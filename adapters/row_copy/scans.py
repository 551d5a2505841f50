"""Which chunks of a table are read together.

A chunk by BUCKET is found by a scan of its whole table, so several share one.  Those that are asked for at once are
gathered; and while some that were read together wait for their merge, further ones wait too: each merge frees the place
for one more, and a scan for each would be the price of not waiting.  Every attempt comes to an end at last, merged or
given up, so nothing waits for ever.  All other chunks go alone, at once.

This only keeps the account.  It knows neither time nor threads: who asks says when all that come at once have come.
"""

from __future__ import annotations

from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.protocol.effects import EffectId, ReadChunk


class Scans:
    def __init__(self) -> None:
        self._waiting: dict[ChunkSplit, list[ReadChunk]] = {}
        self._open: dict[ChunkSplit, set[EffectId]] = {}  # being read, or staged

    def add(self, effect: ReadChunk) -> bool:
        """True: it is on its own, and to be read now; else it is among those of `due`, some time."""
        if effect.split.by is not By.BUCKET or not effect.split.bounds:
            return True
        self._waiting.setdefault(effect.split, []).append(effect)
        return False

    def due(self) -> list[list[ReadChunk]]:
        """Those to read now, by scan; they are open from here on."""
        ready = [split for split in self._waiting if not self._open.get(split)]
        scans = [self._waiting.pop(split) for split in ready]
        for scan in scans:
            self._open[scan[0].split] = {effect.id for effect in scan}
        return scans

    def ended(self, attempt: EffectId) -> bool:
        """It was merged, given up, or could not be read.  True: it still waited, and needs no reading any more."""
        for split, attempts in list(self._open.items()):
            attempts.discard(attempt)
            if not attempts:
                del self._open[split]
        for split, effects in list(self._waiting.items()):
            for effect in effects:
                if effect.id == attempt:
                    effects.remove(effect)
                    if not effects:
                        del self._waiting[split]
                    return True
        return False
