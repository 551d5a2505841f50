"""The part of a feed's YAML that lets it apply only while its sister does (`engine.two_way.permit`)."""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tidelock.engine.two_way.permit import Limits

SPAN: Final = r"^[1-9][0-9]{0,6}(ms|s|m|h)$"
LEAST_AFTER_US: Final = 3_000_000
"""A feed tells of itself once a second, and its sister looks as often."""
_UNITS: Final = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}


class FeedPermit(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a permit: the two feeds between two sites both apply, or neither does."""

    lag: Annotated[
        str, Meta(pattern=SPAN, description="How far the sister may be behind before this feed waits for it: `5m`.")
    ] = "5m"
    after: Annotated[
        str, Meta(pattern=SPAN, description="How long the sister may be silent before this feed waits: `10s`.")
    ] = "10s"

    @property
    def limits(self) -> Limits:
        """Returns them as the permit has them."""
        return Limits(_microseconds(self.lag), _microseconds(self.after))


def _microseconds(span: str) -> int:
    found = re.fullmatch(r"(\d+)([a-z]+)", span)
    assert found is not None, "the pattern of the key"
    return int(found[1]) * _UNITS[found[2]]
