"""Cost of Faust a row: records of about 200 rows through the worker's own app, with an agent that applies nothing.

The worker is the real one, down to its settings and the agent that hands records over; only its groups are replaced, by
ones that acknowledge each record and throw it away.  Beside it the same records are read with the bare client that
Faust stands on, so that what Faust adds can be told from what reading costs anyway.  Processor time is what counts: a
worker has other work to do meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Final, cast

import msgspec
import typer
import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from faust.types import TP

from bench.harness.servers.kafka import Kafka
from bench.harness.tidelock import Feed as FeedFile
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.loader import load
from tidelock.adapters.kafka.connection import client_options
from tidelock.adapters.kafka.topics import changes_topic, control_topic
from tidelock.adapters.workers.group import GroupRunner
from tidelock.adapters.workers.worker import Worker

RESULTS: Final = Path(__file__).parent / "results"
ROWS: Final = 200
ROW_BYTES: Final = 315
PARTITIONS: Final = 2
BUDGET_US: Final = 5.0


class Cost(msgspec.Struct, frozen=True):
    """Microseconds a row.  `wall`: of the clock; `cpu`: of the processor, all threads."""

    wall: float
    cpu: float


class Counting:
    """In the place of a group: acknowledges and counts."""

    def __init__(self, took: Callable[[], None]) -> None:
        self.log = self
        self._took = took

    def offer(self, offset: int, value: bytes, ack: Callable[[], object]) -> None:
        ack()
        self._took()

    def reassigned(self) -> None:
        """Nothing is held."""

    async def stop(self) -> None:
        """Nothing runs."""


class Idle(Worker):
    """The worker without groups, coordinator or control topic.  `cost`: from the first record to the last."""

    def __init__(self, feed: Feed, records: int) -> None:
        super().__init__(feed)
        self.done = asyncio.Event()
        self.cost = Cost(0.0, 0.0)
        self._left = records
        self._records = records
        self._begun = (0.0, 0.0)

    def _took(self) -> None:
        if self._left == self._records:
            self._begun = time.perf_counter(), time.process_time()
        self._left -= 1
        if self._left == 0:
            self.cost = _cost(self._begun, self._records)
            self.done.set()

    async def _start(self) -> None:
        """Nothing to follow."""

    async def _assigned(self, app: Any, assigned: Iterable[TP], **_: Any) -> None:
        self.groups = {
            tp.partition: cast(GroupRunner, Counting(self._took)) for tp in assigned if tp.topic == self.changes
        }

    async def _before_shutdown(self, app: Any, **_: Any) -> None:
        """Nothing to finish."""


def _cost(begun: tuple[float, float], records: int) -> Cost:
    rows = records * ROWS
    return Cost(
        round((time.perf_counter() - begun[0]) * 1e6 / rows, 3), round((time.process_time() - begun[1]) * 1e6 / rows, 3)
    )


async def fill(feed: Feed, records: int) -> None:
    """Records of the size that a batch of rows has."""
    assert feed.log_url is not None
    producer = AIOKafkaProducer(**client_options(feed.log_url), linger_ms=20, max_batch_size=1 << 20)
    await producer.start()
    try:
        value = os.urandom(ROWS * ROW_BYTES)
        for number in range(records):
            await producer.send(changes_topic(feed.name), value, partition=number % PARTITIONS)
    finally:
        await producer.stop()


async def through_faust(feed: Feed, records: int) -> Cost:
    worker = Idle(feed, records)
    await worker.app.start()
    try:
        await asyncio.wait_for(worker.done.wait(), 120.0)
    finally:
        await worker.app.stop()
    return worker.cost


async def bare(feed: Feed, records: int) -> Cost:
    """The same records by `getmany` of the client."""
    assert feed.log_url is not None
    consumer = AIOKafkaConsumer(
        **client_options(feed.log_url), enable_auto_commit=False, isolation_level="read_committed"
    )
    await consumer.start()
    try:
        places = [TopicPartition(changes_topic(feed.name), number) for number in range(PARTITIONS)]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        left, begun = records, (0.0, 0.0)
        while left > 0:
            for found in (await consumer.getmany(timeout_ms=1000)).values():
                if left == records:
                    begun = time.perf_counter(), time.process_time()
                left -= len(found)
        return _cost(begun, records)
    finally:
        await consumer.stop()


def measure(records: int, rounds: int) -> dict[str, object]:
    """The report that is written to bench/results/."""
    with Kafka() as kafka, tempfile.TemporaryDirectory(prefix="tidelock-faust-") as folder:
        costs: dict[str, list[Cost]] = {"faust": [], "bare": []}
        for number in range(rounds):
            nowhere = "postgresql://nobody@127.0.0.1/none"
            log = {"log": kafka.url()}
            path = FeedFile(f"cost_{number}", "mariadb://nobody@127.0.0.1", nowhere, "none", options=log).write(
                Path(folder)
            )
            feed = load(path)
            kafka.create_topic(changes_topic(feed.name), PARTITIONS)
            kafka.create_topic(control_topic(feed.name))
            asyncio.run(fill(feed, records))
            costs["bare"].append(uvloop.run(bare(feed, records)))
            costs["faust"].append(uvloop.run(through_faust(feed, records)))
            kafka.delete_topic(changes_topic(feed.name))
            print(f"a row: bare {costs['bare'][-1]}, through Faust {costs['faust'][-1]} (µs)", flush=True)
    middle = {form: statistics.median(cost.cpu for cost in found) for form, found in costs.items()}
    return {
        "records": records,
        "rows_a_record": ROWS,
        "row_bytes": ROW_BYTES,
        "load_average": round(os.getloadavg()[0], 2),
        "cpu_us_a_row": middle,
        "faust_alone_us_a_row": round(middle["faust"] - middle["bare"], 3),
        "budget_us": BUDGET_US,
        "rounds": msgspec.to_builtins(costs),
    }


def command(
    records: Annotated[int, typer.Option(min=10, help="Records to read.")] = 4000,
    rounds: Annotated[int, typer.Option(min=1, help="How often.")] = 3,
    keep: Annotated[bool, typer.Option(help="Write bench/results/faust_cost.json.")] = True,
) -> int:
    """Measure Faust's own cost a row; exit code 3 if it is beyond its budget."""
    result = measure(records, rounds)
    print(f"processor µs a row: {result['cpu_us_a_row']}, Faust alone {result['faust_alone_us_a_row']}")
    if keep:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "faust_cost.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0 if float(str(result["cpu_us_a_row"]["faust"])) < BUDGET_US else 3  # type: ignore[index]


def main() -> None:
    app = typer.Typer(add_completion=False)
    app.command()(command)
    sys.exit(typer.main.get_command(app).main(standalone_mode=False))


if __name__ == "__main__":
    main()
