"""The part of a feed's YAML that bounds how fast it applies."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class FeedThrottle(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds: rows a second, and a figure of the target's."""

    max_rate: Annotated[
        int, Meta(ge=0, le=10_000_000, description="Row changes a second, on average, at most. 0: no bound.")
    ] = 0
    query: Annotated[
        str,
        Meta(
            description="SQL that is asked of the target every second; its first value is a number, such as its load "
            "or how far its replicas are behind. Default: none."
        ),
    ] = ""
    above: Annotated[
        float, Meta(ge=0, description="While the number is greater, or there is none, nothing is applied.")
    ] = 0.0
