"""Opens the log that the options of the data source name, and finds the columns of a table there.

Spark starts a process of Python for each step of a stream's start, so each imports only what its step needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tidelock.adapters.config import loader
from tidelock.adapters.config.feed import ConfigError, Feed
from tidelock.adapters.spark_stream.log import ChangeLog, ChangesError
from tidelock.engine.model.records import Shape, TableName

if TYPE_CHECKING:
    from tidelock.adapters.spark_stream.recording import Recording


def open_log(options: Mapping[str, str]) -> ChangeLog:
    """Opens the log.  Raises ChangesError."""
    named = _named(options)
    if isinstance(named, Path):
        return _recording(named)
    from tidelock.adapters.spark_stream.topic import TopicLog  # with Kafka's client

    assert named.log_url is not None, "else it is a journal"
    try:
        return TopicLog(named.log_url.carried(), named.name)  # which executors do not have the file of
    except OSError as error:
        raise ChangesError(f"sslrootcert of `log` cannot be read: {error.strerror or error}", "") from None


def shape_of(options: Mapping[str, str], table: str) -> Shape:
    """Returns the columns of a table by its name at the target.  Raises ChangesError."""
    schema, _, name = table.partition(".")
    named = _named(options)
    if isinstance(named, Path):
        return _recording(named).shape(TableName(schema, name))
    return _at_source(named, TableName(schema, name))


def _named(options: Mapping[str, str]) -> Feed | Path:
    """Returns the feed whose log is in Kafka, or the path of the journal that is the log.  Raises ChangesError."""
    if ("feed" in options) == ("journal" in options):
        raise ChangesError("which changes are to be read?", "Give one of the options `feed` and `journal`")
    if "journal" in options:
        return Path(options["journal"]).absolute()
    feed = _feed(options["feed"])
    if feed.log_url is not None:
        return feed
    if feed.journal:
        return Path(feed.journal).absolute()
    raise ChangesError(
        f"feed {feed.name} keeps no log that others can read",
        "Set `log: kafka://…` in it and run it with `tidelock worker`, or set `journal: FILE` and run it once",
    )


def _recording(path: Path) -> Recording:
    from tidelock.adapters.spark_stream.recording import Recording  # with the apply machine

    return Recording(str(path))


def _feed(path: str) -> Feed:
    try:
        return loader.load(path)
    except ConfigError as error:
        raise ChangesError(str(error), "") from None


def _at_source(feed: Feed, table: TableName) -> Shape:
    """Returns a table from the source's catalogue, mapped as the feed says."""
    from tidelock.adapters.config.rules import rules_of
    from tidelock.adapters.ports.source_errors import SourceError
    from tidelock.adapters.wiring.sources import source_of
    from tidelock.engine.capture import mapping

    rules = mapping.Mapping(rules_of(feed), feed.schema)

    def wanted(name: TableName) -> bool:
        return rules.selects(name) and rules.target(name) == table

    try:
        found = source_of(feed.source_url).shapes(wanted)
    except SourceError as problem:
        raise ChangesError(problem.message, problem.hint) from None
    shapes = [mapped.shape for shape in found.values() if (mapped := rules.table(shape))]
    if not shapes:
        raise ChangesError(f"no table of the source becomes {table}", "`table` is schema.table as at the target")
    return shapes[0]
