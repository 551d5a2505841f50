"""`tidelock pair check`: what `check` finds of each feed, and what only shows where both sites write."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelock.adapters.app.check import check as check_feed
from tidelock.adapters.config.edges import Edge
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.pair import Pair, PairFeed
from tidelock.adapters.pair.numbers import check_numbers
from tidelock.adapters.ports.finding import CheckReport, Finding, error, report, warning
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.wiring.session import session

_KEPT = "SELECT @@GLOBAL.sync_binlog, @@GLOBAL.innodb_flush_log_at_trx_commit"
_SETTINGS = "SELECT current_setting('fsync'), current_setting('synchronous_commit')"


async def check(pair: Pair) -> CheckReport:
    """Lists everything that can be known before the pair runs."""
    findings = list[Finding]()
    for one in pair.feeds:
        findings += await _of_feed(one, one.feed)
    return report(findings + await _of_sites(pair, pair.feeds))


async def check_edge(pair: Pair, edge: Edge, first: Feed) -> CheckReport:
    """Lists it for one edge.  `first`: its feed away from the root, as it will begin."""
    feeds = [one for one in pair.feeds if one.edge.ends in (edge.ends, edge.ends[::-1])]
    findings = list[Finding]()
    for one in feeds:
        findings += await _of_feed(one, first if one.name == first.name else one.feed)
    return report(findings + await _of_sites(pair, feeds))


async def _of_feed(one: PairFeed, feed: Feed) -> list[Finding]:
    found = (await check_feed(feed)).findings
    return [msgspec.structs.replace(_two_way(one, f), message=f"{one.name}: {_two_way(one, f).message}") for f in found]


def _two_way(one: PairFeed, found: Finding) -> Finding:
    """Returns a finding as it counts where both ends write: what a trigger does for a change that came is marked as
    that is, and does not go back, so the sites would differ."""
    ours = found.message.startswith("the trigger tidelock_")
    if found.kind != "trigger" or not one.edge.two_way or ours:
        return found
    words = f"{found.message}; what it writes for changes that came does not go back to {one.ends[0]}"
    return error(found.kind, words, found.hint)


async def _of_sites(pair: Pair, feeds: Sequence[PairFeed]) -> list[Finding]:
    findings = list[Finding]()
    for one in {one.ends[0]: one for one in feeds if one.edge.two_way}.values():
        try:
            findings += await _durability(one)
        except TargetError as refused:
            findings.append(error("site-unreachable", f"site {one.ends[0]}: {refused}", refused.hint))
    try:
        return findings + await check_numbers(pair, feeds)
    except TargetError:
        return findings  # as was said


async def _durability(one: PairFeed) -> list[Finding]:
    """Lists settings with which a site may lose changes in a crash that others have already: they would stay there."""
    place, site = one.feed.source_url, one.ends[0]
    async with session(place) as source:
        if source.dialect == "postgres":
            ((fsync, commit),) = await source.fetch(_SETTINGS)
            wrong = {"fsync": fsync} if fsync != "on" else {"synchronous_commit": commit} if commit == "off" else {}
            mends = "Set them to on in its configuration"
        else:
            ((binlog, log),) = await source.fetch(_KEPT)
            settings = {"sync_binlog": int(binlog), "innodb_flush_log_at_trx_commit": int(log)}
            wrong = {name: value for name, value in settings.items() if value != 1}
            mends = "; ".join(f"SET GLOBAL {name} = 1" for name in wrong)
    if not wrong:
        return []
    said = ", ".join(f"{name}={value}" for name, value in wrong.items())
    return [
        warning(
            "site-durability",
            f"site {site} at {place} may lose commits in a crash that other sites have already ({said}): they would "
            "differ until the row is written again",
            f"{mends}; or let the server have a synchronous standby",
        )
    ]
