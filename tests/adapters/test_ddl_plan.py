"""`tidelock ddl plan`, and the page of the same judgements."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.harness.rig import tidelock
from tidelock.adapters.app.ddl_plan import ddl_plan, split
from tidelock.adapters.config.loader import load
from tidelock.adapters.reference.schema_changes import TARGETS, planned, reference, statements

PAGE = Path(__file__).parents[2] / "docs/reference/schema-changes.md"
FILE = """\
CREATE TABLE t (id int PRIMARY KEY, a int, UNIQUE KEY by_a (a)) /* ; */;
INSERT INTO t VALUES (1, 2);
DELIMITER //
CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW BEGIN SET @a = ';'; DROP TABLE t; END//
DELIMITER ;
ALTER TABLE t DROP INDEX by_a, ADD COLUMN b int;
ALTER TABLE other.x DROP COLUMN y;
USE wide;
RENAME TABLE u TO v
"""


def test_the_page_is_current() -> None:
    command = "python -m tidelock.adapters.reference.schema_changes > docs/reference/schema-changes.md"
    assert PAGE.read_text(encoding="utf-8") == reference(), command


@pytest.mark.proof
def test_both_flavours_are_alike_at_both_ends() -> None:
    for statement in statements():
        same = {(s, t): planned(statement, s, t).outcome for s in ("mysql", "mariadb") for t in ("mysql", "mariadb")}
        assert len(set(same.values())) == 1, (statement, same)
        assert planned(statement, "mysql", "postgresql") == planned(statement, "mariadb", "postgresql")
    assert len(TARGETS) == 3


def test_statements_are_taken_apart() -> None:
    assert [one.split()[0] for one in split(FILE)] == ["CREATE", "INSERT", "CREATE", "ALTER", "ALTER", "USE", "RENAME"]
    assert next(one for one in split(FILE) if "TRIGGER" in one).endswith("DROP TABLE t; END")
    assert list(split(" ; -- nothing\n;")) == []


@pytest.mark.parametrize(("more", "code"), [("", 0), ("ALTER TABLE wide.v MODIFY a bigint;", 4)])
def test_the_command(more: str, code: int, tmp_path: Path) -> None:
    feed, file = tmp_path / "feed.yaml", tmp_path / "file.sql"
    feed.write_text(
        "feed: f\nsource: mysql://u:p@nowhere:1\ntarget: postgresql://u:p@nowhere:1/d\n"
        "tables: [{source: shop.*}, {source: wide.*}]\n"
    )
    file.write_text(FILE.replace("u TO v", "u TO v;\n") + more)
    said = tidelock("ddl", "plan", str(file), str(feed), "--json")
    assert said.code == code, said.err
    told = [(one["outcome"], one["runs"]) for one in said.json]
    assert [outcome for outcome, _ in told[:5]] == ["translated", "passed", "translated", "passed", "translated"]
    assert told[2][1][-1] == 'ALTER TABLE "shop"."t" ADD COLUMN IF NOT EXISTS "b" integer'
    assert told[4][1] == ['ALTER TABLE "wide"."u" RENAME TO "v"']
    assert "wide.u" in said.json[4]["why"]
    assert [outcome for outcome, _ in told[5:]] == (["halts"] if code else [])
    plain = tidelock("ddl", "plan", str(file), str(feed))
    assert plain.code == code and 'RENAME TO "v";' in plain.out


def test_the_plan_of_a_feed_between_sites(tmp_path: Path) -> None:
    """Its statements are those of one site, and what is dropped halts it."""
    path, sites = tmp_path / "feed.yaml", "sites: {source: us, target: eu}\nddl: {from: %s}\n"
    head = "feed: f\nsource: mysql://u:p@nowhere:1\ntarget: mysql://u:p@nowhere:1\ntables: [{source: shop.*}]\n"
    text = "ALTER TABLE t ADD COLUMN b int; ALTER TABLE t DROP COLUMN a; TRUNCATE t"
    plans = []
    for site in ("us", "eu"):
        path.write_text(head + sites % site)
        plans.append(ddl_plan(text, load(path)))
    own, others = plans
    assert [one.outcome for one in own] == ["applied", "halts", "applied"]
    assert "in a way that is not applied by itself" in own[1].why
    assert [one.outcome for one in others] == ["halts"] * 3
    assert all(one.why.startswith("a statement was made at us") for one in others)
