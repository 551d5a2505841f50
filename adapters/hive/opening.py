"""Opens Spark with a feed's Hive: its metastore, its manifests, and a place for changes to be merged.

`hive:///DIR` is a warehouse in a folder, with a metastore of its own in it (Derby: one program at a time).
`hive://HOST:PORT/DATABASE` is a metastore that others run; databases lie where it puts them, and DATABASE is the one
whose folder holds the bookkeeping.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.hive.files import Files, LocalFiles
from tidelock.adapters.hive.manifest import Manifest, Manifests, latest_in
from tidelock.adapters.hive.merger import Layout, Merger
from tidelock.adapters.hive.warehouse import Warehouse
from tidelock.adapters.spark.cluster import is_cluster
from tidelock.adapters.spark.session import SparkFailed, session
from tidelock.adapters.wiring.sources import keeps_for_us

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ELSEWHERE: Final = "name a metastore, `target: hive://HOST:9083/DATABASE`, or run it on this machine (`local[*]`)"
_MANIFESTS = "manifests"
_COMMON = {
    "spark.sql.catalogImplementation": "hive",
    "spark.scheduler.mode": "FAIR",  # tables are merged side by side
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}


class OpenedHive:
    """An open warehouse.  `folder`: of the feed's bookkeeping."""

    def __init__(self, spark: SparkSession, feed: Feed) -> None:
        files = Files(spark)
        warehouse = Warehouse(spark, files, feed.name)
        self.spark = spark
        self.folder = f"{warehouse.location(_books(feed.target_url))}/{_own(feed)}"
        hive = feed.hive
        layout = Layout(hive.format, hive.buckets, hive.history, comes=not keeps_for_us(feed.source_url))
        self.manifests = Manifests(files, f"{self.folder}/{_MANIFESTS}", feed.name)
        self.merger = Merger(warehouse, self.manifests, layout, self.staged)
        self.files = files
        self._staged = itertools.count(1)

    def staged(self, path: Path) -> DataFrame:
        """Returns the rows of a local Parquet file, moved to where all of Spark can read it.  Threads may ask."""
        place = f"{self.folder}/staging/{next(self._staged)}.parquet"
        self.files.upload(path, place)
        return self.spark.read.parquet(place)

    def unstage(self) -> None:
        """Removes the moved files."""
        self.files.remove(f"{self.folder}/staging")


@contextlib.contextmanager
def opened(feed: Feed) -> Iterator[OpenedHive]:
    """Opens Spark and the warehouse.  Raises Missing, SparkFailed."""
    with _session(feed) as spark:
        yield OpenedHive(spark, feed)


def manifest_of(feed: Feed) -> Manifest | None:
    """Returns the latest manifest; None: the feed has never run.  In a local folder it is found without Spark.

    Raises OSError, Missing, SparkFailed.
    """
    target = feed.target_url
    if not target.host:
        return latest_in(LocalFiles(), f"{target.database}/{_own(feed)}/{_MANIFESTS}")
    with _session(feed) as spark:
        return OpenedHive(spark, feed).manifests.latest() if spark.catalog.databaseExists(_books(target)) else None


@contextlib.contextmanager
def _session(feed: Feed) -> Iterator[SparkSession]:
    if why := refusal(feed):
        raise SparkFailed(f"{why}: {ELSEWHERE}")
    settings = {**_COMMON, **_metastore(feed.target_url), **feed.spark.settings}
    with session(msgspec.structs.replace(feed.spark, settings=settings), feed.name) as spark:
        yield spark


def refusal(feed: Feed) -> str:
    """Returns why the warehouse's folder cannot be used by the feed's Spark; '' where it can."""
    master = feed.spark.master
    if feed.target_url.host or not is_cluster(master) or master.startswith("local-cluster"):
        return ""
    return (
        f"{feed.target_url} is a folder of this machine, and the executors of {master} would each write into one of "
        "their own"
    )


def _own(feed: Feed) -> str:
    """Returns the feed's folder in the warehouse's."""
    return f"_{feed.schema}/{feed.name}"


def _metastore(target: Endpoint) -> dict[str, str]:
    if target.host:
        return {"spark.hadoop.hive.metastore.uris": f"thrift://{target.servers[0]}"}
    folder = target.database
    return {
        "spark.sql.warehouse.dir": folder,
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore_db;create=true",
    }


def _books(target: Endpoint) -> str:
    """Returns the name of the database whose folder holds the bookkeeping."""
    return target.database or "default" if target.host else "default"
