"""The metastore of others: databases lie where it says, and a restart of it is no matter."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.harness.rig import Rig
from bench.harness.servers import Server
from bench.harness.servers.metastore import Metastore
from tidelock.adapters.config.loader import load
from tidelock.adapters.hive.opening import OpenedHive, opened
from tidelock.adapters.hive.run import Follower
from tidelock.adapters.runtime.progress import PlainLines

pytestmark = pytest.mark.usefixtures("room_for_spark")


@pytest.mark.proof
def test_a_metastore_elsewhere(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    rig = make_rig(mariadb, postgres, "remote", hive={"merge_seconds": 1, "buckets": 2, "format": "parquet"})
    rig.at_source("CREATE TABLE item (id INT PRIMARY KEY, note TEXT)", "INSERT INTO item VALUES (1, 'a'), (2, 'b')")
    with Metastore() as metastore:
        rig.target_url = metastore.url()
        feed = load(rig.feed)
        with opened(feed) as hive:

            def follow(folder: Path) -> list[tuple[Any, ...]]:
                folder.mkdir()
                follower = Follower(feed, OpenedHive(hive.spark, feed), folder, PlainLines(sys.stderr, feed.name))
                asyncio.run(follower.run(until_caught_up=True))
                rows = hive.spark.sql(f"SELECT id, note FROM {rig.schema}.item ORDER BY id").collect()
                return [tuple(row) for row in rows]

            assert follow(tmp_path / "first") == [(1, "a"), (2, "b")]
            metastore.restart()
            rig.at_source("DELETE FROM item WHERE id = 1")
            assert follow(tmp_path / "then") == [(2, "b")]
        assert list((metastore.warehouse / f"{rig.schema}.db" / "item").glob("m*/tidelock_bucket=*/*.parquet"))
