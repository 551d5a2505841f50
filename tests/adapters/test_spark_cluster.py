"""Spark on a cluster: a master and two workers of its own kind, started here, with executors in processes of theirs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.harness.lake import Lake
from bench.harness.rig import Rig
from bench.harness.servers import Server
from bench.harness.servers.metastore import Metastore
from bench.harness.servers.spark_cluster import SparkCluster
from tidelock.adapters.config.feed import Spark
from tidelock.adapters.config.loader import load
from tidelock.adapters.hive.opening import opened
from tidelock.adapters.spark.cluster import ClusterRefused, private
from tidelock.adapters.spark.session import SparkFailed, session

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


def test_a_cluster_whose_network_is_trusted_is_used_as_the_refusal_says() -> None:
    with SparkCluster(1, private=False) as cluster:
        known = Spark(master=cluster.url, settings=cluster.settings)
        with pytest.raises(SparkFailed) as refused, session(known, "open"):
            pass
        assert "`spark.authenticate: 'false'`" in str(refused.value)
        asked = Spark(master=cluster.url, settings={**cluster.settings, "spark.authenticate": "false"})
        with session(asked, "open") as spark:
            assert spark.range(10).count() == 10


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
