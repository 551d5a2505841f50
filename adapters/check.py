"""`tidelock check`: can the feed run, and go on running?  Every finding says what happened, where, and what mends it.

Nothing is ever written.  Both sides are asked at the same time; a target table is judged against its source table.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

from adapters.check_source import (
    Settings,
    check_grants,
    check_patterns,
    check_place,
    check_settings,
    read_settings,
)
from adapters.check_tables import Pair, check_pair
from adapters.config import Feed
from adapters.endpoint import Endpoint
from adapters.finding import Finding, Report, error, report
from adapters.inspection import Refused, Target, opened
from adapters.mysql import catalogue
from adapters.mysql.catalogue import BlockingServer
from adapters.mysql.collation import equality
from adapters.mysql.connection import connect
from adapters.mysql.errors import AccessDenied, SourceError
from adapters.mysql.grants import Grants, read_grants
from adapters.mysql.schema import read_shapes
from adapters.mysql.source import reader_endpoint
from adapters.sink import TargetError
from adapters.source_table import SourceTable, projected
from engine.records import Position, TableName
from engine.schema import Equality


class SourceView(msgspec.Struct, frozen=True):
    """What was read of the source.  `tables`: the selected ones, whole; `rules`, `checks`: of all their databases."""

    mariadb: bool
    settings: Settings
    grants: Grants
    tables: dict[TableName, SourceTable]
    rules: dict[tuple[TableName, str], tuple[str, str]]
    checks: dict[TableName, list[tuple[str, str]]]


async def check(feed: Feed) -> Report:
    """Everything that can be known beforehand."""
    findings = not_yet(feed)
    if findings:
        return report(findings)
    async with AsyncExitStack() as stack:
        sides = await asyncio.gather(
            stack.enter_async_context(source_opened(feed.source_url)),
            stack.enter_async_context(opened(feed.target_url)),
            return_exceptions=True,
        )
        source, target = sides
        for side in sides:
            if isinstance(side, Refused):
                findings.append(side.finding)
            elif isinstance(side, BaseException):
                raise side
        view: SourceView | None = None
        if isinstance(source, BlockingServer):
            try:
                view = await view_of(feed, source)
            except SourceError as problem:
                return report([*findings, error("source-unusable", problem.message, problem.hint)])
            stored = None if isinstance(target, BaseException) else await target.checkpoint(feed.schema, feed.name)
            findings += await check_source(feed, source, view, stored)
        if not isinstance(target, BaseException):
            findings += await target.bookkeeping(feed.schema)
            if view is not None:
                findings += await check_target(feed, view, target)
    return report(findings)


async def preflight(feed: Feed) -> Report:
    """For the start of a run: the same questions on connections of its own, so that it may run beside the takeover."""
    return await check(feed)


def not_yet(feed: Feed) -> list[Finding]:
    """What the YAML may say and this version cannot do."""
    findings = []
    if feed.source_url.dialect != "mysql":
        findings.append(
            error(
                "not-yet", f"{feed.source_url.scheme}:// is not supported as a source yet", "Use mysql:// or mariadb://"
            )
        )
    if feed.target_url.scheme not in ("mysql", "mariadb", "postgresql"):
        findings.append(
            error(
                "not-yet",
                f"{feed.target_url.scheme}:// is not supported as a target yet",
                "Use postgresql://, mysql:// or mariadb://",
            )
        )
    if feed.verify != "off":
        findings.append(error("not-yet", f"`verify: {feed.verify}` is not supported yet", "Set `verify: off`"))
    if feed.log != "embedded":
        findings.append(error("not-yet", f"`log: {feed.log}` is not supported yet", "Set `log: embedded`"))
    if feed.on_conflict != "park":
        findings.append(
            error("not-yet", f"`on_conflict: {feed.on_conflict}` is not supported yet", "Set `on_conflict: park`")
        )
    return findings


@asynccontextmanager
async def source_opened(endpoint: Endpoint) -> AsyncIterator[BlockingServer]:
    """Raises Refused."""
    try:
        server = BlockingServer(await asyncio.to_thread(connect, reader_endpoint(endpoint)))
    except AccessDenied as problem:
        raise Refused(
            error(
                "source-denied",
                problem.message,
                "Correct user and password in the feed's `source`, or at the source "
                f"ALTER USER '{endpoint.user}'@'%' IDENTIFIED BY '…';",
            )
        ) from None
    except SourceError as problem:
        raise Refused(error("source-unreachable", problem.message, problem.hint)) from None
    try:
        yield server
    finally:
        server.close()


async def view_of(feed: Feed, server: BlockingServer) -> SourceView:
    """Raises SourceError."""
    settings = await read_settings(server)
    grants = await read_grants(server)
    own = feed.schema
    tables = await read_shapes(server, lambda n: n.schema != own and feed.select(n) is not None)
    names = list(tables)
    acting = any(key.cascades for table in tables.values() for key in table.foreign_keys)
    return SourceView(
        mariadb=server.is_mariadb,
        settings=settings,
        grants=grants,
        tables=tables,
        rules=await catalogue.rules(server, {n.schema for n in names}) if acting else {},
        checks=await catalogue.checks(server, names) if names else {},
    )


async def check_source(feed: Feed, server: BlockingServer, view: SourceView, stored: Position | None) -> list[Finding]:
    findings = [
        *check_settings(feed, view.settings),
        *check_grants(feed, view.grants, view.mariadb, list(view.tables)),
        *check_patterns(feed, view.tables, view.grants),
    ]
    monitor = view.grants.everywhere("BINLOG MONITOR")
    if monitor and view.settings.values.get("log_bin", "").upper() == "ON":
        findings += await check_place(feed, server, stored)
    return findings


async def check_target(feed: Feed, view: SourceView, target: Target) -> list[Finding]:
    """Each source table against its target."""
    target_of = {name: feed.target_name(name) for name in view.tables}
    wanted = list(dict.fromkeys(target_of.values()))
    tables = await target.tables(wanted)
    details = await target.details(wanted)
    findings: list[Finding] = []
    for name, source in view.tables.items():
        there = tables.get(target_of[name])
        if there is None:
            findings.append(
                error(
                    "table-missing",
                    f"{feed.target_url} has no table {target_of[name]} for {name}",
                    "`tidelock init` prints its CREATE TABLE, `tidelock init --apply` runs it",
                )
            )
            continue
        pair = Pair(
            source=replicated(feed, source),
            target=there,
            details=details[there.name],
            dialect=target.dialect,
            equalities=equalities(feed, source),
            checks=tuple(clause for _, clause in view.checks.get(name, ())),
            rules={key: rule for (table, key), rule in view.rules.items() if table == name},
            logged=view.settings.logs_cascades,
        )
        try:
            findings += check_pair(pair, target_of)
        except TargetError as problem:
            findings.append(error("name-too-long", f"{there.name}: {problem}", problem.hint))
    return findings


def replicated(feed: Feed, source: SourceTable) -> SourceTable:
    """The table as the feed's rules carry it over."""
    rule = feed.select(source.name)
    assert rule is not None, "only selected tables are read"

    def renames(parent: TableName) -> dict[str, str]:
        of_parent = feed.select(parent)
        return of_parent.columns.rename if of_parent else {}

    return projected(source, rule.columns, renames)


def equalities(feed: Feed, source: SourceTable) -> dict[str, Equality]:
    """How the source compares its text columns, by the target's names."""
    return {
        c.name: equality(c.collation, c.type.startswith("char("))[0]
        for c in replicated(feed, source).columns
        if c.collation
    }
