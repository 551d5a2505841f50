"""Bugs at the log's end of the feed: order, resends, shapes, statements that change the schema, how much is taken."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

ORDER = (
    Mutant(
        "duplicates-applied",
        "tidelock.engine.log.chain",
        """
        - return Verdict.DUPLICATE if batch.last.order <= self.last.order else Verdict.GAP
        + return Verdict.NEXT if batch.last.order <= self.last.order else Verdict.GAP
        """,
        "a batch of the log that comes twice is applied twice",
    ),
    Mutant(
        "gap-ignored",
        "tidelock.engine.log.chain",
        """
        - return Verdict.DUPLICATE if batch.last.order <= self.last.order else Verdict.GAP
        + return Verdict.DUPLICATE if batch.last.order <= self.last.order else self._take(batch)
        """,
        "the feed goes on over a gap",
        case="rows lost without an error (airbyte 85783)",
    ),
    Mutant(
        "replaced-reader-heard",
        "tidelock.engine.log.chain",
        """
        - if reader != self.reader:
        -     return Verdict.LATE
        """,
        "batches of a reader that was replaced are taken for its successor's",
    ),
    Mutant(
        "lost-resend-not-asked-again",
        "tidelock.engine.log.chain",
        """
        - return self._take(batch) if batch.resent and _same_place(batch.prev, self.last) else Verdict.GAP
        + return self._take(batch) if batch.resent and _same_place(batch.prev, self.last) else Verdict.LATE
        """,
        "a resend whose answer is lost is waited for in vain",
    ),
    Mutant(
        "resent-from-anywhere",
        "tidelock.engine.log.chain",
        """
        - return self._take(batch) if batch.resent and _same_place(batch.prev, self.last) else Verdict.GAP
        + return self._take(batch) if batch.resent else Verdict.GAP
        """,
        "a resent batch is taken wherever it begins",
        case="log purged (airbyte 6425)",
    ),
    Mutant(
        "log-that-goes-back-taken",
        "tidelock.engine.log.chain",
        """
        - return self._take(batch) if batch.last.order >= batch.prev.order else Verdict.GAP
        + return self._take(batch)
        """,
        "a log that was reset is read on as if it were the old one",
        case="log reset (airbyte 85783)",
    ),
    Mutant(
        "resend-too-early",
        "tidelock.engine.apply.machine",
        """
        - behind = self._chain.last
        + behind = self.watermark.position

        - self._effects.append(RequestResend(*self._chain.expect_resend(), self._fence.furthest(behind)))
        + self._effects.append(RequestResend(behind, self._chain.expect_resend()[1], self._fence.furthest(behind)))
        """,
        "a resend is asked from what is committed, though more is taken",
    ),
    Mutant(
        "first-gap-halts",
        "tidelock.engine.apply.machine",
        """
        - case Verdict.GAP if self._gap_at == self._chain.last:
        + case Verdict.GAP if True:
        """,
        "the feed halts at a gap without asking for a resend",
    ),
    Mutant(
        "gap-never-halts",
        "tidelock.engine.apply.machine",
        """
        - case Verdict.GAP if self._gap_at == self._chain.last:
        + case Verdict.GAP if False:
        """,
        "a gap that no resend closes is asked for again and again",
        case="log purged (airbyte 6425)",
    ),
    Mutant(
        "lost-log-asked-for-again",
        "tidelock.engine.apply.machine",
        """
        - if event.retryable:
        + if True:
        """,
        "a log that cannot be read on is asked for again and again",
        case="log purged (airbyte 6425)",
    ),
    Mutant(
        "shape-number-of-an-old-reader",
        "tidelock.engine.log.relation_cache",
        """
        - for number in batch.shapes:
        -     self._bindings.pop(number, None)
        """,
        "a new reader's numbers of tables are read as the old reader's",
    ),
    Mutant(
        "positions-of-rows-equal",
        "tidelock.engine.model.records",
        """
        - return (int(self.file.rpartition(".")[2] or 0), self.offset, self.rows)
        + return (int(self.file.rpartition(".")[2] or 0), self.offset, 0)
        """,
        "all places inside a transaction are one",
        case="events with the same position lost at a restart (debezium 7531)",
    ),
    Mutant(
        "log-files-as-text",
        "tidelock.engine.model.records",
        """
        - return (int(self.file.rpartition(".")[2] or 0), self.offset, self.rows)
        + return (self.file.rpartition(".")[2], self.offset, self.rows)
        """,
        "log file 1000000 comes before 999999",
        case="rotation",
    ),
)

BARRIER = (
    Mutant(
        "barrier-does-not-wait",
        "tidelock.engine.apply.machine",
        """
        - if self._barrier.draining and not self.batches.busy:
        + if self._barrier.draining:
        """,
        "a statement runs beside rows that are before it",
    ),
    Mutant(
        "barrier-lets-wishes-in",
        "tidelock.engine.apply.machine",
        """
        - self.batches.send(wishes=self._barrier.ddl is None and not self.copying.writing)
        + self.batches.send(wishes=True)
        """,
        "a retry starts while a statement runs",
    ),
    Mutant(
        "barrier-open-before-saved",
        "tidelock.engine.apply.ddl_barrier",
        """
        - self.sealing = True
        - return self.end
        + end, self.ddl, self.end, self._applying = self.end, None, None, None
        + return end
        """,
        "rows flow before a checkpoint is behind the statement, and a restart runs it again",
    ),
    Mutant(
        "statement-not-run-again",
        "tidelock.engine.apply.machine",
        """
        - self._barrier.again()
        """,
        "a statement that failed for no fault of its own is waited for in vain",
    ),
    Mutant(
        "any-answer-ends-a-statement",
        "tidelock.engine.apply.ddl_barrier",
        """
        - return self._applying == id_ and not self.sealing
        + return self.ddl is not None
        """,
        "an answer that comes twice ends the next statement",
        case="answers repeated by the network",
    ),
    Mutant(
        "all-statements-passed",
        "tidelock.engine.apply.ddl_barrier",
        """
        - if ddl.kind is DdlKind.UNRELATED or passed == (ddl.source, ddl.number):
        + if ddl.kind is DdlKind.UNRELATED or passed is not None:
        """,
        "once an operator passed one statement, all pass",
    ),
    Mutant(
        "unknown-statement-passed",
        "tidelock.engine.apply.ddl_barrier",
        """
        - return Passage.APPLY if ddl.kind in _APPLIED else Passage.HALT
        + return Passage.APPLY if ddl.kind in _APPLIED else Passage.PASS
        """,
        "a statement that cannot be applied is passed over in silence",
    ),
    Mutant(
        "unrelated-statement-halts",
        "tidelock.engine.apply.ddl_barrier",
        """
        - if ddl.kind is DdlKind.UNRELATED or passed == (ddl.source, ddl.number):
        + if passed == (ddl.source, ddl.number):
        """,
        "a statement that has nothing to do with the feed halts it",
    ),
    Mutant(
        "stale-tables-after-a-statement",
        "tidelock.engine.apply.machine",
        """
        - self._tables = dict(event.tables)
        - self._rebind()
        """,
        "rows after a statement are lined up with the table before it",
        case="a stale plan after DDL (Vitess 19535)",
    ),
    Mutant(
        "stale-bindings-after-a-statement",
        "tidelock.engine.log.relation_cache",
        """
        - self._known.clear()
        """,
        "a shape that comes again after a statement is lined up with the table before it",
        case="a stale plan after DDL (Vitess 19535)",
    ),
)

ROOM = (
    Mutant(
        "planned-without-end",
        "tidelock.engine.apply.machine",
        """
        - return self.batches.rows > self.options.room_rows // 2
        + return False
        """,
        "rows are planned however many are not committed",
    ),
    Mutant(
        "never-full",
        "tidelock.engine.apply.machine",
        """
        - return heavy or rows >= self.options.room_rows
        + return False
        """,
        "the log is never told to wait",
    ),
    Mutant(
        "full-with-half-a-transaction",
        "tidelock.engine.apply.machine",
        """
        - if self.full and not self.batches.busy:
        + if False:
        """,
        "the log waits for room while the room waits for a transaction's end",
    ),
    Mutant(
        "room-not-given-back",
        "tidelock.engine.log.log_buffer",
        """
        - self.rows -= rows
        """,
        "rows count as waiting though they were planned",
    ),
    Mutant(
        "pause-ignored",
        "tidelock.engine.apply.machine",
        """
        - if not self.paused and not self.hurried:
        + if not self.hurried:
        """,
        "a paused feed plans new rows",
    ),
)
