"""The order for the capture process of a feed."""

from __future__ import annotations

from collections.abc import Sequence

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.ports.capture_messages import CaptureOrder
from tidelock.adapters.ports.table_form import TableForm
from tidelock.engine.model.records import Position


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
) -> CaptureOrder:
    """Returns the order; the others as `CaptureOrder` has them."""
    target = feed.target_url
    node = "" if target.scheme == "hive" else f"{target.host}:{target.port}"  # nothing comes back from there
    return CaptureOrder(
        source=feed.source_url,
        server_id=feed.server_id,
        rules=rules_of(feed),
        own=feed.schema,
        node=node,
        sites=feed.sites.as_rule if feed.sites else None,
        start=start,
        images=images,
        further=tuple(further),
        cuts=tuple(cuts),
        stored=stored,
        reader_name=reader_name,
        forms=tuple(forms),
    )
