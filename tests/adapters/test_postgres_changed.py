"""Tables of a PostgreSQL source that are changed while no run sees it: told by the next run, at each kind of target."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Postgres
from tidelock.adapters.config.loader import load
from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.ports.source_errors import Busy
from tidelock.adapters.postgres.logical import reader, slots
from tidelock.adapters.wiring.capture_order import order_of
from tidelock.adapters.wiring.sources import source_of
from tidelock.engine.model.records import Position, TableName

ITEM = "id int PRIMARY KEY, v varchar(20)"
COPY_SECONDS = 180.0


@pytest.fixture
def source(postgres_source: Postgres) -> Postgres:
    return postgres_source


def halted(rig: Rig, *words: str) -> None:
    before = len(rig.said())
    assert rig.catch_up_code() == 4, rig.said()[-3000:]
    said = rig.said()[before:]
    assert all(word in said for word in words), said


def done(rig: Rig, *changes: str) -> None:
    rig.at_target(*changes)
    assert rig.command("ddl", "done", "@").code == 0


def column(rig: Rig, definition: str) -> str:
    word = "ALTER COLUMN v TYPE" if isinstance(rig.target, Postgres) else "MODIFY v"
    return f"ALTER TABLE {rig.schema}.item {word} {definition}"


@pytest.mark.parametrize("target", ["mariadb", pytest.param("postgres", marks=pytest.mark.proof)])
def test_changes_while_the_feed_stands_still(
    make_rig: Callable[..., Rig], source: Postgres, target: str, request: pytest.FixtureRequest
) -> None:
    """Two tables of which no row comes since, and one with; what each halt says is done to the letter."""
    rig = make_rig(source, request.getfixturevalue(target), "changed", lanes=2)
    for name in ("item", "other", "wider"):
        rig.table(name, ITEM)
        rig.at_source(f"INSERT INTO {name} VALUES (1, 'one')")
    rig.start_at = "copy"
    rig.catch_up(COPY_SECONDS)
    rig.at_source(
        "ALTER TABLE item ALTER v TYPE varchar(30) USING 'now ' || v",
        "ALTER TABLE wider ADD extra int DEFAULT 7",
        "DROP TABLE other",
        f"CREATE TABLE other ({ITEM})",
        "INSERT INTO other VALUES (2, 'anew')",
        f"ALTER PUBLICATION {slot_name(rig.name)} ADD TABLE other",
        "INSERT INTO wider VALUES (3, 'three', 9)",  # it ends where the run has caught up, before there was a look
    )
    way_out = "`tidelock ddl done FEED`, `tidelock run FEED`, and beside it `tidelock copy FEED --table {}`"
    item, other = f"{rig.schema}.item", f"{rig.schema}.other"
    halted(rig, "column v was character varying(20), and is character varying(30)", way_out.format(item))
    done(rig, column(rig, "varchar(30)"))
    halted(rig, f"{other} is another table than before", way_out.format(other))
    done(rig)
    process = rig.run()
    for name in (item, other):
        said = rig.command("copy", "@", "--table", name, "--yes")
        assert said.code == 0, said
    until(lambda: rig.equal() or not process.running, "tables as at the source")
    rig.at_source("INSERT INTO wider VALUES (2, 'two', 8)", "UPDATE item SET v = 'later'")
    until(lambda: rig.equal() or not process.running, "rows in the new forms")
    assert process.running, rig.said()[-3000:]
    process.stop()
    rig.assert_exact()


@pytest.mark.proof
@pytest.mark.parametrize("target", ["postgres", "mariadb"])
def test_a_feed_of_a_version_that_kept_no_forms(
    make_rig: Callable[..., Rig], source: Postgres, target: str, request: pytest.FixtureRequest
) -> None:
    """It is told what that means, and forms are kept from then on; behind a resync too."""
    rig = make_rig(source, request.getfixturevalue(target), "former", lanes=2)
    rig.options["schema"] = books = f"{rig.schema}_books"
    rig.table("item", ITEM)
    rig.catch_up()
    rig.at_target(f"DROP TABLE {books}.tidelock_forms")
    rig.at_source("INSERT INTO item VALUES (1, 'one')")
    rig.catch_up()
    assert rig.said().count("did not keep the forms") == 1
    rig.at_source("ALTER TABLE item ALTER v TYPE varchar(19)")
    halted(rig, "and is character varying(19)")
    assert rig.command("resync", "@", "--yes").code == 0
    rig.at_source("ALTER TABLE item ALTER v TYPE varchar(18)")
    halted(rig, "and is character varying(18)")
    assert rig.said().count("did not keep the forms") == 1


def test_a_change_of_which_no_row_tells_while_the_log_is_read(
    make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalogue is asked now and then; what a reader knows first is what was where the slot begins."""
    monkeypatch.setattr(reader, "FORMS_SECONDS", 0.0)
    monkeypatch.setattr(slots, "WAIT_SECONDS", 1)
    rig = make_rig(source, postgres, "silent", lanes=2)
    rig.table("item", ITEM)
    feed, item = load(rig.feed), [TableName(rig.schema, "item")]
    with closing(source.connect(rig.schema)) as writer:
        writer.execute_script("BEGIN; SELECT pg_current_xact_id()")
        with pytest.raises(Busy, match=r"did not make the slot .*pid [0-9]+ of postgres"):
            source_of(feed.source_url).keep_log(item, Position("", 0))
    begins = source_of(feed.source_url).keep_log(item, Position("", 0))
    log = source_of(feed.source_url).reader(order_of(feed, begins.place, forms=begins.forms))
    batches = log.batches()
    next(batches)
    assert log.take_learned().forms == (), "nothing new"
    rig.at_source("ALTER TABLE item ALTER v TYPE varchar(30) USING 'now ' || v")
    told = next(batch for batch in batches if batch.ddl is not None)
    log.close()
    (learned,) = log.take_learned().forms
    assert told.ddl is not None and told.ddl.untold and told.last.order == learned.place.order
    assert told.ddl.tables == (TableName(rig.schema, "item"),)
