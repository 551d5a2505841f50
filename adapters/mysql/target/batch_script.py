"""One batch's statements through one session: few packets, and what to do where a row is or is not there.

Statements wait in the outbox until an answer is needed or the batch ends, then travel in one packet; COMMIT goes with
the last.  A batch is two round trips: its receipt, the fence of all that follows, goes with the updates by key, whose
answers are needed; the rest goes with COMMIT, which is never sent before the receipt is known to stand.

Answers that change what happens next:
- no row for the receipt: a newer owner has the feed; a duplicate: this batch was committed before;
- a plain insert that finds a duplicate (error 1062) is undone by the server as a whole, and its rows are then
  overwritten by key; a duplicate of another unique value comes up again there, and fails the batch;
- an update by key that matches fewer rows than it names: the others are looked up and inserted; where rows hold
  `UNKNOWN` they cannot be, and the batch fails.
MariaDB does not join a key in latin1, say, to texts beyond ASCII (error 1267): such rows are updated one by one.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, assert_never

import msgspec

from tidelock.adapters.mysql.target.checked_script import CheckedScript
from tidelock.adapters.mysql.target.checked_statements import CheckedStatements
from tidelock.adapters.mysql.target.failures import DUPLICATE, MIXED_COLLATIONS, code_of
from tidelock.adapters.mysql.target.fencing import Fenced
from tidelock.adapters.mysql.target.literals import Unwritable
from tidelock.adapters.mysql.target.session import Answer, StatementFailed, TargetSession
from tidelock.adapters.mysql.target.stamped_statements import StampedStatements
from tidelock.adapters.mysql.target.statements import TableStatements
from tidelock.adapters.target.displaced import Displaced
from tidelock.engine.model.errors import MISSING
from tidelock.engine.model.records import UNKNOWN, Row
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.steps import DeleteRows, Step, UpdateRows, UpsertRows

COMMIT = b"COMMIT"


class BatchError(Exception):
    """A statement on `table` failed with `error`; nothing after it ran, except where that is in doubt.

    `commit_sent`: COMMIT was in the packet; `commit_answered`: the error is the answer to COMMIT itself.
    """

    def __init__(self, failed: StatementFailed, packet: Sequence[_Waiting]) -> None:
        culprit = packet[min(failed.index, len(packet) - 1)]
        super().__init__(str(failed.error))
        self.error = failed.error
        self.table = culprit.table
        self.sql = culprit.sql
        self.commit_sent = packet[-1].sql == COMMIT
        self.commit_answered = culprit.sql == COMMIT


class CommittedBefore(Exception):
    """The batch's receipt is there."""


class _Waiting(msgspec.Struct):
    """`instead`: of a plain insert, what is done if one of its rows is there."""

    sql: bytes
    table: str
    instead: Callable[[], Awaitable[None]] | None = None


class BatchScript:
    """Write steps, then `commit` or leave it open.

    `replaced`: rows that were deleted because others are to have their unique values, for people.  `record`: makes the
    statement that records one that an arbiter's row displaced.

    Raises BatchError, literals.Unwritable, and for its `receipt` Fenced and CommittedBefore.
    """

    def __init__(
        self,
        session: TargetSession,
        statements: Callable[[Binding], TableStatements],
        receipt: bytes = b"",
        checked: Callable[[Binding], CheckedStatements] | None = None,
        record: Callable[[Displaced], bytes] | None = None,
        before: bytes = b"",
    ) -> None:
        """`checked`: the statements of steps that look at rows first (`Step.checks`), where such may come.  `before`: a
        statement that goes ahead of the receipt."""
        self.replaced: list[str] = []
        self._session = session
        self._statements = statements
        self._checked = checked
        self._record = record
        self._receipt = receipt
        self._before = [before] if before else []
        self._waiting: list[_Waiting] = [_Waiting(receipt, "tidelock_progress")] if receipt else []

    async def run(self, steps: Sequence[Step]) -> None:
        """Write all steps of a batch, in their order.

        But updates by key, whose answers decide what else is to be done, come before all others where that makes no
        difference.
        """
        free = _is_free(steps)
        missing = [await self._update_first(step) for step in steps if free and self._by_update(step)]
        for step in steps:
            if not (free and self._by_update(step)):
                await self.write(step)
        for statements, rows in missing:
            if rows:
                self.insert(statements, rows, None)

    def _by_update(self, step: Step) -> bool:
        plain = isinstance(step, UpsertRows) and not step.fresh and not step.checks
        return plain and not self._statements(step.table).sole_unique

    async def _update_first(self, step: Step) -> tuple[TableStatements, Sequence[Row]]:
        """Returns the rows that are not there."""
        assert isinstance(step, UpsertRows)
        statements = self._statements(step.table)
        if not statements.table.key:
            return statements, step.rows
        with _named(statements):
            return statements, await self._update_by_key(statements, step.rows)

    async def write(self, step: Step) -> None:
        """Write one step, or let it wait for the next packet."""
        statements = self._statements(step.table)
        with _named(statements):
            if step.checks:
                assert self._checked is not None, "such steps come in batches alone"
                await self._write_checked(self._checked(step.table), step)
            else:
                await self.write_plainly(step)

    async def _write_checked(self, statements: CheckedStatements, step: Step) -> None:
        if isinstance(step, UpsertRows) and step.stamp is not None:
            assert isinstance(statements, StampedStatements), "a feed with stamps has no arbiter"
            self._add(statements, statements.stamped(step.rows, step.stamp))
        else:
            await CheckedScript(self, statements).write(step)

    async def write_plainly(self, step: Step) -> None:
        """Write one step whatever the target's rows are, or let it wait for the next packet."""
        statements = self._statements(step.table)
        match step:
            case DeleteRows():
                self._add(statements, statements.delete(step.keys))
            case UpsertRows():
                await self._upsert(statements, step.rows, fresh=step.fresh, absent=step.absent)
            case UpdateRows():
                await self._update(statements, step)
            case _:
                assert_never(step)

    def displace(self, gone: Displaced) -> None:
        """Note a row that has been deleted for another, and let its record wait for the next packet."""
        assert self._record is not None, "such steps come in batches alone"
        self.replaced.append(f"{gone.table}: {gone.key}")
        self.add(self._record(gone), "tidelock_conflicts")

    def add(self, sql: bytes, table: str) -> None:
        """Let a statement on `table` wait for the next packet."""
        self._waiting.append(_Waiting(sql, table))

    async def commit(self) -> None:
        """Send what waits, and COMMIT once the receipt is known to stand."""
        if self._receipt:
            await self._send([self._waiting.pop(0)])
        self._waiting.append(_Waiting(COMMIT, ""))
        await self.flush()

    async def flush(self) -> list[Answer]:
        """Send what waits.  Returns the answers of its last packet's statements."""
        answers: list[Answer] = []
        while self._waiting:
            answers = await self._send(self._packet())
        return answers

    async def _send(self, packet: list[_Waiting]) -> list[Answer]:
        """Returns no answers where rows had to be overwritten instead; what was behind them waits again."""
        receipt, self._receipt = self._receipt, b""
        before, self._before = self._before, []
        try:
            answers = await self._session.run([*before, *(w.sql for w in packet)])
        except StatementFailed as error:
            failed = StatementFailed(error.answers[len(before) :], error.error) if before else error
            if receipt:
                _check_receipt(failed.answers, failed)
            await self._overwrite_instead(packet, failed)
            return []
        if receipt:
            _check_receipt(answers[len(before) :], None)
        return answers[len(before) :]

    def _packet(self) -> list[_Waiting]:
        """Take as many waiting statements as fit into one packet, at least one."""
        size, count = 0, 0
        for waiting in self._waiting:
            size += len(waiting.sql) + 1
            if count and size > self._session.packet_bytes:
                break
            count += 1
        packet, self._waiting = self._waiting[:count], self._waiting[count:]
        return packet

    async def _overwrite_instead(self, packet: list[_Waiting], failed: StatementFailed) -> None:
        """Go on behind a plain insert that met a duplicate; raise any other failure."""
        culprit = packet[min(failed.index, len(packet) - 1)]
        if code_of(failed.error) != DUPLICATE or culprit.instead is None:
            raise BatchError(failed, packet) from failed
        later = packet[failed.index + 1 :] + self._waiting
        self._waiting = []
        await culprit.instead()
        self._waiting += later

    async def _upsert(self, statements: TableStatements, rows: Sequence[Row], *, fresh: bool, absent: bool) -> None:
        if not fresh and statements.table.key:
            await self._overwrite(statements, rows)
        else:
            again = bool(statements.table.key) and not absent
            self.insert(statements, rows, partial(self._overwrite, statements, rows) if again else None)

    def insert(
        self, statements: TableStatements, rows: Sequence[Row], instead: Callable[[], Awaitable[None]] | None
    ) -> None:
        """Let plain inserts wait for the next packet; `instead`: what is done if one of the rows is there."""
        name = str(statements.table.name)
        for sql in statements.insert(rows):
            # Where packets cut the rows, all are overwritten: the same values once more do no harm.
            self._waiting.append(_Waiting(sql, name, instead))

    async def _overwrite(self, statements: TableStatements, rows: Sequence[Row]) -> None:
        """Write rows that may be there by key."""
        if statements.sole_unique:
            self._add(statements, statements.upsert(rows))
        elif missing := await self._update_by_key(statements, rows):
            self.insert(statements, missing, None)

    async def _update_by_key(self, statements: TableStatements, rows: Sequence[Row]) -> list[Row]:
        """Returns the rows that are not there."""
        return await (self._update_joined if len(rows) > 1 else self._update_singly)(statements, rows)

    async def _update_joined(self, statements: TableStatements, rows: Sequence[Row]) -> list[Row]:
        """Update by key; returns the rows that are not there."""
        sent: list[bytes] = []
        try:
            if statements.updates:
                sent += statements.update(rows)
                if await self.matched(statements, sent) == len(rows):
                    return []
            sent = [*statements.present(rows)]
            there = {index for (index,) in await self.rows(statements, sent)}
        except BatchError as error:
            if code_of(error.error) != MIXED_COLLATIONS or error.sql not in sent:
                raise
            return await self._update_singly(statements, rows)
        return [row for index, row in enumerate(rows) if index not in there]

    async def _update_singly(self, statements: TableStatements, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if await self.matched(statements, [statements.update_one(row)]) == 0]

    async def _update(self, statements: TableStatements, step: UpdateRows) -> None:
        if statements.table.partial and not step.moves:
            await self.update_partly(statements, step.rows)
            return
        if statements.table.key and not step.moves:
            last = {statements.table.key_of(row): row for row in step.rows}  # a later image of the row is the whole row
            await self._overwrite(statements, list(last.values()))
            return
        for key, row in zip(step.keys, step.rows, strict=True):
            if await self.matched(statements, [statements.move(key, row)]) == 0:
                _refuse_unknown([row])
                self.insert(statements, [row], None)

    async def update_partly(self, statements: TableStatements, rows: Sequence[Row]) -> None:
        """Update rows by key, no key twice, that may hold UNKNOWN."""
        whole = [row for row in rows if UNKNOWN not in row]
        if whole:
            await self._overwrite(statements, whole)
        by_known = defaultdict[tuple[int, ...], list[Row]](list)
        for row in rows:
            if UNKNOWN in row:
                by_known[statements.known_of(row)].append(row)
        for known, alike in by_known.items():
            if await self._count_known(statements, alike, known) < len(alike):
                _refuse_unknown(alike)

    async def _count_known(self, statements: TableStatements, rows: Sequence[Row], known: tuple[int, ...]) -> int:
        """Set the columns `known` of these rows; returns how many of the rows are there."""
        sent: list[bytes] = []
        try:
            if not known:
                sent += statements.present(rows)
                return len(await self.rows(statements, sent))
            if len(rows) > 1:
                sent += statements.update_known(rows, known)
                return await self.matched(statements, sent)
        except BatchError as error:
            if code_of(error.error) != MIXED_COLLATIONS or error.sql not in sent:
                raise
        return len(rows) - len(await self._update_singly(statements, rows))

    async def missing(self, statements: TableStatements, rows: Sequence[Row]) -> list[Row]:
        """Returns those of the rows that are not there by key."""
        there = {index for (index,) in await self.rows(statements, statements.present(rows))}
        return [row for index, row in enumerate(rows) if index not in there]

    async def matched_by_join(self, statements: TableStatements, sqls: Iterable[bytes]) -> int | None:
        """Send what waits and these; returns how many rows these matched, None where the server cannot join such keys.
        """
        answers = await self._joined(statements, sqls)
        return None if answers is None else sum(a.affected for a in answers)

    async def rows_by_join(
        self, statements: TableStatements, sqls: Iterable[bytes]
    ) -> list[tuple[Any, ...]] | None:
        """Send what waits and these queries; returns the rows of their answers, None where the server cannot join such
        values."""
        answers = await self._joined(statements, sqls)
        return None if answers is None else [row for a in answers for row in a.rows]

    async def _joined(self, statements: TableStatements, sqls: Iterable[bytes]) -> list[Answer] | None:
        sent = list(sqls)
        try:
            return await self._answers(statements, sent)
        except BatchError as error:
            if code_of(error.error) != MIXED_COLLATIONS or error.sql not in sent:
                raise
            return None

    async def matched(self, statements: TableStatements, sqls: Iterable[bytes]) -> int:
        """Send what waits and these; returns how many rows these matched."""
        return sum(a.affected for a in await self._answers(statements, sqls))

    async def rows(self, statements: TableStatements, sqls: Iterable[bytes]) -> list[tuple[Any, ...]]:
        """Send what waits and these queries; returns the rows of their answers."""
        return [row for a in await self._answers(statements, sqls) for row in a.rows]

    async def ask_all(self, queries: Sequence[tuple[TableStatements, bytes]]) -> list[Answer]:
        """Send what waits and these queries together; returns an answer for each."""
        if not queries:
            return []
        if any(waiting.instead for waiting in self._waiting):
            await self.flush()
        before = len(self._waiting)
        for statements, sql in queries:
            self.add(sql, str(statements.table.name))
        answers: list[Answer] = []
        while self._waiting:
            answers += await self._send(self._packet())
        return answers[before:]

    async def _answers(self, statements: TableStatements, sqls: Iterable[bytes]) -> list[Answer]:
        answers = []
        for sql in sqls:
            self.add(sql, str(statements.table.name))
            answers.append((await self.flush())[-1])
        return answers

    def _add(self, statements: TableStatements, sqls: Iterable[bytes]) -> None:
        for sql in sqls:
            self.add(sql, str(statements.table.name))


def _refuse_unknown(rows: Sequence[Row]) -> None:
    """Refuse to insert rows of which not every value is known."""
    if any(UNKNOWN in row for row in rows):
        raise Unwritable(MISSING)


def _is_free(steps: Sequence[Step]) -> bool:
    """Deletes and then upserts is what a merge makes, which names no key twice; and no foreign key ties rows."""
    upserts = [isinstance(step, UpsertRows) for step in steps]
    return (
        upserts == sorted(upserts)
        and not any(isinstance(step, UpdateRows) for step in steps)
        and not any(step.table.target.references or step.table.target.foreign_keys for step in steps)
    )


def _check_receipt(answers: Sequence[Answer], failed: StatementFailed | None) -> None:
    """The first of these answers, or the failure if there is none, is the receipt's."""
    if answers and answers[0].affected != 1:
        raise Fenced
    if not answers and failed is not None and code_of(failed.error) == DUPLICATE:
        raise CommittedBefore from failed


@contextlib.contextmanager
def _named(statements: TableStatements) -> Iterator[None]:
    """A value that cannot be written is told with its table."""
    try:
        yield
    except Unwritable as error:
        raise Unwritable(f"{statements.table.name}: {error}") from None
