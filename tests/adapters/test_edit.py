"""`tidelock edit`, `add-table` and `drop-table` at feeds that run, and at stopped ones."""

import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from bench.harness.rig import Rig, tidelock, until
from bench.harness.servers import Server
from bench.harness.session import connect
from bench.harness.tidelock import Process
from tidelock.adapters.ports.staging import staged_name
from tidelock.engine.protocol.effects import EffectId

SECONDS = 120.0
REFUSED = 1


@contextmanager
def written(rig: Rig) -> Iterator[threading.Event]:
    """Changes of both tables meanwhile, one at a time; each gives a row another value, or takes it away, or makes it.

    What is yielded is set again and again, once some changes more are made.
    """
    stop, went = threading.Event(), threading.Event()
    drawn = random.Random(7)

    def write() -> None:
        session = connect(rig.source.url(rig.schema))
        made = 0
        try:
            while not stop.wait(0.005):
                table, id_ = drawn.choice(("one", "two")), drawn.randint(1, 400)
                if drawn.random() < 0.2:
                    session.send(f"DELETE FROM {table} WHERE id = {id_}")
                else:
                    session.send(f"REPLACE INTO {table} VALUES ({id_}, 'v{made}')")
                made += 1
                if made % 50 == 0:
                    went.set()
        finally:
            session.close()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield went
    finally:
        stop.set()
        thread.join()


def feed_of(rig: Rig, folder: Path) -> Path:
    """The feed's file in a folder of its own, with a comment."""
    folder.mkdir()
    path = Path(shutil.copy(rig.feed, folder))
    path.write_text(f"# ours\n{path.read_text()}")
    return path


@pytest.mark.proof
def test_a_table_that_comes_in_under_load_is_copied_exactly(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    rig = make_rig(mariadb, postgres, "added", lanes=2)
    for table in ("one", "two"):
        rig.table(table, "id int PRIMARY KEY, v varchar(20)")
        rig.at_source(f"INSERT INTO {table} SELECT seq, 'first' FROM seq_1_to_400")
    rig.at_target(f"INSERT INTO {rig.schema}.two VALUES (1, 'old'), (999, 'old')")
    rig.rules = [{"source": f"{rig.schema}.one"}]
    rig.start_at = "copy"
    path, said, two = feed_of(rig, tmp_path / "feeds"), tmp_path / "said", f"{rig.schema}.two"
    served = Process(["serve", str(path.parent)], said)
    try:
        until(lambda: rig.rows(f"SELECT count(*)::text FROM {rig.schema}.one") == [("400",)], "the copy", SECONDS)
        with written(rig) as went:
            before = path.read_text()
            shown = tidelock("add-table", str(path), two)
            assert (shown.code, path.read_text()) == (0, before), shown.err
            assert "comes in" in shown.out and "rows that are there are copied" in shown.out
            assert rig.rows(f"SELECT v FROM {two} ORDER BY id") == [("old",), ("old",)]
            done = tidelock("add-table", str(path), two, "--apply", seconds=SECONDS)
            assert (done.code, "has the new file" in done.out) == (0, True), f"{done.out}{done.err}{said.read_text()}"
            assert path.read_text().startswith("# ours\n") and f"- source: {two}\n" in path.read_text()
            went.clear()
            assert went.wait(SECONDS)
        until(rig.equal, "equal ends", SECONDS)
    finally:
        served.stop()
    assert rig.parked() == 0


@pytest.mark.proof
def test_a_copy_is_held_for_a_run_that_has_the_file_which_asked_for_it(
    make_rig: Callable[..., Rig], mariadb: Server, mysql: Server, tmp_path: Path
) -> None:
    """The file of before does not take the rows that are to be copied, so a run with it begins no copy."""
    rig = make_rig(mariadb, mysql, "held", lanes=2)
    rig.table("t", "id int PRIMARY KEY, v varchar(20)")
    rig.table("gone", "id int PRIMARY KEY")
    rig.rules = [{"source": f"{rig.schema}.gone"}, {"source": f"{rig.schema}.t", "where": "id < 10"}]
    rig.at_source("INSERT INTO gone VALUES (1)")
    rig.at_source("INSERT INTO t SELECT seq, 'x' FROM seq_1_to_100")
    rig.catch_up()
    former = rig.feed
    path = feed_of(rig, tmp_path / "feed")
    before = path.read_text()
    dropped = tidelock("drop-table", str(path), f"{rig.schema}.gone", "--apply")
    assert (dropped.code, "rows at the target stay" in dropped.out) == (0, True), dropped.err
    assert path.read_text() == before.replace(f"- source: {rig.schema}.gone\n", "")
    wider = tmp_path / "wider.yaml"
    words = yaml.safe_load(path.read_text())
    wider.write_text(yaml.safe_dump({**words, "lanes": 3, "tables": [{"source": f"{rig.schema}.t"}]}))
    done = tidelock("edit", str(path), str(wider), "--apply")
    assert (done.code, "nobody runs the feed" in done.out, path.read_text()) == (0, True, wider.read_text()), done.err
    assert "wider: rows that never came are copied" in done.out
    rig.at_source("INSERT INTO t VALUES (5000, 'x')")
    caught = tidelock("run", str(former), "--until-caught-up", seconds=SECONDS)
    assert "waits for a run with the file that it was asked for with" in caught.out + caught.err
    assert rig.rows(f"SELECT CONCAT(count(*), '') FROM {rig.schema}.t") == [("9",)]
    rig.at_source("DELETE FROM gone")
    caught = tidelock("run", str(path), "--until-caught-up", seconds=SECONDS)
    assert caught.code == 0, caught.out + caught.err
    assert rig.differences().extra == rig.differences().total == 1, "rows of a table that went stay"
    refused = tidelock("edit", str(path), str(_other(words, tmp_path, feed="another")), "--apply")
    assert (refused.code, "is another feed" in refused.err) == (REFUSED, True)
    broken = tidelock("edit", str(path), str(_other(words, tmp_path, lanes=0)))
    assert "other.yaml, line" in broken.err and "lanes" in broken.err


def _other(words: dict[str, object], folder: Path, **keys: object) -> Path:
    path = folder / "other.yaml"
    path.write_text(yaml.safe_dump({**words, **keys}))
    return path


@pytest.mark.proof
def test_a_run_that_nobody_serves_is_named_and_exit_code_1_says_so(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    rig = make_rig(mariadb, postgres, "alone", lanes=2)
    rig.table("t", "id int PRIMARY KEY")
    path = feed_of(rig, tmp_path / "feed")
    said = tmp_path / "said"
    run = Process(["run", str(path)], said)
    try:
        rig.at_source("INSERT INTO t VALUES (1)")
        until(rig.equal, "equal ends", SECONDS)
        words = yaml.safe_load(path.read_text())
        done = tidelock("edit", str(path), str(_other(words, tmp_path, lanes=3)), "--apply", seconds=SECONDS)
        assert (done.code, "still has the file as it was: end it" in done.out) == (REFUSED, True), done.out + done.err
    finally:
        run.stop()


@pytest.mark.proof
def test_what_comes_in_from_postgres_is_published_and_copied(
    make_rig: Callable[..., Rig], postgres_source: Server, mariadb: Server, tmp_path: Path
) -> None:
    rig = make_rig(postgres_source, mariadb, "published", lanes=2)
    for table in ("one", "two"):
        rig.table(table, "id int PRIMARY KEY, v varchar(20)")
    rig.rules = [{"source": f"{rig.schema}.one"}]
    rig.at_source("INSERT INTO two SELECT n, 'first' FROM generate_series(1, 50) n")
    rig.catch_up()
    path = feed_of(rig, tmp_path / "feed")
    rig.at_source("UPDATE two SET v = 'second' WHERE id = 1", "INSERT INTO one VALUES (1, 'x')")
    done = tidelock("add-table", str(path), f"{rig.schema}.two", "--apply")
    assert done.code == 0, done.out + done.err
    rig.at_source("UPDATE two SET v = 'third' WHERE id = 2", "DELETE FROM two WHERE id = 3")
    caught = tidelock("run", str(path), "--until-caught-up", seconds=SECONDS)
    assert caught.code == 0, caught.out + caught.err
    assert rig.differences().total == 0
    staged = staged_name(rig.name, 0, EffectId(1, 7))  # what a killed run left
    rig.at_target(f"CREATE TABLE tidelock.{staged} (id int)")
    gone = tidelock("remove", str(path), "--apply")
    assert gone.code == 0 and "nothing is left of it" in tidelock("remove", str(path)).out, gone.err
    assert not rig.rows(f"SELECT table_name FROM information_schema.tables WHERE table_name = '{staged}'")
