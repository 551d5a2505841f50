"""Bugs at the log's end of the feed: order, resends, shapes, statements that change the schema, how much is taken."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

ORDER = (
    Mutant(
        "duplicates-applied",
        """
        @ Chain.judge
        - Verdict.DUPLICATE
        + Verdict.NEXT
        """,
        "a batch of the log that comes twice is applied twice",
    ),
    Mutant(
        "gap-ignored",
        """
        @ Chain.judge
        - Verdict.DUPLICATE if last.order <= self.last.order else Verdict.GAP
        + Verdict.DUPLICATE if last.order <= self.last.order else self._take(last)
        """,
        "the feed goes on over a gap",
        case="rows lost without an error (airbyte 85783)",
    ),
    Mutant(
        "replaced-reader-heard",
        """
        @ Chain.judge
        - if reader != self.reader:
        -     return Verdict.LATE
        """,
        "batches of a reader that was replaced are taken for its successor's",
    ),
    Mutant(
        "lost-resend-not-asked-again",
        """
        @ Chain.judge
        - self._take(last) if resent and _same_place(prev, self.last) else Verdict.GAP
        + self._take(last) if resent and _same_place(prev, self.last) else Verdict.LATE
        """,
        "a resend whose answer is lost is waited for in vain",
    ),
    Mutant(
        "resent-from-anywhere",
        """
        @ Chain.judge
        - _same_place(prev, self.last)
        + True
        """,
        "a resent batch is taken wherever it begins",
        case="log purged (airbyte 6425)",
    ),
    Mutant(
        "log-that-goes-back-taken",
        """
        @ Chain.judge
        - self._take(last) if last.order >= prev.order else Verdict.GAP
        + self._take(last)
        """,
        "a log that was reset is read on as if it were the old one",
        case="log reset (airbyte 85783)",
    ),
    Mutant(
        "resend-too-early",
        """
        @ LogIntake._resend
        - self._chain.last
        + self._copying._watermark.position

        - RequestResend(*self._chain.expect_resend(), self._fence.furthest(behind))
        + RequestResend(behind, self._chain.expect_resend()[1], self._fence.furthest(behind))
        """,
        "a resend is asked from what is committed, though more is taken",
    ),
    Mutant(
        "first-gap-halts",
        """
        @ LogIntake.admits
        - self._gap_at == self._chain.last
        + True
        """,
        "the feed halts at a gap without asking for a resend",
    ),
    Mutant(
        "gap-never-halts",
        """
        @ LogIntake.admits
        - self._gap_at == self._chain.last
        + False
        """,
        "a gap that no resend closes is asked for again and again",
        case="log purged (airbyte 6425)",
    ),
    Mutant(
        "lost-log-asked-for-again",
        """
        @ LogIntake.source_failed
        - event.retryable
        + True
        """,
        "a log that cannot be read on is asked for again and again",
        case="log purged (airbyte 6425)",
    ),
    Mutant(
        "shape-number-of-an-old-reader",
        """
        @ RelationCache.learn
        - for number in shapes:
        -     self._bindings.pop(number, None)
        """,
        "a new reader's numbers of tables are read as the old reader's",
    ),
    Mutant(
        "positions-of-rows-equal",
        """
        @ Position.order
        - self.rows
        + 0
        """,
        "all places inside a transaction are one",
        case="events with the same position lost at a restart (debezium 7531)",
    ),
    Mutant(
        "log-files-as-text",
        """
        @ Position.order
        - int(self.file.rpartition(".")[2] or 0)
        + self.file.rpartition(".")[2]
        """,
        "log file 1000000 comes before 999999",
        case="rotation",
    ),
)

BARRIER = (
    Mutant(
        "barrier-does-not-wait",
        """
        @ Pipeline.advance
        - not self.batches.busy
        + True
        """,
        "a statement runs beside rows that are before it",
    ),
    Mutant(
        "barrier-lets-wishes-in",
        """
        @ Pipeline.advance
        - self._barrier.ddl is None and not self.copying.writing
        + True
        """,
        "a retry starts while a statement runs",
    ),
    Mutant(
        "barrier-open-before-saved",
        """
        @ Barrier.applied
        - self._enter(Stage.SEALING)
        + end, self.stage, self.ddl, self.end, self._applying = self.end, Stage.OPEN, None, None, None

        - return self.end
        + return end
        """,
        "rows flow before a checkpoint is behind the statement, and a restart runs it again",
    ),
    Mutant(
        "statement-not-run-again",
        """
        @ Pipeline._ddl_failed
        - self._barrier.again(self._context.now, failure.message)
        """,
        "a statement that failed for no fault of its own is waited for in vain",
    ),
    Mutant(
        "any-answer-ends-a-statement",
        """
        @ Barrier.answers
        + return self.ddl is not None
        """,
        "an answer that comes twice ends the next statement",
        case="answers repeated by the network",
        worlds="altering",
    ),
    Mutant(
        "all-statements-passed",
        """
        @ judge
        - passed == (ddl.source, ddl.number)
        + passed is not None
        """,
        "once an operator passed one statement, all pass",
    ),
    Mutant(
        "unknown-statement-passed",
        """
        @ judge
        - Passage.HALT
        + Passage.PASS
        """,
        "a statement that cannot be applied is passed over in silence",
    ),
    Mutant(
        "unrelated-statement-halts",
        """
        @ judge
        - ddl.kind is DdlKind.UNRELATED
        + False
        """,
        "a statement that has nothing to do with the feed halts it",
    ),
    Mutant(
        "stale-tables-after-a-statement",
        """
        @ Pipeline._ddl_applied
        - self._rebind(dict(event.tables))
        """,
        "rows after a statement are lined up with the table before it",
        case="a stale plan after DDL (Vitess 19535)",
    ),
    Mutant(
        "stale-bindings-after-a-statement",
        """
        @ RelationCache.retable
        - self._known.clear()
        """,
        "a shape that comes again after a statement is lined up with the table before it",
        case="a stale plan after DDL (Vitess 19535)",
    ),
)

ROOM = (
    Mutant(
        "planned-without-end",
        """
        @ WindowPlanner._crowded
        + return False
        """,
        "rows are planned however many are not committed",
    ),
    Mutant(
        "never-full",
        """
        @ WindowPlanner.backpressured
        - heavy or rows >= self._options.max_in_flight_rows
        + False
        """,
        "the log is never told to wait",
    ),
    Mutant(
        "full-with-half-a-transaction",
        """
        @ WindowPlanner.plan
        - self.backpressured and not self._batches.busy
        + False
        """,
        "the log waits for room while the room waits for a transaction's end",
    ),
    Mutant(
        "room-not-given-back",
        """
        @ LogBuffer.window
        - self.rows -= rows
        """,
        "rows count as waiting though they were planned",
    ),
    Mutant(
        "pause-ignored",
        """
        @ Pipeline.advance
        - not self.paused
        + True
        """,
        "a paused feed plans new rows",
    ),
)
