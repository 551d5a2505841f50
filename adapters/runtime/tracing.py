"""Sends spans of a feed to a collector, by OpenTelemetry's own library (`pip install 'tidelock[traces]'`).

They are sent from a thread of the library's, some hundred at once; where the collector is away or slow some are lost,
and the feed does not wait.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Final, TypeAlias

from tidelock.adapters.compiled.version import installed
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.traces import FeedTraces
from tidelock.adapters.runtime.spans import Spans

SEND_SECONDS: Final = 5.0
_NEEDED: Final = ("opentelemetry.sdk.trace.export", "opentelemetry.exporter.otlp.proto.http.trace_exporter")
MakeSpans: TypeAlias = Callable[[int], Spans | None]
"""Makes the spans of a group of tables."""


def no_spans(_: int) -> None:
    """Makes none."""


@asynccontextmanager
async def tracing(feed: Feed) -> AsyncIterator[MakeSpans]:
    """Gives what makes spans while the block runs; what is not sent at its end is, within `SEND_SECONDS`.

    Raises ModuleNotFoundError where the feed has `traces` and the library is not installed.
    """
    if feed.traces is None:
        yield no_spans
        return
    for module in _NEEDED:  # a third of a second, beside the loop
        await asyncio.to_thread(import_module, module)
    made, end = _exporting(feed, feed.traces)
    try:
        yield made
    finally:
        await asyncio.to_thread(end)


def _exporting(feed: Feed, traces: FeedTraces) -> tuple[MakeSpans, Callable[[], None]]:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import Status, StatusCode

    exporter = OTLPSpanExporter(endpoint=traces.endpoint, timeout=SEND_SECONDS)
    resource = Resource.create({"service.name": "tidelock", "service.version": installed(), "tidelock.feed": feed.name})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("tidelock", installed())
    failed = Status(StatusCode.ERROR)

    def end() -> None:
        ending = threading.Thread(target=provider.shutdown, daemon=True)
        ending.start()
        ending.join(SEND_SECONDS)
        if ending.is_alive():
            exporter.shutdown()  # type: ignore[no-untyped-call]  # gives up what it tries

    return lambda group: Spans(tracer, failed, group, traces.per_second), end
