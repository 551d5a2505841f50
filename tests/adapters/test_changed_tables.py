"""A feed's file that is changed by hand: a run is refused where rows would never come."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bench.harness.rig import Rig, tidelock, until
from bench.harness.servers import MariaDb, MySql, Postgres
from bench.harness.tidelock import Process
from tidelock.adapters.app import feed_edit, resync
from tidelock.adapters.config.loader import load
from tidelock.adapters.config.rule_text import with_rule
from tidelock.adapters.ports.target_inspection import CannotRun

REFUSED = 1
SECONDS = 60.0


@pytest.fixture
def rig(make_rig: Callable[..., Rig], mariadb: MariaDb, postgres: Postgres) -> Rig:
    """A feed that has run with `one` alone, and with the rows of `part` below 10; all tables hold rows."""
    made = make_rig(mariadb, postgres, "byhand", lanes=2)
    for table in ("one", "two", "part"):
        made.table(table, "id int PRIMARY KEY, v varchar(20)")
        made.at_source(f"INSERT INTO {table} SELECT seq, 'first' FROM seq_1_to_20")
    made.rules = rules(made, one="", part="id < 10")
    made.start_at = made.here()
    made.catch_up()
    made.at_source("INSERT INTO part VALUES (0, 'x')")
    return made


def rules(rig: Rig, **tables: str) -> list[dict[str, str]]:
    return [{"source": f"{rig.schema}.{name}", **({"where": where} if where else {})} for name, where in tables.items()]


def count(rig: Rig, table: str) -> int:
    return int(rig.rows(f"SELECT count(*)::text FROM {rig.schema}.{table}")[0][0])


@pytest.mark.proof
def test_a_table_that_came_in_by_hand_is_refused_until_it_is_copied(rig: Rig) -> None:
    rig.rules = rules(rig, one="", two="", part="id < 10")
    for _ in range(2):
        assert rig.catch_up_code() == REFUSED, rig.said()
    assert f"rows that are there already would never come: {rig.schema}.two: comes in" in rig.said()
    assert (count(rig, "two"), count(rig, "part")) == (0, 0)
    shown = rig.command("edit", "@", "@")
    assert shown.code == 0 and "rows that are there are copied" in shown.out, shown
    assert rig.catch_up_code() == REFUSED, "that was a preview"
    done = rig.command("edit", "@", "@", "--apply")
    assert done.code == 0, done
    for _ in range(2):
        rig.catch_up()
        assert (count(rig, "two"), count(rig, "part")) == (20, 1)


def test_a_wider_filter_is_refused_until_its_rows_are_given_up(rig: Rig) -> None:
    wider = rules(rig, one="", part="id < 10 OR id = 15")
    rig.rules = wider
    assert rig.catch_up_code() == REFUSED, rig.said()
    assert f"{rig.schema}.part: filter, id < 10 becomes id < 10 OR id = 15" in rig.said()
    done = rig.command("edit", "@", "@", "--apply", "--no-copy")
    assert done.code == 0, done
    rig.at_source("UPDATE part SET v = 'y' WHERE id IN (15, 16)")
    rig.catch_up()
    assert count(rig, "part") == 2
    rig.rules = rules(rig, one="", part="id < 10")
    rig.catch_up()
    rig.rules = wider
    assert rig.catch_up_code() == REFUSED, "what came while it was narrower is lacking"


def test_what_takes_no_more_rows_is_no_reason(rig: Rig) -> None:
    rig.rules = rules(rig, part="id < 10 AND v = 'x'")
    rig.catch_up()
    rig.rules = [{"source": f"{rig.schema}.p*", "where": "id < 10 AND v = 'x'"}]
    rig.catch_up()
    assert count(rig, "part") == 1


def test_a_copy_that_is_queued_brings_the_rows(rig: Rig, tmp_path: Path) -> None:
    queued = f"SELECT table_schema FROM tidelock.tidelock_wanted WHERE feed = '{rig.name}'"
    rig.rules = rules(rig, one="", two="", part="id < 10")
    words = ["copy", str(rig.feed), "--table", f"{rig.schema}.two", "--yes"]
    asked = Process(words, tmp_path / "asked")
    try:
        until(lambda: rig.rows(queued) == [(rig.schema,)], "the request")
        rig.catch_up()
        assert (asked.code(SECONDS), count(rig, "two")) == (0, 20)
    finally:
        asked.kill()


@pytest.mark.proof
def test_a_table_that_came_in_while_a_resync_waited_for_an_answer(rig: Rig) -> None:
    """The resync copies the tables of the file that it has read, and takes the copy away that was held for another."""
    planned = asyncio.run(resync.plan(former := load(rig.feed), print))
    path = str(rig.feed)
    assert (done := tidelock("add-table", path, f"{rig.schema}.two", "--apply")).code == 0, done
    asyncio.run(resync.begin(former, planned))
    words = ["run", path, "--until-caught-up"]
    assert Process(words, rig.output).code(SECONDS) == REFUSED, rig.said()
    assert f"rows that are there already would never come: {rig.schema}.two: comes in" in rig.said()
    assert (done := tidelock("edit", path, path, "--apply")).code == 0, done
    Process(words, rig.output).wait(SECONDS)
    assert (count(rig, "one"), count(rig, "two"), count(rig, "part")) == (20, 20, 10)


def test_a_filter_that_was_wider_once_has_its_rows_copied_anew(rig: Rig) -> None:
    """Rows that came while it was wider do not change once it is narrow: to keep them would show older values for good.
    """
    former, wider = rules(rig, one="", part="id < 10"), rules(rig, one="", part="id < 10 OR id > 14")
    rig.at_source("UPDATE part SET v = concat('v', id)")
    for wanted in (wider, former, wider):
        before = rig.rules
        rig.rules = wanted
        new = rig.feed.rename(rig.folder / "new.yaml")
        rig.rules = before
        assert (done := tidelock("edit", str(rig.feed), str(new), "--apply")).code == 0, done
        rig.rules = wanted
        rig.catch_up()
        if wanted is former:
            rig.at_source("UPDATE part SET v = 'later' WHERE id = 15", "DELETE FROM part WHERE id = 16")
            rig.catch_up()
    found = rig.rows(f"SELECT id::text, v FROM {rig.schema}.part WHERE id IN (15, 16, 17) ORDER BY id")
    assert found == [("15", "later"), ("17", "v17")]


def test_of_two_edits_of_one_file_the_second_changes_nothing(rig: Rig) -> None:
    path = rig.feed
    text = path.read_text()
    more = [text.replace("id < 10", "id < 10 OR id = 15"), with_rule(text, {"source": f"{rig.schema}.two"})]
    first, second = (asyncio.run(feed_edit.plan(path, one, "the new file")) for one in more)
    asyncio.run(feed_edit.carry_out(first))
    with pytest.raises(CannotRun, match="was changed by somebody else meanwhile"):
        asyncio.run(feed_edit.carry_out(second))
    Process(["run", str(path), "--until-caught-up"], rig.output).wait(SECONDS)
    assert (count(rig, "two"), count(rig, "part")) == (0, 11)


def test_of_two_edits_at_one_moment_of_a_feed_that_has_not_begun_one_is_refused(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing at the target tells of it, so the file itself keeps the second from looking before the first is done."""
    path = tmp_path / "new.yaml"
    text = rig.feed.read_text().replace(rig.name, "new_feed", 1)
    path.write_text(text)
    entered, goes = [], threading.Event()
    replace = feed_edit.replace_file

    def slowly(place: Path, words: str) -> None:
        entered.append(words)
        assert goes.wait(SECONDS)
        replace(place, words)

    monkeypatch.setattr(feed_edit, "replace_file", slowly)
    more = [text.replace("id < 10", f"id < {n}") for n in (11, 12)]
    edits = [asyncio.run(feed_edit.plan(path, one, "the new file")) for one in more]
    assert not any(edit.begun for edit in edits)
    with ThreadPoolExecutor(2) as both:
        done = [both.submit(asyncio.run, feed_edit.carry_out(edit)) for edit in edits]
        until(lambda: len(entered) == 2 or waited_for(path), "two edits that want the file")
        goes.set()
        problems = [one.exception(SECONDS) for one in done]
    assert len(entered) == 1 and path.read_text() == entered[0]
    (refused,) = [problem for problem in problems if problem is not None]
    assert isinstance(refused, CannotRun) and "was changed by somebody else meanwhile" in str(refused)


def waited_for(path: Path) -> bool:
    """Somebody waits for the file's lock."""
    inode = f":{path.stat().st_ino} "
    return any("-> FLOCK" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


@pytest.mark.proof
def test_a_table_that_goes_amid_its_copy(make_rig: Callable[..., Rig], mariadb: MariaDb, postgres: Postgres) -> None:
    """Nobody reads its chunks any more: the copy ends, and once it comes in again it is copied anew."""
    rig = make_rig(mariadb, postgres, "amid", start="copy", copy={"existing": "replace"})
    for table in ("one", "two"):
        rig.table(table, "id int PRIMARY KEY, v varchar(20)")
        rig.at_source(f"INSERT INTO {table} SELECT seq, 'first' FROM seq_1_to_20")
    rig.at_target(
        "CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NEW; END'",
        "CREATE TRIGGER held BEFORE INSERT ON two FOR EACH ROW EXECUTE FUNCTION held()",
        "SELECT pg_advisory_lock(4711)",
    )
    chunks = f"SELECT 1 FROM tidelock.tidelock_chunks WHERE feed = '{rig.name}' AND table_name = 'two'"
    assert rig.command("init", "--apply").code == 0
    run = rig.run()
    until(lambda: len(rig.rows(chunks)) == 1, "the beginning of the copy")
    run.kill()
    rig.at_target("SELECT pg_advisory_unlock(4711)")
    rig.rules = rules(rig, one="")
    rig.catch_up()
    assert f"the copy of {rig.schema}.two ends unfinished" in rig.said()
    rig.at_source("UPDATE two SET v = 'later' WHERE id < 10")
    rig.catch_up()
    assert tidelock("add-table", str(rig.feed), f"{rig.schema}.two", "--apply").code == 0
    rig.rules = rules(rig, one="", two="")
    rig.catch_up()
    rig.assert_exact()


@pytest.mark.parametrize("target", ["mariadb", "postgres"])
def test_a_row_comes_back_into_a_filter_where_its_former_self_stayed(
    target: str, make_rig: Callable[..., Rig], mysql: MySql, request: pytest.FixtureRequest
) -> None:
    """It is inserted, and the row that stayed when the filter became narrower has its key."""
    rig = make_rig(mysql, request.getfixturevalue(target), "back")
    rig.table("t", "id int PRIMARY KEY, b int, u int UNIQUE")
    rig.at_source("INSERT INTO t VALUES (1, 10, 1), (2, 90, 2), (3, 30, 3), (4, 40, 4)")
    rig.catch_up()
    rule: Any = {"source": f"{rig.schema}.t", "where": "b >= 50"}
    rig.rules = [rule]
    rig.at_source("UPDATE t SET b = 60 WHERE id = 1", "UPDATE t SET b = 70, u = 33 WHERE id = 3")
    rig.catch_up()
    assert rig.parked() == 0
    found = rig.rows(f"SELECT CONCAT(id, ' ', b, ' ', u) FROM {rig.schema}.t ORDER BY id")
    assert [text for (text,) in found] == ["1 60 1", "2 90 2", "3 70 33", "4 40 4"]


def test_a_copy_behind_a_narrower_filter_is_made_by_a_run_that_has_it(rig: Rig, tmp_path: Path) -> None:
    """A run that began with the file of before would copy its rows once more, and they would stay."""
    part = f"{rig.schema}.part"
    rig.at_source("UPDATE part SET v = 'new'")
    process = rig.run()
    until(lambda: rig.rows(f"SELECT count(*)::text FROM {part} WHERE v = 'new'") == [("10",)], "the rows below 10")
    rig.rules = rules(rig, one="", part="id < 5")
    asked = Process(["copy", str(rig.feed), "--table", part, "--yes"], tmp_path / "asked")
    try:
        until(lambda: "began with another file" in (tmp_path / "asked").read_text(), "a copy that waits")
        process.stop()
        process = rig.run()
        assert asked.code(SECONDS) == 0
        assert sorted(rig.rows(f"SELECT id::text FROM {part}")) == [(str(n),) for n in range(5)]
    finally:
        asked.stop()
        process.stop()


def test_a_table_that_came_in_by_hand_is_copied_by_a_run_that_has_it(rig: Rig, tmp_path: Path) -> None:
    process = rig.run()
    until(lambda: count(rig, "part") == 1, "the row")
    rig.rules = rules(rig, one="", two="", part="id < 10")
    asked = Process(["copy", str(rig.feed), "--table", f"{rig.schema}.two", "--yes"], tmp_path / "asked")
    try:
        until(lambda: "began with another file" in (tmp_path / "asked").read_text(), "a copy that waits")
        process.stop()
        process = rig.run()
        assert asked.code(SECONDS) == 0
        assert (count(rig, "two"), count(rig, "part")) == (20, 1)
    finally:
        asked.stop()
        process.stop()
