"""A feed that would bring the rows of another one again, as its file has another name or `schema` now, is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, tidelock, until
from bench.harness.servers import MariaDb, Postgres, Server
from bench.harness.session import connect
from bench.harness.workers import Workers
from tidelock.adapters.bookkeeping.lease import lock_of

REFUSED = 1
LOCK = lock_of("", "", "tables")
ASKING = (  # sessions that ask for the lock again and again
    "SELECT pid::text FROM pg_stat_activity WHERE state = 'idle in transaction' AND query LIKE "
    f"'%pg_try_advisory_xact_lock({LOCK})%'"
)


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


@pytest.mark.proof
def test_another_schema_of_the_bookkeeping(renamed: Rig) -> None:
    renamed.name, renamed.options["schema"] = renamed.name[:-1], f"{renamed.schema}_books"
    assert "`schema: tidelock` in place of" in _refused(renamed)
    del renamed.options["schema"]
    renamed.catch_up()
    renamed.assert_exact()


@pytest.mark.proof
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


def test_init_stores_no_place_of_such_a_feed(renamed: Rig) -> None:
    """Whoever makes ready what he has renamed would go on from the place of that moment."""
    renamed.start_at = "now"
    made = renamed.command("init", "--apply")
    assert made.code == REFUSED and "brings the same tables from this source" in made.err, made
    _refused(renamed)
    renamed.name = renamed.name[:-1]
    renamed.catch_up()
    renamed.assert_exact()


def test_of_two_that_begin_together_one_is_refused(
    make_rig: Callable[..., Rig], mariadb: MariaDb, postgres: Postgres
) -> None:
    """Also where both copy, and so would be let through beside one that does not run."""
    rig = make_rig(mariadb, postgres, "twins")
    rig.table("bare", "id int, v int")
    rig.at_source("INSERT INTO bare VALUES (1, 1), (2, 2)")
    rig.start_at = "copy"
    first, other = rig.name, f"{rig.name}b"
    held = connect(postgres.url())
    held.send(f"SELECT pg_advisory_lock({LOCK})")  # so that both have looked before either begins
    runs = {first: rig.run()}
    rig.name = other
    runs[other] = rig.run()
    until(lambda: len(held.rows(ASKING)) == 2, "both that want the lock")
    held.close()
    until(lambda: not all(run.running for run in runs.values()), "one that ends")
    (left,) = [name for name, run in runs.items() if run.running]
    (ended,) = [run for run in runs.values() if not run.running]
    assert ended.code(1) == REFUSED and "brings the same tables from this source" in ended.said, ended.said
    rig.at_source("INSERT INTO bare VALUES (3, 3)")
    until(rig.equal, "equal ends")
    runs[left].stop()
    rig.name = left
    rig.catch_up()
    rig.assert_exact()


def _neighbours(make_rig: Callable[..., Rig], mariadb: MariaDb, postgres: Postgres, name: str) -> tuple[Rig, str]:
    """A feed that has run with one table, and the name of one that has with the other; both hold rows."""
    rig = make_rig(mariadb, postgres, name)
    rig.table("bare", "id int, v int")
    rig.table("keyed", "id int PRIMARY KEY, v int")
    rig.at_source("INSERT INTO bare VALUES (1, 1)", "INSERT INTO keyed VALUES (1, 1)")
    rig.rules = [{"source": f"{rig.schema}.bare"}]
    rig.catch_up()
    other, rig.name = rig.name, f"{rig.name}b"
    rig.rules = [{"source": f"{rig.schema}.keyed"}]
    rig.catch_up()
    return rig, other


@pytest.mark.proof
def test_a_table_of_another_feed_is_not_added(
    make_rig: Callable[..., Rig], mariadb: MariaDb, postgres: Postgres
) -> None:
    """Until that one has run without it, as the message says."""
    rig, other = _neighbours(make_rig, mariadb, postgres, "added")
    path, bare = str(rig.feed), f"{rig.schema}.bare"
    done = tidelock("add-table", path, bare, "--apply")
    assert done.code == REFUSED and "brings the same tables from this source" in done.err, done
    assert f"and {rig.name} would take {bare} too" in done.err
    both = [{"source": f"{rig.schema}.keyed"}, {"source": bare}]
    mine, rig.rules = rig.rules, both
    for _ in range(2):
        assert rig.catch_up_code() == REFUSED and f"would take {bare} too" in rig.said(), "added by hand"
    ours, rig.name, rig.rules = rig.name, other, [{"source": f"{rig.schema}.none"}]
    rig.catch_up()
    rig.name, rig.rules = ours, mine
    path = str(rig.feed)
    done = tidelock("add-table", path, bare, "--apply")
    assert done.code == 0, done
    assert tidelock("run", path, "--until-caught-up").code == 0
    assert rig.equal()


@pytest.mark.proof
def test_a_part_of_the_rows_may_be_added(make_rig: Callable[..., Rig], mariadb: MariaDb, postgres: Postgres) -> None:
    rig, _ = _neighbours(make_rig, mariadb, postgres, "parts")
    done = tidelock("add-table", str(rig.feed), f"{rig.schema}.bare", "--where", "id > 100", "--apply")
    assert done.code == 0, done


@pytest.mark.proof
def test_workers_are_asked_and_told_of(
    make_workers: Callable[..., Workers], mariadb: MariaDb, postgres: Postgres
) -> None:
    """A feed of workers that has another name; and one that runs by itself beside workers, also where it copies."""
    workers = make_workers(mariadb, postgres, "crew", 1)
    rig = workers.rig
    rig.table("keyed", "id int PRIMARY KEY, v int")
    rig.at_source("INSERT INTO keyed VALUES (1, 1)")
    workers.start()
    workers.until(rig.equal, "equal ends")
    workers.stop()
    rig.at_source("INSERT INTO keyed VALUES (2, 2)")
    former, rig.name = rig.name, f"{rig.name}b"
    workers.start()
    workers.until(lambda: "brings the same tables from this source" in workers.said(), "a coordinator that is refused")
    workers.stop()
    del rig.options["log"]
    for start in (rig.start_at, "copy"):
        rig.start_at = start
        assert rig.catch_up_code() == REFUSED and f"give it those again (`feed: {former}`" in rig.said()
