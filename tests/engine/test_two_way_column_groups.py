"""Groups of columns: what a change touches, and what is written of it at a spoke."""

from tidelock.engine.two_way.column_groups import TouchedRows, groups_at, laid_over, touched

GROUPS = ((1,), (2, 3))
TIED = (0, 1)


def rows() -> TouchedRows:
    return TouchedRows(GROUPS, TIED, lambda row: row[0])


def test_columns_in_no_group_are_one_more_and_the_key_is_in_none() -> None:
    at = {"id": 0, "a": 1, "b": 2, "c": 3}
    assert groups_at([("a",)], at, (0,)) == ((1,), (2, 3))
    assert groups_at([("a", "b"), ("c", "gone")], at, (0,)) == ((1, 2), (3,))
    assert groups_at([], at, (0,)) == ()


def test_a_change_touches_the_groups_that_differ_and_one_of_a_tied_column_all() -> None:
    assert list(touched(GROUPS, TIED, (7, "a", 1, 1), (7, "a", 1, 2))) == [1]
    assert list(touched(GROUPS, TIED, (7, "a", 1, 1), (7, "a", 1, 1))) == []
    for before, after in (((7, "a", 1, 1), (7, "b", 1, 1)), (None, (7, "a", 1, 1)), ((7, "a", 1, 1), None)):
        assert list(touched(GROUPS, TIED, before, after)) == [0, 1]


def test_a_row_is_touched_in_all_that_its_changes_touch() -> None:
    """A value that went and came back was written in between."""
    one = TouchedRows(GROUPS, (0,), lambda row: row[0])
    one.add((7, "a", 1, 1), (7, "a", 2, 1))
    one.add((7, "a", 2, 1), (7, "a", 1, 1))
    assert one.columns((7, "a", 1, 1)) == (2, 3)
    one.add((7, "a", 1, 1), (7, "b", 1, 1))
    assert one.columns((7, "b", 1, 1)) is None
    assert one.columns((8, "b", 1, 1)) is None, "a row that nothing is known of"


def test_a_row_that_left_and_came_back_is_whole_and_so_are_both_of_a_changed_key() -> None:
    one = TouchedRows(GROUPS, (), lambda row: row[0])
    for before, after in (((7, "a", 1, 1), None), (None, (7, "a", 1, 1)), ((7, "a", 1, 1), (7, "a", 1, 2))):
        one.add(before, after)
    one.add((8, "a", 1, 1), (9, "a", 1, 1))
    assert [one.columns((key, "a", 1, 1)) for key in (7, 8, 9)] == [None] * 3


def test_what_is_touched_is_laid_over_what_is_there() -> None:
    assert laid_over((2, 3), (7, "a", 2, 3), (7, "b", 8, 9)) == (7, "b", 2, 3)
    assert laid_over((2, 3), (7, "a", 2, 3), None) == (7, "a", 2, 3)
