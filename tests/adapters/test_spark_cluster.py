"""Spark on a cluster: a master and two workers of its own kind, started here, with executors in processes of theirs."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyspark
import pytest

from bench.harness.drawn import Drawn
from bench.harness.lake import Lake
from bench.harness.rig import Rig, tidelock, until
from bench.harness.servers import Server
from bench.harness.servers.metastore import Metastore
from bench.harness.servers.spark_classes import there
from bench.harness.servers.spark_cluster import SparkCluster
from bench.harness.session import Flavor
from tidelock.adapters.config.feed import Spark
from tidelock.adapters.config.loader import load
from tidelock.adapters.hive.opening import opened
from tidelock.adapters.spark.cluster import ClusterRefused, private
from tidelock.adapters.spark.session import SparkFailed, session
from tidelock.adapters.spark_stream import TidelockSource
from tidelock.adapters.verify.plan import plan
from tidelock.adapters.verify.verify import VerifyStep, examine

SECONDS = 240


class Steps:
    def begin(self, step: VerifyStep) -> None: ...

    def attach(self, spark: object) -> None: ...

    def tell(self, text: str) -> None: ...


pytestmark = pytest.mark.usefixtures("room_for_spark")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster() as started:
        yield started


def test_a_cluster_needs_a_secret_or_a_word() -> None:
    """Passwords travel in tasks."""
    with pytest.raises(SparkFailed, match=r"spark\.authenticate\.secret"), session(Spark(master="spark://a:1"), "open"):
        pass
    with pytest.raises(ClusterRefused):
        private("spark://a:1", {"spark.authenticate": "true"})
    assert private("spark://a:1", {"spark.authenticate.secret": "s"})["spark.network.crypto.enabled"] == "true"


@pytest.mark.proof
def test_a_cluster_whose_network_is_trusted_is_used_as_the_refusal_says() -> None:
    """Here also: all of it starts from the classes that `make servers` has had Java keep."""
    with SparkCluster(1, private=False) as cluster:
        known = Spark(master=cluster.url, settings=cluster.settings)
        with pytest.raises(SparkFailed) as refused, session(known, "open"):
            pass
        assert "`spark.authenticate: 'false'`" in str(refused.value)
        asked = Spark(master=cluster.url, settings={**cluster.settings, "spark.authenticate": "false"})
        with session(asked, "open") as spark:
            assert spark.range(10).count() == 10
            master, worker = (node.pid for node in cluster.nodes)
            executors = children(worker)
            assert executors and all(starts_from(there(), pid) for pid in (master, worker, *executors))


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for tasks in listed for child in tasks.read_text().split()]


def starts_from(archive: Path, pid: int) -> bool:
    return str(archive) in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.proof
def test_a_cluster_inside_the_session_works_below_its_own_folder() -> None:
    installed = Path(pyspark.__file__).parent / "work"
    known = Spark(master="local-cluster[1,1,600]", settings={"spark.executor.memory": "512m"})
    with session(known, "inside") as spark:
        assert spark.range(10).count() == 10
        assert (Path(os.environ["SPARK_HOME"]) / "work").is_dir() and not installed.exists()
    assert "SPARK_HOME" not in os.environ


HIDES = """
import os, sys
HERE = {here!r}
def away(event, args):
    if event == "open" and str(args[0]).startswith(HERE):
        raise FileNotFoundError(2, "on another machine", args[0])
if "/app-" in os.getcwd():  # of an executor
    sys.addaudithook(away)
"""


def other_machine(folder: Path) -> Path:
    """A Python whose executors do not see the files of this folder, as if they ran on another machine."""
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(HIDES.format(here=str(folder)))
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={hidden} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


@pytest.mark.proof
def test_rows_are_copied_compared_repaired_and_streamed_on_a_cluster(
    make_rig: Callable[..., Rig], mysql: Server, postgres: Server, cluster: SparkCluster, tmp_path: Path
) -> None:
    """By executors that see no file of ours; the secret that lets us in is in a file of its own."""
    secret = tmp_path / "secret"
    secret.write_text(cluster.settings["spark.authenticate.secret"] + "\n")
    settings = {
        **cluster.settings,
        "spark.authenticate.secret": f"${{file:{secret}}}",
        "spark.pyspark.python": str(other_machine(tmp_path)),
        "spark.sql.shuffle.partitions": "2",
    }
    rig = make_rig(
        mysql,
        postgres,
        "bulk",
        start="copy",
        copy={"chunk_rows": 1000},
        journal=str(tmp_path / "journal"),
        spark={"master": cluster.url, "settings": settings, "piece_rows": 1000, "small_rows": 0},
    )
    rig.table("item", "id bigint PRIMARY KEY, v int, note varchar(20)")
    rig.at_source(
        "INSERT INTO item WITH RECURSIVE n AS (SELECT /*+ SET_VAR(cte_max_recursion_depth = 5000) */ 1 AS i UNION ALL "
        "SELECT i + 1 FROM n WHERE i < 2500) SELECT i, i, CONCAT('note ', i) FROM n"
    )
    rig.start_at = "copy"
    rig.catch_up(SECONDS)
    rig.assert_exact()
    rig.at_target("UPDATE item SET v = -1 WHERE id IN (1, 2400)", "DELETE FROM item WHERE id = 7")
    rig.at_target("INSERT INTO item VALUES (9000, 0, 'extra')")
    feed = load(rig.feed)
    assert feed.spark.settings["spark.authenticate.secret"] == cluster.settings["spark.authenticate.secret"]
    with session(feed.spark, "bulk") as spark:
        running = rig.run()
        found = examine(feed, asyncio.run(plan(feed, ())), spark, 60, Steps())
        assert sorted(d.key["id"] for table in found.tables for d in table.differences) == ["1", "2400", "7", "9000"]
        path = tmp_path / "report.json"
        path.write_bytes(msgspec.json.encode(found))
        said = tidelock("repair", str(rig.feed), "--from-report", str(path), "--yes", seconds=SECONDS)
        assert said.code == 0, said
        assert examine(feed, asyncio.run(plan(feed, ())), spark, 60, Steps()).equal
        rig.at_source("UPDATE item SET v = v + 1 WHERE id <= 50", "DELETE FROM item WHERE id = 51")
        until(rig.equal, "equal tables")
        running.stop()
        spark.dataSource.register(TidelockSource)
        changes = spark.readStream.format("tidelock").option("feed", str(rig.feed))
        query = (
            changes.option("table", f"{rig.schema}.item")
            .load()
            .writeStream.format("memory")
            .queryName("changes")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        counted = spark.sql("SELECT op, count(*), sum(after.v) FROM changes GROUP BY op ORDER BY op").collect()
        assert [tuple(row) for row in counted] == [("delete", 1, None), ("update", 50, sum(range(2, 52)))]


@pytest.mark.proof
def test_drawn_differences_are_found_and_repaired_on_a_cluster(
    make_rig: Callable[..., Rig], cluster: SparkCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """200 a pair, in one session."""
    settings = {**cluster.settings, "spark.sql.shuffle.partitions": "2"}
    known = {"master": cluster.url, "settings": settings, "small_rows": 0}
    with session(Spark(master=cluster.url, settings=settings), "drawn") as spark:
        for pair in itertools.product(("mysql", "mariadb"), ("postgres", "other_mysql")):
            servers = [request.getfixturevalue(name) for name in pair]
            rig = make_rig(*servers, "drawn", spark=known)
            drawn = Drawn(200, 11, Flavor(pair[0]), Flavor.POSTGRES if pair[1] == "postgres" else Flavor.MYSQL)
            drawn.plant(rig)
            running, feed = rig.run(), load(rig.feed)
            before = examine(feed, asyncio.run(plan(feed, ())), spark, 60, Steps())
            (table,) = before.tables
            assert sorted((d.key["id"], name) for d in table.differences for name in d.columns) == drawn.expected
            path = tmp_path / "report.json"
            path.write_bytes(msgspec.json.encode(before))
            said = tidelock("repair", str(rig.feed), "--from-report", str(path), "--yes", seconds=SECONDS)
            assert said.code == 0, said
            after = examine(feed, asyncio.run(plan(feed, ())), spark, 60, Steps())
            assert after.equal and running.running
            left = sum(one.total for one in after.tables)
            print(f"{' to '.join(pair)}: {drawn.rows} rows, {len(drawn.expected)} differences found, {left} left")
            running.stop()


@pytest.mark.proof
def test_hive_on_a_cluster(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, cluster: SparkCluster, tmp_path: Path
) -> None:
    """A copy that both executors read, small merges and large ones; tasks run the Python that the feed names."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nNAMED=here exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    settings = {**cluster.settings, "spark.pyspark.python": str(python), "spark.sql.shuffle.partitions": "2"}
    spark = {"master": cluster.url, "settings": settings, "piece_rows": 1000}
    rig = make_rig(
        mariadb,
        postgres,
        "cluster",
        hive={"merge_seconds": 1, "buckets": 2, "history": True},
        spark=spark,
        start="copy",
    )
    rig.at_source("CREATE TABLE item (id INT PRIMARY KEY, note TEXT)")
    rig.at_source("INSERT INTO item SELECT seq, concat('note ', seq) FROM seq_1_to_3000")
    with Metastore() as metastore:
        rig.target_url = metastore.url()
        with opened(load(rig.feed)) as hive:

            def ran(_: int) -> tuple[str, int]:
                return os.environ.get("NAMED", ""), os.getppid()

            seen = hive.spark.sparkContext.parallelize(range(40), 40).map(ran).collect()
            assert {name for name, _ in seen} == {"here"}
            assert os.getpid() not in {parent for _, parent in seen}
            lake = Lake(hive.spark, tmp_path)
            lake.follow(rig)
            table = f"{rig.schema}.item"
            assert lake.sql(f"SELECT count(*), sum(id) FROM {table}") == [(3000, 3000 * 3001 // 2)]
            rig.at_source("DELETE FROM item WHERE id > 2990", "UPDATE item SET note = 'new' WHERE id <= 5")
            lake.follow(rig)
            assert lake.sql(f"SELECT id FROM {table} WHERE note = 'new'") == [(n,) for n in range(1, 6)]
            ended = lake.sql(f"SELECT op, count(*) FROM {table}_history WHERE valid_to IS NOT NULL GROUP BY op")
            assert ended == [("copy", 15)]
