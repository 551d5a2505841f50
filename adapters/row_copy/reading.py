"""Reads chunks of a table once, from the wait until the log is visible to the place where the log ends after it.

A table without a key is read in one view (`Source.view`), by one connection: Spark's tasks have sessions of their own,
which no server lets into another's view.  A small table is read by one connection too (`direct`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pymysql

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.mysql import connection as server
from tidelock.adapters.mysql.catalogue import BlockingServer
from tidelock.adapters.mysql.connection import reader_endpoint
from tidelock.adapters.ports.source import TableView
from tidelock.adapters.ports.staging import Columns, Staged, Staging, staged_name
from tidelock.adapters.row_copy.direct import is_small, rows_of_chunk
from tidelock.adapters.row_copy.job import Job, batch_rows
from tidelock.adapters.row_copy.jobs import Jobs
from tidelock.adapters.row_copy.keyed import rows_of_keys
from tidelock.adapters.row_copy.selection import listed
from tidelock.adapters.row_copy.source import CopySource, sources
from tidelock.adapters.row_copy.task import by_column, stage
from tidelock.adapters.schema.create_table import qualified
from tidelock.adapters.spark.cluster import is_cluster
from tidelock.adapters.spark.jdbc import Database
from tidelock.adapters.spark.read_ranges import cut_by, mysql_pieces
from tidelock.adapters.wiring.sources import source_of
from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.model.snapshot import Snapshot
from tidelock.engine.protocol.effects import ReadChunk
from tidelock.engine.protocol.events import ChunkStaged


class Request(msgspec.Struct, frozen=True):
    """Chunks of one table, of one split, to be read."""

    effects: tuple[ReadChunk, ...]
    table: TargetTable


def read(feed: Feed, group: int, request: Request, jobs: Jobs, tag: str) -> list[ChunkStaged]:
    """Returns the result of each chunk.  `tag`: its jobs can be cancelled by it.

    Raises NotCopied, SourceError, Missing, SparkFailed, Cancelled, and what Spark and the target's `stage` raise.
    """
    log = source_of(feed.source_url)
    after = max((e.after for e in request.effects), key=lambda after: after.order)
    place = reader_endpoint(feed.source_url)
    connection = server.connect(place)
    try:
        with jobs.interruptible(tag, connection.interrupt):
            log.wait_until_visible(after, _source(feed, request, connection).table.name)
            source = _source(feed, request, connection)  # as it is now that its statements in the log can be seen
            shape = source.mapping.shape
            staged = _staged(feed, group, request, source, connection, jobs, tag)
    except pymysql.MySQLError as error:
        raise server.explained(error, place) from error
    finally:
        with contextlib.suppress(pymysql.MySQLError):
            connection.close()
    high, _ = log.end()
    return [
        ChunkStaged(effect.id, high, one.rows, one.refused, view, shape)
        for effect, (one, view) in zip(request.effects, staged, strict=True)
    ]


def _staged(
    feed: Feed,
    group: int,
    request: Request,
    source: CopySource,
    connection: server.SourceConnection,
    jobs: Jobs,
    tag: str,
) -> list[tuple[Staged, Snapshot | None]]:
    asked = BlockingServer(connection, reader_endpoint(feed.source_url))
    split = request.effects[0].split
    places = tuple(_place(feed, group, effect, source, request.table) for effect in request.effects)
    if split.by is By.KEYS:
        return [(stage(places[0], rows_of_keys(connection, source, split, request.table)), None)]
    if not request.table.key:
        with source_of(feed.source_url).view(source.table.name) as view:
            if view is not None:
                return [(stage(places[0], _rows_of_view(view, source, jobs, tag)), view.snapshot)]
    if asyncio.run(is_small(asked, source.table.name, feed.spark.small_rows)):
        read = (rows_of_chunk(connection, source, split, effect.chunk) for effect in request.effects)
        return [(stage(place, rows), None) for place, rows in zip(places, read, strict=True)]
    pieces, keys = _pieces(feed, asked, source) if len(places) > 1 else ((), ())
    job = Job(source, split, tuple(effect.chunk for effect in request.effects), places, pieces, keys)
    with jobs.tagged(tag) as spark:
        staged = job.run(spark, Database(feed.source_url, _is_encrypted(connection)))
    return [(one, None) for one in staged]


def _rows_of_view(view: TableView, source: CopySource, jobs: Jobs, tag: str) -> Iterator[Columns]:
    mapped, width = source.reading.columns(), len(source.read)
    sql = f"SELECT {listed(source.read)} FROM {qualified('mysql', source.table.name)} t"
    for batch in view.batches(sql, batch_rows(source)):
        jobs.require_running(tag)
        yield mapped(by_column(batch, width))


def _source(feed: Feed, request: Request, connection: pymysql.Connection[Any]) -> CopySource:
    asked, name = BlockingServer(connection, reader_endpoint(feed.source_url)), request.table.name
    return asyncio.run(sources(feed, asked, [name]))[name]


def _place(feed: Feed, group: int, effect: ReadChunk, source: CopySource, table: TargetTable) -> Staging:
    name = staged_name(feed.name, group, effect.id)
    target = feed.target_url.carried() if is_cluster(feed.spark.master) else feed.target_url
    return Staging(target, feed.schema, name, source.mapping.shape, table, feed.zero_dates)


def _pieces(feed: Feed, asked: BlockingServer, source: CopySource) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns how a scan is shared out, and the columns that tell it."""
    pieces, _ = asyncio.run(mysql_pieces(asked, source.table, feed.spark.piece_rows))
    return tuple(pieces), cut_by(source.table)


def _is_encrypted(connection: pymysql.Connection[Any]) -> bool:
    return bool(server.rows(connection, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")[0][1])
