"""A PostgreSQL publication that was another one for a while, of which the log says nothing afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Postgres
from tests.adapters.postgres_feed import COPY_SECONDS, assert_halted, insert, made
from tidelock.adapters.config.slot_name import slot_name

LEFT_AND_BACK = {
    "a table": ("DROP TABLE item", "ADD TABLE item"),
    "rows": ("SET TABLE item WHERE (id < 0)", "SET TABLE item"),
    "columns": ("SET TABLE item (id, name, amount)", "SET TABLE item"),
    "inserts": ("SET (publish = 'update')", "SET (publish = 'insert, update, delete, truncate')"),
}


@pytest.fixture
def source(postgres_source: Postgres) -> Postgres:
    return postgres_source


def publication(rig: Rig, change: str) -> None:
    rig.at_source(f"ALTER PUBLICATION {slot_name(rig.name)} {change}")


def way_out(rig: Rig, *changes: str) -> None:
    """Do what the halt says, to the letter; then nothing differs."""
    rig.at_target(*changes)
    said = rig.command("ddl", "done", "@")
    assert said.code == 0, said
    process = rig.run()
    said = rig.command("copy", "@", "--table", f"{rig.schema}.item", "--yes")
    assert said.code == 0, said
    until(lambda: rig.equal() or not process.running, "tables as at the source", COPY_SECONDS)
    process.stop()
    rig.assert_exact()


@pytest.mark.parametrize(
    "what", [*LEFT_AND_BACK][:1] + [pytest.param(one, marks=pytest.mark.proof) for one in [*LEFT_AND_BACK][1:]]
)
def test_what_left_the_publication_while_the_feed_stood_still(
    make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres, what: str
) -> None:
    """It is back when the feed begins, and what was changed meanwhile is in no message."""
    rig = made(make_rig, source, postgres, "left")
    insert(rig, 1, 5)
    rig.catch_up()
    out, back = LEFT_AND_BACK[what]
    publication(rig, out)
    insert(rig, 11, 15)
    publication(rig, back)
    insert(rig, 21, 25)
    assert_halted(rig, "the publication", "tidelock ddl done", f"tidelock copy FEED --table {rig.schema}.item")
    way_out(rig)
    insert(rig, 31, 35)
    rig.catch_up()
    rig.assert_exact()


@pytest.mark.proof
@pytest.mark.parametrize("change", ["ADD ATTRIBUTE c int", "DROP ATTRIBUTE b"])
def test_a_composite_type_that_is_changed(
    make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres, change: str
) -> None:
    """All rows that have it say something else then, and no message tells it."""
    rig = make_rig(source, postgres, "composite")
    rig.at_source("CREATE TYPE pair AS (a int, b int)", "CREATE TABLE item (id int PRIMARY KEY, p pair[])")
    assert rig.command("init", "@", "--apply").code == 0
    rig.tables = ["item"]
    rig.at_source("""INSERT INTO item VALUES (1, '{"(1,2)"}')""")
    rig.catch_up()
    rig.at_source(f"ALTER TYPE pair {change}")
    assert_halted(rig, "a composite type has other attributes", "tidelock ddl done")
    way_out(rig, f"ALTER TYPE {rig.schema}.pair {change}")
