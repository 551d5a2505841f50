"""Copies follow the plan in the bookkeeping at both kinds of target: in one transaction, for one coordinator only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.harness.servers import MariaDb, Postgres
from tidelock.adapters.bookkeeping.checkpoints import COORDINATOR
from tidelock.adapters.bookkeeping.tables import create_statements
from tidelock.adapters.config import loader
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.wiring.session import TargetSession, session
from tidelock.adapters.workers.copy_homes import follow_plan
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.table_partitioning import TablePartitioning

HERE = Position("bin.000001", 4)
STAYS, MOVES = TableName("shop", "stays"), TableName("shop", "moves")
PLAN = TablePartitioning(2, HERE, (HERE, HERE, HERE), ((MOVES, 1), (STAYS, 0)), left=(2,))
OURS = 7
SECONDS = 30
WAITING = {
    "postgres": "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE%%'",
    "mysql": "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
}


@pytest.fixture(params=["postgres", "mariadb"])
async def target(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Feed, TargetSession]]:
    """A feed with bookkeeping of its own.  The table that moves has two chunks in group 0, one of them merged."""
    server: Postgres | MariaDb = request.getfixturevalue(request.param)
    database = server.database("homes")
    path = tmp_path / "shop.yaml"
    text = f"feed: shop\nsource: mysql://repl@127.0.0.1:1\ntarget: {server.url(database)}\ntables: [{{source: a.b}}]\n"
    path.write_text(f"{text}schema: {database}\n", encoding="utf-8")
    feed = loader.load(path)
    async with session(feed.target_url) as opened:
        for statement in create_statements(opened.dialect, feed.schema):
            await opened.execute(statement)
        for group in (COORDINATOR, 0, 1, 2):
            owner = f"INSERT INTO {feed.schema}.tidelock_owner (feed, grp, epoch) VALUES (%s, %s, %s)"
            await opened.execute(owner, feed.name, group, OURS)
        await put(feed, opened, MOVES, 0, 0, 10)
        await put(feed, opened, MOVES, 0, 1, None)
        await put(feed, opened, MOVES, 1, 0, 99)  # of a time when it was there before
        await put(feed, opened, STAYS, 0, 0, 5)
        yield feed, opened


async def put(feed: Feed, target: TargetSession, name: TableName, group: int, chunk: int, rows: int | None) -> None:
    columns = "feed, grp, table_schema, table_name, chunk, rows_merged"
    sql = f"INSERT INTO {feed.schema}.tidelock_chunks ({columns}) VALUES (%s, %s, %s, %s, %s, %s)"
    await target.execute(sql, feed.name, group, name.schema, name.table, chunk, rows)


async def chunks(feed: Feed, target: TargetSession) -> list[tuple[object, ...]]:
    sql = f"SELECT table_name, grp, chunk, rows_merged FROM {feed.schema}.tidelock_chunks ORDER BY 1, 2, 3"
    return [tuple(row) for row in await target.fetch(sql)]


async def epochs(feed: Feed, target: TargetSession) -> list[int]:
    """Returns the epoch of the coordinator, then those of the groups."""
    return [int(row[0]) for row in await target.fetch(f"SELECT epoch FROM {feed.schema}.tidelock_owner ORDER BY grp")]


async def test_chunks_move_and_the_epochs_of_all_groups_concerned_end(target: tuple[Feed, TargetSession]) -> None:
    feed, opened = target
    await follow_plan(feed, PLAN, OURS, PLAN.left)
    moved = [("moves", 1, 0, 10), ("moves", 1, 1, None), ("stays", 0, 0, 5)]
    assert await chunks(feed, opened) == moved
    assert await epochs(feed, opened) == [OURS, OURS + 1, OURS + 1, OURS + 1]
    await follow_plan(feed, PLAN, OURS, ())
    assert await chunks(feed, opened) == moved
    assert await epochs(feed, opened) == [OURS, OURS + 1, OURS + 1, OURS + 1], "nothing was to be done"


async def test_a_coordinator_that_is_over_moves_nothing(target: tuple[Feed, TargetSession]) -> None:
    feed, opened = target
    before = await chunks(feed, opened), await epochs(feed, opened)
    with pytest.raises(TargetError, match="newer coordinator"):
        await follow_plan(feed, PLAN, OURS - 1, PLAN.left)
    assert (await chunks(feed, opened), await epochs(feed, opened)) == before


async def test_what_an_owner_is_committing_is_waited_for(target: tuple[Feed, TargetSession]) -> None:
    """A copy that begins meanwhile moves too."""
    feed, opened = target
    async with session(feed.target_url) as owner:
        await owner.execute("BEGIN")
        share = "FOR SHARE" if owner.dialect == "postgres" else "LOCK IN SHARE MODE"
        await owner.fetch(f"SELECT epoch FROM {feed.schema}.tidelock_owner WHERE grp = 0 {share}")
        following = asyncio.create_task(follow_plan(feed, PLAN, OURS, (0, *PLAN.left)))
        async with asyncio.timeout(SECONDS):
            while not (await opened.fetch(WAITING[opened.dialect]))[0][0]:  # noqa: ASYNC110
                await asyncio.sleep(0.2)  # MariaDB makes this view anew where nobody has looked for a tenth of a second
        assert not following.done(), "it waits for the group's transaction"
        await put(feed, owner, MOVES, 0, 2, None)
        await owner.execute("COMMIT")
    await following
    assert ("moves", 1, 2, None) in await chunks(feed, opened)
