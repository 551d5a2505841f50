"""Spans of batches and chunks, as a collector gets them over OTLP, and what never is in them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status as MadeStatus
from opentelemetry.trace import StatusCode

from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from tidelock.adapters.config.feed import ConfigError
from tidelock.adapters.config.loader import read
from tidelock.adapters.runtime import spans as made_spans
from tidelock.adapters.runtime.spans import Spans
from tidelock.engine.log.receipts import NOTHING
from tidelock.engine.protocol.effects import ApplyBatch, EffectId
from tidelock.engine.protocol.events import BatchCommitted

FEED = "feed: shop\nsource: mysql://a@h:1\ntarget: postgresql://b@h:2/c\ntables: [{source: crm.*}]\n"
HIDDEN = "a value of a row"
SECONDS = 90.0


class Collector:
    """Spans that a collector was sent.  `bodies`: as they came."""

    def __init__(self, port: int, bodies: list[bytes]) -> None:
        self.endpoint, self.bodies = f"http://127.0.0.1:{port}/v1/traces", bodies

    def spans(self) -> list[tuple[dict[str, Any], Span]]:
        """The attributes of each span, those of its resource too, and the span."""
        found = []
        for body in self.bodies:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    found += [(values(resource.resource) | values(span), span) for span in scope.spans]
        return found

    def named(self, name: str) -> list[dict[str, Any]]:
        return [attributes for attributes, span in self.spans() if span.name == name]


def values(holder: Any) -> dict[str, Any]:
    found = {}
    for one in holder.attributes:
        kind = one.value.WhichOneof("value")
        value = getattr(one.value, kind)
        found[one.key] = [part.string_value for part in value.values] if kind == "array_value" else value
    return found


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector, in a thread of its own."""
    bodies: list[bytes] = []
    port: Future[int] = Future()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def take(request: web.Request) -> web.Response:
        bodies.append(await request.read())
        return web.Response(content_type="application/x-protobuf")

    async def serve() -> None:
        app = web.Application()
        app.router.add_post("/v1/traces", take)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port.set_result(runner.addresses[0][1])
        await over.wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        yield Collector(port.result(), bodies)
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


def test_each_batch_and_chunk_of_a_run_has_a_span(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server
) -> None:
    rig = make_rig(mariadb, postgres, "traces", lanes=2, start="copy")
    rig.table("t", "id int PRIMARY KEY, n varchar(40)")
    rig.at_source(f"INSERT INTO t VALUES (1, '{HIDDEN}'), (2, '{HIDDEN}')")
    with collecting() as collector:
        rig.options["traces"] = {"endpoint": collector.endpoint, "per_second": 1000}
        process = rig.run()
        until(rig.equal, "the copy", SECONDS)
        rig.at_target("ALTER TABLE t ADD CHECK (n <> 'no row')")
        rig.at_source(f"INSERT INTO t VALUES (3, '{HIDDEN}')", "UPDATE t SET n = 'b' WHERE id = 1")
        rig.at_source("INSERT INTO t VALUES (4, 'no row')")
        until(lambda: rig.parked() == 1, "a failed row", SECONDS)
        process.stop()  # what is to be sent is
    (staged,), (merged,) = collector.named("read chunk"), collector.named("merge chunk")
    assert staged["tidelock.rows"] == merged["tidelock.rows"] == 2
    assert merged["tidelock.table"] == f"{rig.schema}.t" and merged["tidelock.position"]
    batches = [(one, span) for one, span in collector.spans() if span.name == "apply batch"]
    good = [one for one, span in batches if span.status.code == Status.STATUS_CODE_UNSET]
    bad = [(one, span) for one, span in batches if span.status.code == Status.STATUS_CODE_ERROR]
    assert sum(one["tidelock.rows"] for one in good) >= 2 and bad
    for one in good:
        assert one["service.name"] == "tidelock" and one["tidelock.feed"] == rig.name
        assert one["tidelock.lane"] in (0, 1) and one["tidelock.epoch"] > 0 and one["tidelock.bytes"] > 0
    assert [f"{rig.schema}.t"] in [one["tidelock.tables"] for one in good]
    transactions = {one["tidelock.first_transaction"] for one in good if "tidelock.first_transaction" in one}
    assert transactions and all(text.rpartition(":")[2].isdigit() for text in transactions)
    assert all(span.end_time_unix_nano > span.start_time_unix_nano for _, span in batches)
    assert {one["tidelock.failure"] for one, _ in bad} == {"ROW"} and {span.status.message for _, span in bad} == {""}
    assert not any(word in body for body in collector.bodies for word in (HIDDEN.encode(), b"no row"))
    assert not any(rig.target_url.encode() in body for body in collector.bodies)


def test_a_run_ends_in_order_where_no_collector_is(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server
) -> None:
    rig = make_rig(mariadb, postgres, "traces", lanes=2, traces={"endpoint": "http://127.0.0.1:9/v1/traces"})
    rig.table("t", "id int PRIMARY KEY, n int")
    rig.at_source("INSERT INTO t VALUES (1, 1)")
    rig.catch_up()
    assert rig.equal()


def batch(number: int) -> ApplyBatch:
    return ApplyBatch(EffectId(1, number), lane=3, steps=[], covered=NOTHING, rows=7)


def test_of_many_batches_a_second_some_have_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the next one that has tells of those that came between."""
    now = [100.0]
    monkeypatch.setattr(made_spans.time, "monotonic", lambda: now[0])
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    spans = Spans(provider.get_tracer("test"), MadeStatus(StatusCode.ERROR), 4, per_second=2)
    for number in range(8):
        spans.sent(batch(number))
        spans.answered(BatchCommitted(EffectId(1, number)))
    now[0] += 0.5
    spans.sent(batch(8))
    spans.begin()  # its machine is gone
    spans.answered(BatchCommitted(EffectId(1, 8)))
    now[0] += 10.0
    spans.sent(batch(9))
    spans.answered(BatchCommitted(EffectId(1, 9)))
    found = [dict(one.attributes or {}) for one in kept.get_finished_spans()]
    assert [one["tidelock.batch"] for one in found] == [0, 1, 9]
    assert found[0] == {
        "tidelock.group": 4, "tidelock.epoch": 1, "tidelock.batch": 0, "tidelock.lane": 3, "tidelock.rows": 7,
        "tidelock.tables": (), "tidelock.bytes": 1,
    }  # fmt: skip
    provider.shutdown()


def test_a_feed_without_traces_does_not_load_the_library() -> None:
    modules = "tidelock.adapters.app.embedded_run, tidelock.adapters.runtime.tracing"
    code = f"import sys, {modules}; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_library_that_is_missing_is_named(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    (tmp_path / "opentelemetry.py").write_text("raise ModuleNotFoundError(name='opentelemetry')\n")
    rig = make_rig(mariadb, postgres, "traces", lanes=2, traces={"endpoint": "http://127.0.0.1:9/v1/traces"})
    rig.table("t", "id int PRIMARY KEY, n int")
    assert rig.catch_up_code({"PYTHONPATH": str(tmp_path)}) == 1
    assert "tidelock[traces]" in rig.said()


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [("http://user:secret@h/v1", "endpoint"), ("h:4318", "endpoint"), ("http://h/v1?token=secret", "endpoint")],
)
def test_an_endpoint_holds_no_secret(endpoint: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(f"{FEED}traces: {{endpoint: '{endpoint}'}}\n", Path("shop.yaml"))
