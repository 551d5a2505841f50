"""A worker of a scaled-out feed as a Faust app: Kafka says which partitions are ours, we run a group for each.

The app has two agents.  The one on the changes topic hands each record to its group; it never waits, so that a group
that waits holds up no other.  The one on the control topic ignores what it reads: the worker that is assigned its only
partition is the coordinator.

Only those parts of Faust are used that were measured to work well: membership, assignment, fetching.  It keeps no state
of ours, its acknowledgements are in offset order by partition, its web server and leader are off.  A member that is
killed and started again under the same name (`--name`) keeps its partitions: static membership.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Final, cast

import faust
from aiokafka.errors import KafkaError
from faust.types import TP

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.kafka.connection import client_options, explained, faust_options
from tidelock.adapters.kafka.control import ControlTopic, News
from tidelock.adapters.kafka.offset_finder import Places
from tidelock.adapters.kafka.topics import changes_topic, control_topic, ensure, ensure_control
from tidelock.adapters.operator.known_target import refuse_strange
from tidelock.adapters.process.gc_tuning import calm
from tidelock.adapters.row_copy.copier import CopierProcess
from tidelock.adapters.runtime.meters import Meters
from tidelock.adapters.runtime.progress import RunState, Sample
from tidelock.adapters.runtime.sampler import with_silence
from tidelock.adapters.runtime.tracing import MakeSpans, no_spans, tracing
from tidelock.adapters.workers.consumer import App, CommittedTransport, PartitionFetcher, leave, share_out_again
from tidelock.adapters.workers.coordinator_shell import CoordinatorShell
from tidelock.adapters.workers.group import GroupRunner
from tidelock.adapters.workers.name_claim import NameClaim
from tidelock.adapters.workers.same_file import other_tables, refuse_other_tables
from tidelock.adapters.workers.target_watch import TargetWatch
from tidelock.adapters.workers.topic_watch import TopicWatch
from tidelock.adapters.workers.totals import Totals
from tidelock.adapters.workers.unowned import Unowned
from tidelock.adapters.workers.worker_sample import TELLS_SECONDS, Reported, sample_of
from tidelock.engine.apply.machine import ApplyMachine
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.group_reports import FeedState

log = logging.getLogger(__name__)

SESSION_SECONDS: Final = 6.0  # the least that brokers allow by default; nobody has a dead worker's groups before
HEARTBEAT_SECONDS: Final = 0.3  # a worker hears with it that the groups are shared out anew
REBALANCE_SECONDS: Final = 5.0  # how long the others wait for one that does not join them: it may be dead
COMMIT_SECONDS: Final = 1.0
BUFFER_RECORDS: Final = 64
FETCH_BYTES: Final = 4 << 20
METADATA_MS: Final = 1_000  # a topic that the coordinator makes or widens is noticed so soon

WATCH_SECONDS: Final = 1.0
STALLED_SECONDS: Final = 4.0  # a look that is so late was our own silence
LOST_SECONDS: Final = 20.0


class NoRecordsReceived(Exception):
    """Kafka's records do not reach this worker any more."""


class Worker:
    """One worker.  `name`: in reports, and its static membership if it was given one.

    `watched`: the caller looks at `failed`, which says why the worker must end.  `http_socket`: path of a Unix socket
    that serves what `http` does.  `fresh`: the feed's state as it was told since we began; what was told before may be
    about a target that was put back meanwhile.
    """

    def __init__(self, feed: Feed, name: str = "", *, watched: bool = False, http_socket: str = "") -> None:
        self.feed = feed
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self.control = ControlTopic(feed)
        self.groups: dict[int, GroupRunner] = {}
        self.coordinator: CoordinatorShell | None = None
        self.failed: BaseException | None = None
        self.fresh: FeedState | None = None
        self._watched, self._socket = watched, http_socket
        self._admitted = False
        self._claim = NameClaim(feed.name, name, self.control, self._fail) if name else None
        self._stack = contextlib.AsyncExitStack()
        self._unowned = Unowned()
        self._told = 0.0  # when the coordinator last said anything
        self._born = time.monotonic()
        self._shared_out = False  # Kafka's group has formed with us, whatever we got of it
        self._ending: list[GroupRunner] = []
        self._past = Totals()  # of groups that are not ours any more
        self._target = TargetWatch(feed.target_url)
        self._topics = TopicWatch(feed)
        self._copier = CopierProcess(feed)
        self._running: dict[object, asyncio.Task[None]] = {}
        self._spans: MakeSpans = no_spans
        self._leaving: set[asyncio.Task[None]] = set()
        self.changes, self.elects = changes_topic(feed.name), control_topic(feed.name)
        self.app = self._make_app(name)

    def _make_app(self, instance: str) -> faust.App:
        app = App(
            f"tidelock.{self.feed.name}",
            **faust_options(self.feed.log_url),
            autodiscover=False,
            consumer_group_instance_id=instance or None,
            consumer_auto_offset_reset="earliest",
            consumer_max_fetch_size=FETCH_BYTES,
            consumer_metadata_max_age_ms=METADATA_MS,
            broker_session_timeout=SESSION_SECONDS,
            broker_heartbeat_interval=HEARTBEAT_SECONDS,
            broker_commit_interval=COMMIT_SECONDS,
            broker_max_poll_interval=300.0,
            broker_rebalance_timeout=REBALANCE_SECONDS,
            stream_buffer_maxsize=BUFFER_RECORDS,
            stream_wait_empty=False,
            topic_allow_declare=False,
            topic_disable_leader=True,
            cython_optimizations=True,
            web_enabled=False,
        )
        app.before_joining = self.begin
        app.transport = CommittedTransport(app.conf.broker_consumer, app, app.loop)
        assigned, before_shutdown = cast(Any, self._assigned), cast(Any, self._before_shutdown)
        app.on_partitions_assigned.connect(assigned)
        app.on_before_shutdown.connect(before_shutdown)
        app.task(self._start)
        app.task(self._watch)
        changes = app.topic(self.changes, value_serializer="raw", key_serializer="raw")
        elects = app.topic(self.elects, value_serializer="raw", key_serializer="raw")
        app.agent(changes, name="changes")(self._hand_over)
        app.agent(elects, name="control")(self._ignore)
        return app

    @cached_property
    def places(self) -> Places:
        """The offset finder; made inside the loop, where its client has to be made."""
        seen = self.control.seen
        return Places(client_options(self.feed.log_url), self.changes, seen.skipped, seen.bases)

    # ------------------------------------------------------------------ agents

    async def _hand_over(self, stream: Any) -> None:
        async for event in stream.noack().events():
            group = self.groups.get(event.message.partition)
            if group is not None:
                group.log.offer(event.message.offset, event.message.value, event.ack)

    async def _ignore(self, stream: Any) -> None:
        async for _ in stream:
            pass

    # ------------------------------------------------------------------ assignment

    async def begin(self) -> None:
        """Checks that the broker lets us in, gets the name, and connects what a group needs; once.

        All that is before Kafka's group hears of us, which may assign partitions at once.  Raises LogError, NameTaken,
        OtherTables, StrangeTarget.
        """
        if self._admitted:
            return
        self._admitted = True
        calm()
        there = await ensure_control(self.feed.log_url, self.feed.name)
        if there.control is None:  # nothing was published yet; else only the coordinator knows whether it is lost
            await ensure(self.feed.log_url, self.feed.name, 1)
        await self._stack.enter_async_context(self.control)
        await refuse_strange(self.feed)
        await self.control.ready.wait()
        await refuse_other_tables(self.feed, self.control.state)
        await self._topics.begin()
        if self._claim is not None:
            await self._claim.hold()
        try:
            await self._stack.enter_async_context(self.places)
        except (OSError, KafkaError) as error:
            raise explained(cast(Endpoint, self.feed.log_url), error) from None
        await self._stack.enter_async_context(self._target)
        self._spans = await self._stack.enter_async_context(tracing(self.feed))

    async def _start(self) -> None:
        from tidelock.adapters.web.serving import serve, served_at

        for at in served_at(self.feed, self._socket):
            told = serve(at, lambda: self.latest, self.feed.name, self._meters, self._machines, self.feed.http_tls)
            await self._stack.enter_async_context(told)
        self.control.watch(self._hear)

    def _hear(self, news: News) -> None:
        if isinstance(news, FeedState):
            self._told = time.monotonic()
            if self.control.ready.is_set():
                self.fresh = news
                if other := other_tables(self.feed, news):
                    self._fail(other)

    async def _assigned(self, app: Any, assigned: Iterable[TP], **_: Any) -> None:
        """Starts and ends groups after a rebalance.  Groups that stay ours go on; one that has moved to another worker
        is fenced by then, or soon.
        """
        self._shared_out = True
        ours = {tp.partition for tp in assigned if tp.topic == self.changes}
        coordinates = any(tp.topic == self.elects for tp in assigned)
        for number in [n for n in self.groups if n not in ours]:
            self._let_group_go(number)
        for number in sorted(ours):
            if number in self.groups:
                await self.groups[number].reassigned()
            else:
                self._take(number)
        if self.coordinator is not None and coordinates:
            self.coordinator.reassigned()
        if self.coordinator is not None and not coordinates:
            coordinator, self.coordinator = self.coordinator, None
            self._let_go("coordinator", coordinator.stop)
        elif self.coordinator is None and coordinates:
            self.coordinator = CoordinatorShell(self.feed, self.name, self.control)
            self._run("coordinator", self.coordinator.run())
        await self._flow(set(assigned))

    async def _flow(self, assigned: set[TP]) -> None:
        """Lets records flow without Faust's own start of a partition.

        Faust would first ask the group's coordinator for the committed offsets, and stops for a minute or more while
        that is away, or for good where one rebalance overtakes another.  Our places come from the target.
        """
        consumer = self.app.consumer
        consumer.resume_partitions(assigned)
        self.app.flow_control.resume()
        consumer.resume_flow()
        await cast(Any, self.app)._fetcher.maybe_start()

    def _take(self, number: int) -> None:
        fetcher = PartitionFetcher(self.app, TP(self.changes, number))
        group = self.groups[number] = GroupRunner(
            self.feed, number, self.name, self.control, self.places, fetcher, self._copier
        )
        group.meters.spans = self._spans(number)
        self._run(number, group.run())

    def _run(self, key: object, work: Any) -> None:
        task = self._running[key] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda done: self._done(key, done))

    def _done(self, key: object, task: asyncio.Task[None]) -> None:
        if self._running.get(key) is task:
            del self._running[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a bug: %s ended with %r; the worker stops", key, error, exc_info=error)
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Sets `failed`, for the caller of the app; Faust's own command knows only crashes."""
        self.failed = error
        if not self._watched:
            self._crash = asyncio.get_running_loop().create_task(self.app.crash(error))

    def _let_group_go(self, number: int) -> None:
        group = self.groups.pop(number)
        self._ending.append(group)

        def ended() -> None:
            self._ending.remove(group)
            self._past += group.totals

        self._let_go(number, group.stop, ended)

    def _let_go(self, key: object, stop: Callable[[], Any], ended: Callable[[], None] = lambda: None) -> None:
        """Ends a group beside the rebalance, which must not wait for what is in flight; a newer owner's fence holds."""
        task = asyncio.get_running_loop().create_task(self._give_up(key, stop, ended))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _give_up(self, key: object, stop: Callable[[], Any], ended: Callable[[], None]) -> None:
        task = self._running.pop(key, None)
        await stop()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)
        ended()

    async def _before_shutdown(self, *_: Any, **__: Any) -> None:
        """Finishes and checkpoints what is in flight before other workers take over."""
        for number in list(self.groups):
            self._let_group_go(number)
        if self.coordinator is not None:
            coordinator, self.coordinator = self.coordinator, None
            self._let_go("coordinator", coordinator.stop)
        await asyncio.gather(*self._leaving)
        await leave(self.app)
        await self._copier.close()
        if self._claim is not None:
            await self._claim.leave()
        await self._stack.aclose()

    # ------------------------------------------------------------------ silence

    async def _watch(self) -> None:
        """Watches for silent partitions.

        A partition that brings nothing while its log goes on is asked for again; if that does not help, this worker
        ends, and is better started anew.
        """
        looked = time.monotonic()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            before, looked = looked, time.monotonic()
            await self._look_for_owners(looked - before)
            if gone := await self._topics.gone(looked - (self._told or self._born)):
                self._fail(NoRecordsReceived(gone))
                return
            published = self._published()
            silent = [one for one in self.groups.values() if self._silent_group(one, looked - before, published)]
            if not silent:
                continue
            longest = max(group.log.silence.seconds for group in silent)
            log.warning("%s: nothing from Kafka for %.0f s", ", ".join(map(str, silent)), longest)
            if longest > LOST_SECONDS:
                self._fail(NoRecordsReceived(f"nothing from Kafka for {longest:.0f} s while its log goes on"))
                return
            await self._flow({TP(self.changes, number) for number in self.groups} | self._elected())
            for group in silent:
                group.log.ask_again()

    async def _look_for_owners(self, seconds: float) -> None:
        """Asks Kafka's group for a new sharing out where a partition lacks an owner."""
        seen = self.control.seen
        if self._shared_out and self._unowned.tick(seconds, seen.settled, seen.groups, self.groups):
            log.warning("a partition has no worker: the group is asked to share out anew")
            await share_out_again(self.app)

    def _silent_group(self, group: GroupRunner, seconds: float, published: Position | None) -> bool:
        """Tells whether the group's records must be asked for again, or have not come for too long."""
        if seconds > STALLED_SECONDS:
            return False
        silence = group.log.silence
        ask = silence.tick(seconds, published is not None and group.log.owed(published))
        return ask or silence.seconds > LOST_SECONDS

    def _published(self) -> Position | None:
        """Returns the end of the log, as long as a coordinator announces it."""
        state = self.control.state
        return state.published if state is not None and time.monotonic() - self._told < TELLS_SECONDS else None

    def _elected(self) -> set[TP]:
        return {TP(self.elects, 0)} if self.coordinator is not None else set()

    # ------------------------------------------------------------------ what it shows

    @property
    def parked(self) -> int:
        """The number of failed rows in the whole feed."""
        return sum(report.parked for report in self.control.seen.groups.values())

    @property
    def latest(self) -> Sample:
        """Returns a sample of this worker."""
        totals = sum((group.totals for group in (*self.groups.values(), *self._ending)), self._past)
        reported = Reported(self.control.state, time.monotonic() - (self._told or self._born), bool(self._told))
        sample = sample_of(self.groups, totals, reported, self._bare_state())
        return with_silence(sample, reported.silent(self._target.silent_seconds), self.feed.ready_seconds)

    def _bare_state(self) -> RunState:
        """Returns the state of a worker that has no groups."""
        if not self._shared_out:
            return "starting"
        return "running" if self.coordinator is not None else "reserve"

    def _meters(self) -> list[Meters]:
        return [group.meters for _, group in sorted(self.groups.items())]

    def _machines(self) -> list[tuple[int, ApplyMachine]]:
        return [(number, one) for number, group in sorted(self.groups.items()) if (one := group.machine) is not None]
