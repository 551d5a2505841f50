"""Blind apply: the last image of each row decides."""

from hypothesis import given
from hypothesis import strategies as st

from tidelock.engine.two_way.blind import last_images


def test_inserted_and_deleted_is_a_delete() -> None:
    """History 11: the site may hold a row of its own under that key."""
    assert last_images([(None, (1, "a")), ((1, "a"), None)], (0,)) == {(1,): None}


def test_a_changed_key_deletes_the_row_of_the_old_one() -> None:
    assert last_images([((1, "a"), (2, "a"))], (0,)) == {(1,): None, (2,): (2, "a")}


ROWS = st.tuples(st.integers(1, 3), st.integers(1, 2))


@given(st.lists(st.tuples(st.none() | ROWS, st.none() | ROWS), max_size=8), st.dictionaries(st.integers(1, 3), ROWS))
def test_folded_is_as_one_after_another(changes: list, there: dict) -> None:
    one = dict(there)
    for before, after in changes:
        if before is not None:
            one.pop(before[0], None)
        if after is not None:
            one[after[0]] = after
    folded = dict(there)
    for (key,), row in last_images(changes, (0,)).items():
        folded.pop(key, None)
        if row is not None:
            folded[key] = row
    assert folded == one
