"""The order for the capture process of a feed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.ports.capture_messages import CaptureOrder
from tidelock.adapters.ports.table_form import TableForm
from tidelock.engine.capture.origin import Sites
from tidelock.engine.model.conflict_options import TableWords
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import TargetTable


def sites_of(feed: Feed) -> Sites | None:
    """Returns the sites of a feed as the loop filter has them."""
    if feed.sites is None:
        return None
    echo = feed.conflicts.echo if feed.conflicts is not None and feed.direction == "down" else "none"
    return msgspec.structs.replace(feed.sites.as_rule, echo=echo, statements=feed.ddl.made_at or "")


NO_POLICIES: Final[Mapping[TableName, TableWords]] = MappingProxyType({})


def order_of(
    feed: Feed,
    start: Position,
    *,
    images: bool = False,
    further: Sequence[Position] = (),
    cuts: Sequence[Position] = (),
    stored: Position | None = None,
    reader_name: str = "",
    forms: Sequence[TableForm] = (),
    tables: Sequence[TargetTable] = (),
    policies: Mapping[TableName, TableWords] = NO_POLICIES,
    keeps_forms: bool = False,
) -> CaptureOrder:
    """Returns the order.  `policies`: those by which the engine writes, from which groups of columns are taken; the
    others as `CaptureOrder` has them."""
    sites = sites_of(feed)
    echoes = sites is not None and sites.echo != "none"  # they compare values, which images hide
    target = feed.target_url
    node = "" if target.scheme == "hive" else f"{target.host}:{target.port}"  # nothing comes back from there
    return CaptureOrder(
        source=feed.source_url,
        server_id=feed.server_id,
        rules=rules_of(feed),
        own=feed.schema,
        node=node,
        sites=sites,
        start=start,
        images=images and not echoes,
        further=tuple(further),
        cuts=tuple(cuts),
        stored=stored,
        reader_name=reader_name,
        forms=tuple(forms),
        keeps_forms=keeps_forms,
        tables=tuple(tables) if echoes else (),
        groups={name: _columns(policies[name]) for name in policies if policies[name].groups} if echoes else {},
    )


def _columns(words: TableWords) -> tuple[tuple[str, ...], ...]:
    return tuple(group.columns for group in words.groups)
