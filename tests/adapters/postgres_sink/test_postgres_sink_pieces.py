"""The PostgreSQL sink against a real server: a transaction that is applied in pieces."""

import asyncio
from typing import Any

import asyncpg
import msgspec

from tests.adapters.postgres_sink.sink_target import ACCOUNT, START, Target, account, failed, opened
from tidelock.adapters.postgres.target.sink import PostgresSink
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.protocol.effects import ApplyBatch, ApplyPiece, CommitBatch, EffectId, RollbackBatch
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, BatchReady
from tidelock.engine.protocol.steps import DeleteRows, ParkedRow, Step, UpsertRows


class Pieces:
    """A transaction that is open at the target."""

    def __init__(self, target: Target, sink: PostgresSink, opening: ApplyBatch) -> None:
        self.id = opening.id
        self._target = target
        self._sink = sink

    @classmethod
    async def open(cls, target: Target, sink: PostgresSink, epoch: int) -> "Pieces":
        opening = target.batch(epoch, held=True, covered=b"nothing yet")
        assert await sink.apply(opening) == BatchReady(opening.id)
        return cls(target, sink, opening)

    async def send(self, *steps: Step, **more: Any) -> BatchReady | BatchFailed:
        self._target.counter += 1
        id_ = EffectId(self.id.epoch, self._target.counter)
        answer = await self._sink.apply_piece(ApplyPiece(id_, self.id, 0, list(steps), 1, **more))
        assert answer.id == id_
        return answer

    async def ready(self, *steps: Step, **more: Any) -> None:
        answer = await self.send(*steps, **more)
        assert isinstance(answer, BatchReady), answer

    async def failed(self, *steps: Step, **more: Any) -> Any:
        answer = await self.send(*steps, **more)
        assert isinstance(answer, BatchFailed), answer
        return answer.failure


PARKED = ParkedRow("0-1", 1, 1, "public", "account", "id=2", "too long", b"change")


async def test_pieces_are_seen_together_with_their_commit_and_the_receipt_says_what_the_last_one_told(
    target: Target,
) -> None:
    sink, table, epoch = await opened(target)
    pieces = await Pieces.open(target, sink, epoch)
    await pieces.ready(UpsertRows(table, [account(1, "a"), account(2, "b")], True))
    await pieces.ready(UpsertRows(table, [account(1, "a", "later")], False), parked=(PARKED,))
    await pieces.ready(DeleteRows(table, [(2,)]), UpsertRows(table, [account(3, "b")], True))
    await pieces.ready(covered=b"all of it")
    assert target.rows() == [] and target.sql("SELECT * FROM tidelock.tidelock_parked") == []
    assert await sink.commit(CommitBatch(pieces.id)) == BatchCommitted(pieces.id)
    assert target.rows("id, email, payload") == [(1, "a", "later"), (3, "b", "x")]
    assert target.sql("SELECT covered FROM tidelock.tidelock_progress") == [(b"all of it",)]
    assert target.sql("SELECT ordinal FROM tidelock.tidelock_parked") == [(1,)]


async def test_a_piece_with_a_bad_row_leaves_the_transaction_as_it_was(target: Target) -> None:
    sink, table, epoch = await opened(target)
    pieces = await Pieces.open(target, sink, epoch)
    await pieces.ready(UpsertRows(table, [account(1, "a")], True))
    for bad in (account(2, "x" * 65), account(2, "user3"), account(2, "nul \0")):
        steps = DeleteRows(table, [(1,)]), UpsertRows(table, [account(3), bad], True)
        failure = await pieces.failed(*steps, parked=(PARKED,))
        assert failure.kind is ErrorKind.ROW, failure
    await pieces.ready(UpsertRows(table, [account(4)], True))
    assert await sink.commit(CommitBatch(pieces.id)) == BatchCommitted(pieces.id)
    assert target.rows() == [(1, "a"), (4, "user4")]
    assert target.sql("SELECT * FROM tidelock.tidelock_parked") == []


async def test_a_piece_that_is_told_as_fresh_and_is_not_is_upserted_in_its_place(target: Target) -> None:
    sink, table, epoch = await opened(target)
    target.sql("INSERT INTO account (id, email) VALUES (2, 'old')")
    pieces = await Pieces.open(target, sink, epoch)
    await pieces.ready(UpsertRows(table, [account(1, "a")], True))
    await pieces.ready(UpsertRows(table, [account(2, "new")], True))
    await sink.commit(CommitBatch(pieces.id))
    assert target.rows("id, payload") == [(1, "x"), (2, "x")]


async def test_a_constraint_that_may_wait_is_looked_at_with_its_piece(target: Target) -> None:
    """Else it would be the COMMIT that fails, and nobody could tell the row."""
    target.sql("ALTER TABLE account DROP CONSTRAINT account_email_key")
    target.sql("ALTER TABLE account ADD UNIQUE (email) DEFERRABLE INITIALLY DEFERRED")
    sink, table, epoch = await opened(target)
    pieces = await Pieces.open(target, sink, epoch)
    await pieces.ready(UpsertRows(table, [account(1, "a")], True))
    assert (await pieces.failed(UpsertRows(table, [account(2, "a")], True))).kind is ErrorKind.ROW
    await pieces.ready(UpsertRows(table, [account(3, "b")], True))
    assert await sink.commit(CommitBatch(pieces.id)) == BatchCommitted(pieces.id)
    assert target.rows() == [(1, "a"), (3, "b")]


async def test_a_lost_connection_is_told_and_nothing_is_left_of_any_piece(target: Target) -> None:
    sink, table, epoch = await opened(target)
    pieces = await Pieces.open(target, sink, epoch)
    await pieces.ready(UpsertRows(table, [account(1, "a")], True))
    session = sink._lanes[0].session
    assert session is not None
    target.sql("SELECT pg_terminate_backend($1)", session._pid)
    assert (await pieces.failed(UpsertRows(table, [account(2)], True))).kind is ErrorKind.TRANSIENT
    assert (await pieces.failed(UpsertRows(table, [account(3)], True))).kind is ErrorKind.TRANSIENT
    again = target.batch(epoch, held=True)
    assert await sink.apply(msgspec.structs.replace(again, id=pieces.id)) == BatchReady(pieces.id)
    await sink.rollback(RollbackBatch(pieces.id))
    assert target.rows() == []


async def test_a_lock_that_is_let_go_in_time_costs_a_piece_and_not_the_transaction(target: Target) -> None:
    sink, table, epoch = await opened(target, lock_timeout_seconds=0.5)
    pieces = await Pieces.open(target, sink, epoch)
    await pieces.ready(UpsertRows(table, [account(1, "a")], True))
    other = await asyncpg.connect(target.server.url(target.database), ssl=False)
    transaction = other.transaction()
    await transaction.start()
    await other.execute("INSERT INTO account (id, email) VALUES (9, 'mine')")
    timed_out, session = asyncio.Event(), sink._lanes[0].session
    assert session is not None
    back_to = session.back_to

    async def once_more(savepoint: str) -> bool:
        timed_out.set()
        await rolled_back.wait()
        return await back_to(savepoint)

    rolled_back = asyncio.Event()
    session.back_to = once_more  # type: ignore[method-assign]
    waiting = asyncio.create_task(pieces.send(UpsertRows(table, [account(2, "mine")], True)))
    await timed_out.wait()
    await transaction.rollback()
    rolled_back.set()
    await other.close()
    assert isinstance(await waiting, BatchReady)
    await sink.commit(CommitBatch(pieces.id))
    assert target.rows() == [(1, "a"), (2, "mine")]


async def test_a_takeover_ends_a_transaction_in_pieces(target: Target) -> None:
    old, table, epoch = await opened(target)
    pieces = await Pieces.open(target, old, epoch)
    await pieces.ready(UpsertRows(table, [account(1, "a")], True))
    taken = await target.sink(lock_timeout_seconds=0.3).take_over([ACCOUNT], START)
    assert taken.receipts == ()
    assert (await pieces.failed(UpsertRows(table, [account(2)], True))).kind is ErrorKind.TRANSIENT
    asked = msgspec.structs.replace(target.batch(epoch, held=True), id=pieces.id)
    assert (await failed(old, asked)).kind is ErrorKind.FENCED
    assert target.rows() == []
