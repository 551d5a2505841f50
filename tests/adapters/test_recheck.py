"""Rechecks of rows that differ while both sides change: no false alarm, and no difference is lost."""

import json

import msgspec

from tidelock.adapters.verify.recheck import SAME_ROUNDS, Recheck, SeenRow, compared
from tidelock.adapters.verify.report import TableReport


def test_only_rows_that_are_not_the_same_are_found() -> None:
    source = [(1, "a"), (2, "b"), (3, "c")]
    target = [(1, "a"), (2, "B"), (4, "d")]
    found = compared(1, 7, source, target)
    assert {key: seen.kind for key, seen in found.items()} == {(2,): "different", (3,): "missing", (4,): "extra"}
    assert {seen.bucket for seen in found.values()} == {7}


def test_equal_rows_without_a_key_are_counted() -> None:
    found = compared(0, 1, [("a",)] * 3 + [("b",)] * 2, [("a",)] * 3 + [("b",)] * 5 + [("c",)])
    assert {key: (seen.kind, seen.rows) for key, seen in found.items()} == {("b",): ("extra", 3), ("c",): ("extra", 1)}
    (more,) = compared(0, 1, [("a",)] * 3, [("a",)]).values()
    assert (more.kind, more.rows) == ("missing", 2)


def test_null_is_not_an_empty_text() -> None:
    assert len(compared(1, 0, [(1, None)], [(1, "")])) == 1


def test_a_row_on_its_way_is_no_difference() -> None:
    recheck = Recheck()
    recheck.look({(1,): SeenRow(0, (1, "new"), (1, "old"))})
    recheck.look({})
    assert not recheck.differences
    assert not recheck.still_changing
    assert not recheck.watched


def test_a_row_that_differs_in_the_same_way_again_and_again_differs() -> None:
    recheck, seen = Recheck(), SeenRow(3, (1, "a"), (1, "b"))
    for number in range(SAME_ROUNDS):
        assert recheck.watched == ({(1,): seen} if number else {})
        assert not recheck.differences
        recheck.look({(1,): seen})
    assert recheck.differences == {(1,): seen}
    assert not recheck.watched


def test_a_row_that_is_written_on_and_on_stays_still_changing() -> None:
    recheck = Recheck()
    for number in range(20):
        recheck.look({(1,): SeenRow(0, (1, number), (1, number - 1))})
    assert not recheck.differences
    assert recheck.still_changing == 1


def test_a_row_that_was_equal_between_begins_anew() -> None:
    recheck, seen = Recheck(), SeenRow(0, (1, "a"), (1, "b"))
    for _ in range(SAME_ROUNDS - 1):
        recheck.look({(1,): seen})
    recheck.look({})
    recheck.look({(1,): seen})
    assert not recheck.differences


def test_where_nothing_was_written_once_is_enough() -> None:
    recheck = Recheck()
    recheck.look({(1,): SeenRow(0, (1, "a"), None)}, final=True)
    assert [seen.kind for seen in recheck.differences.values()] == ["missing"]


def test_what_is_judged_is_not_judged_again() -> None:
    recheck = Recheck()
    recheck.look({(1,): SeenRow(0, (1, "a"), None)}, final=True)
    recheck.look({(1,): SeenRow(0, (1, "z"), None), (2,): SeenRow(0, None, (2, "b"))})
    assert recheck.differences[(1,)].source == (1, "a")
    assert recheck.still_changing == 1


def test_a_report_has_renamed_figures_under_both_names_and_is_read_under_the_former() -> None:
    table = TableReport(
        table="shop.t", source="shop.t", columns=1, key=("id",), source_rows=9, target_rows=9, matched=7, missing=0,
        extra=0, different=0, pieces=1, seconds=0.1, complete=True, differences=(), still_changing=2, failed_rows=3,
    )  # fmt: skip
    told = json.loads(msgspec.json.encode(table))
    assert (told["still_changing"], told["failed_rows"], told["unsettled"], told["parked"]) == (2, 3, 2, 3)
    del told["still_changing"], told["failed_rows"]  # as `tidelock verify` of the last release wrote it
    assert msgspec.json.decode(json.dumps(told), type=TableReport) == table
