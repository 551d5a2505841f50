"""The MySQL sink against a real server: a transaction that is applied in pieces."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from tests.adapters.mysql_sink.sink_target import Target, any_table
from tidelock.adapters.mysql.target.session import open_session
from tidelock.adapters.mysql.target.sink import MySqlSink
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.protocol.effects import ApplyPiece, CommitBatch, EffectId, RollbackBatch
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, BatchReady, BatchRolledBack
from tidelock.engine.protocol.steps import DeleteRows, ParkedRow, Step, UpsertRows


class Pieces:
    """A transaction that is open at the target."""

    def __init__(self, target: Target, sink: MySqlSink, id_: EffectId) -> None:
        self.id = id_
        self._target = target
        self._sink = sink

    @classmethod
    async def open(cls, target: Target, sink: MySqlSink) -> Pieces:
        opening = target.batch(sink, held=True)
        assert await sink.apply(opening) == BatchReady(opening.id)
        return cls(target, sink, opening.id)

    async def send(self, *steps: Step, **more: Any) -> BatchReady | BatchFailed:
        id_ = EffectId(self.id.epoch, next(self._target.counters))
        answer = await self._sink.apply_piece(ApplyPiece(id_, self.id, 0, list(steps), 1, **more))
        assert answer.id == id_
        return answer

    async def ready(self, *steps: Step, **more: Any) -> None:
        answer = await self.send(*steps, **more)
        assert isinstance(answer, BatchReady), answer

    async def failed(self, *steps: Step, **more: Any) -> ErrorKind:
        answer = await self.send(*steps, **more)
        assert isinstance(answer, BatchFailed), answer
        return answer.failure.kind


ASIDE = ParkedRow("0-1", 1, 1, "shop", "t", "id=2", "too long", b"change")


async def test_pieces_are_seen_together_with_their_commit_and_the_receipt_says_what_the_last_one_told(
    target: Target,
) -> None:
    sink, table = await any_table(target)
    pieces = await Pieces.open(target, sink)
    await pieces.ready(UpsertRows(table, [(1, "a", 1), (2, "b", 1)], True))
    await pieces.ready(UpsertRows(table, [(1, "c", 2)], False), parked=(ASIDE,))
    await pieces.ready(DeleteRows(table, [(2,)]), UpsertRows(table, [(3, "b", 3)], True))
    await pieces.ready(covered=b"all of it")
    assert target.rows() == [] and target.book("parked") == []
    assert await sink.commit(CommitBatch(pieces.id)) == BatchCommitted(pieces.id)
    assert target.rows() == [(1, "c", 2), (3, "b", 3)]
    assert [row[0] for row in target.book("progress", "covered")] == [b"all of it"]
    assert [row[0] for row in target.book("parked", "ordinal")] == [1]


async def test_a_piece_with_a_bad_row_leaves_the_transaction_as_it_was(target: Target) -> None:
    sink, table = await any_table(target)
    pieces = await Pieces.open(target, sink)
    assert await pieces.failed(UpsertRows(table, [(9, "x" * 21, 1)], True)) is ErrorKind.ROW
    await pieces.ready(UpsertRows(table, [(1, "a", 1)], True))
    for bad in ((2, "x" * 21, 1), (2, "b", "no number")):
        steps = DeleteRows(table, [(1,)]), UpsertRows(table, [(3, "c", 1)], True), UpsertRows(table, [bad], True)
        assert await pieces.failed(*steps, parked=(ASIDE,)) is ErrorKind.ROW
    await pieces.ready(UpsertRows(table, [(4, "d", 1)], True))
    assert await sink.commit(CommitBatch(pieces.id)) == BatchCommitted(pieces.id)
    assert target.rows() == [(1, "a", 1), (4, "d", 1)] and target.book("parked") == []


async def test_a_deadlock_ends_all_pieces(target: Target) -> None:
    """The server rolls the whole transaction back: what came after it would be in another one, without a receipt."""
    sink, table = await any_table(target)
    await target.committed(sink, UpsertRows(table, [(1, "a", 1), (2, "b", 1)], True), lane=1)
    pieces = await Pieces.open(target, sink)
    await pieces.ready(UpsertRows(table, [(1, "a", 2)], False))
    rival = await open_session(sink._endpoint, 20)
    await rival.run([f"UPDATE `{target.database}`.t SET x = 9 WHERE id = 2".encode()])
    many = ",".join(f"({n},'r{n}',1)" for n in range(100, 400))
    await rival.run([f"INSERT INTO `{target.database}`.t VALUES {many}".encode()])  # the lighter one is rolled back

    async def cross_and_leave() -> None:
        await rival.run([f"UPDATE `{target.database}`.t SET x = 9 WHERE id = 1".encode()])
        await rival.rollback()
        await rival.close()

    crossing = asyncio.create_task(cross_and_leave())
    assert await pieces.failed(UpsertRows(table, [(2, "b", 2)], False)) is ErrorKind.TRANSIENT
    await crossing
    assert await pieces.failed(UpsertRows(table, [(3, "c", 1)], True)) is ErrorKind.TRANSIENT
    assert target.rows() == [(1, "a", 1), (2, "b", 1)]


async def test_a_session_that_is_killed_leaves_nothing_of_any_piece(target: Target) -> None:
    sink, table = await any_table(target)
    pieces = await Pieces.open(target, sink)
    await pieces.ready(UpsertRows(table, [(1, "a", 1)], True))
    assert sink._lanes[0].session is not None
    target.server.execute(f"KILL {sink._lanes[0].session.number}")
    assert await pieces.failed(UpsertRows(table, [(2, "b", 1)], True)) is ErrorKind.TRANSIENT
    asked = msgspec.structs.replace(target.batch(sink, held=True), id=pieces.id)
    assert await sink.apply(asked) == BatchReady(pieces.id)
    assert isinstance(await sink.rollback(RollbackBatch(pieces.id)), BatchRolledBack)
    assert target.rows() == []


async def test_a_takeover_ends_a_transaction_in_pieces(target: Target) -> None:
    zombie, table = await any_table(target)
    pieces = await Pieces.open(target, zombie)
    await pieces.ready(UpsertRows(table, [(1, "a", 1)], True))
    taken = await target.own(target.sink(lock_timeout_seconds=1), "t")
    assert taken.receipts == ()
    assert await pieces.failed(UpsertRows(table, [(2, "b", 1)], True)) is ErrorKind.TRANSIENT
    asked = await zombie.apply(msgspec.structs.replace(target.batch(zombie, held=True), id=pieces.id))
    assert isinstance(asked, BatchFailed) and asked.failure.kind is ErrorKind.FENCED
    assert target.rows() == []
