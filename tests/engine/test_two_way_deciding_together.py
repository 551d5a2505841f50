"""Changes that are decided about together, up to the first that meets a row which one before it may write."""

from __future__ import annotations

from tests.engine.test_two_way_deciding import TABLE, question, row
from tidelock.engine.model.conflict_options import TableWords
from tidelock.engine.model.records import Row
from tidelock.engine.protocol.steps import DeleteRows, UpdateRows, UpsertRows
from tidelock.engine.two_way.conflicts import Holder, Met
from tidelock.engine.two_way.deciding import judged
from tidelock.engine.two_way.deciding_together import Judged, independent, steps_together

ARRIVAL = TableWords("arrival")


def decided(before: Row | None, after: Row | None, met: Met) -> Judged:
    change = question(before, after, ARRIVAL)
    return Judged(change, met, judged(change, met))


def test_rows_of_their_own_are_decided_together() -> None:
    made = [(row(n, u=f"u{n}"), row(n, u=f"u{n}", n=1), row(n, u=f"u{n}", n=7)) for n in range(5)]
    changes = [decided(before, after, Met(here, unseen=True)) for before, after, here in made]
    assert list(independent(changes)) == changes


def test_a_row_that_makes_room_is_looked_at_again_by_who_met_it() -> None:
    meets = decided(row(1), row(1, n=1), Met(row(1, u="q"), unseen=True))
    takes = decided(None, row(2, u="q"), Met(holders=(Holder((1,), row(1, u="q")),)))
    other = decided(row(3, u="c"), row(3, u="c", n=1), Met(row(3, u="c", n=7), unseen=True))
    assert list(independent([meets, takes, other])) == [meets]
    assert list(independent([takes, meets, other])) == [takes]
    assert list(independent([takes, other])) == [takes, other]


def test_a_row_that_keeps_its_key_at_the_arbiter_alone_counts_under_both() -> None:
    """The arbiter's row has another unique value than the change says, and another change wants that."""
    moves = decided(row(1, u="a"), row(1, u="b"), Met(row(1, u="x"), unseen=True))
    wants = decided(None, row(2, u="x"), Met(holders=(Holder((1,), row(1, u="x")),)))
    assert list(independent([moves, wants])) == [moves]


def test_a_unique_value_that_an_update_leaves_alone_is_taken_all_the_same() -> None:
    """At the spoke the arbiter's own change has let go of it in between, which the spoke's log does not tell here."""
    keeps = decided(row(1, u="x"), row(1, u="x", n=1), Met(row(1, u="q"), unseen=True))
    wants = decided(None, row(2, u="x"), Met())
    folds = decided(None, row(3, u="X"), Met())
    assert list(independent([keeps, wants])) == [keeps]
    assert list(independent([wants, keeps])) == [wants]
    assert list(independent([keeps, folds])) == [keeps, folds], "where an index tells the two apart"


def test_decisions_are_written_in_few_steps() -> None:
    changes = [
        decided(None, row(1, u="a"), Met()),
        decided(row(2), None, Met(row(2), unseen=True)),
        decided(row(3, u="c"), row(3, u="c", n=1), Met(row(3, u="c", n=7), unseen=True)),
        decided(row(4, u="d"), row(4, u="d", n=1), Met(row(4, u="d", n=7), unseen=True)),
        decided(row(5, u="e"), row(5, u="f"), Met(row(5, u="g"), unseen=True)),
        decided(None, row(6, u="h"), Met(holders=(Holder((1,), row(7, u="h")),))),
    ]
    assert steps_together(changes) == [
        DeleteRows(TABLE, [(2,), (7,)]),
        UpdateRows(TABLE, [(3,), (4,)], [row(3, u="c", n=1), row(4, u="d", n=1)], moves=False),
        UpdateRows(TABLE, [(5,)], [row(5, u="f")], moves=True),
        UpsertRows(TABLE, [row(1, u="a"), row(6, u="h")], fresh=True, absent=True),
    ]
