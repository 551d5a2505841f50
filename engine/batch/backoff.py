"""Batches that were rolled back or that failed, each until it is to be sent again."""

from __future__ import annotations

from typing import Final

from tidelock.engine.batch.in_flight_batch import InFlightBatch, Phase

FIRST_DELAY_US: Final = 20_000
LONGEST_DELAY_US: Final = 5_000_000


def delay_us(tries: int) -> int:
    """The wait after so many failures in a row (at least one), in microseconds: doubled with each."""
    return min(FIRST_DELAY_US << min(tries - 1, 10), LONGEST_DELAY_US)


class Backoff:
    """The batches that wait, in the order in which they began to."""

    def __init__(self) -> None:
        self._waiting: list[InFlightBatch] = []

    def add(self, batch: InFlightBatch, until: int) -> None:
        """Puts the batch off until this time (microseconds); its turn's `retry_at` may be set earlier meanwhile."""
        batch.turn.enter(Phase.BACKOFF)
        batch.turn.retry_at = until
        self._waiting.append(batch)

    def take_due(self, now: int) -> list[InFlightBatch]:
        """Takes out the batches that have waited long enough."""
        if not self._waiting:
            return []
        due = [batch for batch in self._waiting if batch.turn.retry_at <= now]
        self._waiting = [batch for batch in self._waiting if batch.turn.retry_at > now]
        return due
