"""Checks whether a feed between databases can run and go on running.  Every finding says what is wrong, where, and what
corrects it.

Nothing is ever written.  Both sides are asked at the same time; a target table is judged against its source table.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TypeVar

import msgspec

from tidelock.adapters.checks.checked_table import CheckedTable
from tidelock.adapters.checks.http_port import check_http
from tidelock.adapters.checks.inspection import source_inspected
from tidelock.adapters.checks.looks import check_looks
from tidelock.adapters.checks.other_way import check_other_way
from tidelock.adapters.checks.rule_columns import check_rule_columns
from tidelock.adapters.checks.same_tables import check_same_tables
from tidelock.adapters.checks.source_inspection import InspectedSource
from tidelock.adapters.checks.source_view import names_at_target, replicated
from tidelock.adapters.checks.stamps import check_stamped, check_stamps
from tidelock.adapters.checks.tables import check_pair
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator import sites
from tidelock.adapters.operator.start_copy import check_empty
from tidelock.adapters.operator.upgrade import advice, older, tables_of
from tidelock.adapters.ports.finding import CheckReport, Finding, error, note, report
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.ports.target_inspection import CannotRun, Target
from tidelock.adapters.schema.dialects import from_postgres
from tidelock.adapters.wiring.inspection import opened
from tidelock.adapters.wiring.sources import SCHEMES
from tidelock.engine.model.records import Position, TableName

Side = TypeVar("Side")


async def check(feed: Feed) -> CheckReport:
    """Lists everything that can be known before a run."""
    findings = not_yet(feed)
    if findings:
        return report(findings)
    found = await asyncio.gather(
        _side_findings(feed),
        _site_findings(feed),
        check_other_way(feed),
        check_same_tables(feed),
        _log_findings(feed),
        check_http(feed),
    )
    return report([finding for findings in found for finding in findings])


async def _side_findings(feed: Feed) -> list[Finding]:
    async with AsyncExitStack() as stack:
        source, target = await asyncio.gather(
            _entered(stack, source_inspected(feed)), _entered(stack, opened(feed.target_url))
        )
        try:
            if isinstance(source, Finding) or isinstance(target, Finding):
                return await _one_side(feed, source, target)
            return await _both_sides(feed, source, target)
        except SourceError as problem:
            return [error("server-refused", problem.message, problem.hint)]


async def _site_findings(feed: Feed) -> list[Finding]:
    try:
        await sites.compare(feed)
    except sites.SiteRefused as refused:
        return [error("site", str(refused), refused.hint)]
    except TargetError:
        return []  # as is said elsewhere
    return []


async def _log_findings(feed: Feed) -> list[Finding]:
    if feed.log_url is None:
        return []
    from tidelock.adapters.checks.log import check_log  # Kafka's client, which an embedded feed does without

    return await check_log(feed)


async def _entered(stack: AsyncExitStack, side: AbstractAsyncContextManager[Side]) -> Side | Finding:
    try:
        return await stack.enter_async_context(side)
    except CannotRun as refused:
        return refused.finding
    except SourceError as problem:
        return error("server-refused", problem.message, problem.hint)


async def _one_side(feed: Feed, source: InspectedSource | Finding, target: Target | Finding) -> list[Finding]:
    """Lists what can be said when the other side, or both, cannot be used."""
    findings = [side for side in (source, target) if isinstance(side, Finding)]
    if not isinstance(source, Finding):
        findings += await source.findings(None)
    if not isinstance(target, Finding):
        findings += (await _own_tables(feed, target)).findings
    return findings


async def _both_sides(feed: Feed, source: InspectedSource, target: Target) -> list[Finding]:
    own = await _own_tables(feed, target)
    of_source, of_target = await asyncio.gather(
        source.findings(own.checkpoint), check_target(feed, source, target)
    )
    return of_source + own.findings + of_target


class _OwnTables(msgspec.Struct, frozen=True):
    findings: list[Finding]
    checkpoint: Position | None


async def _own_tables(feed: Feed, target: Target) -> _OwnTables:
    findings = [
        *await target.bookkeeping(feed.schema, tables_of(feed)),
        *await _older_tables(feed, target),
        *await target.durability(),
    ]
    return _OwnTables(findings, await target.checkpoint(feed.schema, feed.name))


async def _older_tables(feed: Feed, target: Target) -> list[Finding]:
    lacking = await target.lacking(feed.schema, tables_of(feed))
    if not lacking or lacking.everything:
        return []
    message = f"{feed.target_url}: {older(feed.schema, lacking)}"
    if await target.may_add(feed.schema, lacking):
        return [note("bookkeeping-older", message, "The next `tidelock run` adds them, or `tidelock init --apply` now")]
    return [error("bookkeeping-older", message, advice(lacking, target.dialect, feed.schema, feed.target_url.user))]


def not_yet(feed: Feed) -> list[Finding]:
    """Lists settings that the YAML allows and this version does not support."""
    findings = []
    known = " or ".join(f"{scheme}://" for scheme in SCHEMES)
    if feed.source_url.scheme not in SCHEMES:
        findings.append(
            error(
                "not-yet", f"{feed.source_url.scheme}:// is not supported as a source yet", f"Use {known}"
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
    return findings


async def check_target(feed: Feed, looked: InspectedSource, target: Target) -> list[Finding]:
    """Compares each source table with its target."""
    view = looked.view
    target_of = {name: feed.target_name(name) for name in view.tables}
    wanted = list(dict.fromkeys(target_of.values()))
    tables = await target.tables(wanted)
    findings = check_rule_columns(feed, view.tables.values()) + await check_empty(feed, list(tables))
    findings += await target.making([name for name in wanted if name not in tables])
    details = await target.details(wanted)
    for name, source in view.tables.items():
        there = tables.get(target_of[name])
        if there is None:
            findings.append(_missing(feed, name))
            continue
        of_feed = replicated(feed, source)
        if view.dialect == "postgres" and target.dialect == "mysql":
            of_feed = from_postgres(of_feed, mariadb=target.mariadb)
        pair = CheckedTable(
            source=of_feed,
            source_dialect=view.dialect,
            target=there,
            details=details[there.name],
            dialect=target.dialect,
            equalities=looked.equalities(of_feed),
            checks=tuple(clause for _, clause in view.checks.get(name, ())),
            rules={key: rule for (table, key), rule in view.rules.items() if table == name},
            logged=view.logs_cascades,
            names=names_at_target(feed, source),
            mariadb=target.mariadb,
        )
        findings += _judged(pair, target_of)
        findings += check_looks(feed, pair)
        findings += check_stamped(feed, pair)
    return findings + await check_stamps(feed, view.tables.values(), view.dialect, target.dialect)


def _missing(feed: Feed, name: TableName) -> Finding:
    return error(
        "table-missing",
        f"{feed.target_url} has no table {feed.target_name(name)} for {name}",
        "`tidelock init` prints its CREATE TABLE, `tidelock init --apply` runs it",
    )


def _judged(pair: CheckedTable, target_of: dict[TableName, TableName]) -> list[Finding]:
    try:
        return check_pair(pair, target_of)
    except TargetError as problem:
        return [error("name-too-long", f"{pair.target.name}: {problem}", problem.hint)]
