"""The judge of rows that differ while both sides change: no false alarm, and nothing that stays is let go."""

from tidelock.adapters.verify.recheck import SETTLED, SeenRow, Suspects, compared


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
    suspects = Suspects()
    suspects.look({(1,): SeenRow(0, (1, "new"), (1, "old"))})
    suspects.look({})
    assert not suspects.differences
    assert not suspects.unsettled
    assert not suspects.watched


def test_a_row_that_differs_in_the_same_way_again_and_again_differs() -> None:
    suspects, seen = Suspects(), SeenRow(3, (1, "a"), (1, "b"))
    for number in range(SETTLED):
        assert suspects.watched == ({(1,): seen} if number else {})
        assert not suspects.differences
        suspects.look({(1,): seen})
    assert suspects.differences == {(1,): seen}
    assert not suspects.watched


def test_a_row_that_is_written_on_and_on_stays_unsettled() -> None:
    suspects = Suspects()
    for number in range(20):
        suspects.look({(1,): SeenRow(0, (1, number), (1, number - 1))})
    assert not suspects.differences
    assert suspects.unsettled == 1


def test_a_row_that_was_equal_between_begins_anew() -> None:
    suspects, seen = Suspects(), SeenRow(0, (1, "a"), (1, "b"))
    for _ in range(SETTLED - 1):
        suspects.look({(1,): seen})
    suspects.look({})
    suspects.look({(1,): seen})
    assert not suspects.differences


def test_where_nothing_was_written_once_is_enough() -> None:
    suspects = Suspects()
    suspects.look({(1,): SeenRow(0, (1, "a"), None)}, final=True)
    assert [seen.kind for seen in suspects.differences.values()] == ["missing"]


def test_what_is_judged_is_not_judged_again() -> None:
    suspects = Suspects()
    suspects.look({(1,): SeenRow(0, (1, "a"), None)}, final=True)
    suspects.look({(1,): SeenRow(0, (1, "z"), None), (2,): SeenRow(0, None, (2, "b"))})
    assert suspects.differences[(1,)].source == (1, "a")
    assert suspects.unsettled == 1
