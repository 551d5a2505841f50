"""The coordinator with real servers: MariaDB → Kafka → PostgreSQL.  The groups are played by the test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, Postgres
from bench.harness.servers.kafka import Kafka
from tidelock.adapters.config import loader
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.kafka import topics
from tidelock.adapters.kafka.connection import client_options
from tidelock.adapters.kafka.control import ControlTopic
from tidelock.adapters.kafka.offset_finder import Places
from tidelock.adapters.operator import feed_control
from tidelock.adapters.ports.sink import Sink, TargetError
from tidelock.adapters.wiring.sinks import make_sink
from tidelock.adapters.workers import coordinator_shell, coordinator_term
from tidelock.adapters.workers.coordinator_shell import CoordinatorShell
from tidelock.adapters.workers.copy_homes import follow_plan
from tidelock.adapters.workers.publishing import Publishing
from tidelock.adapters.workers.start_position import beginning
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.protocol.effects import ApplyDdl, BeginCopy, EffectId, SaveCheckpoint
from tidelock.engine.protocol.events import CopyFailed, DdlApplied
from tidelock.engine.protocol.group_reports import GroupReport, Statement

SECONDS = 60


class Player:
    """Plays the groups of a feed: takes them over, reports whatever the test says."""

    def __init__(self, rig: Rig, control: ControlTopic) -> None:
        self.rig = rig
        self.feed = loader.load(rig.feed)
        self.control = control
        self.sinks: dict[int, Sink] = {}
        self.epochs: dict[int, int] = {}

    async def own(self, group: int) -> None:
        """Also once more, as another owner."""
        if group in self.sinks:
            await self.sinks.pop(group).close()
        plan = await self.control.plan_with(group)
        sink = self.sinks[group] = make_sink(self.feed, Mapping(rules_of(self.feed), self.feed.schema), group=group)
        self.epochs[group] = (await sink.take_over([name for name, _ in plan.tables], plan.since[group])).epoch

    async def report(self, group: int, position: Position, vote: Statement | None = None, epoch: int = 0) -> None:
        """Reports as the group's owner, who has stored it, or as the one of `epoch`."""
        if group in self.sinks and not epoch:
            await self.sinks[group].save_checkpoint(SaveCheckpoint(EffectId(self.epochs[group], 0), position, ()))
        said = GroupReport(group, epoch or self.epochs[group], "w", "running", position, position, vote)
        await self.control.write(f"group/{group}", said)

    async def until(self, true: Callable[[], Any]) -> Any:
        """Of the control topic."""
        async with asyncio.timeout(SECONDS):
            while not (found := true()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        return found

    async def state(self, true: Callable[[Any], Any]) -> Any:
        await self.until(lambda: self.control.state is not None and true(self.control.state))
        return self.control.state

    async def log_ends_with_statement(self) -> tuple[Any, Statement]:
        """Its DDL and identity, and every group's word that all before it is applied."""
        async with Places(client_options(self.feed.log_url), topics.changes_topic(self.feed.name)) as places:
            async with asyncio.timeout(SECONDS):
                while (record := await places.last_record(0)) is None or record.batch.ddl is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        ddl = record.batch.ddl
        return ddl, Statement(ddl.source, ddl.number, record.batch.last)

    def here(self) -> Position:
        file, _, offset = self.rig.here().rpartition(":")
        return Position(file, int(offset))


@pytest.fixture
def rig(make_rig: Callable[..., Rig], mariadb: MariaDb, postgres: Postgres, kafka: Kafka) -> Rig:
    rig = make_rig(mariadb, postgres, "conducted", log=kafka.url(), partitions=2)
    rig.table("account", "id int PRIMARY KEY, note varchar(20)")
    rig.table("item", "id int PRIMARY KEY, note varchar(20)")
    rig.start_at = rig.here()
    return rig


@pytest.fixture
async def player(rig: Rig) -> AsyncIterator[Player]:
    feed = loader.load(rig.feed)
    await topics.ensure(feed.log_url, feed.name, 1)
    async with ControlTopic(feed) as control:
        player = Player(rig, control)
        yield player
        for sink in player.sinks.values():
            await sink.close()


@contextlib.asynccontextmanager
async def coordinating(player: Player, worker: str = "w1") -> AsyncIterator[CoordinatorShell]:
    coordinator = CoordinatorShell(player.feed, worker, player.control)
    running = asyncio.create_task(coordinator.run())
    try:
        yield coordinator
        assert not running.done(), "the coordinator ended by itself"
    finally:
        await coordinator.stop()
        async with asyncio.timeout(SECONDS):
            await running


async def test_the_first_plan_is_stored_the_log_published_and_the_least_group_counts(player: Player) -> None:
    async with coordinating(player):
        plan = await player.control.plan_with(1)
        assert (plan.version, plan.partitions) == (1, 2)
        assert sorted(group for _, group in plan.tables) == [0, 1]
        for group in (0, 1):
            await player.own(group)
        player.rig.at_source("INSERT INTO account VALUES (1, 'a')", "INSERT INTO item VALUES (1, 'b')")
        here = player.here()
        state = await player.state(lambda state: state.published.order >= here.order)
        await player.report(0, state.published)
        await player.report(1, plan.position)
        await player.report(1, here)
        state = await player.state(lambda state: state.checkpoint.order == here.order)
        assert (state.worker, state.state, state.plan) == ("w1", "running", 1)
        assert state.resolved.order == here.order


async def test_a_coordinator_that_ends_leaves_no_publisher_behind(
    player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends while a publisher is about to be started: one that went on would shut the next coordinator's out."""
    end, begin = Publishing._end, Publishing._begin
    ends, ended, over, begun = list[Publishing](), asyncio.Event(), asyncio.Event(), list[Publishing]()

    async def interleaved(publishing: Publishing) -> None:
        ends.append(publishing)
        if len(ends) == 1:  # of the start
            try:
                await ended.wait()
            finally:
                over.set()
            return
        await end(publishing)  # of the stop: the start goes on behind it
        ended.set()
        await over.wait()
        for _ in range(10):
            await asyncio.sleep(0)

    def noted(publishing: Publishing, work: Any) -> None:
        begun.append(publishing)
        begin(publishing, work)

    monkeypatch.setattr(Publishing, "_end", interleaved)
    monkeypatch.setattr(Publishing, "_begin", noted)
    async with coordinating(player):
        await player.until(lambda: ends)
    assert all(publishing._running is None for publishing in begun)


async def test_a_statement_runs_once_when_both_groups_have_voted(player: Player) -> None:
    async with coordinating(player):
        for group in (0, 1):
            await player.own(group)
        player.rig.at_source("CREATE TABLE added (id int PRIMARY KEY)", "INSERT INTO added VALUES (1)")
        ddl, statement = await player.log_ends_with_statement()
        before = (await player.control.plan_with(0)).position
        await player.report(0, before, statement)
        zombie = player.epochs[1]
        await player.own(1)
        await player.report(1, before, statement, epoch=zombie)  # the vote is its owner's, so it counts no more
        state = await player.state(lambda state: state.published == statement.end)
        assert state.passed is None
        await player.report(1, before, statement)
        state = await player.state(lambda state: state.passed == statement)
        assert player.rig.target.execute(f"SELECT to_regclass('{player.rig.schema}.added')::text")[0][0] is not None
        assert state.plan == 2
        assert TableName(player.rig.schema, "added") in dict(player.control.seen.plan.tables)  # type: ignore[union-attr]
        for group in (0, 1):
            answer = await player.sinks[group].pass_ddl(
                ApplyDdl(EffectId(player.epochs[group], 1), ddl, statement.end), []
            )
            assert isinstance(answer, DdlApplied)
        await player.report(0, statement.end)
        assert player.control.state is not None
        assert player.control.state.published == statement.end
        await player.report(1, statement.end)
        await player.state(lambda state: state.published.order > statement.end.order)


async def test_another_worker_takes_over_before_a_statement_and_after_it_has_run(player: Player) -> None:
    async with coordinating(player):
        for group in (0, 1):
            await player.own(group)
        player.rig.at_source("ALTER TABLE account ADD COLUMN more int", "INSERT INTO account VALUES (1, 'a', 2)")
        _, statement = await player.log_ends_with_statement()
        before = (await player.control.plan_with(0)).position
        await player.report(0, before, statement)
    async with coordinating(player, "w2"):
        await player.report(1, before, statement)
        await player.state(lambda state: state.passed == statement and state.worker == "w2")
        await player.report(0, statement.end)
    async with coordinating(player, "w3"):
        await player.state(lambda state: state.worker == "w3" and state.passed == statement)
        await player.report(1, statement.end)
        here = player.here()
        await player.state(lambda state: state.published.order >= here.order)
    columns = player.rig.target.execute(
        "SELECT column_name::text FROM information_schema.columns "
        f"WHERE table_schema = '{player.rig.schema}' AND table_name = 'account'"
    )
    assert [name for (name,) in columns].count("more") == 1


async def test_two_coordinators_at_once_only_the_newer_one_counts(
    player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older one, a zombie, is shut out wherever it writes; it does not try again meanwhile."""
    monkeypatch.setattr(coordinator_shell, "DISPLACED_SECONDS", 10 * SECONDS)
    async with coordinating(player, "zombie"):
        player.rig.at_source("INSERT INTO account VALUES (2, 'b')")
        first = player.here()
        await player.state(lambda state: state.worker == "zombie" and state.published.order >= first.order)
        async with coordinating(player, "w2"):
            state = await player.state(lambda state: state.worker == "w2")
            player.rig.at_source("INSERT INTO account VALUES (1, 'a')")
            here = player.here()
            state = await player.state(lambda state: state.published.order >= here.order)
            assert state.worker == "w2"


async def test_more_partitions_make_a_new_plan_where_all_is_drained(player: Player) -> None:
    async with coordinating(player):
        for group in (0, 1):
            await player.own(group)
        player.rig.at_source("INSERT INTO account VALUES (1, 'a')")
        here = player.here()
        await player.state(lambda state: state.published.order >= here.order)
    player.rig.options["partitions"] = 3
    player.feed = loader.load(player.rig.feed)
    async with coordinating(player):
        end = (await player.state(lambda state: state.state == "draining for a new plan")).published
        await player.report(0, end)
        await player.report(1, end)
        plan = await player.control.plan_with(2)
        assert (plan.version, plan.since[2]) == (2, end)
        player.rig.at_source("INSERT INTO account VALUES (2, 'a')")
        here = player.here()
        await player.state(lambda state: state.published.order >= here.order)


@pytest.mark.proof
@pytest.mark.parametrize("dies", [pytest.param(False, id="in peace"), pytest.param(True, id="died in between")])
async def test_a_copy_moves_with_its_table(dies: bool, player: Player, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the new plan is announced the target has it, and whoever owned the table can touch it no more."""
    failing = [TargetError("gone", "")] if dies else []

    async def follow(*arguments: Any) -> None:
        if arguments[-1] and failing:  # a table leaves a group
            raise failing.pop()
        await follow_plan(*arguments)

    rig = player.rig
    async with coordinating(player):
        plan = await player.control.plan_with(1)
        for group in (0, 1):
            await player.own(group)
        for name, group in plan.tables:
            for chunk in (0, 1):
                stored = f"'{rig.name}', {group}, '{name.schema}', '{name.table}', {chunk}"
                columns = "feed, grp, table_schema, table_name, chunk"
                rig.target.execute(f"INSERT INTO tidelock.tidelock_chunks ({columns}) VALUES ({stored})")
        rig.at_source("INSERT INTO account VALUES (1, 'a')")
        here = player.here()
        await player.state(lambda state: state.published.order >= here.order)
    rig.target.execute(f"ALTER TABLE {rig.schema}.item ADD FOREIGN KEY (id) REFERENCES {rig.schema}.account (id)")
    monkeypatch.setattr(coordinator_term, "follow_plan", follow)
    monkeypatch.setattr(coordinator_shell, "DISPLACED_SECONDS", 0.2)
    async with coordinating(player, "w2"):
        end = (await player.state(lambda state: state.state == "draining for a new plan")).published
        for group in (0, 1):
            await player.report(group, end)
        await player.state(lambda state: state.plan == 2)
        moved = await player.control.plan_with(1)
        (home,) = {group for _, group in moved.tables}
        assert moved.left == (1 - home,) and not failing
        found = f"SELECT DISTINCT grp, table_name FROM tidelock.tidelock_chunks WHERE feed = '{rig.name}' ORDER BY 2"
        assert rig.target.execute(found) == [(home, "account"), (home, "item")]
        split = ChunkSplit(moved.tables[0][0])
        for group in (0, 1):
            id_ = EffectId(player.epochs[group], 1)
            answer = await player.sinks[group].begin_copy(BeginCopy(id_, (split,), end))
            assert isinstance(answer, CopyFailed) and answer.failure.kind is ErrorKind.FENCED, answer
        with pytest.raises(TargetError, match="newer coordinator"):
            await follow_plan(player.feed, moved, 1, (0,))


async def test_an_embedded_run_is_gone_on_from_but_not_from_the_middle_of_its_work(player: Player) -> None:
    rig = player.rig
    rig.at_source("INSERT INTO account VALUES (1, 'a')")
    log = rig.options.pop("log")
    del rig.options["partitions"]
    rig.catch_up()
    rig.options |= {"log": log, "partitions": 2}
    stored = rig.target.execute(f"SELECT position FROM tidelock.tidelock_checkpoint WHERE feed = '{rig.name}'")[0][0]
    start = await beginning(player.feed)
    assert str(start.offset) in stored
    owner = f"'{rig.name}', 0, 1, 99"
    rig.target.execute(f"INSERT INTO tidelock.tidelock_progress VALUES ({owner}, '', '', '')")
    with pytest.raises(TargetError, match="is in the middle of its work"):
        await beginning(player.feed)


async def test_the_copies_of_an_embedded_run_go_to_the_groups_of_their_tables(player: Player) -> None:
    rig = player.rig
    log = rig.options.pop("log")
    del rig.options["partitions"]
    rig.catch_up()
    for table in ("account", "item"):
        columns = "feed, grp, table_schema, table_name, chunk, split, rows_merged"
        split = msgspec.msgpack.encode(ChunkSplit(TableName(rig.schema, table))).hex()
        stored = f"'{rig.name}', 0, '{rig.schema}', '{table}', 0, decode('{split}', 'hex'), 1"
        rig.target.execute(f"INSERT INTO tidelock.tidelock_chunks ({columns}) VALUES ({stored})")
    rig.options |= {"log": log, "partitions": 2}
    owner = f"SELECT epoch FROM tidelock.tidelock_owner WHERE feed = '{rig.name}' AND grp = 0"
    ((before,),) = rig.target.execute(owner)
    async with coordinating(player):
        plan = await player.control.plan_with(1)
        found = rig.target.execute(
            f"SELECT table_name, grp FROM tidelock.tidelock_chunks WHERE feed = '{rig.name}' ORDER BY 1"
        )
        assert found == sorted((name.table, group) for name, group in plan.tables)
        assert rig.target.execute(owner)[0][0] > before, "the embedded run's epoch is over"


async def test_status_shows_the_groups_from_any_machine(player: Player) -> None:
    async with coordinating(player):
        for group in (0, 1):
            await player.own(group)
        plan = await player.control.plan_with(1)
        await player.report(0, plan.position)
        statement = Statement("0-1", 7, plan.position)
        await player.report(1, plan.position, statement)
        await player.until(lambda: len(player.control.seen.groups) == 2)
        seen = await feed_control.status(player.feed)
        assert seen.scale_out is not None
        assert (seen.scale_out.coordinator, seen.scale_out.plan) == ("w1", 1)
        assert [(g.group, g.worker, g.vote) for g in seen.scale_out.groups] == [(0, "w", ""), (1, "w", "0-1:7")]
        assert seen.scale_out.groups[0].checkpoint == plan.position
        said = await asyncio.to_thread(player.rig.command, "status")
        assert "0-1:7" in said.out
        assert "w1: running" in said.out
        shown = await asyncio.to_thread(player.rig.command, "status", "--json", "@")
        assert shown.json["scale_out"]["groups"][1]["vote"] == "0-1:7"
