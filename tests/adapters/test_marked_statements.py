"""Marks of statements that feeds run: what is one, and that a comment alone proves nothing."""

import pytest

from tidelock.adapters.bookkeeping.statements import marked, may_be_marked, path_of
from tidelock.adapters.mysql.binlog.query_events import QueryKind, classify

TEXT = "ALTER TABLE `shop`.`t` ADD COLUMN `n` int"
OURS = marked(TEXT, "shop-eu-us", "0-101", 7)


def test_a_marked_statement_is_known_by_feed_and_number() -> None:
    assert f"/* tidelock:shop-eu-us:0-101:7 */ {TEXT}" == OURS
    assert may_be_marked(OURS) == ("shop-eu-us", 7)
    assert classify(OURS) is QueryKind.DDL


def test_a_source_whose_name_would_end_the_comment_is_spelled_otherwise() -> None:
    found = marked(TEXT, "f", "7012/a */ DROP TABLE t; /*:16384", 9)
    assert found.count("*/") == 1 and found.endswith(f"*/ {TEXT}")
    assert may_be_marked(found) == ("f", 9)


@pytest.mark.parametrize(
    "statement",
    [
        TEXT,
        f"{TEXT} /* tidelock:shop-eu-us:0-101:7 */",
        f" {OURS}",
        f"/* by hand */ {OURS}",
        OURS.replace("/* tidelock", "/*tidelock"),
        OURS.replace(":7 */", " */"),
        OURS.replace("*/ ALTER", "*/ALTER"),
    ],
)
def test_what_is_no_mark_in_its_very_form(statement: str) -> None:
    assert may_be_marked(statement) is None


def test_only_the_text_that_was_stored_is_a_feed_s() -> None:
    stored = [("eu", marked("CREATE TABLE other (id int)", "shop-eu-us", "0-101", 7)), ("asia eu", OURS)]
    assert path_of(OURS, stored) == ("asia", "eu")
    assert path_of(OURS.replace("`n` int", "`n` bigint"), stored) == (), "a user has taken the comment"
    assert path_of(OURS, []) == ()
