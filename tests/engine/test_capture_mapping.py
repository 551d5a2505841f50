import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelock.engine.capture.mapping import Mapping, Rule, TableMapping
from tidelock.engine.capture.row_filter import Compare, IsNull, Not
from tidelock.engine.model.records import Column, Kind, RowChange, Shape, TableName

SOURCE = Shape(
    TableName("shop", "account"),
    (Column("id", Kind.INT), Column("region", Kind.TEXT), Column("secret", Kind.TEXT), Column("note", Kind.TEXT)),
    ("id",),
)
TARGET = TableName("public", "account")
EU = Compare("region", "=", "eu")


def mapped(**rule: object) -> TableMapping:
    return TableMapping(Rule("shop.account", "public.account", **rule), SOURCE, TARGET)


def row(region: str | None, note: str = "n") -> tuple:
    return (1, region, "s", note)


def test_a_table_as_it_is_passes_untouched() -> None:
    plain = mapped()
    assert plain.plain
    assert plain.shape == Shape(TARGET, SOURCE.columns, ("id",))
    one = RowChange(3, row("eu"), row("us"), 9)
    assert plain.apply(one) == one


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ({"include": ("note", "id")}, ["id", "note"]),
        ({"exclude": ("secret",)}, ["id", "region", "note"]),
        ({"include": ("id", "secret"), "exclude": ("secret",)}, ["id"]),
        ({"rename": {"note": "remark", "id": "account_id"}}, ["account_id", "region", "secret", "remark"]),
        ({"exclude": ("secret",), "rename": {"region": "r"}}, ["id", "r", "note"]),
    ],
)
def test_columns_are_taken_and_renamed(rule: dict, names: list) -> None:
    table = mapped(**rule)
    assert [c.name for c in table.shape.columns] == names
    values = dict(zip(("id", "region", "secret", "note"), row("eu"), strict=True))
    back = {new: old for old, new in rule.get("rename", {}).items()}
    change = table.apply(RowChange(0, None, row("eu"), 4))
    assert change == RowChange(0, None, tuple(values[back.get(n, n)] for n in names), 4)


def test_a_renamed_key_keeps_being_the_key() -> None:
    assert mapped(rename={"id": "account_id"}).shape.primary_key == ("account_id",)


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        ("eu", "eu", ("eu", "eu")),
        ("eu", "us", ("eu", None)),
        ("us", "eu", (None, "eu")),
        ("us", "us", None),
        ("eu", None, ("eu", None)),
        (None, "eu", (None, "eu")),
        ("us", None, None),
        (None, "us", None),
    ],
    ids=["stays in", "leaves: a delete", "enters: an insert", "stays out", "deleted", "inserted", "was out", "is out"],
)
def test_counter_example_2_the_change_is_what_happens_at_the_target(
    before: str | None, after: str | None, want: tuple | None
) -> None:
    table = mapped(where=EU)
    change = table.apply(RowChange(0, before and row(before), after and row(after), 4))
    assert change == (want and RowChange(0, want[0] and row(want[0]), want[1] and row(want[1]), 4))


def test_unknown_is_not_in() -> None:
    assert mapped(where=EU).apply(RowChange(0, None, row(None), 0)) is None
    assert mapped(where=Not(EU)).apply(RowChange(0, None, row(None), 0)) is None
    assert mapped(where=IsNull("region")).apply(RowChange(0, None, row(None), 0)) is not None


def test_a_filter_reads_columns_that_are_not_taken_under_their_source_names() -> None:
    table = mapped(where=EU, exclude=("region",), rename={"note": "region"})
    assert not table.plain
    assert table.apply(RowChange(0, None, row("eu", "x"), 0)) == RowChange(0, None, (1, "s", "x"), 0)
    assert table.apply(RowChange(0, None, row("us", "eu"), 0)) is None


@given(st.lists(st.sampled_from(["eu", "us", None]), min_size=1, max_size=8))
def test_the_target_holds_exactly_the_rows_of_the_filter(regions: list) -> None:
    """The life of one row through the filter, carried out at a target that takes an insert only where there is none."""
    table, there, was = mapped(where=EU), None, None
    for n, region in enumerate([*regions, None]):
        now = row(region, str(n)) if n < len(regions) else None
        change = table.apply(RowChange(0, was, now, n)) if was is not None or now is not None else None
        if change is not None:
            assert change.before == there, "no insert of a row that is there, no update of one that is not"
            there = change.after
        assert there == (now if now is not None and now[1] == "eu" else None)
        was = now


FEED = Mapping(
    [
        Rule("shop.account", "crm.client"),
        Rule("shop.log_*", "archive.log"),
        Rule("shop.*", "public.*_copy"),
        Rule("tidelock.*", "x.*"),
    ]
)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (("shop", "account"), ("crm", "client")),
        (("shop", "log_2024"), ("archive", "log")),
        (("shop", "order"), ("public", "order_copy")),
    ],
)
def test_the_first_rule_that_matches_is_a_tables_rule(source: tuple, target: tuple) -> None:
    assert FEED.selects(TableName(*source))
    assert FEED.target(TableName(*source)) == TableName(*target)
    found = FEED.table(Shape(TableName(*source), SOURCE.columns))
    assert found is not None and found.shape.name == TableName(*target)


def test_what_no_rule_matches_is_not_taken() -> None:
    other = TableName("crm", "account")
    assert not FEED.selects(other) and FEED.target(other) == other
    assert FEED.table(Shape(other, SOURCE.columns)) is None


def test_the_bookkeeping_is_never_taken() -> None:
    assert not FEED.selects(TableName("tidelock", "tidelock_progress"))
    assert Mapping([Rule("*.*", "*.*")], own="books").selects(TableName("tidelock", "x"))
    assert not Mapping([Rule("*.*", "*.*")], own="books").selects(TableName("books", "tidelock_owner"))
