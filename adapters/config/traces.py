"""The part of a feed's YAML that says where spans of its batches go."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class FeedTraces(msgspec.Struct, frozen=True, kw_only=True):
    """The collector, and how many batches it is told of."""

    endpoint: Annotated[
        str,
        Meta(
            pattern=r"^https?://[^@/?#\s]+(/[^?#\s]*)?$",
            description="URL of a collector that takes OTLP over HTTP: `http://127.0.0.1:4318/v1/traces`. Headers, "
            "such as one with a token, come from `OTEL_EXPORTER_OTLP_HEADERS` in the environment.",
        ),
    ]
    per_second: Annotated[
        int, Meta(ge=1, le=10_000, description="Batches of each group of tables that have spans, a second, at most.")
    ] = 10
