"""Rows under repair whose merge commits as they are looked at: told as before it, or as behind it, nothing between."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.harness.servers import MariaDb, Postgres
from tidelock.adapters.app import repair
from tidelock.adapters.app.repair import Part, RepairProgress, Unrepaired, Work
from tidelock.adapters.bookkeeping.tables import create_statements
from tidelock.adapters.config import loader
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator.store import Books
from tidelock.adapters.ports.staging import LEFT
from tidelock.adapters.wiring.session import TargetSession, session
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.records import TableName

TABLE = TableName("shop", "account")
KEYS = ((1,), (2,))


@pytest.fixture(params=["postgres", "mariadb"])
async def target(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Feed, TargetSession]]:
    """A feed with bookkeeping of its own, two rows of which are read to be repaired and not merged yet."""
    server: Postgres | MariaDb = request.getfixturevalue(request.param)
    database = server.database("repairs")
    text = f"feed: shop\nsource: mysql://repl@127.0.0.1:1\ntarget: {server.url(database)}\ntables: [{{source: a.b}}]\n"
    path = tmp_path / "shop.yaml"
    path.write_text(f"{text}schema: {database}\n", encoding="utf-8")
    feed = loader.load(path)
    split = msgspec.msgpack.encode(ChunkSplit(TABLE, By.KEYS, ("id",), keys=KEYS))
    async with session(feed.target_url) as opened:
        for statement in create_statements(opened.dialect, feed.schema):
            await opened.execute(statement)
        columns = "feed, grp, table_schema, table_name, chunk, split, rows_merged"
        for chunk, merged in ((0, 0), (1, None)):
            sql = f"INSERT INTO {feed.schema}.tidelock_chunks ({columns}) VALUES (%s, 0, %s, %s, %s, %s, %s)"
            await opened.execute(sql, feed.name, TABLE.schema, TABLE.table, chunk, split, merged)
        yield feed, opened


class Merging:
    """A session that an operator's command reads through, of which a merge commits behind the first look at it."""

    def __init__(self, read: TargetSession, feed: Feed, write: TargetSession) -> None:
        self.dialect = read.dialect
        self._read, self._feed, self._write = read, feed, write
        self._merged = False

    async def fetch(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        found = await self._read.fetch(sql, *values)
        if not self._merged and ("tidelock_chunks" in sql or LEFT in values):
            self._merged = True
            await merge(self._feed, self._write)
        return found


async def merge(feed: Feed, target: TargetSession) -> None:
    """Do what the merge of the rows writes: one of them stays as it is."""
    columns = "feed, grp, ordinal, table_schema, table_name, mode, row_key"
    left = json.dumps([["id=2", "refused"]]).encode()
    sql = f"INSERT INTO {feed.schema}.tidelock_wanted ({columns}) VALUES (%s, 0, 1, %s, %s, %s, %s)"
    await target.execute(sql, feed.name, TABLE.schema, TABLE.table, LEFT, left)
    await target.execute(f"UPDATE {feed.schema}.tidelock_chunks SET rows_merged = 1 WHERE chunk = 1")


async def test_rows_that_a_merge_leaves_are_told_with_it(target: tuple[Feed, TargetSession]) -> None:
    feed, opened = target
    part = Part(TABLE, KEYS)
    async with session(feed.target_url) as own:
        overtaken = Books(feed, Merging(own, feed, opened))  # type: ignore[arg-type]
        assert await repair._progress(overtaken, part) == RepairProgress(str(TABLE), 2, "reading")
    left = (Unrepaired("id=2", "refused"),)
    assert await repair.progress_of(feed, Work((part,), (), ())) == [
        RepairProgress(str(TABLE), 2, "repaired", unrepaired=left)
    ]
