"""Parked rows on their way back: requests of an operator, orphans, and what a new owner finds."""

from tests.engine.world import ACCOUNT, change
from tidelock.engine.batch.merge import Ranks
from tidelock.engine.batch.parked_retry import ParkedRetry
from tidelock.engine.batch.parked_rows import parked_row
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.records import TableName
from tidelock.engine.protocol.effects import ApplyBatch, ApplyEffect, EffectId
from tidelock.engine.protocol.events import ParkedKey

(ACCOUNTS,) = ACCOUNT.bindings()


def stored(number: int, key: int, wish: str = "", *, untried: bool = False) -> ParkedKey:
    one = change(ACCOUNTS, None, (key, None, 0), number=number)
    row = parked_row(one, "refused", EffectId(1, 0), number, untried=untried)
    return ParkedKey(row.source, row.number, row.ordinal, TableName(row.schema, row.table), row.change, wish)


class Owner:
    """The parked rows of one owner, and what it sends."""

    def __init__(self, *parked: ParkedKey) -> None:
        self.sent: list[ApplyEffect] = []
        self.ids = 0
        self.retry = ParkedRetry(self.next_id, self.sent.append)
        self.retry.retable(ACCOUNT.tables, Ranks(ACCOUNT.tables, {}))
        self.retry.adopt(parked)

    def next_id(self) -> EffectId:
        self.ids += 1
        return EffectId(2, self.ids)

    def send(self, now: int = 0) -> ApplyBatch:
        self.retry.send(now)
        batch = self.sent[-1]
        assert isinstance(batch, ApplyBatch)
        return batch


def test_a_new_owner_carries_out_requests_and_tries_the_untried() -> None:
    owner = Owner(stored(1, 1), stored(2, 2, "retry"), stored(3, 3, untried=True))
    assert len(owner.retry.rows) == 3 and owner.retry.requested
    first = owner.send()
    assert owner.retry.under_way and owner.retry.answers(first.id)
    assert len(first.unparked) == 2, "those of a table go in one batch"
    owner.retry.committed()
    assert len(owner.retry.rows) == 1 and not owner.retry.requested


def test_what_is_not_parked_any_more_is_not_retried() -> None:
    owner = Owner(stored(1, 1))
    owner.retry.request([stored(9, 9, "retry")])
    assert not owner.retry.requested
    owner.retry.emptied([ACCOUNTS.name])
    assert not len(owner.retry.rows)
    owner.retry.request([stored(1, 1, "retry")])
    assert not owner.retry.requested


def test_counter_example_4_a_retry_that_may_have_committed_is_sent_again_as_it_was() -> None:
    owner = Owner(stored(1, 1, "retry"))
    first = owner.send()
    owner.retry.failed(Failure(ErrorKind.IN_DOUBT, "the connection was lost"), 1_000)
    assert owner.retry.hindrance is not None
    owner.retry.send(1_001)
    assert owner.sent == [first], "not at once"
    assert owner.send(10**9).id == first.id
    owner.retry.committed()
    assert owner.retry.hindrance is None


def test_a_row_that_fails_again_stays_with_its_new_error() -> None:
    owner = Owner(stored(1, 1, "retry"))
    owner.send()
    owner.retry.failed(Failure(ErrorKind.ROW, "still too long"), 0)
    refusal = owner.sent[-1]
    assert isinstance(refusal, ApplyBatch) and [row.error for row in refusal.parked] == ["still too long"]
    assert len(owner.retry.rows) == 1
