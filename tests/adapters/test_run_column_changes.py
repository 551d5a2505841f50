"""Columns that get another definition in the middle of row changes, followed by a feed: both ends are the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Postgres

OPERATOR = 4
ITEM = (
    "id int PRIMARY KEY AUTO_INCREMENT, n smallint, name varchar(10), kind enum('a','b'), price decimal(6,2), "
    "made datetime, code char(4), UNIQUE KEY by_name (name)"
)
AT_POSTGRES = (
    "id int PRIMARY KEY, n smallint, name varchar(10) UNIQUE, kind text, price numeric(6,2), made timestamp(0), "
    "code varchar(4), CONSTRAINT item_kind_label CHECK (kind IN ('', 'a', 'b'))"
)
CHANGES = """
INSERT INTO item VALUES (1, 32767, 'ten chars ', 'a', 9999.99, '2026-01-01 00:00:00', 'x')
INSERT INTO item (id) VALUES (2)
ALTER TABLE item MODIFY n bigint unsigned AFTER id, MODIFY name varchar(20) COMMENT 'it''s a name'
INSERT INTO item (id, n, name) VALUES (3, 18446744073709551615, 'twenty characters: é')
ALTER TABLE item MODIFY id bigint AUTO_INCREMENT, MODIFY kind enum('a','b','c')
INSERT INTO item (id, kind) VALUES (1099511627776, 'c')
ALTER TABLE item CHANGE price cost decimal(12,4), MODIFY made datetime(6)
UPDATE item SET cost = 12345678.1234, made = '2026-01-01 00:00:00.123456' WHERE id = 3
ALTER TABLE item MODIFY code varchar(8) CHARACTER SET utf8mb4
UPDATE item SET n = 4000000000, code = IFNULL(code, '𝄞 eight ')
ALTER TABLE item MODIFY n int unsigned NULL, MODIFY code varchar(8) NOT NULL FIRST
INSERT INTO item (id, code) VALUES (4, 'x  ')
""".strip().splitlines()
PAIRS = [("mysql", "postgres"), ("mysql", "mariadb")]


@pytest.fixture(params=PAIRS, ids=["-".join(pair) for pair in PAIRS])
def rig(request: pytest.FixtureRequest, make_rig: Callable[..., Rig]) -> Rig:
    source, target = (request.getfixturevalue(name) for name in request.param)
    made = make_rig(source, target, "modified", lanes=2)
    made.table("item", ITEM, AT_POSTGRES if request.param[1] == "postgres" else None)
    made.rules = [{"source": f"{made.schema}.*"}]
    return made


def types(rig: Rig) -> dict[str, str]:
    """The types of the target's columns, in order."""
    asked = (
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        f"WHERE attrelid = '{rig.schema}.item'::regclass AND attnum > 0 ORDER BY attnum"
    )
    if not isinstance(rig.target, Postgres):
        asked = (
            "SELECT column_name, column_type FROM information_schema.columns "
            f"WHERE table_schema = '{rig.schema}' AND table_name = 'item' ORDER BY ordinal_position"
        )
    return {str(name): str(type_) for name, type_ in rig.rows(asked)}


def test_definitions_among_rows(rig: Rig) -> None:
    rig.catch_up()
    process = rig.run()
    rig.at_source(*CHANGES)
    until(rig.equal, "equal ends", 60)
    process.stop()
    rig.assert_exact()
    made = types(rig)
    assert sorted(made) == ["code", "cost", "id", "kind", "made", "n", "name"]
    if isinstance(rig.target, Postgres):
        assert (made["n"], made["cost"]) == ("bigint", "numeric(12,4)")
        assert (made["name"], made["made"]) == ("character varying(20)", "timestamp(6) without time zone")
    else:
        assert [*made][:3] == ["code", "id", "n"]
        assert (made["n"], made["kind"]) == ("int(10) unsigned", "enum('a','b','c')")


@pytest.mark.proof
def test_what_ran_at_the_target_already_is_not_run_again(rig: Rig) -> None:
    """As after a crash between the statement, which MySQL commits at once, and the note that it ran.  The next reader
    goes by the type of before, which the source's catalogue has no more; so does one that halts, again and again."""
    rig.catch_up()
    rig.at_source("INSERT INTO item (id, n, name) VALUES (1, 5, 'five')")
    rig.catch_up()
    rig.at_source("ALTER TABLE item MODIFY n bigint")
    type_ = "ALTER COLUMN n TYPE" if isinstance(rig.target, Postgres) else "MODIFY n"
    rig.at_target(f"ALTER TABLE {rig.schema}.item {type_} bigint")
    rig.at_source(f"UPDATE item SET n = {2**40}")
    rig.at_source("ALTER TABLE item MODIFY name varchar(5)")
    for _ in range(2):
        assert rig.catch_up_code() == OPERATOR
        assert "texts may be longer than varchar(5)" in rig.said()
    assert rig.command("ddl", "skip").code == 0
    rig.catch_up()
    rig.assert_exact()
