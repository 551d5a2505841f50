from hypothesis import given
from hypothesis import strategies as st

from tidelock.engine.parallel.conflict_groups import ConflictGroups

KEYS = st.lists(st.lists(st.tuples(st.integers(0, 1), st.sampled_from("abcdefgh")), max_size=3), max_size=25)


@given(KEYS)
def test_groups_are_the_connected_components_named_by_their_earliest(keys: list) -> None:
    component = list(range(len(keys)))
    changed = True
    while changed:  # naive: spread the smallest name until nothing moves
        changed = False
        for i, mine in enumerate(keys):
            for j, others in enumerate(keys):
                if set(mine) & set(others) and component[i] != component[j]:
                    component[i] = component[j] = min(component[i], component[j])
                    changed = True
    assert ConflictGroups(keys).roots == component


@given(KEYS)
def test_first_is_the_earliest_holder_of_each_key(keys: list) -> None:
    want = {}
    for i, own in enumerate(keys):
        for key in own:
            want.setdefault(key, i)
    found = ConflictGroups(keys).first
    assert found == want
    assert list(found) == list(want), "in log order"


def test_equal_values_in_different_columns_do_not_join_pingcap_dm_2035() -> None:
    assert ConflictGroups([[(0, 1), (1, 2)], [(0, 2), (1, 1)]]).roots == [0, 1]
