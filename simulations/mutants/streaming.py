"""Bugs of transactions that are applied as they come, as they are too large to hold."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

STREAMING = (
    Mutant(
        "streamed-beside-a-copy",
        "tidelock.engine.apply.machine",
        """
        - while self._barrier.ddl is None and not self.batches.wishing and not self.streaming:
        + while self._barrier.ddl is None and not self.batches.wishing:
        """,
        "chunks are merged and windows planned while half of a transaction is at the target",
    ),
    Mutant(
        "streamed-beside-wishes",
        "tidelock.engine.batch.scheduler",
        """
        - if not self._wishes or self.rows or self.streaming or self._wishes.running or self.now < self._wish_at:
        + if not self._wishes or self.rows or self._wishes.running or self.now < self._wish_at:
        """,
        "parked rows are tried again while half of a transaction is at the target",
    ),
    Mutant(
        "streamed-before-all-is-committed",
        "tidelock.engine.apply.machine",
        """
        - if self.full and not self.batches.busy:
        + if self.full:
        """,
        "a large transaction begins while earlier ones are under way",
    ),
    Mutant(
        "streamed-receipt-not-completed",
        "tidelock.engine.apply.streaming",
        """
        - self._emit_piece([], (), self._cover.encode(self._watermark.end(self._window)))
        + self._emit_piece([], (), receipts.NOTHING)
        """,
        "the receipt of a large transaction covers nothing",
    ),
    Mutant(
        "streamed-receipt-of-the-last-piece",
        "tidelock.engine.apply.streaming",
        """
        - self._cover.add(changes)
        + self._cover = receipts.Cover()
        + self._cover.add(changes)
        """,
        "the receipt of a large transaction covers its last piece",
    ),
    Mutant(
        "streamed-stretch-one-short",
        "tidelock.engine.log.receipts",
        """
        - flat += (0, first - last)
        + flat += (0, first - last + 1)
        """,
        "a stretch in a receipt ends a row too early",
    ),
    Mutant(
        "streamed-stretch-of-its-first-row",
        "tidelock.engine.log.receipts",
        """
        - if last > first:
        -     self._long.setdefault((source, number), []).append(_Stretch(first, last, receipt.id))
        - else:
        -     self._rows[source, number, first] = receipt.id
        + self._rows[source, number, first] = receipt.id
        """,
        "a new owner applies again what a stretch in a receipt covers, but its first row",
    ),
    Mutant(
        "streamed-stretch-never-spent",
        "tidelock.engine.log.receipts",
        """
        - self._left[stretch.id] -= change.ordinal - stretch.first
        + self._left[stretch.id] += 1
        """,
        "the receipt of a large transaction stays for ever after a takeover",
    ),
    Mutant(
        "streamed-window-without-a-segment",
        "tidelock.engine.apply.streaming",
        """
        - self._window = self._watermark.open(position, 0 if nothing else 1, end_us)
        + self._window = self._watermark.open(position, 0, end_us)
        """,
        "the checkpoint passes a large transaction before it is committed",
    ),
    Mutant(
        "streamed-lost-and-gone-on-with",
        "tidelock.engine.apply.streaming",
        """
        - self._phase, self._sent, self._resting_until = Phase.ASKING, None, self.now
        + self._phase, self._sent, self._resting_until = Phase.OPENING, None, self.now
        """,
        "a transaction that was lost at the target goes on there without what it had",
    ),
    Mutant(
        "streamed-lost-and-taken-back",
        "tidelock.engine.apply.streaming",
        """
          else:
        -     self._ask()
        +     self._emit(StandDown(failure.message, again=True))
        """,
        "who loses a transaction takes the feed over, though a newer owner may have it",
    ),
    Mutant(
        "streamed-doubt-planned-anew",
        "tidelock.engine.apply.streaming",
        """
        - elif self._phase is Phase.ASKING and self._resting_until is None:
        + elif False:
        """,
        "who finds no receipt of its transaction waits for ever",
    ),
    Mutant(
        "streamed-bad-row-forgotten",
        "tidelock.engine.apply.streaming",
        """
        - self._batches.park(self._parked, sent.parked, isolation)
        """,
        "later changes of a row that was parked are applied",
    ),
    Mutant(
        "streamed-piece-refused-is-sent-again",
        "tidelock.engine.apply.streaming",
        """
        - self._isolation.failed(failure.message, lacks_parent=lacks_parent(failure))
        """,
        "the halves of a piece that is refused are not tried",
    ),
    Mutant(
        "streamed-piece-parked-whole",
        "tidelock.engine.apply.streaming",
        """
        - bad = dict(isolation.bad) if isolation is not None else {}
        + bad = {change: "refused" for change in isolation.tried} if isolation is not None else {}
        """,
        "all changes of a piece are parked with a bad one",
    ),
    Mutant(
        "streamed-half-committed",
        "tidelock.engine.log.log_buffer",
        """
        - self.open = _left_open(batch, self.open)
        + self.open = _left_open(batch, False)
        """,
        "a part without rows of ours ends a transaction in its middle",
    ),
    Mutant(
        "streamed-end-not-awaited",
        "tidelock.engine.apply.streaming",
        """
        - elif self._window is None:
        + elif self._window is None and not self._total:
        """,
        "a transaction commits while more of it is to come",
    ),
    Mutant(
        "streamed-open-for-ever",
        "tidelock.engine.apply.streaming",
        """
        - elif self.now - self._idle_since >= self._options.stream_idle_us:
        + elif False:
        """,
        "a transaction whose end does not come is never rolled back",
    ),
    Mutant(
        "streamed-patience-never-grows",
        "tidelock.engine.apply.streaming",
        """
        - return StandDown(reason, again=True, stream_idle_us=2 * patience if self._idled else patience)
        + return StandDown(reason, again=True, stream_idle_us=patience)
        """,
        "each owner waits as long as the one before for an end that comes later",
    ),
    Mutant(
        "streamed-left-and-gone-on-with",
        "tidelock.engine.apply.streaming",
        """
        - if self._phase is Phase.LEFT:
        + if False:
        """,
        "a transaction that was rolled back while its end did not come is never begun again",
    ),
    Mutant(
        "streamed-all-at-once",
        "tidelock.engine.apply.streaming",
        """
        - return bool(self) and working and not self._waiting and self._window is None
        + return bool(self) and working and self._window is None
        """,
        "all that arrives of a transaction waits in pieces, however slow the target is",
    ),
)
