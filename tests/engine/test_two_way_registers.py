"""Registers: what two changes must share to concern each other."""

from tidelock.engine.model.index import Index
from tidelock.engine.model.schema import Equality
from tidelock.engine.two_way.registers import Layout, referred, registers

KEY = Index(0, (0,), (Equality.EXACT,), True)
EMAIL = Index(1, (1,), (Equality.FOLDED,), False)
GROUPED = Layout(KEY, ((1,), (2, 3)))


def test_an_update_has_its_key_and_the_values_before_and_after() -> None:
    found = registers(Layout(KEY, uniques=(EMAIL,)), (7, "Lucy"), (7, "bob"))
    assert found == ((0, 7, 0), (1, "lucy"), (1, "bob"))


def test_a_changed_key_has_both() -> None:
    assert registers(Layout(KEY), (7, "a"), (8, "a")) == ((0, 7, 0), (0, 8, 0))


def test_an_update_touches_the_groups_that_it_changes() -> None:
    assert registers(GROUPED, (7, "a", 1, 1), (7, "a", 1, 2)) == ((0, 7, 1),)


def test_inserts_deletes_and_changed_keys_touch_every_group() -> None:
    both = ((0, 7, 0), (0, 7, 1))
    assert registers(GROUPED, None, (7, "a", 1, 1)) == both == registers(GROUPED, (7, "a", 1, 1), None)
    assert registers(GROUPED, (7, "a", 1, 1), (8, "a", 1, 1)) == (*both, (0, 8, 0), (0, 8, 1))


def test_null_is_no_value_of_a_unique_index() -> None:
    assert registers(Layout(KEY, uniques=(EMAIL,)), None, (7, None)) == ((0, 7, 0),)


def test_what_does_not_compare_exactly_concerns_everything() -> None:
    assert registers(Layout(KEY, uniques=(EMAIL,)), None, (7, "éva")) is None
    assert registers(Layout(Index(0, (0,), (Equality.COARSE,), True)), (7,), None) is None


def test_a_parent_that_goes_is_a_register_of_its_own_and_one_that_its_children_ask_for() -> None:
    parent = Layout(KEY, referenced=(Index(5, (0,), (Equality.EXACT,), False),))
    child = Layout(KEY, parents=(Index(5, (1,), (Equality.EXACT,), False),))
    assert registers(parent, (7, "a"), None) == ((0, 7, 0), (5, 7))
    assert registers(parent, (7, "a"), (8, "a")) == ((0, 7, 0), (0, 8, 0), (5, 7), (5, 8))
    assert registers(parent, (7, "a"), (7, "b")) == ((0, 7, 0),), "nothing that is referred to changes"
    assert registers(child, None, (1, 7)) == ((0, 1, 0),), "two children do not concern each other"
    assert referred(child, (1, 7), (1, 8)) == ((5, 7), (5, 8)) and referred(child, None, (1, None)) == ()
    coarse = Layout(KEY, parents=(Index(5, (1,), (Equality.COARSE,), False),))
    assert referred(coarse, None, (1, "x")) is None
