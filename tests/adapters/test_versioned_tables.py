"""System-versioned tables of MariaDB: its log has former rows of theirs as new ones, so a feed does not take them."""

from __future__ import annotations

from collections.abc import Callable

from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, Postgres

OPERATOR = 4
VERSIONS = (
    "began timestamp(6) GENERATED ALWAYS AS ROW START, ended timestamp(6) GENERATED ALWAYS AS ROW END, "
    "PERIOD FOR SYSTEM_TIME (began, ended)"
)


def test_a_versioned_table_is_refused(mariadb: MariaDb, postgres: Postgres, make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(mariadb, postgres, "versioned")
    rig.at_source(f"CREATE TABLE item (id int PRIMARY KEY, v int, {VERSIONS}) WITH SYSTEM VERSIONING")
    rig.start_at = rig.here()
    checked = rig.command("check", "--json")
    assert f"{rig.schema}.item is system-versioned" in checked.out, checked
    assert rig.catch_up_code() != 0, rig.said()


def test_a_table_that_gets_versions_halts_until_it_has_none(
    mariadb: MariaDb, postgres: Postgres, make_rig: Callable[..., Rig]
) -> None:
    rig = make_rig(mariadb, postgres, "versioned")
    rig.table("item", "id int PRIMARY KEY, v int")
    rig.at_source("INSERT INTO item VALUES (1, 1), (2, 2)")
    rig.catch_up()
    rig.at_source("ALTER TABLE item ADD SYSTEM VERSIONING")
    assert rig.catch_up_code() == OPERATOR, rig.said()
    assert f"{rig.schema}.item is system-versioned: the log tells a DELETE as an UPDATE" in rig.said()
    rig.at_source("ALTER TABLE item DROP SYSTEM VERSIONING")
    for statement in ("ADD SYSTEM VERSIONING", "DROP SYSTEM VERSIONING"):
        before = len(rig.said())
        assert rig.catch_up_code() == OPERATOR, rig.said()
        assert f"ALTER TABLE item {statement}" in rig.said()[before:]
        assert rig.command("ddl", "skip").code == 0
    rig.at_source("UPDATE item SET v = 5 WHERE id = 1", "DELETE FROM item WHERE id = 2")
    rig.catch_up()
    rig.assert_exact()
