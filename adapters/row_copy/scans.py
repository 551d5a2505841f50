"""Decides which chunks of a table are read together.

A chunk by BUCKET or DIGEST is found by a scan of its whole table, so several share one.  Those that are asked for at
once are collected; and while some that were read together wait for their merge, further ones wait too: each merge frees
the place for one more, and the price of not waiting would be a scan for each.  Every attempt comes to an end at last,
merged or given up, so nothing waits for ever.  All other chunks are read alone, at once.

This only keeps the account.  It knows neither time nor threads: the caller says when all that come at once have come.
"""

from __future__ import annotations

from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.protocol.effects import EffectId, ReadChunk


class Scans:
    """The chunks that wait to be read, or are being read."""

    def __init__(self) -> None:
        self._waiting: dict[ChunkSplit, list[ReadChunk]] = {}
        self._open: dict[ChunkSplit, set[EffectId]] = {}  # being read, or staged

    def add(self, effect: ReadChunk) -> bool:
        """Returns True where the chunk is to be read now, alone; else it will be among those of `due`."""
        if effect.split.by not in (By.BUCKET, By.DIGEST) or not effect.split.bounds:
            return True
        self._waiting.setdefault(effect.split, []).append(effect)
        return False

    def due(self) -> list[list[ReadChunk]]:
        """Returns chunks to read now, by scan; they count as open from here on."""
        ready = [split for split in self._waiting if not self._open.get(split)]
        scans = [self._waiting.pop(split) for split in ready]
        for scan in scans:
            self._open[scan[0].split] = {effect.id for effect in scan}
        return scans

    def ended(self, attempt: EffectId) -> bool:
        """Notes that a chunk was merged, given up, or could not be read.  Returns True where it still waited and needs
        no reading.
        """
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
