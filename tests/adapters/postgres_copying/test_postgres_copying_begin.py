"""Copying into a real PostgreSQL: how a copy begins."""

from __future__ import annotations

import asyncpg
import pytest

from tests.adapters.postgres_copying.copy_target import ACCOUNT, MERGED, START, Target, row
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.records import TableName
from tidelock.engine.protocol.effects import ApplyBatch, BeginCopy
from tidelock.engine.protocol.events import BatchCommitted, Copied, CopyBegun, CopyFailed
from tidelock.engine.protocol.steps import ParkedRow


async def test_a_copy_begins_with_empty_tables_and_its_plan(target: Target) -> None:
    target.sql("CREATE TABLE line (id bigint PRIMARY KEY, a bigint REFERENCES account, up bigint REFERENCES line)")
    target.sql("INSERT INTO account VALUES (1, 'a', 0)")
    target.sql("INSERT INTO line VALUES (1, 1, NULL), (2, 1, 1)")
    line = TableName("public", "line")
    copy = await target.opened(ACCOUNT, line)
    parked = [ParkedRow("s", 1, n, "public", name, "id=9", "why", b"x") for n, name in enumerate(("account", "other"))]
    batch = ApplyBatch(target.id(copy.taken.epoch), 0, [], b"", 0, tuple(parked))
    assert await copy.sink.apply(batch) == BatchCommitted(batch.id)
    target.wanted(1, "copy")
    target.wanted(2, "copy", table="elsewhere")
    target.wanted(3, "repair", (1,), "line")
    splits = (ChunkSplit(ACCOUNT, By.NUMBERS, ("id",), ((10,), (20,))), ChunkSplit(line))
    effect = BeginCopy(target.id(copy.taken.epoch), splits, MERGED, (batch.id,))

    for _ in range(2):  # twice is once
        assert await copy.sink.begin_copy(effect) == CopyBegun(effect.id)

        assert target.rows() == target.rows("id", "line") == []
        assert target.position() == MERGED
        assert target.sql("SELECT table_name FROM tidelock.tidelock_parked") == [("other",)]
        assert target.sql("SELECT count(*) FROM tidelock.tidelock_progress") == [(0,)]
        assert target.sql("SELECT ordinal FROM tidelock.tidelock_wanted") == [(2,)]
    taken = await target.sink().take_over([ACCOUNT, line], START)
    assert taken.chunks == (Copied(splits[0]), Copied(splits[1]))


async def test_the_rows_that_go_are_marked_as_our_doing(target: Target) -> None:
    """A feed the other way would delete the source's."""
    target.sql("CREATE TABLE seen (n serial, what text, transaction xid8 DEFAULT pg_current_xact_id())")
    target.sql(
        "CREATE OR REPLACE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO seen (what) VALUES (tg_table_name); RETURN NULL; END $$"
    )
    target.sql("CREATE TRIGGER see AFTER INSERT ON tidelock.tidelock_progress FOR EACH ROW EXECUTE FUNCTION see()")
    target.sql("CREATE TRIGGER see AFTER DELETE OR INSERT ON account FOR EACH ROW EXECUTE FUNCTION see()")
    target.sql("INSERT INTO account VALUES (1, 'a', 0)")
    copy = await target.opened()
    assert isinstance(await copy.begin(), CopyBegun)
    await copy.merged(await copy.chunk([row(1)]))
    seen = target.sql("SELECT array_agg(what ORDER BY n) FROM seen GROUP BY transaction ORDER BY min(n)")
    assert seen == [(["account"],), (["tidelock_progress", "account"],), (["tidelock_progress", "account"],)]


async def test_a_copy_begun_anew_forgets_the_chunks_of_before(target: Target) -> None:
    copy = await target.opened()
    await copy.begin(ChunkSplit(ACCOUNT, By.NUMBERS, ("id",), ((10,), (20,))))
    await copy.merged(await copy.chunk([row(1)], split=ChunkSplit(ACCOUNT, By.NUMBERS, ("id",), ((10,), (20,)))))
    await copy.begin(ChunkSplit(ACCOUNT))
    assert target.rows() == []
    assert (await target.sink().take_over([ACCOUNT], START)).chunks == (Copied(ChunkSplit(ACCOUNT)),)


async def test_rows_stay_where_the_split_says_so(target: Target) -> None:
    copy = await target.opened()
    target.sql("INSERT INTO account VALUES (1, 'a', 0)")
    parked = ParkedRow("s", 1, 1, "public", "account", "id=9", "why", b"x")
    batch = ApplyBatch(target.id(copy.taken.epoch), 0, [], b"", 0, (parked,))
    await copy.sink.apply(batch)
    for split in (ChunkSplit(ACCOUNT, keep=True), ChunkSplit(ACCOUNT, By.KEYS, ("id",), keys=((1,),))):
        assert isinstance(await copy.begin(split), CopyBegun)
        assert target.rows() == [(1, "a")]
        assert target.sql("SELECT count(*) FROM tidelock.tidelock_parked") == [(1,)]
    assert (await target.sink().take_over([ACCOUNT], START)).chunks == (Copied(split, (0,)),)


async def test_a_wish_that_came_meanwhile_is_not_granted_by_another(target: Target) -> None:
    copy = await target.opened()
    target.wanted(1, "repair", (1,))
    target.wanted(2, "repair", (2,))
    target.wanted(3, "copy")
    target.wanted(4, "keep")
    await copy.begin(ChunkSplit(ACCOUNT, By.KEYS, ("id",), keys=((1,),)))
    assert [wish.ordinal for wish in (await copy.sink.control()).wanted] == [2, 3, 4]
    await copy.begin(ChunkSplit(ACCOUNT, keep=True))
    assert [wish.ordinal for wish in (await copy.sink.control()).wanted] == [2, 3]
    await copy.begin()
    assert (await copy.sink.control()).wanted == ()


async def test_who_reads_the_table_sees_the_rows_of_before_until_the_copy_has_begun(target: Target) -> None:
    target.sql("INSERT INTO account VALUES (1, 'a', 0)")
    copy = await target.opened()
    reader = await asyncpg.connect(target.server.url(target.database), ssl=False)
    async with reader.transaction(isolation="repeatable_read"):
        assert await reader.fetchval("SELECT count(*) FROM account") == 1
        assert isinstance(await copy.begin(), CopyBegun)
        assert await reader.fetchval("SELECT count(*) FROM account") == 1
    assert await reader.fetchval("SELECT count(*) FROM account") == 0
    await reader.close()


@pytest.mark.parametrize("rule", ["ON DELETE CASCADE", "ON DELETE SET NULL", ""])
async def test_rows_that_the_feed_does_not_know_are_not_swept_away(target: Target, rule: str) -> None:
    target.sql(f"CREATE TABLE notes (id int, account bigint REFERENCES account {rule})")
    target.sql("INSERT INTO account VALUES (1, 'a', 0)")
    target.sql("INSERT INTO notes VALUES (1, 1)")
    copy = await target.opened()
    target.wanted(1, "copy")
    answer = await copy.begin()
    assert isinstance(answer, CopyFailed)
    assert "notes" in answer.failure.message
    assert (target.rows(), target.rows("id, account", "notes")) == ([(1, "a")], [(1, 1)])
    assert (await copy.sink.control()).wanted != ()
    assert target.sql("SELECT count(*) FROM tidelock.tidelock_chunks") == [(0,)]


async def test_the_feeds_user_needs_no_right_but_those_of_the_stream(target: Target) -> None:
    target.sql("DROP ROLE IF EXISTS copier")
    target.sql("CREATE ROLE copier LOGIN PASSWORD 'pw'")
    target.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON account TO copier")
    target.sql("GRANT USAGE, CREATE ON SCHEMA tidelock TO copier")
    target.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tidelock TO copier")
    url = f"postgresql://copier:pw@127.0.0.1:{target.server.port}/{target.database}?sslmode=disable"
    copy = await target.opened(url=url)
    target.server.url = lambda _: url  # type: ignore[method-assign]
    try:
        assert isinstance(await copy.begin(), CopyBegun)
        effect = await copy.chunk([row(1)])
        await copy.merged(effect)
        await copy.sink.drop_staged(effect.staged)
    finally:
        del target.server.url
    assert target.rows() == [(1, "user1")]
    assert target.staged() == []
    await copy.sink.close()
    target.sql("DROP OWNED BY copier")
    target.sql("DROP ROLE copier")
