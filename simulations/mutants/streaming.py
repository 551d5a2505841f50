"""Bugs of transactions that are applied as they come, as they are too large to hold."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

STREAMING = (
    Mutant(
        "streamed-beside-a-copy",
        """
        @ WindowPlanner.plan
        - not self._streaming
        + True
        """,
        "chunks are merged and windows planned while half of a transaction is at the target",
    ),
    Mutant(
        "streamed-beside-wishes",
        """
        @ BatchScheduler.send
        - self.streaming
        + False
        """,
        "parked rows are tried again while half of a transaction is at the target",
    ),
    Mutant(
        "streamed-before-all-is-committed",
        """
        @ WindowPlanner.plan
        - not self._batches.busy
        + True
        """,
        "a large transaction begins while earlier ones are under way",
    ),
    Mutant(
        "streamed-receipt-not-completed",
        """
        @ Streaming._send
        - self._cover.encode(self._watermark.end(self._window))
        + receipts.NOTHING
        """,
        "the receipt of a large transaction covers nothing",
    ),
    Mutant(
        "streamed-receipt-of-the-last-piece",
        """
        @ Streaming.take
        + self._cover = receipts.ReceiptBuilder()
          self._cover.add(changes)
        """,
        "the receipt of a large transaction covers its last piece",
    ),
    Mutant(
        "streamed-stretch-of-its-first-row",
        """
        @ Fence.__init__
        - if last > first:
        -     self._long.setdefault((source, number), []).append(_Stretch(first, last, receipt.id))
        - else:
        -     self._rows[source, number, first] = receipt.id
        + self._rows[source, number, first] = receipt.id
        """,
        "a new owner applies again what a stretch in a receipt covers, but its first row",
    ),
    Mutant(
        "streamed-lost-and-gone-on-with",
        """
        @ Streaming._ask
        - Phase.ASKING
        + Phase.OPENING
        """,
        "a transaction that was lost at the target goes on there without what it had",
    ),
    Mutant(
        "streamed-lost-and-taken-back",
        """
        @ Streaming.failed
        - self._ask()
        + self._emit(StepDown(failure.message, again=True))
        """,
        "who loses a transaction takes the feed over, though a newer owner may have it",
    ),
    Mutant(
        "streamed-doubt-planned-anew",
        """
        @ Streaming.ready
        - self._phase is Phase.ASKING and self._resting_until is None
        + False
        """,
        "who finds no receipt of its transaction waits for ever",
    ),
    Mutant(
        "streamed-bad-row-forgotten",
        """
        @ Streaming._applied
        - self._batches.parked_retry.park(self._parked, sent.parked, search)
        """,
        "later changes of a row that was parked are applied",
    ),
    Mutant(
        "streamed-piece-refused-is-sent-again",
        """
        @ Streaming._refused
        - self._search.failed(failure.message, lacks_parent=lacks_parent(failure))
        """,
        "the halves of a piece that is refused are not tried",
    ),
    Mutant(
        "streamed-piece-parked-whole",
        """
        @ Streaming._send_piece
        - dict(search.bad)
        + {change: "refused" for change in search.tried}
        """,
        "all changes of a piece are parked with a bad one",
    ),
    Mutant(
        "streamed-half-committed",
        """
        @ LogBuffer.piece
        - _left_open(batch, self.open)
        + _left_open(batch, False)
        """,
        "a part without rows of ours ends a transaction in its middle",
    ),
    Mutant(
        "streamed-end-not-awaited",
        """
        @ Streaming._send
        - self._window is None
        + self._window is None and not self._total
        """,
        "a transaction commits while more of it is to come",
    ),
    Mutant(
        "streamed-open-for-ever",
        """
        @ Streaming._wait
        - self.now - self._idle_since >= self._options.stream_idle_us
        + False
        """,
        "a transaction whose end does not come is never rolled back",
    ),
    Mutant(
        "streamed-patience-never-grows",
        """
        @ Streaming.ready
        - 2 * patience if self._idled else patience
        + patience
        """,
        "each owner waits as long as the one before for an end that comes later",
    ),
    Mutant(
        "streamed-left-and-gone-on-with",
        """
        @ Streaming.heard
        - self._phase is Phase.LEFT
        + False
        """,
        "a transaction that was rolled back while its end did not come is never begun again",
    ),
    Mutant(
        "streamed-all-at-once",
        """
        @ Streaming.wants_more
        - not self._waiting
        + True
        """,
        "all that arrives of a transaction waits in pieces, however slow the target is",
    ),
)
