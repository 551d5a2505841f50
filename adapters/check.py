"""`tidelock check`: can the feed run, and go on running?  Every finding says what happened, where, and what mends it.

Nothing is ever written.  Both sides are asked at the same time; a target table is judged against its source table.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TypeVar

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
from adapters.finding import Finding, Report, error, note, report
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
from adapters.start_copy import check_empty
from adapters.upgrade import advice, older
from engine.records import Position, TableName
from engine.schema import Equality

Side = TypeVar("Side")


class SourceView(msgspec.Struct, frozen=True):
    """What was read of the source.  `schemas`: databases that the account sees.  `tables`: the selected ones, whole;
    `rules`, `checks`: of all their databases."""

    mariadb: bool
    settings: Settings
    grants: Grants
    schemas: frozenset[str]
    tables: dict[TableName, SourceTable]
    rules: dict[tuple[TableName, str], tuple[str, str]]
    checks: dict[TableName, list[tuple[str, str]]]


async def check(feed: Feed) -> Report:
    """Everything that can be known beforehand."""
    findings = not_yet(feed)
    if findings:
        return report(findings)
    if feed.target_url.scheme == "hive":
        from adapters.hive.checking import check as check_hive

        return await check_hive(feed)
    async with AsyncExitStack() as stack:
        source, target = await asyncio.gather(
            _entered(stack, source_opened(feed.source_url)), _entered(stack, opened(feed.target_url))
        )
        try:
            if isinstance(source, Finding) or isinstance(target, Finding):
                findings = await _one_side(feed, source, target)
            else:
                findings = await _both_sides(feed, source, target)
        except SourceError as problem:
            findings = [error("server-refused", problem.message, problem.hint)]
    return report(findings + await _log_findings(feed))


async def _log_findings(feed: Feed) -> list[Finding]:
    if feed.log_url is None:
        return []
    from adapters.check_log import check_log  # Kafka's client, which an embedded feed does without

    return await check_log(feed)


async def _entered(stack: AsyncExitStack, side: AbstractAsyncContextManager[Side]) -> Side | Finding:
    try:
        return await stack.enter_async_context(side)
    except Refused as refused:
        return refused.finding


async def _one_side(feed: Feed, source: BlockingServer | Finding, target: Target | Finding) -> list[Finding]:
    """What can be said when the other side, or both, cannot be used."""
    findings = [side for side in (source, target) if isinstance(side, Finding)]
    if not isinstance(source, Finding):
        findings += await check_source(feed, source, await view_of(feed, source), None)
    if not isinstance(target, Finding):
        findings += (await _own_tables(feed, target)).findings
    return findings


async def _both_sides(feed: Feed, source: BlockingServer, target: Target) -> list[Finding]:
    view, own = await asyncio.gather(view_of(feed, source), _own_tables(feed, target))
    of_source, of_target = await asyncio.gather(
        check_source(feed, source, view, own.checkpoint), check_target(feed, view, target)
    )
    return of_source + own.findings + of_target


class _OwnTables(msgspec.Struct, frozen=True):
    findings: list[Finding]
    checkpoint: Position | None


async def _own_tables(feed: Feed, target: Target) -> _OwnTables:
    findings = [
        *await target.bookkeeping(feed.schema),
        *await _older_tables(feed, target),
        *await target.durability(),
    ]
    return _OwnTables(findings, await target.checkpoint(feed.schema, feed.name))


async def _older_tables(feed: Feed, target: Target) -> list[Finding]:
    lacking = await target.lacking(feed.schema)
    if not lacking or lacking.everything:
        return []
    message = f"{feed.target_url}: {older(feed.schema, lacking)}"
    if await target.may_add(feed.schema, lacking):
        return [note("bookkeeping-older", message, "The next `tidelock run` adds them, or `tidelock init --apply` now")]
    return [error("bookkeeping-older", message, advice(lacking, target.dialect, feed.schema, feed.target_url.user))]


def not_yet(feed: Feed) -> list[Finding]:
    """What the YAML may say and this version cannot do."""
    findings = []
    if feed.source_url.dialect != "mysql":
        findings.append(
            error(
                "not-yet", f"{feed.source_url.scheme}:// is not supported as a source yet", "Use mysql:// or mariadb://"
            )
        )
    if feed.target_url.scheme not in ("mysql", "mariadb", "postgresql", "hive"):
        findings.append(
            error(
                "not-yet",
                f"{feed.target_url.scheme}:// is not supported as a target yet",
                "Use postgresql://, mysql:// or mariadb://",
            )
        )
    if feed.verify != "off":
        findings.append(error("not-yet", f"`verify: {feed.verify}` is not supported yet", "Set `verify: off`"))
    if feed.on_conflict != "park":
        findings.append(
            error("not-yet", f"`on_conflict: {feed.on_conflict}` is not supported yet", "Set `on_conflict: park`")
        )
    return findings


@asynccontextmanager
async def source_opened(endpoint: Endpoint) -> AsyncIterator[BlockingServer]:
    """Raises Refused."""
    try:
        place = reader_endpoint(endpoint)
        server = BlockingServer(await asyncio.to_thread(connect, place), place)
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
    tables = await _selected(feed, server)
    names = list(tables)
    acting = any(key.cascades for table in tables.values() for key in table.foreign_keys)
    return SourceView(
        mariadb=server.is_mariadb,
        settings=settings,
        grants=grants,
        schemas=frozenset(str(row[0]) for row in await server.ask("SHOW DATABASES")),
        tables=tables,
        rules=await catalogue.rules(server, {n.schema for n in names}) if acting else {},
        checks=await catalogue.checks(server, names) if names else {},
    )


async def _selected(feed: Feed, server: BlockingServer) -> dict[TableName, SourceTable]:
    return await read_shapes(server, lambda n: n.schema != feed.schema and feed.select(n) is not None)


async def check_source(feed: Feed, server: BlockingServer, view: SourceView, stored: Position | None) -> list[Finding]:
    findings = [
        *check_settings(feed, view.settings, view.tables),
        *check_grants(feed, view.grants, view.mariadb, list(view.tables)),
        *check_patterns(feed, view.tables, view.grants, view.schemas),
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
    findings = await check_empty(feed, list(tables))
    findings += await target.making([name for name in wanted if name not in tables])
    details = await target.details(wanted)
    for name, source in view.tables.items():
        there = tables.get(target_of[name])
        if there is None:
            findings.append(_missing(feed, name))
            continue
        of_feed = replicated(feed, source)
        pair = Pair(
            source=of_feed,
            target=there,
            details=details[there.name],
            dialect=target.dialect,
            equalities=equalities(of_feed),
            checks=tuple(clause for _, clause in view.checks.get(name, ())),
            rules={key: rule for (table, key), rule in view.rules.items() if table == name},
            logged=view.settings.logs_cascades,
        )
        findings += _judged(pair, target_of)
    return findings


def _missing(feed: Feed, name: TableName) -> Finding:
    return error(
        "table-missing",
        f"{feed.target_url} has no table {feed.target_name(name)} for {name}",
        "`tidelock init` prints its CREATE TABLE, `tidelock init --apply` runs it",
    )


def _judged(pair: Pair, target_of: dict[TableName, TableName]) -> list[Finding]:
    try:
        return check_pair(pair, target_of)
    except TargetError as problem:
        return [error("name-too-long", f"{pair.target.name}: {problem}", problem.hint)]


def replicated(feed: Feed, source: SourceTable) -> SourceTable:
    """The table as the feed's rules carry it over."""
    rule = feed.select(source.name)
    assert rule is not None, "only selected tables are read"

    def renames(parent: TableName) -> dict[str, str]:
        of_parent = feed.select(parent)
        return of_parent.columns.rename if of_parent else {}

    return projected(source, rule.columns, renames)


def equalities(source: SourceTable) -> dict[str, Equality]:
    """How the source compares its text columns."""
    return {c.name: equality(c.collation, c.type.startswith("char("))[0] for c in source.columns if c.collation}
