"""Forms of tables that are known while a log is read: which hold at a place, and which are forgotten."""

from __future__ import annotations

from tidelock.adapters.ports.table_form import KnownForms, TableForm
from tidelock.engine.model.records import Position, TableName


def at(offset: int, rows: int = 0) -> Position:
    return Position("7/1", offset, rows)


def form(id_: int, place: Position, words: str) -> TableForm:
    return TableForm(id_, TableName("shop", "item"), place, words)


OLD, NEW, OTHER = form(1, at(10), "old"), form(1, at(20, 3), "new"), form(2, at(10), "other")


def test_at_a_place_the_last_form_before_it_holds() -> None:
    known = KnownForms([NEW, OLD, OTHER])
    assert known.at(at(5)) == ()
    assert set(known.at(at(20, 2))) == {OLD, OTHER}
    assert set(known.at(at(20, 3))) == {NEW, OTHER}


def test_a_form_that_is_told_again_stands_once() -> None:
    known = KnownForms([OLD, OTHER])
    known.learn([NEW])
    again = form(1, at(20, 3), "as it is told now")
    known.learn([again, again])
    assert known.all == (OLD, OTHER, again)


def test_what_is_behind_a_place_is_forgotten_and_what_was_replaced() -> None:
    known = KnownForms([OLD, OTHER, NEW])
    assert known.forget_replaced(at(20, 2)) == []
    assert known.forget_replaced(at(30)) == [OLD]
    assert known.forget_behind(at(20, 3)) == []
    assert known.forget_behind(at(20, 2)) == [NEW]
    assert known.all == (OTHER,)
