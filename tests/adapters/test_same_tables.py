"""A feed that would bring the rows of another one again, as its file has another name or `schema` now, is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, Postgres, Server

REFUSED = 1


@pytest.fixture
def renamed(make_rig: Callable[..., Rig], mariadb: MariaDb, postgres: Postgres) -> Rig:
    """A feed that has run, with a change behind it, and then has another name in its file."""
    return _renamed(make_rig(mariadb, postgres, "same"))


def _renamed(rig: Rig) -> Rig:
    rig.table("bare", "id int, v int")
    rig.table("keyed", "id int PRIMARY KEY, v int")
    rig.at_source("INSERT INTO bare VALUES (1, 1), (2, 2)", "INSERT INTO keyed VALUES (1, 1)")
    rig.catch_up()
    rig.at_source("INSERT INTO keyed VALUES (2, 2)")
    rig.name += "b"
    return rig


def _refused(rig: Rig) -> str:
    checked = rig.command("check", "--json").json
    (found,) = [one for one in checked["findings"] if one["kind"] == "same-tables"]
    assert found["level"] == "error"
    assert rig.catch_up_code() == REFUSED, rig.said()
    assert "brings the same tables from this source" in rig.said()
    return str(found["hint"])


@pytest.mark.parametrize("start", ["", pytest.param("now", marks=pytest.mark.proof)])
def test_a_feed_of_another_name_goes_on_under_its_own(renamed: Rig, start: str) -> None:
    former = renamed.name[:-1]
    renamed.start_at = start or renamed.start_at
    assert f"(`feed: {former}`, `schema: tidelock` in place of `feed: {renamed.name}`" in _refused(renamed)
    renamed.name = former
    renamed.catch_up()
    renamed.assert_exact()


def test_another_schema_of_the_bookkeeping(renamed: Rig) -> None:
    renamed.name, renamed.options["schema"] = renamed.name[:-1], f"{renamed.schema}_books"
    assert "`schema: tidelock` in place of" in _refused(renamed)
    del renamed.options["schema"]
    renamed.catch_up()
    renamed.assert_exact()


def test_that_feed_is_ended_and_its_rows_are_copied_anew(renamed: Rig) -> None:
    """And one that copies all is let through, with a warning."""
    _refused(renamed)
    renamed.start_at = "copy"
    renamed.options["copy"] = {"existing": "replace"}
    (found,) = [one for one in renamed.command("check", "--json").json["findings"] if one["kind"] == "same-tables"]
    assert found["level"] == "warning"
    after, renamed.name = renamed.name, renamed.name[:-1]
    assert renamed.command("remove", "--apply").code == 0
    renamed.name = after
    assert "same-tables" not in renamed.command("check", "--json").out
    renamed.catch_up()
    renamed.assert_exact()


def test_a_part_of_the_rows_and_another_source_are_no_errors(
    renamed: Rig, make_rig: Callable[..., Rig], make_mariadb: Callable[..., MariaDb]
) -> None:
    renamed.rules = [{"source": f"{renamed.schema}.keyed", "where": "id > 1"}]
    (found,) = [one for one in renamed.command("check", "--json").json["findings"] if one["kind"] == "same-tables"]
    assert found["level"] == "warning"
    shard: Server = make_mariadb()  # of the same server id
    shard.execute(f"CREATE DATABASE {renamed.schema}")
    shard.execute("CREATE TABLE keyed (id int PRIMARY KEY, v int)", database=renamed.schema)
    renamed.rules = [{"source": f"{renamed.schema}.keyed"}]
    renamed.source_url, renamed.start_at = shard.url(), "now"
    assert "same-tables" not in renamed.command("check", "--json").out


def test_a_feed_from_postgres(make_rig: Callable[..., Rig], postgres_source: Postgres, postgres: Postgres) -> None:
    rig = make_rig(postgres_source, postgres, "samepg")
    rig.table("keyed", "id int PRIMARY KEY, v int")
    rig.begin_here()
    rig.at_source("INSERT INTO keyed VALUES (1, 1)")
    rig.catch_up()
    rig.at_source("INSERT INTO keyed VALUES (2, 2)")
    rig.name += "b"
    _refused(rig)
    rig.name = rig.name[:-1]
    rig.catch_up()
    rig.assert_exact()
