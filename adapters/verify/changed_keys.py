"""`tidelock verify --since`: collects the keys of all rows that the source's log says have changed since some moment.

The log is read and mapped as the feed reads it, so a key is the target's, and an update that leaves the row filter
names its row as well.  A table is compared completely where a key cannot say which row is meant: it has none, it was
emptied by a statement, a key is NULL, or there are too many.  Changes that the log does not hold are not seen: rows
that somebody else changed at the target, and what a cascade changed at a source that does not log them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from tidelock.adapters.config.feed import Feed, derived_server_id
from tidelock.adapters.config.moments import span, time_of
from tidelock.adapters.ports.source_errors import OtherHistory, PurgedPosition
from tidelock.adapters.verify.report import read_report
from tidelock.adapters.verify.table_pairs import NotComparable
from tidelock.adapters.wiring.capture_order import order_of
from tidelock.adapters.wiring.sources import source_of
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, Row, Shape, TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind

MOST_KEYS: Final = 500_000
TOLD_SECONDS: Final = 1.0
_PLACE: Final = re.compile(r"([\w.-]+\.\d+):(\d+)", re.ASCII)

Changed: TypeAlias = dict[TableName, "tuple[Row, ...] | None"]
"""The keys of changed rows by target table, or None for the whole table."""


class Since(msgspec.Struct, frozen=True):
    """The moment.  `position`: where reading begins.  `after_us`: changes committed before (microseconds since the
    epoch) are skipped.
    """

    position: Position
    after_us: int = 0


def since(feed: Feed, text: str, now: datetime) -> Since:
    """Parses a moment.

    `text`: `FILE:OFFSET`, an age (`90min`, `2h`, `1d`), a time in ISO 8601 (UTC where it names no zone), or the file of
    a report, which stands for the position where its run began.  Raises NotComparable, BadReport, SourceError.
    """
    if feed.source_url.dialect == "postgres":
        raise NotComparable(
            "--since reads the source's log from that moment on, and a PostgreSQL server keeps its log for the feed's "
            "own slot, from the feed's checkpoint on: what changed before is in no log, and what changed since is on "
            "its way",
            "Verify without --since, by --table where one is enough; --every compares a share of all rows each time",
        )
    if found := _PLACE.fullmatch(text):
        return Since(Position(found[1], int(found[2])))
    if Path(text).is_file():
        position = read_report(text, feed).position
        assert position is not None, "every report of this format has one"
        return Since(position)
    moment = _moment(text, now)
    try:
        place = source_of(feed.source_url).begun_before(moment.timestamp(), _server_id(feed))
    except PurgedPosition as error:
        raise NotComparable(error.message, f"{error.hint}, or verify without --since") from None
    # A commit's time is in whole seconds at some servers.
    return Since(place, int(moment.timestamp()) * 1_000_000)


def _moment(text: str, now: datetime) -> datetime:
    if (age := span(text)) is not None:
        return now - age
    if (moment := time_of(text)) is None:
        raise NotComparable(
            f"--since {text} is no moment",
            "Write FILE:OFFSET, an age (2h), a time (2026-11-22T12:00), or a file that `verify --report` wrote",
        )
    return moment


def _server_id(feed: Feed) -> int:
    """Returns a replica id other than the feed's own, whose reading it would end."""
    return derived_server_id(f"{feed.name}/verify")


def changed(
    feed: Feed,
    since: Since,
    end: Position,
    keys: Mapping[TableName, Sequence[str]],
    tell: Callable[[str], None],
) -> Changed:
    """Returns the changed keys in the log up to `end`, of the tables `keys`, which are the target's, with its key's
    columns.

    `tell` is told how far reading is.  Raises NotComparable, SourceError.
    """
    collected = _Collected(feed, since, keys)
    told = time.monotonic()
    order = msgspec.structs.replace(order_of(feed, since.position), server_id=_server_id(feed))
    source = source_of(feed.source_url)
    try:
        source.confirm(since.position)
        if since.position.file and since.position.order >= end.order:
            return {}
        with closing(source.reader(order)) as reader:
            for batch in reader.batches():
                collected.take(batch)
                if batch.last.order >= end.order:
                    return collected.found
                if time.monotonic() - told > TOLD_SECONDS:
                    told = time.monotonic()
                    tell(f"{collected.changes:,} changes up to {batch.last}")
    except OtherHistory as error:
        raise NotComparable(error.message, f"Verify without --since. {error.hint}") from None
    except PurgedPosition as error:
        raise NotComparable(
            f"the source's log no longer reaches back to {since.position}: {error.message}",
            "Verify without --since, and keep the logs longer",
        ) from None
    raise AssertionError("the log is read until it fails")


class _Collected:
    def __init__(self, feed: Feed, since: Since, keys: Mapping[TableName, Sequence[str]]) -> None:
        self.changes = 0
        self._feed, self._after_us, self._keys = feed, since.after_us, keys
        self._rows: dict[TableName, dict[Row, None] | None] = {}
        self._positions: dict[int, tuple[TableName, tuple[int, ...]]] = {}

    @property
    def found(self) -> Changed:
        return {name: None if rows is None else tuple(rows) for name, rows in sorted(self._rows.items())}

    def take(self, batch: LogBatch) -> None:
        for number, shape in batch.shapes.items():
            self._announce(number, shape)
        if batch.ddl is not None:
            self._statement(batch.ddl)
        bounds = pairwise([*(transaction.first for transaction in batch.transactions), len(batch.rows)])
        for transaction, (start, stop) in zip(batch.transactions, bounds, strict=True):
            if transaction.commit_us and transaction.commit_us < self._after_us:
                continue
            for change in batch.rows[start:stop]:
                if change.table in self._positions:
                    name, key = self._positions[change.table]
                    self.changes += 1
                    for row in (change.before, change.after):
                        if row is not None:
                            self._add(name, tuple([row[at] for at in key]))

    def _announce(self, number: int, shape: Shape) -> None:
        self._positions.pop(number, None)
        if shape.name in self._keys:
            at = {column.name: n for n, column in enumerate(shape.columns)}
            key = tuple(at[name] for name in self._keys[shape.name] if name in at)
            exact = len(key) == len(self._keys[shape.name])
            self._positions[number] = shape.name, key if exact else ()

    def _add(self, name: TableName, key: Row) -> None:
        rows = self._rows.setdefault(name, {})
        if rows is None:
            return
        rows[key] = None
        if not key or None in key or len(rows) > MOST_KEYS:
            self._rows[name] = None

    def _statement(self, ddl: Ddl) -> None:
        if ddl.kind in (DdlKind.TRUNCATE, DdlKind.ALTERED) and not ddl.optional:
            for table in ddl.tables:
                name = self._feed.target_name(table)
                if name in self._keys:
                    self._rows[name] = None
