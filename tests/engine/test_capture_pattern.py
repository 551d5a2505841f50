import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelock.engine.capture.pattern import Pattern, PatternError
from tidelock.engine.model.records import TableName

NAMES = st.text("ab.[*]\n", min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("shop.account", ("shop", "account"), True),
        ("shop.account", ("shop", "Account"), False),
        ("shop.*", ("shop", "order.item"), True),
        ("sh*.acc*t", ("shop", "account"), True),
        ("shop.a_c", ("shop", "abc"), False),
        ("shop.a+", ("shop", "aa"), False),
        ("shop.log_*", ("shop", "log_"), True),
        ("*.*", ("x", "line\nbreak"), True),
        ("shop.*", ("shopping", "account"), False),
    ],
)
def test_matches(pattern: str, name: tuple[str, str], matches: bool) -> None:
    assert Pattern.of(pattern).matches(TableName(*name)) is matches


@pytest.mark.parametrize(
    ("source", "name", "target", "want"),
    [
        ("shop.*", ("shop", "account"), "public.*", ("public", "account")),
        ("*_live.*", ("eu_live", "account"), "*.copy_*", ("eu", "copy_account")),
        ("shop.*_20*", ("shop", "log_2024"), "shop.*_*", ("shop", "log_24")),
        ("shop.log_*", ("shop", "log_1"), "shop.log", ("shop", "log")),
    ],
)
def test_a_star_carries_over(source: str, name: tuple, target: str, want: tuple) -> None:
    assert Pattern.of(target).fits(Pattern.of(source))
    assert Pattern.of(source).carry(TableName(*name), Pattern.of(target)) == TableName(*want)


def test_a_target_with_more_stars_than_its_source_does_not_fit() -> None:
    assert not Pattern("a.*_*").fits(Pattern("a.*"))
    assert not Pattern("*.b").fits(Pattern("a.*"))


@pytest.mark.parametrize(
    ("one", "other", "meets"),
    [
        ("shop.a", "shop.a", True),
        ("shop.a", "shop.b", False),
        ("shop.*", "shop.b", True),
        ("shop.*", "crm.*", False),
        ("*.a*", "shop.*b", True),
        ("shop.a*", "shop.b*", False),
        ("shop.*a", "shop.b*", True),
        ("s*p.x", "s*q.x", False),
        ("shop.log_*_x", "shop.log_*", True),
        ("shop.a*b", "shop.ab", True),
    ],
)
def test_patterns_that_share_a_name(one: str, other: str, meets: bool) -> None:
    assert Pattern(one).meets(Pattern(other)) is Pattern(other).meets(Pattern(one)) is meets


@pytest.mark.parametrize("text", ["account", ".account", "shop.", "", "."])
def test_not_a_pattern(text: str) -> None:
    with pytest.raises(PatternError, match=r"is not of the form db\.table"):
        Pattern(text)


@given(NAMES.filter(lambda s: "." not in s and "*" not in s), NAMES.filter(lambda s: "*" not in s))
def test_a_name_matches_itself_whatever_it_is_made_of(schema: str, table: str) -> None:
    assert Pattern(f"{schema}.{table}").matches(TableName(schema, table))
    assert not Pattern(f"{schema}.{table}").matches(TableName(schema, table + "a"))
