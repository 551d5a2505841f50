"""Merges into a Hive warehouse, against a real source; what is there is asked by Spark SQL through the metastore."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.harness.lake import Lake
from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.session import connect
from bench.harness.workload.mix import Mix
from tidelock.adapters.config.loader import load
from tidelock.adapters.hive.manifest import Manifest, Manifests, Taken
from tidelock.adapters.hive.merger import Broken, Merger, Stretch
from tidelock.adapters.hive.opening import OpenedHive, opened
from tidelock.adapters.hive.run import FirstRunRefused
from tidelock.adapters.hive.warehouse import Warehouse
from tidelock.engine.model.records import Position

pytestmark = pytest.mark.usefixtures("room_for_spark")
OPTIONS = {"merge_seconds": 1, "buckets": 4, "history": True}
SPARK = {"settings": {"spark.sql.shuffle.partitions": "4"}}  # small tables
COLUMNS = "id, email, balance, updated_at, payload, version"
IN_HIVE = (
    "cast(id AS string), email, cast(balance AS string), date_format(updated_at, 'yyyy-MM-dd HH:mm:ss.SSSSSS'), "
    "payload, cast(version AS string)"
)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory, mariadb: Server, postgres: Server) -> Iterator[Rig]:
    """Rig with what the command left behind when it was killed.  The rigs' PostgreSQL ends are not used."""
    folder = tmp_path_factory.mktemp("hive")
    rig = Rig(mariadb, postgres, folder, "lake", hive=OPTIONS, spark=SPARK)
    try:
        run_and_kill(rig, folder, 600, 300)
        yield rig
    finally:
        rig.close()


@pytest.fixture(scope="module")
def lake(left: Rig, room_for_spark: None) -> Iterator[Lake]:
    with opened(load(left.feed)) as hive:
        yield Lake(hive.spark, left.folder)


@pytest.fixture
def rig(make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, left: Rig) -> Rig:
    made = make_rig(mariadb, postgres, "hive", hive=OPTIONS)
    made.target_url = left.target_url
    return made


def run_and_kill(rig: Rig, folder: Path, first: int, then: int) -> None:
    """The command: killed behind a merge of `first` changes, while it merges `then` more; the log has as many again."""
    rig.target_url = f"hive://{folder}/warehouse"
    work = rig.make(Mix())
    rig.load(work, first)
    manifests = folder / "warehouse" / "_tidelock" / rig.name / "manifests"
    run = rig.run()
    until(lambda: list(manifests.glob("*1.json")) != [], "a merge", 600.0)
    rig.load(work, then, seed=2)
    until(lambda: list((folder / "warehouse" / f"{rig.schema}.db").glob("*/m*2-*")) != [], "a second merge", 600.0)
    os.kill(run.pid, signal.SIGKILL)
    run.code(10.0)
    rig.load(work, then, seed=3)


def at_source(rig: Rig) -> list[tuple[Any, ...]]:
    session = connect(rig.source.url())
    try:
        return sorted(session.rows(f"SELECT {COLUMNS} FROM {rig.schema}.account"))
    finally:
        session.close()


def is_equal(rig: Rig, lake: Lake) -> None:
    table = f"{rig.schema}.account"
    assert lake.sql(f"SELECT {IN_HIVE} FROM {table}") == at_source(rig)
    assert lake.sql(f"SELECT {IN_HIVE} FROM {table}_history WHERE valid_to IS NULL") == at_source(rig)


def test_a_run_that_was_killed_goes_on(left: Rig, lake: Lake) -> None:
    lake.follow(left)
    is_equal(left, lake)


def test_two_stretches_and_one_that_comes_twice(rig: Rig, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    merge = Merger.merge

    def twice(self: Merger, manifest: Manifest, stretch: Stretch, batches: Any) -> Manifest:
        made = merge(self, manifest, stretch, batches)
        assert merge(self, made, stretch, batches) is made
        return made

    monkeypatch.setattr(Merger, "merge", twice)
    work = rig.make(Mix())
    rig.load(work, 1500)
    lake.follow(rig)
    is_equal(rig, lake)
    rig.load(work, 800, seed=2)
    rig.at_source("UPDATE account SET id = id + 1000000 WHERE id % 7 = 0", "DELETE FROM account WHERE id % 5 = 1")
    hive = lake.follow(rig)
    is_equal(rig, lake)
    parts = lake.sql(f"SHOW PARTITIONS {rig.schema}.account")
    assert parts == [(f"tidelock_bucket={bucket}",) for bucket in range(4)]
    manifest = hive.merger.begin(lambda: Manifest(0, Position("", 0)))
    ahead = msgspec.structs.replace(manifest.position, offset=manifest.position.offset + 1, gtids="")
    with pytest.raises(Broken, match="the changes begin at"):
        merge(hive.merger, manifest, Stretch(ahead, msgspec.structs.replace(ahead, offset=ahead.offset + 1)), {})


def test_history_is_every_version_once(rig: Rig, lake: Lake) -> None:
    """Commit times are the session's here; of one transaction only what it left counts."""
    rig.at_source("CREATE TABLE item (id INT PRIMARY KEY, note VARCHAR(9))")

    def at(second: int, *statements: str) -> None:
        rig.at_source(f"SET timestamp = {1_600_000_000 + second}", "BEGIN", *statements, "COMMIT")

    at(0, "INSERT INTO item VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    at(10, "UPDATE item SET note = 'aa' WHERE id = 1", "UPDATE item SET note = 'aaa' WHERE id = 1")
    lake.follow(rig)
    at(20, "DELETE FROM item WHERE id = 1", "UPDATE item SET id = 9 WHERE id = 2")
    at(86_400, "INSERT INTO item VALUES (1, 'again'), (4, 'x')", "DELETE FROM item WHERE id = 4")
    lake.follow(rig)
    rig.at_source("SET timestamp = DEFAULT")
    since, to = (f"coalesce(unix_timestamp({name}) - 1600000000, -1)" for name in ("valid_from", "valid_to"))
    versions = f"SELECT id, note, {since}, {to}, op, tidelock_part FROM {rig.schema}.item_history"
    assert lake.sql(versions) == [
        (1, "a", 0, 10, "insert", "2020-09-13"),
        (1, "aaa", 10, 20, "update", "2020-09-13"),
        (1, "again", 86_400, -1, "insert", part(lake, rig, 1)),
        (2, "b", 0, 20, "insert", "2020-09-13"),
        (3, "c", 0, -1, "insert", part(lake, rig, 3)),
        (9, "b", 20, -1, "update", part(lake, rig, 9)),
    ]


def part(lake: Lake, rig: Rig, id: int) -> str:
    return f"open-{lake.sql(f'SELECT tidelock_bucket FROM {rig.schema}.item WHERE id = {id}')[0][0]:04}"


def test_statements_of_the_log(rig: Rig, lake: Lake) -> None:
    rig.at_source(
        "CREATE TABLE item (id INT PRIMARY KEY, note VARCHAR(9))",
        "INSERT INTO item VALUES (1, 'a'), (2, 'b')",
        "ALTER TABLE item ADD COLUMN price DECIMAL(9,2) NULL",
        "INSERT INTO item VALUES (3, 'c', 7.5)",
    )
    lake.follow(rig)
    rows = f"SELECT id, note, cast(price AS string) FROM {rig.schema}.item"
    assert lake.sql(rows) == [(1, "a", None), (2, "b", None), (3, "c", "7.50")]
    rig.at_source("TRUNCATE TABLE item", "INSERT INTO item VALUES (3, 'new', NULL)")
    lake.follow(rig)
    assert lake.sql(rows) == [(3, "new", None)]
    closed = f"SELECT id FROM {rig.schema}.item_history WHERE valid_to IS NOT NULL"
    assert lake.sql(closed) == [(1,), (2,), (3,)]
    rig.at_source("INSERT INTO item VALUES (5, 'last', 1)", "ALTER TABLE item DROP COLUMN note")
    for _ in range(2):
        with pytest.raises(Broken, match="ALTER TABLE item DROP COLUMN note"):
            lake.follow(rig)
    assert lake.sql(rows) == [(3, "new", None), (5, "last", "1.00")]


def test_a_merge_that_was_cut_short_is_done_again(rig: Rig, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its commit nothing of it is seen; behind it, the metastore is brought after by the next run."""
    work = rig.make(Mix())
    rig.load(work, 300)
    lake.follow(rig)
    settle = Warehouse.settle

    def cut(*_: Any) -> None:
        raise RuntimeError("cut")

    def settled_once(self: Warehouse, manifest: Manifest, kept: list[Manifest]) -> None:
        """The first time a run only makes the metastore equal the manifest that it begins with."""
        settle(self, manifest, kept)
        monkeypatch.setattr(Warehouse, "settle", cut)

    for owner, name, failing in ((Manifests, "commit", cut), (Warehouse, "settle", settled_once)):
        before = at_source(rig)
        rig.load(work, 200, seed=len(name))
        monkeypatch.setattr(owner, name, failing)
        with pytest.raises(RuntimeError, match="cut"):
            lake.follow(rig)
        monkeypatch.undo()
        assert lake.sql(f"SELECT {IN_HIVE} FROM {rig.schema}.account") == before
        lake.follow(rig)
        is_equal(rig, lake)


def test_the_slower_of_two_programs_stops(rig: Rig, lake: Lake) -> None:
    rig.at_source("CREATE TABLE item (id INT PRIMARY KEY)")
    one = lake.follow(rig)
    manifest = one.merger.begin(lambda: Manifest(0, Position("", 0)))
    other = OpenedHive(lake.spark, load(rig.feed)).merger
    behind = msgspec.structs.replace(manifest.position, offset=manifest.position.offset + 1, gtids="")
    other.merge(manifest, Stretch(manifest.position, behind), {})
    with pytest.raises(Taken, match="was committed by another program"):
        one.merger.merge(manifest, Stretch(manifest.position, behind), {})


def test_a_table_without_a_key_is_refused(rig: Rig, lake: Lake) -> None:
    rig.at_source("CREATE TABLE loose (id INT)", "INSERT INTO loose VALUES (1)")
    with pytest.raises(FirstRunRefused, match=r"loose has no primary key"):
        lake.follow(rig)


@pytest.mark.proof
def test_a_million_changes_and_more(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    rig = make_rig(mariadb, postgres, "lake", hive={"merge_seconds": 30, "history": True})
    run_and_kill(rig, tmp_path, 2_000_000, 200_000)
    rig.catch_up(1800.0)
    with opened(load(rig.feed)) as hive:
        is_equal(rig, Lake(hive.spark, tmp_path))
