"""`tidelock check` of a feed with a Hive target: the source, what runs Spark here, the warehouse, and each table.

Spark is not started: all this is known in a second, and a run that goes on is not disturbed.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tidelock.adapters.checks.inspection import source_inspected
from tidelock.adapters.checks.source_inspection import SourceView
from tidelock.adapters.checks.source_view import replicated
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.hive.opening import ELSEWHERE, manifest_of, refusal
from tidelock.adapters.ports.finding import CheckReport, Finding, error, note, report
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.ports.target_inspection import CannotRun
from tidelock.adapters.process.host import Missing, java
from tidelock.adapters.schema.create_table import full_identity
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.adapters.spark.drivers import drivers
from tidelock.engine.model.records import Kind, TableName

CONNECT_SECONDS: Final = 10.0
_NAME: Final = re.compile(r"[a-z0-9_]+", re.IGNORECASE)
_DATES: Final = (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP)
_LONG: Final = (Kind.TEXT, Kind.BINARY, Kind.JSON, Kind.DECIMAL, Kind.OTHER)
_OURS: Final = ("tidelock_bucket", "tidelock_part")
_VERSION: Final = ("valid_from", "valid_to", "op")


async def check(feed: Feed) -> CheckReport:
    """Lists everything that can be known before a run.  Nothing is written."""
    source, place = await asyncio.gather(_source(feed), asyncio.to_thread(_place, feed))
    return report([*source, *_programs(), *place])


# ---------------------------------------------------------------------- the source and its tables


async def _source(feed: Feed) -> list[Finding]:
    try:
        async with source_inspected(feed) as source:
            manifest = None if feed.target_url.host else manifest_of(feed)
            stored = manifest.position if manifest else None
            return [*await source.findings(stored), *_copying(feed, source.view), *_tables(feed, source.view)]
    except CannotRun as refused:
        return [refused.finding]
    except SourceError as problem:
        return [error("server-refused", problem.message, problem.hint)]


def _copying(feed: Feed, view: SourceView) -> list[Finding]:
    if feed.start != "copy" or view.tells_visibility:
        return []
    hint = "SET PERSIST gtid_mode, step by step up to ON; or leave out `start: copy`"
    return [error("source-gtid-mode", f"{feed.source_url} has no GTIDs, which copying from MySQL needs", hint)]


def _tables(feed: Feed, view: SourceView) -> list[Finding]:
    findings: list[Finding] = []
    names: dict[str, set[TableName]] = defaultdict(set)
    for name, table in view.tables.items():
        target = feed.target_name(name)
        names[str(target).lower()].add(target)
        findings += [*_named(target), *_table(feed, target, replicated(feed, table))]
    for same in names.values():
        if len(same) > 1:
            several = " and ".join(sorted(map(str, same)))
            findings.append(error("name-case", f"{several} are one name in Hive", "Give one another `target`"))
    return findings


def _named(target: TableName) -> list[Finding]:
    if all(_NAME.fullmatch(part) for part in (target.schema, target.table)):
        return []
    hint = "Give it a `target` in the feed"
    return [error("name", f"Hive knows only letters, digits and _ in a table's name, not {target}", hint)]


def _table(feed: Feed, target: TableName, table: SourceTable) -> list[Finding]:
    findings = _long_values(table)
    key, columns = table.shape.primary_key, {column.name for column in table.columns if column.logged}
    if not key or not columns.issuperset(key):
        hint = "Give it one, or leave it out of the feed"
        findings.append(error("no-key", f"{table.name} has no primary key, or the feed leaves a part of it out", hint))
    reserved = (*_OURS, *(_VERSION if feed.hive.history else ()))
    for column in table.columns:
        if column.name.lower() in reserved:
            use = f"{target} has a column {column.name} of its own in Hive"
            findings.append(error("column-name", use, "`rename` the source's column in the feed"))
        if "`" in column.name and feed.hive.format == "orc":
            hint = "`rename` it in the feed, or set hive: {format: parquet}"
            findings.append(error("column-name", f"{target}: ORC loses a column of the name {column.name}", hint))
    return [*findings, *_misfits(feed, target, table)]


def _long_values(table: SourceTable) -> list[Finding]:
    """Finds what the log leaves out of a row after an update, where the server keeps long values beside its rows."""
    if not table.leaves_out or all(column.column.kind not in _LONG for column in table.columns):
        return []
    said = (
        f"an update of {table.name} that leaves a long value as it was is logged without that value, and Hive gets "
        "whole rows"
    )
    return [error("long-values", said, full_identity(table))]


def _misfits(feed: Feed, target: TableName, table: SourceTable) -> list[Finding]:
    """Notes the columns with values that Hive does not have."""
    kinds = {column.name: column.column.kind for column in table.columns}
    dates = [name for name, kind in kinds.items() if kind in _DATES]
    if feed.zero_dates == "null":
        return []
    hint = "`zero_dates: null` in the feed makes such values NULL"
    if feed.source_url.dialect == "postgres":
        numbers = [name for name, kind in kinds.items() if kind is Kind.DECIMAL]
        there = ((dates, "an infinite moment, or a year before 1 or after 9999,"), (numbers, "NaN"))
        return [
            note("no-such-value", f"{target} cannot hold {what} in {', '.join(columns)}: one ends the run", hint)
            for columns, what in there
            if columns
        ]
    held = f"{target} cannot hold a zero date in {', '.join(dates)}: one ends the run"
    return [note("zero-dates", held, "`zero_dates: null` in the feed makes such dates NULL")] if dates else []


# ---------------------------------------------------------------------- this machine, and the warehouse


def _programs() -> list[Finding]:
    findings = []
    if find_spec("pyspark") is None:
        hint = "Run `make setup`, or `pip install 'tidelock[bulk]'`"
        findings.append(error("pyspark-missing", "pyspark is not installed here", hint))
    for kind, asked in (("java-missing", lambda: java("Spark")), ("drivers-missing", lambda: drivers().there())):
        try:
            asked()
        except Missing as missing:
            said, _, hint = str(missing).partition(": ")
            findings.append(error(kind, said, hint.capitalize()))
    return findings


def _place(feed: Feed) -> list[Finding]:
    target = feed.target_url
    if why := refusal(feed):
        return [error("target-folder", why, ELSEWHERE[0].upper() + ELSEWHERE[1:])]
    return _folder(Path(target.database)) if not target.host else _metastore(feed)


def _folder(folder: Path) -> list[Finding]:
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return []
    what = "cannot be written to" if there == folder else f"cannot be made: {there} is not ours to write"
    return [error("target-folder", f"{folder} {what}", "Let the user that runs the feed write there, or name another")]


def _metastore(feed: Feed) -> list[Finding]:
    findings = []
    for server in feed.target_url.servers:
        host, _, port = server.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        except OSError as problem:
            reason = problem.strerror or str(problem)
            said = f"the metastore at {server} cannot be reached: {reason}"
            findings.append(error("target-unreachable", said, "Start it, or correct the feed's `target`"))
    return findings
