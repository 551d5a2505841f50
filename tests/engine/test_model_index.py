"""A key may be coarser than the target's equality, never finer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.world import comparable
from tidelock.engine.model.index import Index, normalise, unscaled
from tidelock.engine.model.records import Kind
from tidelock.engine.model.schema import Equality

TEXTS = st.text(st.sampled_from("aAbzZ éÉeßs\tñnÅ_"), max_size=4)
VALUES = st.one_of(TEXTS, st.none(), st.integers(-2, 2), st.binary(max_size=2))


def index(*equalities: Equality, kinds: tuple[Kind, ...] = ()) -> Index:
    return Index(7, tuple(range(len(equalities))), equalities, False, kinds)


@given(st.sampled_from(Equality), TEXTS, TEXTS)
def test_equal_to_the_target_is_equal_here_or_the_star(equality: Equality, one: str, other: str) -> None:
    a, b = normalise(one, equality), normalise(other, equality)
    if comparable(one, equality) == comparable(other, equality):
        assert a == b or None in (a, b)
    elif None not in (a, b):
        assert a != b, "ordinary values stay apart"


@pytest.mark.parametrize("equality", [Equality.FOLDED, Equality.FOLDED_PADDED])
@pytest.mark.parametrize("odd", ["é", "ß", "a\t", "ａ", b"\xff", 1.5])
def test_a_value_that_does_not_fold_exactly_is_the_star_tiflow_9489(equality: Equality, odd: object) -> None:
    assert normalise(odd, equality) is None
    assert index(equality).values((odd,)) == index(equality).index_wide() == (7, "*", "*")


def test_trailing_spaces_count_only_without_padding() -> None:
    assert normalise("a ", Equality.PADDED) == normalise("a", Equality.PADDED)
    assert normalise("A ", Equality.FOLDED_PADDED) == normalise("a", Equality.FOLDED_PADDED)
    assert normalise("a ", Equality.EXACT) != normalise("a", Equality.EXACT)
    assert normalise("a ", Equality.FOLDED) != normalise("a", Equality.FOLDED)
    assert normalise("A", Equality.PADDED) != normalise("a", Equality.PADDED)


@given(st.lists(VALUES, min_size=1, max_size=3))
def test_null_in_a_unique_tuple_makes_no_key(values: list) -> None:
    found = index(*[Equality.EXACT] * len(values)).values(tuple(values))
    assert found == (None if None in values else (7, *values))


def test_folded_says_whether_a_star_is_needed() -> None:
    assert index(Equality.EXACT, Equality.FOLDED).folded
    assert not index(Equality.EXACT, Equality.PADDED).folded


@pytest.mark.parametrize(
    ("one", "kind", "other", "other_kind"),
    [
        ("1.50", Kind.DECIMAL, "1.5000", Kind.DECIMAL),
        ("-12.00", Kind.DECIMAL, -12, Kind.INT),
        ("2024-01-01 10:00:00", Kind.DATETIME, "2024-01-01 10:00:00.000000", Kind.DATETIME),
        ("2024-01-01 10:00:00.5", Kind.TIMESTAMP, "2024-01-01 10:00:00.500", Kind.TIMESTAMP),
        ("10:00:00", Kind.TIME, "10:00:00.0", Kind.TIME),
    ],
)
def test_the_two_sides_of_a_foreign_key_may_differ_in_scale(one, kind, other, other_kind) -> None:
    child, parent = index(Equality.EXACT, kinds=(kind,)), index(Equality.EXACT, kinds=(other_kind,))
    assert child.values((one,)) == parent.values((other,)) and hash(unscaled(one, kind)) == hash(
        unscaled(other, other_kind)
    )


def test_unscaled_keeps_different_values_apart() -> None:
    assert unscaled("1.50", Kind.DECIMAL) != unscaled("1.05", Kind.DECIMAL)
    assert unscaled("10:00:10", Kind.TIME) == "10:00:10"
    assert unscaled("100.", Kind.TEXT) == "100."
