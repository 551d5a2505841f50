"""The difference between two files of a feed, its meaning, and how a rule is added to a file or taken out of it."""

from pathlib import Path
from typing import Any

import pytest

from tidelock.adapters.app.feed_edit import replace_file
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.feed_change import FeedChange, SourceColumns, difference
from tidelock.adapters.config.filter_change import FilterChange, compared
from tidelock.adapters.config.loader import read
from tidelock.adapters.config.rule_text import NotEdited, with_rule, without_rule
from tidelock.engine.model.records import TableName

HEAD = "feed: shop\nsource: mariadb://u:secret@s:1\ntarget: postgresql://u:p@t:2/d\n"
THERE = {TableName("shop", name): SourceColumns(("id", "name", "notes")) for name in ("a", "b", "log")}


def feed(*rules: str, head: str = HEAD, more: str = "") -> Feed:
    return read(f"{head}tables:\n{''.join(f'  - {{{rule}}}{chr(10)}' for rule in rules)}{more}", Path("shop.yaml"))


def changed(before: tuple[str, ...], after: tuple[str, ...], **how: Any) -> list[tuple[str, str, str]]:
    change = difference(feed(*before), feed(*after), THERE, **how)
    return [(one.table, one.what, one.copy) for one in change.tables]


A, B = "source: shop.a", "source: shop.b"


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ((A,), (A, B), [("shop.b", "comes in", "copy")]),
        ((A, B), (A,), [("shop.b", "goes", "")]),
        ((A,), ("source: shop.*",), [("shop.b", "comes in", "copy"), ("shop.log", "comes in", "copy")]),
        ((A,), (A + ", target: crm.a",), [("shop.a", "other target", "copy")]),
        ((A,), (A + ", columns: {exclude: [notes]}",), [("shop.a", "columns", "")]),
        ((A + ", columns: {exclude: [notes]}",), (A,), [("shop.a", "columns", "copy")]),
        ((A + ", columns: {exclude: [notes]}",), (A + ", columns: {include: [id, name]}",), []),
        ((A,), (A + ", columns: {rename: {name: title}}",), [("shop.a", "columns", "copy")]),
        ((A,), (A + ", where: id < 5",), [("shop.a", "filter", "")]),
        ((A + ", where: id < 5",), (A,), [("shop.a", "filter", "keep")]),
        ((A + ", where: id < 5",), (A + ", where: id < 9",), [("shop.a", "filter", "copy")]),
        ((A,), (A + ", weight: 2",), [("shop.a", "settings", "")]),
    ],
)
def test_each_change_of_a_table_is_known_with_its_copy(
    before: tuple[str, ...], after: tuple[str, ...], found: list[tuple[str, str, str]]
) -> None:
    assert changed(before, after) == found


def test_copies_are_as_the_operator_wants_them_and_none_before_a_feed_has_begun() -> None:
    assert changed((A,), (A, B), keep=True) == [("shop.b", "comes in", "keep")]
    assert changed((A,), (A, B), copies=False) == [("shop.b", "comes in", "")]
    assert changed((A,), (A, B), begun=False) == [("shop.b", "comes in", "")]
    keyless = {TableName("shop", "a"): SourceColumns(("id",), keyed=False)}
    (one,) = difference(feed(A + ", where: id < 5"), feed(A), keyless).tables
    assert one.copy == "copy", "rows of a table without a key cannot be told from those that are there"
    change = difference(feed(A), feed(A, B), THERE)
    assert (change.copies, change.targets) == ({TableName("shop", "b"): "copy"}, (TableName("shop", "b"),))
    assert difference(feed(A), feed(A, "source: crm.*"), THERE).unmatched == ("crm.*",)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("id = 1", "id  = 1", FilterChange.SAME),
        ("", "id = 1", FilterChange.NARROWER),
        ("id = 1 AND v = 2", "id = 1", FilterChange.WIDER),
        ("r = 'eu'", "r = 'eu' OR r = 'us'", FilterChange.WIDER),
        ("r IN ('eu', 'us')", "r = 'eu'", FilterChange.NARROWER),
        ("r IN ('eu', 'us') AND v = 1", "r IN ('us', 'eu', 'jp')", FilterChange.WIDER),
        ("r IN ('eu', 'us')", "r IN ('us', 'jp')", FilterChange.OTHER),
        ("(a = 1 AND b = 1) OR c = 1", "a = 1 OR c = 1", FilterChange.WIDER),
        ("id < 5", "NOT id < 5", FilterChange.OTHER),
    ],
)
def test_a_filter_is_wider_where_it_surely_takes_every_row_of_before(
    before: str, after: str, change: FilterChange
) -> None:
    assert compared(before, after) is change


def keys(change: FeedChange) -> dict[str, tuple[str, str, bool]]:
    return {one.key: (one.before, one.after, one.refused) for one in change.keys}


def test_a_feed_keeps_its_name_its_servers_and_its_bookkeeping() -> None:
    other = HEAD.replace("shop", "shop2").replace("@s:1", "@other:1").replace("/d", "/e")
    found = keys(difference(feed(A), feed(A, head=other, more="schema: books\nlanes: 4\n"), {}))
    assert found.pop("lanes") == ("8", "4", False)
    assert {key for key, (_, _, refused) in found.items() if refused} == {"feed", "source", "target", "schema"}
    assert "secret" not in str(found)
    found = keys(difference(feed(A), feed(A, head=HEAD.replace("secret", "changed")), {}))
    assert [(key, refused) for key, (_, _, refused) in found.items()] == [("source", False)]
    found = keys(difference(feed(A), feed(A, more="copy: {existing: keep}\nstart: copy\n"), {}))
    spark = "spark: {memory: 2g, settings: {spark.x: secret}}\n"
    (one,) = difference(feed(A), feed(A, more=spark), {}).keys
    assert one.after == "memory: 2g, settings: spark.x (values are not shown)"
    assert found == {"copy": ("as by default", "existing: keep", False), "start": ("now", "copy", False)}


TEXT = """\
feed: shop  # ours
source: mariadb://u:p@s:1
target: postgresql://u:p@t:2/d
tables:
  # the shop
  - source: shop.a   # every row
    columns:
      exclude: [notes,
                blob]
  - source: shop.b
    where: >
      id < 5

# how it runs
lanes: 4
"""
RULE = {"source": "shop.c", "target": "crm.c", "where": "name = 'x'", "columns": {"exclude": ["notes"]}}


def test_a_rule_is_added_behind_the_others_and_comments_stay() -> None:
    added = with_rule(TEXT, RULE)
    assert added == TEXT.replace(
        "      id < 5\n",
        "      id < 5\n  - source: shop.c\n    target: crm.c\n    where: \"name = 'x'\"\n"
        "    columns:\n      exclude: [notes]\n",
    )
    assert without_rule(added, "shop.c") == TEXT
    at_the_end = "feed: x\ntables:\n- source: a.b"
    assert with_rule(at_the_end, {"source": "a.c"}) == "feed: x\ntables:\n- source: a.b\n- source: a.c\n"
    lines = "tables:\r\n- source: a.b\r\n"
    assert with_rule(lines, {"source": "a.c"}) == f"{lines}- source: a.c\r\n"


def test_a_rule_is_taken_out_with_its_lines_alone() -> None:
    cut = without_rule(TEXT, "shop.a")
    assert "# the shop\n  - source: shop.b" in cut and "blob" not in cut and "# how it runs" in cut
    assert without_rule("tables:\n-\n  source: a.b\n- source: a.c\n", "a.b") == "tables:\n- source: a.c\n"


@pytest.mark.parametrize("text", ["tables: [{source: a.b}]\n", "tables:\n- &r\n  source: a.b\n- *r\n"])
def test_a_list_of_another_style_is_left_alone_and_the_lines_are_told(text: str) -> None:
    with pytest.raises(NotEdited) as refused:
        with_rule(text, {"source": "a.c"})
    assert "\n  - source: a.c" in refused.value.hint
    with pytest.raises(NotEdited, match="`tables` is"):
        without_rule(text, "a.b")


def test_a_file_is_replaced_at_once_through_a_link_and_keeps_its_rights(tmp_path: Path) -> None:
    real, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    replace_file(link, "new\r\n")
    assert (real.read_bytes(), real.stat().st_mode & 0o777, link.is_symlink()) == (b"new\r\n", 0o640, True)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link.yaml", "real.yaml"]
