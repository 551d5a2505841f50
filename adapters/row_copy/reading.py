"""Reads chunks of a table once, from the wait until the log is visible to the place where the log ends after it.

A table without a key is read in one view (`Source.view`), by one connection: Spark's tasks have sessions of their own,
which no server lets into another's view.  A small table is read by one connection too (`direct`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import msgspec

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.ports.source import TableView
from tidelock.adapters.ports.staging import Columns, Staged, Staging, staged_name
from tidelock.adapters.row_copy.direct import is_small, rows_of_chunk
from tidelock.adapters.row_copy.job import Job, batch_rows
from tidelock.adapters.row_copy.jobs import Jobs
from tidelock.adapters.row_copy.keyed import rows_of_keys
from tidelock.adapters.row_copy.selection import listed
from tidelock.adapters.row_copy.source import CopySource, sources
from tidelock.adapters.row_copy.task import by_column, stage
from tidelock.adapters.spark.cluster import is_cluster
from tidelock.adapters.spark.jdbc import Database
from tidelock.adapters.spark.read_ranges import cut_by, mysql_pieces, postgres_pieces
from tidelock.adapters.wiring.source_tables import SourceTables, tables_of
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
    with tables_of(feed.source_url) as server, jobs.interruptible(tag, server.interrupt):
        log.wait_until_visible(after, _source(feed, request, server).table.name)
        source = _source(feed, request, server)  # as it is now that its statements in the log can be seen
        shape = source.mapping.shape
        staged = _staged(feed, group, request, source, server, jobs, tag)
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
    server: SourceTables,
    jobs: Jobs,
    tag: str,
) -> list[tuple[Staged, Snapshot | None]]:
    split = request.effects[0].split
    places = tuple(_place(feed, group, effect, source, request.table) for effect in request.effects)
    if split.by is By.KEYS:
        return [(stage(places[0], rows_of_keys(server, source, split, request.table)), None)]
    if not request.table.key:
        with source_of(feed.source_url).view(source.table.name) as view:
            if view is not None:
                return [(stage(places[0], _rows_of_view(view, source, jobs, tag)), view.snapshot)]
    if asyncio.run(is_small(server, source, feed.spark.small_rows)):
        read = (rows_of_chunk(server, source, split, effect.chunk) for effect in request.effects)
        return [(stage(place, rows), None) for place, rows in zip(places, read, strict=True)]
    with _scan(feed, server, source, len(places)) as scan:
        chunks = tuple(effect.chunk for effect in request.effects)
        job = Job(source, split, chunks, places, scan.pieces, scan.cuts, scan.snapshot)
        with jobs.tagged(tag) as spark:
            staged = job.run(spark, Database(feed.source_url, asyncio.run(server.is_encrypted())))
    return [(one, None) for one in staged]


def _rows_of_view(view: TableView, source: CopySource, jobs: Jobs, tag: str) -> Iterator[Columns]:
    mapped, width = source.reading.columns(), len(source.read)
    sql = f"SELECT {listed(source.read)} FROM {source.place} t"
    for batch in view.batches(sql, batch_rows(source)):
        jobs.require_running(tag)
        yield mapped(by_column(batch, width))


def _source(feed: Feed, request: Request, server: SourceTables) -> CopySource:
    name = request.table.name
    return asyncio.run(sources(feed, server, [name]))[name]


def _place(feed: Feed, group: int, effect: ReadChunk, source: CopySource, table: TargetTable) -> Staging:
    name = staged_name(feed.name, group, effect.id)
    target = feed.target_url.carried() if is_cluster(feed.spark.master) else feed.target_url
    return Staging(target, feed.schema, name, source.mapping.shape, table, feed.zero_dates)


class Scan(msgspec.Struct, frozen=True):
    """Division of a scan among tasks (`adapters.row_copy.job.Job`)."""

    pieces: tuple[str, ...] = ()
    cuts: tuple[str, ...] = ()
    snapshot: str = ""


@contextlib.contextmanager
def _scan(feed: Feed, server: SourceTables, source: CopySource, chunks: int) -> Iterator[Scan]:
    """Shares out a scan, if several chunks are read; PostgreSQL's snapshot holds as long as this is open."""
    if chunks == 1:
        yield Scan()
    elif source.dialect == "mysql":
        pieces, _ = asyncio.run(mysql_pieces(server, source.table, feed.spark.piece_rows))
        yield Scan(tuple(pieces), tuple(f"t.{quote('mysql', column)}" for column in cut_by(source.table)))
    else:
        with tables_of(feed.source_url) as holder:
            holder.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            ((snapshot,),) = holder.rows("SELECT pg_export_snapshot()")
            count = max(1, -(-source.rows // feed.spark.piece_rows))
            pieces = asyncio.run(postgres_pieces(server, source.table.name, count))
            yield Scan(tuple(pieces), ("t.ctid",), str(snapshot))
