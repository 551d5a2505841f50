"""Parked children are tried again once their parent is committed: who waits for whom, and what a machine does."""

from msgspec.structs import replace

from tidelock.engine.apply.machine import ApplyMachine, Options
from tidelock.engine.batch.orphans import Orphans
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import RowChange, Transaction
from tidelock.engine.model.schema import Binding
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import ApplyBatch
from tidelock.engine.protocol.events import (
    ApplyEvent,
    BatchCommitted,
    BatchFailed,
    LogArrived,
    ParkedKey,
    ParkedWished,
    TakenOver,
)
from tidelock.engine.protocol.steps import UpsertRows
from tidelock.simulations.catalogue import CLIENT, ORDER, linked, shape
from tidelock.simulations.scenario import position

TABLES = linked(CLIENT, ORDER)
PARENTS, CHILDREN = (Binding(n, shape(t), TABLES[t.name]) for n, t in enumerate((CLIENT, ORDER)))


def change(binding: Binding, number: int, before: tuple | None, after: tuple | None) -> Change:
    return Change.of(binding, RowChange(0, before, after, 0), Transaction("0-1", number, 0))


def order(number: int, client: str | None) -> tuple[Change, ParkedKey]:
    key = ParkedKey("0-1", number, 0, ORDER.name, b"")
    return change(CHILDREN, number, None, (number, client, None, "x")), key


def waiting(*clients: str | None) -> Orphans:
    orphans = Orphans()
    orphans.retable(TABLES)
    for number, client in enumerate(clients, 1):
        orphans.wait(*order(number, client))
    return orphans


def came(orphans: Orphans, before: str | None, after: str | None) -> list[int]:
    rows = [None if code is None else (9, code, "x") for code in (before, after)]
    return [number for _, number, _ in orphans.arrived([change(PARENTS, 50, *rows)])]


def test_those_who_name_it_as_the_parent_s_index_compares() -> None:
    orphans = waiting("a", "b", "A", None)
    assert came(orphans, None, "a") == [1, 3]
    assert came(orphans, "z", "B") == [2]
    assert came(orphans, "b", None) == []
    assert came(orphans, None, "c") == []


def test_a_value_that_may_be_any() -> None:
    orphans = waiting("a", "é")
    assert came(orphans, None, "a") == [1, 2]
    assert came(orphans, None, "É") == [1, 2]


def test_nobody_waits_who_is_parked_no_more() -> None:
    orphans = waiting("a", "a")
    orphans.release([("0-1", 1, 0)])
    assert came(orphans, None, "a") == [2]
    orphans.release([("0-1", 2, 0), ("0-1", 2, 0)])
    assert not orphans and not orphans.rows


class Feed:
    """One lane; `order` refers to `client`."""

    def __init__(self) -> None:
        self.machine = ApplyMachine(Options(lanes=1, checkpoint_us=10**12))
        self.machine.step(0, [TakenOver(1, position(0), tables=linked(CLIENT, ORDER))])
        self.number = 0

    def insert(self, binding: Binding, row: tuple) -> list[ApplyBatch]:
        self.number += 1
        batch = LogBatch(
            position(self.number - 1), position(self.number), (Transaction("0-1", self.number, 0),),
            (RowChange(binding.number, None, row, 0),), {binding.number: binding.shape}, resent=self.number == 1,
        )  # fmt: skip
        return self.take(LogArrived([batch]))

    def take(self, event: ApplyEvent) -> list[ApplyBatch]:
        return [effect for effect in self.machine.step(self.number, [event]) if isinstance(effect, ApplyBatch)]

    def orphan(self) -> None:
        (batch,) = self.insert(CHILDREN, (1, "a", None, "x"))
        (parking,) = self.take(BatchFailed(batch.id, Failure(ErrorKind.ROW, "no parent", "23503")))
        assert len(parking.parked) == 1
        assert self.take(BatchCommitted(parking.id)) == []


def test_a_parent_brings_its_child_back() -> None:
    feed = Feed()
    feed.orphan()
    (parent,) = feed.insert(PARENTS, (7, "A", "x"))
    (again,) = feed.take(BatchCommitted(parent.id))
    assert again.unparked == (("0-1", 1, 0),)
    assert [step.rows for step in again.steps if isinstance(step, UpsertRows)] == [[(1, "a", None, "x")]]
    assert feed.take(BatchCommitted(again.id)) == []
    assert not feed.machine.batches.parked_rows


def test_another_parent_does_not_and_one_that_is_refused_waits_on() -> None:
    feed = Feed()
    feed.orphan()
    (parent,) = feed.insert(PARENTS, (7, "b", "x"))
    assert feed.take(BatchCommitted(parent.id)) == []
    (parent,) = feed.insert(PARENTS, (8, "a", "x"))
    (again,) = feed.take(BatchCommitted(parent.id))
    (refused,) = feed.take(BatchFailed(again.id, Failure(ErrorKind.ROW, "no other parent", "23503")))
    assert (refused.steps, len(refused.parked)) == ([], 1)
    assert feed.take(BatchCommitted(refused.id)) == []
    (parent,) = feed.insert(PARENTS, (9, "a", "x"))
    assert len(feed.take(BatchCommitted(parent.id))) == 1


def test_a_row_that_is_refused_for_another_reason_does_not_wait() -> None:
    feed = Feed()
    (batch,) = feed.insert(CHILDREN, (1, "a", None, "x"))
    (parking,) = feed.take(BatchFailed(batch.id, Failure(ErrorKind.ROW, "too long", "22001")))
    feed.take(BatchCommitted(parking.id))
    (parent,) = feed.insert(PARENTS, (7, "a", "x"))
    assert feed.take(BatchCommitted(parent.id)) == []


def test_a_new_owner_tries_them_once() -> None:
    feed = Feed()
    (batch,) = feed.insert(CHILDREN, (1, "a", None, "x"))
    (parking,) = feed.take(BatchFailed(batch.id, Failure(ErrorKind.ROW, "no parent", "23503")))
    (row,) = parking.parked
    parked = ParkedKey(row.source, row.number, row.ordinal, ORDER.name, row.change)
    owner = ApplyMachine(Options(lanes=1, checkpoint_us=10**12))
    effects = owner.step(0, [TakenOver(2, position(1), tables=linked(CLIENT, ORDER), parked=(parked,))])
    (again,) = (effect for effect in effects if isinstance(effect, ApplyBatch))
    assert again.unparked == (("0-1", 1, 0),)


def test_an_operator_s_skip_comes_before_a_trial_of_our_own() -> None:
    feed = Feed()
    (batch,) = feed.insert(CHILDREN, (1, "a", None, "x"))
    (parking,) = feed.take(BatchFailed(batch.id, Failure(ErrorKind.ROW, "no parent", "23503")))
    (row,) = parking.parked
    parked = ParkedKey(row.source, row.number, row.ordinal, ORDER.name, row.change)
    owner = ApplyMachine(Options(lanes=1, checkpoint_us=10**12))
    taken = TakenOver(2, position(1), tables=linked(CLIENT, ORDER), parked=(parked,))
    effects = owner.step(0, [taken, ParkedWished((replace(parked, wish="skip"),))])
    (skipped,) = (effect for effect in effects if isinstance(effect, ApplyBatch))
    assert (skipped.steps, skipped.unparked) == ([], (("0-1", 1, 0),))
