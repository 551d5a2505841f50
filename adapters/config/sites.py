"""The part of a feed's YAML that names sites, where changes may come back (`engine.capture.origin`)."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from tidelock.engine.capture.origin import Sites
from tidelock.engine.model.origin import SITE

SITE_NAME: Final = rf"^{SITE}$"
Site: TypeAlias = Annotated[str, Meta(pattern=SITE_NAME)]


class FeedSites(msgspec.Struct, frozen=True, kw_only=True):
    """The sites that a feed is between, where changes may come back: two-way feeds, rings, trees of feeds."""

    source: Annotated[
        str, Meta(pattern=SITE_NAME, description="Name of the source's site: `a-z`, `0-9`, `_`, `-`, at most 64.")
    ]
    target: Annotated[
        str, Meta(pattern=SITE_NAME, description="Name of the target's site. A change never goes to a site twice.")
    ]
    sister: Annotated[
        str,
        Meta(description="Feed that goes the other way between the two; receipts then say what a change had seen."),
    ] = ""
    forward: Annotated[
        Literal["all", "own"],
        Meta(description="Which changes: `all`, also those that other sites sent to the source; or its `own` alone."),
    ] = "all"
    mark: Annotated[tuple[Site, ...], Meta(description="Words that changes carry from here on, on all their way.")] = ()
    drop: Annotated[tuple[Site, ...], Meta(description="Changes that carry one of these words are left out.")] = ()

    @property
    def as_rule(self) -> Sites:
        """Returns them as the loop filter and the receipts have them."""
        return Sites(self.source, self.target, self.forward == "own", self.mark, self.drop, self.sister)
