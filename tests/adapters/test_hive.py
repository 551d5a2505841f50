"""Merges into a Hive warehouse, against a real source; what is there is asked by Spark SQL through the metastore."""

from __future__ import annotations

import copy
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.harness.hive_death import STEPS
from bench.harness.lake import HIVE, SPARK, Lake, killed_at
from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.session import connect
from bench.harness.workload.mix import Mix
from bench.harness.workload.several import Several
from tidelock.adapters.config.loader import load
from tidelock.adapters.hive import bucket_count, merger, merging
from tidelock.adapters.hive.buckets import bucket, spellings
from tidelock.adapters.hive.manifest import Manifest, Manifests, Taken
from tidelock.adapters.hive.merger import Broken, Merger, Stretch
from tidelock.adapters.hive.opening import OpenedHive, opened
from tidelock.adapters.hive.part_files import PartFiles
from tidelock.adapters.hive.partitions import Partitions
from tidelock.adapters.hive.run import FirstRunRefused, Follower
from tidelock.adapters.hive.warehouse import Warehouse
from tidelock.engine.model.records import Position

KINDS = """CREATE TABLE item (
    a INT, b VARCHAR(20) COLLATE utf8mb4_bin, c VARBINARY(8), d DECIMAL(12,2), e DATE, f DATETIME(6), g DOUBLE,
    h BIGINT UNSIGNED, k TINYINT, n TEXT, i BLOB, j DECIMAL(38,10), PRIMARY KEY (a, b, c)
) CHARACTER SET utf8mb4"""
ROWS = (
    "1, 'é', 'a', 1.5, '1000-01-01', '1000-01-01 00:00:00.000001', 1e300, 18446744073709551615, -128, 'x', '', 1e27",
    "2, 'e ', 0xff00, -9999999999.99, '9999-12-31', '9999-12-31 23:59:59.999999', -0.1, 0, 127, '', 0x00, -1e-10",
    "-3, '', '', 0, '1969-12-31', '1969-12-31 23:59:58.999999', NULL, NULL, NULL, NULL, NULL, NULL",
    "4, 'z', 'z', 0.01, NULL, NULL, 0, 1, 0, '𝄞', 'long', 1234567890.1234567890",
)
WAYS = [("parquet", True), ("parquet", False), ("orc", False)]  # a format, and whether this process merges
COLUMNS = "id, email, balance, updated_at, payload, version"
IN_HIVE = (
    "cast(id AS string), email, cast(balance AS string), date_format(updated_at, 'yyyy-MM-dd HH:mm:ss.SSSSSS'), "
    "payload, cast(version AS string)"
)


@pytest.fixture(autouse=True)
def small_buckets() -> Iterator[None]:
    """Let tables get more buckets though they are small."""
    with pytest.MonkeyPatch.context() as patch:  # its own: tests undo what they patched themselves
        patch.setattr(bucket_count, "BYTES", 8 << 10)
        yield


@pytest.fixture
def rig(make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, left: Rig) -> Rig:
    made = make_rig(mariadb, postgres, "hive", hive=HIVE)
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


@pytest.mark.proof
def test_a_run_that_was_killed_goes_on(left: Rig, lake: Lake) -> None:
    lake.follow(left)
    is_equal(left, lake)


def is_as_undisturbed(rig: Rig, lake: Lake) -> None:
    """Another feed of the same source, which merges all of its log at once, has the same versions."""
    twin = copy.copy(rig)
    twin.name = f"{rig.name}_twin"
    twin.rules = [{"source": f"{rig.schema}.*", "target": f"{twin.name}.*"}]
    lake.follow(twin)
    rows = "SELECT to_json(struct(* EXCEPT (tidelock_part))) FROM {}.account_history"
    assert lake.sql(rows.format(rig.schema)) == lake.sql(rows.format(twin.name))


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


@pytest.mark.proof
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


@pytest.mark.proof
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


@pytest.mark.proof
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


@pytest.mark.proof
def test_a_merge_that_dies_at_any_step_is_done_again(rig: Rig, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the first part of a table, of a history, of a day; before and behind the commit; amid the metastore."""
    work = rig.make(Mix())
    rig.load(work, 300)
    lake.follow(rig)

    def dying(owner: Any, name: str, nth: int, behind: bool) -> None:
        step = getattr(owner, name)
        calls = itertools.count(1)

        def died(*given: Any) -> Any:
            last = next(calls) == nth
            done = step(*given) if behind or not last else None
            if last:
                raise RuntimeError("cut")
            return done

        monkeypatch.setattr(owner, name, died)

    steps: list[tuple[Any, str, int, bool]] = [
        (PartFiles, "write", 1, False), (PartFiles, "write", 1, True), (PartFiles, "write", 2, True),
        (PartFiles, "write", 9, True), (Manifests, "commit", 1, False), (Manifests, "commit", 1, True),
        (Partitions, "move", 1, False), (Partitions, "move", 1, True), (Manifests, "kept", 2, True),
    ]  # fmt: skip
    for number, step in enumerate(steps):
        rig.load(work, 200, seed=number + 2)
        dying(*step)
        with pytest.raises(RuntimeError, match="cut"):
            lake.follow(rig)
        monkeypatch.undo()
        if number % 3 == 2:  # also several deaths in a row
            lake.follow(rig)
            is_equal(rig, lake)
    versions = lake.sql(f"SELECT count(*), count(DISTINCT version, op) FROM {rig.schema}.account_history")
    changes = 300 + 200 * len(steps)
    gone = lake.sql(f"SELECT count(*) FROM {rig.schema}.account_history WHERE valid_to IS NOT NULL")
    assert versions[0][0] == versions[0][1] > gone[0][0] > 0 and versions[0][0] <= changes


@pytest.mark.proof
def test_a_small_merge_needs_no_job_of_spark(rig: Rig, lake: Lake) -> None:
    work = rig.make(Several(*(Mix(table=f"account{number}") for number in range(3))))
    rig.load(work, 300)
    lake.follow(rig)
    jobs = lake.spark.sparkContext.statusTracker().getJobIdsForGroup
    rig.load(work, 300, seed=2)
    before = set(jobs())
    lake.follow(rig)
    assert set(jobs()) - before == set()


@pytest.mark.proof
@pytest.mark.parametrize("by_spark", [False, True])
def test_a_small_table_has_few_partitions_and_gets_more(
    by_spark: bool, rig: Rig, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is moved in the metastore by each merge; and each tells its size, by which Spark plans."""
    monkeypatch.setattr(merger, "MOST_DIRECT_BYTES", -1 if by_spark else merger.MOST_DIRECT_BYTES)
    work = rig.make(Mix())
    for seed, (bytes, buckets) in enumerate(((1 << 20, 1), (1 << 20, 1), (8 << 10, 4))):
        monkeypatch.setattr(bucket_count, "BYTES", bytes)
        rig.load(work, 800, seed=seed)
        hive = lake.follow(rig)
        is_equal(rig, lake)
        assert lake.sql(f"SHOW PARTITIONS {rig.schema}.account") == [(f"tidelock_bucket={n}",) for n in range(buckets)]
        open = [(f"tidelock_part=open-{n:04}",) for n in range(buckets)]
        assert lake.sql(f"SHOW PARTITIONS {rig.schema}.account_history")[-buckets:] == open
    manifest = hive.manifests.latest()
    assert manifest is not None
    stored = manifest.tables[f"{rig.schema}.account"].current
    for part, size in stored.sizes.items():
        told = lake.sql(f"DESCRIBE EXTENDED {rig.schema}.account PARTITION (tidelock_bucket={part})")
        assert f"totalSize={size}" in next(value for name, value, _ in told if name == "Partition Parameters")


@pytest.mark.proof
def test_a_reader_sees_a_table_before_or_after_a_merge(rig: Rig, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never between: a bucket gets empty, a bucket comes, versions end and are joined with others of their day."""
    monkeypatch.setattr(bucket_count, "BYTES", 0)
    rig.at_source("CREATE TABLE item (id INT PRIMARY KEY, note TEXT)", "INSERT INTO item VALUES (1, 'a'), (2, 'b')")
    lake.follow(rig)
    places = [f"{rig.schema}.{table}" for table in ("item", "item_history")]
    seen: list[list[Any]] = []
    move = Partitions.move

    def look() -> list[Any]:
        return [lake.sql(f"SELECT to_json(struct(* EXCEPT ({column}))) FROM {place}")
                for place, column in zip(places, ("tidelock_bucket", "tidelock_part"), strict=True)]  # fmt: skip

    def looked(self: Partitions, table: str, *given: Any) -> None:
        before = look()
        move(self, table, *given)
        seen.append([before, look()])

    exchanged = ["DELETE FROM item WHERE id = 2", "INSERT INTO item VALUES (7, 'x')"]
    for statements in (["DELETE FROM item WHERE id = 1"], ["UPDATE item SET note = 'c'"], exchanged):
        before = look()
        rig.at_source(*statements)
        seen.clear()
        monkeypatch.setattr(Partitions, "move", looked)
        lake.follow(rig)
        monkeypatch.setattr(Partitions, "move", move)
        after = look()
        assert seen == [[before, [after[0], before[1]]], [[after[0], before[1]], after]]


@pytest.mark.proof
def test_a_run_that_begins_moves_nothing_that_is_in_its_place(
    rig: Rig, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = rig.make(Mix())
    for seed in range(2):
        rig.load(work, 300, seed=seed)
        lake.follow(rig)
    told: list[str] = []
    monkeypatch.setattr(Partitions, "move", lambda _, table, *given: told.append(table))
    lake.follow(rig)
    assert told == []


@pytest.mark.proof
def test_changes_are_collected_while_a_merge_is_under_way(
    rig: Rig, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that came meanwhile is one merge."""
    work, merge, begin = rig.make(Mix()), Merger.merge, Follower._begin
    rig.start_at = rig.here()
    rig.load(work, 3000)
    followers, rows = list[Follower](), list[int]()

    def always_due(self: Follower, position: Position) -> None:
        followers.append(self)
        begin(self, position)
        self._begun = float("-inf")

    def slow(self: Merger, manifest: Manifest, stretch: Stretch, batches: Any) -> Manifest:
        rows.append(stretch.rows)
        if len(rows) == 1:
            until(lambda: rows[0] + followers[-1]._spool.rows >= 3000, "the rest of the log")
        return merge(self, manifest, stretch, batches)

    monkeypatch.setattr(Follower, "_begin", always_due)
    monkeypatch.setattr(Merger, "merge", slow)
    lake.follow(rig)
    assert len(rows) == 2 and rows[0] < 3000 and sum(rows) == 3000
    is_equal(rig, lake)


@pytest.mark.proof
def test_what_merges_it_makes_no_difference(
    make_rig: Callable[..., Rig],
    mariadb: Server,
    postgres: Server,
    lake: Lake,
    left: Rig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This process or Spark, Parquet or ORC: the same rows, versions and parts; values from the ends of their types."""
    found = []
    for format, direct in WAYS:
        rig = make_rig(mariadb, postgres, "alike", hive={**HIVE, "format": format})
        rig.target_url = left.target_url
        monkeypatch.setattr(merger, "MOST_DIRECT_BYTES", merger.MOST_DIRECT_BYTES if direct else -1)
        monkeypatch.setattr(bucket_count, "BYTES", 0)  # what a format makes of a few rows differs
        rig.at_source("SET timestamp = 1600000000", KINDS)
        rig.at_source(*(f"INSERT INTO item VALUES ({values})" for values in ROWS))
        lake.follow(rig)
        rig.at_source(
            "SET timestamp = 1600090000", "UPDATE item SET f = NULL, j = NULL WHERE a > 0",
            "ALTER TABLE item ADD COLUMN later VARCHAR(9) NULL", "SET timestamp = 1600190000",
            "INSERT INTO item VALUES (7, 'new', 'x', 1, '2024-02-29', '2024-02-29', 0, 1, 2, 'n', 'b', 5, 'later')",
            "UPDATE item SET a = a + 10, later = 'moved' WHERE b <> ''", "BEGIN", "DELETE FROM item WHERE b = ''",
            "UPDATE item SET d = -d", "UPDATE item SET d = d / 2", "COMMIT", "SET timestamp = DEFAULT",
        )  # fmt: skip
        lake.follow(rig)
        monkeypatch.undo()
        found.append([
            lake.sql(f"SELECT to_json(struct(*)), hex(c), hex(i) FROM {rig.schema}.{table}")
            for table in ("item", "item_history")
        ])  # fmt: skip
        assert len(found[-1][0]) == 4 and len(found[-1][1]) > 12
    for one, other in itertools.pairwise(found):
        for rows, others in zip(one, other, strict=True):
            assert (set(rows) - set(others), set(others) - set(rows)) == (set(), set())
            assert len(rows) == len(others)


def test_a_bucket_is_the_one_that_spark_reckons(lake: Lake) -> None:
    kinds = (
        ("bigint", [0, -1, 2**63 - 1, -(2**63)]), ("decimal(20,0)", [Decimal(2**64 - 1), Decimal(0)]),
        ("decimal(12,6)", [Decimal("0.000001"), Decimal("-12.5"), Decimal("0.000000")]),
        ("string", ["", "é", "a b", "𝄞" * 40]), ("binary", [b"", b"\0\xff", bytes(range(200))]),
        ("date", [date(1, 1, 1), date(9999, 12, 31)]),
        ("timestamp", [
            datetime(1000, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 1, 2, 3, 100_000, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC),
        ]),
    )  # fmt: skip
    for type, values in kinds:
        rows = [(value, n) for n, value in enumerate(values)]
        frame = lake.spark.createDataFrame(rows, f"k {type}, n int")
        reckoned = frame.select("n", merging.bucket_of(["k", "n"], 1009).alias("bucket")).collect()
        spelled = spellings((("k", type), ("n", "int")), ("k", "n"))
        assert spelled is not None
        assert {row.n: row.bucket for row in reckoned} == {n: bucket((value, n), spelled, 1009) for value, n in rows}
    assert spellings((("k", "double"),), ("k",)) is None


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
@pytest.mark.usefixtures("room_for_spark")
def test_killed_at_every_step_of_a_merge(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    """The command, by SIGKILL.  What is next mends it: another run of which the same becomes, or one that gets through;
    then current rows and all versions are those of a feed that nothing happened to."""
    rig = make_rig(mariadb, postgres, "steps", hive=HIVE, spark=SPARK)
    rig.target_url = f"hive://{tmp_path}/warehouse"
    work = rig.make(Mix())
    steps = ["behind a table in the metastore", *(step for step in STEPS if step != "behind a table in the metastore")]
    for number, step in enumerate(steps):
        rig.load(work, 300, seed=number)
        killed_at(rig, step)
        if number % 4 == 3:
            continue
        with opened(load(rig.feed)) as hive:
            lake = Lake(hive.spark, tmp_path)
            lake.follow(rig)
            is_equal(rig, lake)
    with opened(load(rig.feed)) as hive:
        lake = Lake(hive.spark, tmp_path)
        is_as_undisturbed(rig, lake)


@pytest.mark.proof
@pytest.mark.usefixtures("room_for_spark")
def test_a_million_changes_and_more(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    rig = make_rig(mariadb, postgres, "lake", hive={"merge_seconds": 30, "history": True})
    run_and_kill(rig, tmp_path, 2_000_000, 200_000)
    rig.catch_up(1800.0)
    with opened(load(rig.feed)) as hive:
        is_equal(rig, Lake(hive.spark, tmp_path))
