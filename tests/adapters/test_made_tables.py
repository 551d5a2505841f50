"""CREATE TABLE of the source's log, beside columns and keys: indexes and defaults, as ALTER TABLE would."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelock.adapters.app.ddl_plan import ddl_plan
from tidelock.adapters.config.loader import read
from tidelock.adapters.ddl.lexer import Reader, tokens
from tidelock.adapters.ddl.made_table import read_table

FEED = "feed: f\nsource: mariadb://u:p@source:1\ntarget: {}\ntables: [{}]\n"
URLS = {"mysql": "mysql://u:p@target:1", "postgres": "postgresql://u:p@target:1/d"}
TABLE = (
    "CREATE TABLE n (id int PRIMARY KEY, a int DEFAULT 5, b varchar(9) DEFAULT 'x', d datetime(3) DEFAULT "
    "CURRENT_TIMESTAMP(3), t text, UNIQUE (a), KEY (a), INDEX USING BTREE (b(4) DESC, a), KEY long_one (t(900)), "
    "FULLTEXT KEY words (b), KEY ((a + 1)), KEY pkey (a))"
)


def planned(statements: str, target: str, rule: str = "{source: shop.*}", more: str = "") -> tuple[list[str], str]:
    """Returns the lines that the last of the statements becomes, without quotes, and what the plan says of it."""
    feed = read(FEED.format(URLS[target], rule) + more, Path("feed.yaml"))
    made = ddl_plan(statements, feed)[-1]
    assert made.outcome in ("applied", "translated"), made.why
    lines = [line for run in made.runs for line in run.replace("`", "").replace('"', "").splitlines()]
    return [line.strip().removesuffix(",") for line in lines], made.why


def test_indexes_and_defaults_are_made_with_their_table() -> None:
    lines, why = planned(TABLE, "mysql")
    assert lines[2:5] == ["a int DEFAULT 5", "b varchar(9) DEFAULT 'x'", "d datetime(3) DEFAULT CURRENT_TIMESTAMP(3)"]
    indexes = [line for line in lines if "INDEX" in line]
    assert indexes == [
        "INDEX a_2 (a)", "INDEX b (b(4) DESC, a)", "FULLTEXT INDEX words (b)", "INDEX pkey (a)",
    ], indexes  # fmt: skip
    assert "long_one of shop.n: its columns are longer" in why and "is over an expression" in why
    lines, why = planned(TABLE, "postgres")
    assert lines[2:5] == [
        "a integer DEFAULT 5", "b varchar(9) DEFAULT 'x'", "d timestamp(3) DEFAULT LOCALTIMESTAMP(3)",
    ]  # fmt: skip
    assert [line for line in lines if "INDEX" in line] == [
        "CREATE INDEX n_a_2 ON shop.n (a)", "CREATE INDEX n_b ON shop.n ((left(b, 4)) DESC, a)",
    ]  # fmt: skip
    assert "has no FULLTEXT index" in why and "long_one" in why


@pytest.mark.parametrize("target", ["mysql", "postgres"])
def test_what_the_feed_leaves_out_or_renames_is_so_there_too(target: str) -> None:
    lines, why = planned(TABLE, target, "{source: shop.*, columns: {exclude: [a], rename: {b: name}}}")
    assert any("name varchar(9) DEFAULT 'x'" in line for line in lines)
    assert not any("a_2" in line for line in lines) and "the feed leaves out column a" in why
    lines, _ = planned(TABLE, target, more="ddl: {indexes: skip, set_default: skip}\n")
    assert not any("INDEX" in line or "DEFAULT" in line for line in lines)


@pytest.mark.parametrize("default", ["'2020-01-01'", "'é'", "(1 + 1)", "0x41", "b'1'", "uuid()", "NULL"])
def test_a_default_that_may_mean_something_else_is_left_out(default: str) -> None:
    type_ = "timestamp NULL" if "2020" in default else "varchar(40)"
    for target in URLS:
        lines, _ = planned(f"CREATE TABLE n (id int PRIMARY KEY, c {type_} DEFAULT {default})", target)
        assert not any("DEFAULT" in line for line in lines), lines


def test_a_table_that_is_made_anew_has_them_and_one_that_is_there_stays() -> None:
    anew = TABLE.replace("CREATE TABLE", "CREATE OR REPLACE TABLE")
    lines, _ = planned(f"{TABLE};{anew}", "postgres")
    assert lines[0] == "DROP TABLE IF EXISTS shop.n" and "CREATE INDEX n_a_2 ON shop.n (a)" in lines
    lines, _ = planned(f"{TABLE};{TABLE.replace('TABLE n', 'TABLE IF NOT EXISTS n')}", "postgres")
    assert not any("INDEX" in line for line in lines)
    lines, _ = planned(f"{TABLE};ALTER TABLE n DROP INDEX a_2", "postgres")
    assert lines == ["DROP INDEX shop.n_a_2"]


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ("UNIQUE (a), KEY (a), KEY (a)", ["a", "a_2", "a_3"]),
        ("KEY (a), UNIQUE (a)", ["a_2", "a"]),
        ("KEY (a, b), KEY a (b), UNIQUE (b)", ["b", "a_2", "a"]),
    ],
)
def test_indexes_without_names_get_those_that_the_server_chooses(keys: str, names: list[str]) -> None:
    made = read_table(Reader(tokens(f"n (a int, b int, {keys})")), "shop")
    assert [one.name for one in (*made.made.uniques, *made.indexes)] == names
