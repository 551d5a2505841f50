"""The control topic: what the parts of a scaled-out feed tell each other (`protocol.group_reports`), the newest by key.

One partition, compacted; keys `plan`, `log`, `feed`, `group/<n>`, `vacant/<part>`, `worker/<name>`,
`skipped/<partition>/<offset>`, values JSON.  Everyone reads all of it, with a plain consumer without a group.  Reports
of a group carry its owner's epoch, and those of an owner before one already seen are ignored.

The coordinator's records must be right for a reader that begins at the topic's start, where compaction may have left
only a zombie's records.  So the coordinator writes in transactions under one id (`SoleWriter`): the broker itself shuts
out every coordinator before the one that opened last, and readers see committed records only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypeVar

import msgspec
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.kafka.connection import client_options, explained, stopped
from tidelock.adapters.kafka.topics import control_topic
from tidelock.adapters.process.complaint import Complaint
from tidelock.adapters.process.ending import ended
from tidelock.engine.cluster.name_holder import NameHolder
from tidelock.engine.model.table_partitioning import TablePartitioning
from tidelock.engine.protocol.group_reports import FeedState, GroupReport, Statement, Vacancy
from tidelock.engine.protocol.published_log import PublishedLog
from tidelock.engine.protocol.skipped_record import SkippedRecord
from tidelock.engine.protocol.worker_names import NameWord

log = logging.getLogger(__name__)

PLAN: Final = "plan"
LOG: Final = "log"
FEED: Final = "feed"
GROUP: Final = "group/"
WORKER: Final = "worker/"
VACANT: Final = "vacant/"
SKIPPED: Final = "skipped/"
Message: TypeAlias = "ConsumerRecord[bytes, bytes]"
Consumer: TypeAlias = "AIOKafkaConsumer[bytes, bytes]"
Client = TypeVar("Client", AIOKafkaConsumer, AIOKafkaProducer)
AGAIN_SECONDS: Final = 0.5
READ_SECONDS: Final = 15.0
POLL_MS: Final = 200
TRANSACTION_MS: Final = 10_000
_PLAN: Final = msgspec.json.Decoder(TablePartitioning)
_LOG: Final = msgspec.json.Decoder(PublishedLog)
_STATE: Final = msgspec.json.Decoder(FeedState)
_REPORT: Final = msgspec.json.Decoder(GroupReport)
_WORD: Final = msgspec.json.Decoder(NameWord)
_VACANCY: Final = msgspec.json.Decoder(Vacancy)
_SKIPPED: Final = msgspec.json.Decoder(SkippedRecord)


class SeenControl(msgspec.Struct):
    """The contents of the topic: the `plan` that holds, the `state` of the feed, the newest report of each group, and
    who has which of the workers' `names`, the `skipped` records by partition and offset, which `log` the changes topic
    holds, by partition the offset where that begins (`bases`), and which parts of the feed have nobody (`vacancies`).
    """

    plan: TablePartitioning | None = None
    state: FeedState | None = None
    groups: dict[int, GroupReport] = {}
    names: dict[str, NameHolder] = {}
    skipped: dict[tuple[int, int], SkippedRecord] = {}
    log: PublishedLog | None = None
    bases: dict[int, int] = {}
    vacancies: dict[str, Vacancy] = {}

    @property
    def settled(self) -> TablePartitioning | None:
        """The plan, once a coordinator has announced it; None while another one is on its way."""
        announced = self.plan is not None and self.state is not None and self.state.plan >= self.plan.version
        return self.plan if announced else None

    def take(self, key: str, value: bytes) -> News | None:
        """Takes a record and returns the news; None where it is of an older owner, or of somebody else.  Raises
        msgspec.MsgspecError.
        """
        if key == PLAN:
            self.plan = _PLAN.decode(value)
            return self.plan
        if key == LOG:
            self.log = _LOG.decode(value)
            self.bases.clear()  # in its place: others hold it
            self.bases.update(enumerate(self.log.bases))
            return self.log
        if key == FEED:
            state = _STATE.decode(value)
            if self.state is None or state.epoch >= self.state.epoch:
                self.state = state
                return state
        if key.startswith(GROUP):
            report = _REPORT.decode(value)
            known = self.groups.get(report.group)
            if known is None or report.epoch >= known.epoch:
                self.groups[report.group] = report
                return report
        if key.startswith(WORKER):
            word = _WORD.decode(value)
            self.names.setdefault(word.name, NameHolder()).observe(word)
            return word
        if key.startswith(VACANT):
            vacancy = _VACANCY.decode(value)
            self.vacancies[vacancy.part] = vacancy
            return vacancy
        if key.startswith(SKIPPED):
            record = _SKIPPED.decode(value)
            self.skipped[record.partition, record.offset] = record
            return record
        return None


News: TypeAlias = TablePartitioning | PublishedLog | FeedState | GroupReport | Vacancy | NameWord | SkippedRecord


class ControlTopic:
    """A reader and writer of the topic, as an async context manager: inside, `seen` follows the topic, also over
    restarts of the broker.

    `ready` is set once the end of the topic, as it was at the start, has been reached.
    """

    def __init__(self, feed: Feed) -> None:
        self.seen = SeenControl()
        self.ready = asyncio.Event()
        self._feed = feed.name
        self._kafka = client_options(feed.log_url)
        self._topic = control_topic(feed.name)
        self._offset = 0
        self._read_to = -1  # behind transactions' markers, too
        self._unread, self._unwritten = Complaint(log), Complaint(log)
        self._changed = asyncio.Condition()
        self._watchers: list[Callable[[News], None]] = []
        self._writing = asyncio.Lock()
        self._producer: AIOKafkaProducer | None = None
        self._consumer: Consumer | None = None
        self._tail: asyncio.Task[None] | None = None

    @property
    def state(self) -> FeedState | None:
        """The state of the feed; None: no coordinator has said any."""
        return self.seen.state

    async def __aenter__(self) -> Self:
        self._tail = asyncio.create_task(self._follow())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._tail is not None
        await ended(self._tail)
        if self._producer is not None:
            await self._producer.stop()

    # ------------------------------------------------------------------ reading

    def watch(self, tell: Callable[[News], None]) -> Callable[[], None]:
        """Calls `tell` with each news from now on, until the returned function is called."""
        self._watchers.append(tell)
        return lambda: self._watchers.remove(tell)

    async def plan_with(self, partition: int) -> TablePartitioning:
        """Returns the plan, once one that has this partition is announced: then the books of copies follow it too."""

        def there() -> bool:
            return self.seen.settled is not None and self.seen.settled.partitions > partition

        async with self._changed:
            await self._changed.wait_for(there)
        assert self.seen.plan is not None
        return self.seen.plan

    async def verdict(self, statement: Statement, vote: tuple[int, int] | None = None) -> FeedState:
        """Returns the feed's state, once this statement has passed or was refused.

        `vote`: (group, epoch) of the group that asks: a refusal counts only if it was told with this vote.
        """

        def decided() -> bool:
            state = self.seen.state
            if state is None or state.passed == statement:
                return state is not None
            return state.refused == statement and (vote is None or state.refused_votes.get(vote[0]) == vote[1])

        async with self._changed:
            await self._changed.wait_for(decided)
        assert self.seen.state is not None
        return self.seen.state

    async def refreshed(self) -> None:
        """Returns once all is seen that was committed to the topic before the call.  Raises KafkaError."""
        place = TopicPartition(self._topic, 0)
        if self._consumer is None:
            raise KafkaConnectionError(f"{self._topic} cannot be read just now")
        async with self._answered():
            end = (await self._consumer.end_offsets([place]))[place]
            async with self._changed:
                await self._changed.wait_for(lambda: self._read_to >= end)

    @contextlib.asynccontextmanager
    async def _answered(self) -> AsyncIterator[None]:
        """Raises KafkaTimeoutError where that takes too long."""
        try:
            async with asyncio.timeout(READ_SECONDS):
                yield
        except TimeoutError:
            raise KafkaTimeoutError(f"{self._topic} could not be read in {READ_SECONDS:.0f} s") from None

    async def log_open(self) -> PublishedLog | None:
        """Returns which log the changes topic holds, once it is open; None: no coordinator has told any."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.seen.log is None or self.seen.log.is_open)
        return self.seen.log

    async def log_numbered(self, number: int) -> None:
        """Returns once everybody who begins to read the topic now finds the log of this number.  Raises KafkaError."""
        async with self._answered(), self._changed:
            await self._changed.wait_for(lambda: self.seen.log is not None and self.seen.log.number >= number)

    async def _follow(self) -> None:
        while True:
            try:
                await self._read_on()
            except KafkaError as error:
                self._unread.tell(f"the control topic of feed {self._feed} cannot be read: {error}")
                await asyncio.sleep(AGAIN_SECONDS)

    async def _read_on(self) -> None:
        async with _reading(self._kafka, self._topic) as (consumer, place):
            consumer.seek(place, self._offset)
            end = (await consumer.end_offsets([place]))[place]
            self._unread.over()
            self._consumer = consumer
            try:
                while True:
                    await self._reached(await consumer.position(place), end)
                    for records in (await consumer.getmany(place, timeout_ms=POLL_MS)).values():
                        for record in records:
                            self._offset = record.offset + 1
                            self._tell(_news(self.seen, record))
                        async with self._changed:
                            self._changed.notify_all()
            finally:
                self._consumer = None

    async def _reached(self, offset: int, end: int) -> None:
        """Notes how far the topic is read; `end`: of the topic when reading began."""
        if offset >= end:
            self.ready.set()
        if offset != self._read_to:
            self._read_to = offset
            async with self._changed:
                self._changed.notify_all()

    def _tell(self, news: News | None) -> None:
        if news is not None:
            for tell in list(self._watchers):
                tell(news)

    # ------------------------------------------------------------------ writing

    async def write(self, key: str, value: GroupReport | Vacancy | NameWord | SkippedRecord) -> None:
        """Writes a record; returns once the broker has stored it, however long that takes."""
        async with self._writing:
            while True:
                try:
                    if self._producer is None:
                        self._producer = await _started(AIOKafkaProducer(**self._kafka, enable_idempotence=True))
                    await self._producer.send_and_wait(
                        self._topic, msgspec.json.encode(value), key.encode(), partition=0
                    )
                    self._unwritten.over()
                    return
                except KafkaError as error:
                    self._unwritten.tell(f"the control topic of feed {self._feed} cannot be written: {error}")
                    if self._producer is not None:
                        producer, self._producer = self._producer, None
                        with contextlib.suppress(KafkaError):
                            await producer.stop()
                    await asyncio.sleep(AGAIN_SECONDS)


class SoleWriter:
    """The coordinator's producer.  Opening it shuts out every older coordinator's, and drops what that was about to
    write.

    Every method raises KafkaError: another coordinator has opened it since, or the broker is gone.  Afterwards it must
    not be used.
    """

    def __init__(self, feed: Feed) -> None:
        self._topic = control_topic(feed.name)
        self._producer = AIOKafkaProducer(
            **client_options(feed.log_url),
            transactional_id=f"tidelock.{feed.name}.conductor",
            transaction_timeout_ms=TRANSACTION_MS,
        )

    async def open(self) -> None:
        """Opens the producer and fences older ones."""
        await _started(self._producer)

    async def write(self, key: str, value: TablePartitioning | PublishedLog | FeedState) -> None:
        """Writes a record; returns once the broker has stored it."""
        async with self._producer.transaction():
            await self._producer.send_and_wait(self._topic, msgspec.json.encode(value), key.encode(), partition=0)

    async def close(self) -> None:
        """Closes the producer."""
        with contextlib.suppress(KafkaError):
            await stopped(self._producer)


async def read(feed: Feed) -> SeenControl:
    """Reads the topic from its beginning to its end; returns nothing known where there is no topic yet.

    Raises LogError when the broker cannot be asked.
    """
    seen = SeenControl()
    name = control_topic(feed.name)
    try:
        async with asyncio.timeout(READ_SECONDS), _reading(client_options(feed.log_url), name) as (consumer, place):
            if name not in await consumer.topics():
                return seen
            end = (await consumer.end_offsets([place]))[place]
            await consumer.seek_to_beginning(place)
            while await consumer.position(place) < end:
                for records in (await consumer.getmany(place, timeout_ms=POLL_MS)).values():
                    for record in records:
                        _news(seen, record)
    except (KafkaError, TimeoutError) as error:
        assert feed.log_url is not None, "client_options has looked"
        raise explained(feed.log_url, error) from None
    return seen


def _news(seen: SeenControl, record: Message) -> News | None:
    try:
        return seen.take((record.key or b"").decode(), record.value or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        log.warning("record %d of %s is none of ours: %s", record.offset, record.topic, error)
        return None


@contextlib.asynccontextmanager
async def _reading(kafka: dict[str, Any], topic: str) -> AsyncIterator[tuple[Consumer, TopicPartition]]:
    place = TopicPartition(topic, 0)
    consumer = await _started(
        AIOKafkaConsumer(
            **kafka, enable_auto_commit=False, auto_offset_reset="earliest", isolation_level="read_committed"
        )
    )
    try:
        consumer.assign([place])
        yield consumer, place
    finally:
        await consumer.stop()


async def _started(client: Client) -> Client:
    """Starts a client.  Raises KafkaError, and leaves nothing open then."""
    try:
        await client.start()
    except BaseException:
        await client.stop()
        raise
    return client
