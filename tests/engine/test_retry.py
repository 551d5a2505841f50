"""Parked rows wanted back: all of a table in one batch, the same batch under the same id until it is answered."""

from hypothesis import given

from engine.effects import DeleteRows, EffectId, UpsertRows
from engine.events import ParkedKey
from engine.merge import Ranks
from engine.parking import decode_change, parked_row
from engine.receipts import NOTHING
from engine.records import TableName
from engine.retry import Retries
from engine.schema import Binding
from engine.segments import Change
from tests.engine.world import ACCOUNT, FAMILY, Database, History, change, drafts

NAME = TableName("shop", "account")
(ACCOUNTS,) = ACCOUNT.bindings()
TABLES, RANKS = ACCOUNT.tables, Ranks(ACCOUNT.tables, {})
ONE, TWO, THREE = EffectId(1, 1), EffectId(1, 2), EffectId(1, 3)


def stored(one: Change, n: int, wish: str = "retry") -> ParkedKey:
    row = parked_row(one, "refused", EffectId(1, 0), n)
    return ParkedKey(row.source, row.number, row.ordinal, TableName(row.schema, row.table), row.change, wish)


def parked(
    number: int, before: tuple | None, after: tuple | None, wish: str = "retry", binding: Binding = ACCOUNTS
) -> ParkedKey:
    return stored(change(binding, before, after, number=number), number, wish)


SWAP = (parked(1, (1, "a", 0), (1, "b", 0)), parked(2, (2, "b", 0), (2, "a", 0)))


def test_counter_example_15_both_rows_of_a_swap_go_in_one_batch() -> None:
    """One of them alone never succeeds."""
    retries = Retries()
    retries.add(SWAP[::-1])
    batch = retries.start(ONE, TABLES, RANKS)
    delete, upsert = batch.steps
    assert isinstance(delete, DeleteRows) and delete.keys == [(1,), (2,)]
    assert isinstance(upsert, UpsertRows) and upsert.rows == [(1, "b", 0), (2, "a", 0)]
    assert (batch.id, batch.covered, batch.rows, batch.parked) == (ONE, NOTHING, 0, ())
    assert batch.unparked == (("0-1", 1, 0), ("0-1", 2, 0))


@given(some=drafts(12, 3), first=drafts(6))
def test_all_parked_rows_of_a_table_end_where_the_log_ends(some: list, first: list) -> None:
    history = History(ACCOUNT)
    for draft in first:
        history.take(draft)
    target, begun = history.database, len(history.log)
    for draft in some:
        history.take(draft)
    rows = [stored(c, n) for n, c in enumerate(history.log[begun:])]
    retries = Retries()
    retries.add(rows[::-1])
    if rows:
        target.run(retries.start(ONE, TABLES, RANKS).steps)
        retries.finish()
    assert target.content() == history.database.content()
    assert not retries


def test_skipping_writes_no_row() -> None:
    retries = Retries()
    retries.add([parked(1, None, (1, "a", 0), wish="skip")])
    batch = retries.start(ONE, TABLES, RANKS)
    assert batch.steps == [] and batch.unparked == (("0-1", 1, 0),)


def test_a_row_without_a_wish_stays() -> None:
    retries = Retries()
    retries.add([parked(1, None, (1, "a", 0), wish="")])
    assert not retries


def test_tables_and_wishes_go_apart_one_after_another() -> None:
    mother, _ = FAMILY.bindings()
    retries = Retries()
    retries.add([parked(1, None, (1, "a", 0), binding=mother), parked(2, None, (2, "b", 0)), parked(3, None, (3, "c", 0), "skip")])  # fmt: skip  # noqa: E501
    tables = {**TABLES, **FAMILY.tables}
    seen = []
    while retries:
        batch = retries.start(EffectId(1, len(seen)), tables, Ranks(tables, {}))
        seen.append([number for _, number, _ in batch.unparked])
        assert retries.finish() == list(batch.unparked)
    assert seen == [[2], [3], [1]]


def test_a_wish_read_twice_is_carried_out_once() -> None:
    retries = Retries()
    retries.add(SWAP)
    retries.add(SWAP)
    retries.start(ONE, TABLES, RANKS)
    retries.add(SWAP)
    retries.finish()
    assert not retries
    retries.add(SWAP[:1])
    assert retries, "a new wish for a row that was parked anew"


def test_counter_example_4_in_doubt_the_identical_batch_goes_again() -> None:
    """Under another id its receipt could not answer, and the rows would be written twice."""
    retries = Retries()
    retries.add(SWAP)
    batch = retries.start(ONE, TABLES, RANKS)
    assert retries.running and retries.answers(ONE) and not retries.answers(TWO)
    retries.again()
    assert not retries.running and not retries.answers(ONE)
    again = retries.start(TWO, TABLES, RANKS)
    assert again is batch and again.id == ONE and retries.answers(ONE)
    retries.finish()
    retries.add(SWAP)
    assert retries.start(THREE, TABLES, RANKS).id == THREE


def test_a_batch_that_fails_leaves_its_rows_parked_with_the_new_error() -> None:
    retries = Retries()
    retries.add(SWAP)
    retries.start(ONE, TABLES, RANKS)
    refused = retries.refuse(TWO, "duplicate key")
    assert refused.id == TWO and refused.steps == [] == list(refused.unparked)
    assert [(p.number, p.table, p.error) for p in refused.parked] == [(1, "account", "duplicate key"), (2, "account", "duplicate key")]  # fmt: skip  # noqa: E501
    assert decode_change(refused.parked[0].change) == decode_change(SWAP[0].change)
    assert retries.answers(TWO) and not retries.answers(ONE)
    retries.again()
    assert retries.start(THREE, TABLES, RANKS) is refused, "the new error too is written once"
    assert retries.finish() == [], "nothing was released"
    retries.add(SWAP)
    assert retries, "the operator may wish again"


def test_rows_of_a_table_that_is_gone_or_changed_are_refused() -> None:
    retries = Retries()
    retries.add([parked(1, None, (1, "a", 0))])
    batch = retries.start(ONE, {}, Ranks({}, {}))
    assert batch.steps == [] and "has no table shop.account" in batch.parked[0].error
    assert retries.answers(ONE) and retries.finish() == []
    retries.add([parked(1, None, (1, "a", 0), binding=FAMILY.bindings()[0])])
    narrow = {TableName("shop", "mother"): FAMILY.tables[TableName("shop", "child")]}
    batch = retries.start(TWO, narrow, Ranks(narrow, {}))
    assert "has no column u, note" in batch.parked[0].error


def test_rows_go_in_the_order_they_were_parked() -> None:
    """Not by their places: two sources, and the second's transaction came first."""
    rows = [
        stored(change(ACCOUNTS, None, (1, "a", 0), number=9, source="0-2"), 0),
        stored(change(ACCOUNTS, (1, "a", 0), (1, "b", 0), number=1, source="0-1"), 1),
    ]
    retries = Retries()
    retries.add(rows[::-1])
    (upsert,) = retries.start(ONE, TABLES, RANKS).steps
    assert upsert.rows == [(1, "b", 0)] and upsert.fresh


def test_only_what_is_to_be_tried_again_has_places() -> None:
    retries = Retries()
    retries.add([parked(1, None, (1, "a", 0)), parked(2, None, (2, "b", 0), "skip")])
    assert retries.places == [("0-1", 1, 0)]
    retries.start(ONE, TABLES, RANKS)
    retries.refuse(TWO, "duplicate key")
    assert retries.places == []
    retries.finish()
    assert retries.places == [], "a skip looks at nothing"


def test_a_model_target_survives_a_swap_retried() -> None:
    target = Database(ACCOUNT)
    target.rows[NAME] = [(1, "a", 0), (2, "b", 0)]
    retries = Retries()
    retries.add(SWAP)
    target.run(retries.start(ONE, TABLES, RANKS).steps)
    assert sorted(target.rows[NAME]) == [(1, "b", 0), (2, "a", 0)]
