"""The permit between two feeds: both apply, or neither does, through a partition, a pause and a halt."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from bench.harness.link import Link
from bench.harness.network import Direction, Network
from bench.harness.rig import until
from bench.harness.servers import MariaDb, Postgres, Server
from tidelock.adapters.app.embedded_log import EmbeddedLog
from tidelock.adapters.bookkeeping.permits import PermitWord, read_word
from tidelock.adapters.wiring.capture import CaptureProcess
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.events import ApplyEvent

PERMIT = {"lag": "5m", "after": "3s"}


@pytest.fixture
def pair(tmp_path: Path, mariadb: MariaDb, postgres_source: Postgres) -> Iterator[Network]:
    servers: Mapping[str, Server] = {"eu": mariadb, "us": postgres_source}
    both = Network(tmp_path, servers, ["eu>us", "us>eu"])
    for feed in both.feeds.values():
        feed.options["permit"] = PERMIT
    yield both
    both.close()


def word(network: Network, feed: Direction) -> PermitWord | None:
    """Words of a feed about its permit, in its row."""
    told = f"SELECT permit FROM {network.books}.tidelock_runs WHERE feed = '{feed.name}'"
    rows = feed.target.rows(told)
    return read_word(rows[0][0]) if rows else None


def applies(network: Network, feed: Direction) -> bool:
    said = word(network, feed)
    return said is not None and said.ready and not said.held


def holds(network: Network, feed: Direction) -> bool:
    said = word(network, feed)
    return said is not None and bool(said.held)


def waits(network: Network, feed: Direction) -> bool:
    """Has it read a row, and not applied it for a while?"""
    said = word(network, feed)
    return said is not None and said.lag_us > 1_000_000


def all_feeds(network: Network, true: Callable[[Network, Direction], bool]) -> bool:
    return all(true(network, feed) for feed in network.feeds.values())


def test_a_partition_and_a_pause_hold_both_feeds(pair: Network, mariadb: MariaDb, postgres_source: Postgres) -> None:
    """One feed alone is cut off from its source; the other, which reaches both servers, holds as well."""
    there, back = pair.feeds["eu>us"], pair.feeds["us>eu"]
    with Link(postgres_source.host, postgres_source.port) as link:
        back.link = link
        pair.run()
        until(lambda: all_feeds(pair, applies), "two feeds that apply")
        pair.write([0])
        until(pair.equal, "equal rows")
        link.part()
        until(lambda: all_feeds(pair, holds), "two feeds that hold")
        pair["eu"].write([1])
        until(lambda: waits(pair, there), "a row that waits")
        assert "no sign of life" in said(back) and "is not ready" in said(there)
        assert not pair.equal(), "nothing is applied"
        link.mend()
        until(lambda: pair.equal() and all_feeds(pair, applies), "equal rows, and two feeds that say they apply")
        there.command("pause")
        until(lambda: holds(pair, back), "the sister of one that is paused holds")
        pair.write([3])
        until(lambda: waits(pair, back), "a row that waits")
        assert not pair.equal(), "nothing is applied"
        there.command("resume")
        until(lambda: all_feeds(pair, applies) and pair.equal(), "two feeds that apply")
        there.kill()
        back.kill()
        pair["eu"].write([4])
        there.run()
        until(lambda: waits(pair, there), "a row that waits: what a dead sister has left is no life")
        assert pair["us"].notes() != pair["eu"].notes(), "nothing is applied"
        back.run()
        pair.come_to_rest()
        assert pair.came_back() == {}


class OneBatch:
    """A capture process that reads one batch."""

    frame_bytes = 100
    looked = None
    learned = ()

    def __init__(self) -> None:
        self._batches = [LogBatch(Position("log.1", 0), Position("log.1", 1))]

    async def begin(self, order: object) -> None:
        """Begins at once."""

    async def next(self) -> LogBatch:
        if not self._batches:
            await asyncio.Event().wait()
        return self._batches.pop()


async def test_a_reading_is_proven_without_room() -> None:
    """A feed that is held with a full inbox makes no room before its sister is ready, which waits for the proof."""
    log = EmbeddedLog(lambda *_: cast(Any, None), cast(CaptureProcess, OneBatch()))
    posted: list[ApplyEvent] = []
    log.attach(posted.append, room := asyncio.Event())
    reading = asyncio.create_task(log.read_from(Position("log.1", 0), 1))
    await asyncio.to_thread(until, lambda: log.proven, "a proof")
    assert posted == [], "without room it is kept"
    room.set()
    await asyncio.to_thread(until, lambda: posted, "the batch")
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


def said(feed: Direction) -> Any:
    return " ".join(feed.said().split())
