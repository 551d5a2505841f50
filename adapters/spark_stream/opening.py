"""Which log the options of the data source name, and what a table looks like there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from tidelock.adapters.checks.source_view import source_opened
from tidelock.adapters.config import feed as config
from tidelock.adapters.config.feed import ConfigError, Feed
from tidelock.adapters.mysql.errors import SourceError
from tidelock.adapters.mysql.schema import read_shapes
from tidelock.adapters.ports.target_inspection import Refused
from tidelock.adapters.spark_stream.log import ChangeLog, ChangesError
from tidelock.adapters.spark_stream.recording import Recording
from tidelock.adapters.spark_stream.topic import Topic
from tidelock.adapters.wiring.composition import rules_of
from tidelock.engine.capture import mapping
from tidelock.engine.model.records import Shape, TableName


def open_log(options: Mapping[str, str]) -> ChangeLog:
    """Raises ChangesError."""
    if ("feed" in options) == ("journal" in options):
        raise ChangesError("which changes are to be read?", "Give one of the options `feed` and `journal`")
    if "journal" in options:
        return Recording(str(Path(options["journal"]).absolute()))
    feed = _feed(options["feed"])
    if feed.log_url is not None:
        return Topic(feed.log_url, feed.name)
    if feed.journal:
        return Recording(str(Path(feed.journal).absolute()))
    raise ChangesError(
        f"feed {feed.name} keeps no log that others can read",
        "Set `log: kafka://…` in it and run it with `tidelock worker`, or set `journal: FILE` and run it once",
    )


def shape_of(options: Mapping[str, str], table: str) -> Shape:
    """The columns of a table by its name at the target.  Raises ChangesError."""
    schema, _, name = table.partition(".")
    log = open_log(options)
    if isinstance(log, Recording):
        return log.shape(TableName(schema, name))
    return _at_source(_feed(options["feed"]), TableName(schema, name))


def _feed(path: str) -> Feed:
    try:
        return config.load(path)
    except ConfigError as error:
        raise ChangesError(str(error), "") from None


def _at_source(feed: Feed, table: TableName) -> Shape:
    """From the source's catalogue, mapped as the feed says."""
    rules = mapping.Mapping(rules_of(feed), feed.schema)

    async def ask() -> list[Shape]:
        async with source_opened(feed.source_url) as source:
            tables = await read_shapes(source, lambda name: rules.selects(name) and rules.target(name) == table)
        return [mapped.shape for found in tables.values() if (mapped := rules.table(found.shape))]

    try:
        shapes = asyncio.run(ask())
    except Refused as problem:
        raise ChangesError(problem.finding.message, problem.finding.hint) from None
    except SourceError as problem:
        raise ChangesError(problem.message, problem.hint) from None
    if not shapes:
        raise ChangesError(f"no table of the source becomes {table}", "`table` is schema.table as at the target")
    return shapes[0]
