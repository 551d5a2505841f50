"""Views and requests of an operator, against real targets: PostgreSQL and MariaDB."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from bench.harness.servers import MariaDb, Postgres
from tidelock.adapters.bookkeeping.tables import TABLES, columns_query, create_statements
from tidelock.adapters.config import loader
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator import feed_control
from tidelock.adapters.operator.kept_forms import KeptForms, begin_anew, replace_behind
from tidelock.adapters.operator.store import Books
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.table_form import TableForm, in_force
from tidelock.adapters.runtime.progress import Sample
from tidelock.adapters.web.serving import serve
from tidelock.adapters.wiring.session import TargetSession, session
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Column, Kind, Position, Row, Shape, TableName
from tidelock.engine.model.schema_change import Ddl

SHAPE = Shape(TableName("shop", "account"), (Column("id", Kind.INT), Column("note", Kind.TEXT)), ("id",))
HALT = feed_control.Halted(
    Alarm("ddl", "A statement that cannot be applied", "Apply it by hand", "bin.000001:900"),
    Ddl("shop", "ALTER TABLE account DROP COLUMN note", "0-101", 77),
)


@pytest.fixture(params=["postgres", "mariadb"])
def server(request: pytest.FixtureRequest) -> Postgres | MariaDb:
    return request.getfixturevalue(request.param)


@pytest.fixture
def feed(server: Postgres | MariaDb, tmp_path: Path) -> Feed:
    """A feed with bookkeeping of its own: a fresh database, a schema of the test's name."""
    database = server.database("books")
    path = tmp_path / "shop.yaml"
    text = f"feed: shop\nsource: mysql://repl@127.0.0.1:1\ntarget: {server.url(database)}\ntables: [{{source: a.b}}]\n"
    path.write_text(f"{text}schema: {database}\n", encoding="utf-8")
    return loader.load(path)


@pytest.fixture
async def target(feed: Feed) -> AsyncIterator[TargetSession]:
    async with session(feed.target_url) as opened:
        for statement in create_statements(opened.dialect, feed.schema):
            await opened.execute(statement)
        yield opened


async def own(target: TargetSession, feed: Feed, halt: feed_control.Halted | None = None, group: int = 0) -> None:
    sql = f"INSERT INTO {feed.schema}.tidelock_owner (feed, grp, epoch, halt) VALUES (%s, %s, 3, %s)"
    await target.execute(sql, feed.name, group, msgspec.json.encode(halt).decode() if halt else None)


async def test_forms_of_tables_are_kept_by_their_owner_up_to_the_checkpoint(feed: Feed, target: TargetSession) -> None:
    def form(id_: int, offset: int, words: str, rows: int = 0) -> TableForm:
        return TableForm(id_, TableName("shop", "it's"), Position("7/1", offset, rows), words)

    old, new, gone = form(1, 10, "old"), form(1, 20, "new \\ ü", 3), form(2, 20, "")
    await begin_anew(Books(feed, target), [form(9, 5, "of a feed before")])
    await begin_anew(Books(feed, target), [old, form(2, 10, "other")])
    await own(target, feed)
    book, ours, others = Books(feed, target), KeptForms(feed, 0, 3), KeptForms(feed, 0, 2)
    assert await ours.read(book, Position("7/1", 10))
    await others.keep([form(3, 15, "of an owner before")])
    await ours.keep([new, gone])
    await ours.keep([new])
    assert set(ours.all) == {old, new, form(2, 10, "other"), gone}
    assert in_force(ours.all, Position("7/1", 20, 2)) == [old, gone], "behind a place inside a transaction"
    assert await others.read(book, Position("7/1", 20, 3)) and set(others.all) == {new, gone}
    assert await ours.read(book, Position("7/1", 15)) and ours.all == (), "what is told anew is not kept"
    assert not await ours.read(book, Position("7/1", 30))
    await begin_anew(Books(feed, target), [old, new, form(2, 10, "other")])
    await replace_behind(Books(feed, target), Position("7/2", 15))
    moved = TableForm(1, new.table, Position("7/2", 15), new.words)
    assert await ours.read(book, Position("7/2", 15)) and set(ours.all) == {moved, form(2, 10, "other")}
    await replace_behind(Books(feed, target), Position("binlog.000007", 15))
    assert not await ours.read(book, Position("binlog.000007", 15)), "a log with statements that has lost some"


async def park(
    target: TargetSession,
    feed: Feed,
    ordinal: int,
    before: Row | None,
    after: Row | None,
    table: str = "account",
    group: int = 0,
) -> str:
    sql = (
        f"INSERT INTO {feed.schema}.tidelock_parked (feed, grp, source, number, ordinal, table_schema, table_name, "
        "row_key, error, change_data) VALUES (%s, %s, '0-101', 55, %s, 'shop', %s, 'id=1', 'duplicate email', %s)"
    )
    await target.execute(sql, feed.name, group, ordinal, table, msgspec.msgpack.encode((SHAPE, before, after)))
    return f"0-101:55:{ordinal}"


async def test_bookkeeping_is_made_once_and_may_be_made_again(feed: Feed, target: TargetSession) -> None:
    for statement in create_statements(target.dialect, feed.schema):
        await target.execute(statement)
    assert set(TABLES) == {table for table, _ in await target.fetch(columns_query(target.dialect, feed.schema))}


async def test_bookkeeping_holds_long_values_and_tells_feeds_apart(feed: Feed, target: TargetSession) -> None:
    sql = f"INSERT INTO {feed.schema}.tidelock_checkpoint (feed, grp, position) VALUES (%s, 0, %s)"
    await target.execute(sql, feed.name, "x" * 200_000)
    await target.execute(sql, f"{feed.name}-", "y")
    assert [len(p) for (p,) in await target.fetch(f"SELECT position FROM {feed.schema}.tidelock_checkpoint")] in (
        [200_000, 1],
        [1, 200_000],
    )
    with pytest.raises(TargetError, match=r"(?i)duplicate"):
        await target.execute(sql, feed.name, "again")


async def test_a_percent_sign_in_a_statement_is_only_itself(feed: Feed, target: TargetSession) -> None:
    await target.execute(f"CREATE TABLE {feed.schema}.share (rate varchar(9) NOT NULL DEFAULT '%s%')")
    await target.execute(f"INSERT INTO {feed.schema}.share (rate) VALUES (DEFAULT)")
    assert await target.fetch(f"SELECT rate FROM {feed.schema}.share") == [("%s%",)]


async def test_status_of_a_feed_that_never_ran(feed: Feed) -> None:
    seen = await feed_control.status(feed)
    assert (seen.epoch, seen.checkpoint, seen.failed_rows, seen.needs_operator) == (0, None, (), False)
    with pytest.raises(TargetError, match="knows no feed shop"):
        await feed_control.set_state(feed, "paused")


async def test_status_with_tables_but_no_owner(feed: Feed, target: TargetSession) -> None:
    assert (await feed_control.status(feed)).epoch == 0
    with pytest.raises(TargetError, match="knows no feed shop"):
        await feed_control.set_state(feed, "paused")


async def test_status_tells_owner_checkpoint_receipts_failed_rows_and_halt(feed: Feed, target: TargetSession) -> None:
    await own(target, feed, HALT)
    position = Position("bin.000001", 900, gtids="0-101-76")
    sql = f"INSERT INTO {feed.schema}.tidelock_checkpoint (feed, grp, position) VALUES (%s, 0, %s)"
    await target.execute(sql, feed.name, msgspec.json.encode(position).decode())
    columns = "feed, grp, epoch, batch, covered, origin, path"
    sql = f"INSERT INTO {feed.schema}.tidelock_progress ({columns}) VALUES (%s, 0, 3, %s, %s, '', '')"
    for batch in (1, 2):
        await target.execute(sql, feed.name, batch, b"\x00")
    await target.execute(sql, "other", 1, b"\x00")
    await park(target, feed, 0, None, (1, "a"))
    await park(target, feed, 1, None, (1, "a"), table="item")

    seen = await feed_control.status(feed)
    assert (seen.epoch, seen.desired_state, seen.receipts) == (3, "running", 2)
    assert seen.checkpoint == position
    assert seen.checkpoint_seconds is not None
    assert 0 <= seen.checkpoint_seconds < 60
    assert seen.halted == HALT
    failed = [(t.table, t.rows, t.queued_retry) for t in seen.failed_rows]
    assert failed == [("shop.account", 1, 0), ("shop.item", 1, 0)]
    assert 0 <= seen.failed_rows[0].oldest_seconds < 60
    assert seen.needs_operator
    assert seen.live is None


async def test_pause_and_resume(feed: Feed, target: TargetSession) -> None:
    await own(target, feed)
    for state in ("paused", "paused", "running"):
        await feed_control.set_state(feed, state)  # type: ignore[arg-type]
        assert (await feed_control.status(feed)).desired_state == state


async def test_failed_rows_are_listed_and_shown_with_their_values(feed: Feed, target: TargetSession) -> None:
    await own(target, feed)
    first = await park(target, feed, 0, (1, "old"), (1, b"\xff\x00"))
    second = await park(target, feed, 1, (1, "x"), None, table="item")
    assert [row.id for row in await feed_control.failed_rows(feed)] == [first, second]
    assert [row.id for row in await feed_control.failed_rows(feed, "shop.item")] == [second]
    assert [row.id for row in await feed_control.failed_rows(feed, limit=1)] == [first]
    detail = await feed_control.failed_row(feed, first)
    assert (detail.before, detail.after) == ({"id": 1, "note": "old"}, {"id": 1, "note": b"\xff\x00"})
    assert (detail.change.key, detail.change.error) == ("id=1", "duplicate email")
    assert (await feed_control.failed_row(feed, second)).after is None
    for wrong in ("0-101:55:9", "nonsense", "a:b:c"):
        with pytest.raises(TargetError, match=wrong):
            await feed_control.failed_row(feed, wrong)


async def queued(feed: Feed) -> dict[str, str]:
    return {row.id: row.queued for row in await feed_control.failed_rows(feed)}


async def test_a_retry_takes_the_whole_table_a_skip_only_its_row(feed: Feed, target: TargetSession) -> None:
    await own(target, feed)
    a, b, c = [await park(target, feed, n, None, (n, "a")) for n in range(3)]
    other = await park(target, feed, 3, None, (1, "a"), table="item")
    assert await feed_control.queue(feed, "skip", [b]) == 1
    assert await queued(feed) == {a: "", b: "skip", c: "", other: ""}
    assert await feed_control.queue(feed, "retry", [a]) == 2
    assert await queued(feed) == {a: "retry", b: "skip", c: "retry", other: ""}
    assert await feed_control.queue(feed, "retry", []) == 1
    assert await feed_control.queue(feed, "retry", []) == 0
    assert await feed_control.queue(feed, "skip", [], "shop.item") == 1
    assert await queued(feed) == {a: "retry", b: "skip", c: "retry", other: "skip"}
    with pytest.raises(TargetError, match="0-101:55:9"):
        await feed_control.queue(feed, "skip", [c, "0-101:55:9"])
    assert (await queued(feed))[c] == "retry"


async def test_ddl_done_passes_exactly_the_statement_that_halted(feed: Feed, target: TargetSession) -> None:
    await own(target, feed, HALT)
    assert (await feed_control.halted(feed)).ddl == HALT.ddl
    assert await feed_control.pass_ddl(feed) == HALT.ddl
    seen = await feed_control.status(feed)
    assert (seen.halted, seen.ddl_passed) == (None, "0-101:77")
    with pytest.raises(TargetError, match="not halted"):
        await feed_control.pass_ddl(feed)


async def owners(feed: Feed, target: TargetSession) -> list[tuple[int, str, str | None, bool]]:
    sql = f"SELECT grp, desired_state, ddl_passed, halt FROM {feed.schema}.tidelock_owner WHERE feed = %s ORDER BY grp"
    return [(row[0], row[1], row[2], row[3] is not None) for row in await target.fetch(sql, feed.name)]


async def test_what_is_asked_of_a_feed_reaches_all_its_groups(feed: Feed, target: TargetSession) -> None:
    for group in (-1, 0, 1):
        await own(target, feed, group=group)
    await feed_control.set_state(feed, "paused")
    assert [state for _, state, _, _ in await owners(feed, target)] == ["paused"] * 3
    a = await park(target, feed, 0, None, (1, "a"), group=0)
    b = await park(target, feed, 1, None, (2, "a"), group=1)
    assert [row.id for row in await feed_control.failed_rows(feed)] == [a, b]
    assert (await feed_control.failed_row(feed, b)).after == {"id": 2, "note": "a"}
    assert (await feed_control.status(feed)).failed_rows[0].rows == 2
    assert await feed_control.queue(feed, "skip", [b]) == 1
    assert await feed_control.queue(feed, "retry", []) == 1
    assert await queued(feed) == {a: "retry", b: "skip"}


async def test_a_statement_is_passed_for_all_groups_once_all_have_come_to_it(feed: Feed, target: TargetSession) -> None:
    await own(target, feed, group=-1)
    await own(target, feed, HALT, group=0)
    await own(target, feed, group=1)
    assert (await feed_control.status(feed)).halted == HALT
    assert await feed_control.halted_group(feed, 0)
    assert not await feed_control.halted_group(feed, 1)
    with pytest.raises(TargetError, match="Group 1 of the feed shop has not come to this statement yet"):
        await feed_control.pass_ddl(feed)
    other = msgspec.structs.replace(HALT, alarm=msgspec.structs.replace(HALT.alarm, position="bin.000001:700"))
    sql = f"UPDATE {feed.schema}.tidelock_owner SET halt = %s WHERE grp = 1"
    await target.execute(sql, msgspec.json.encode(other).decode())
    assert await feed_control.pass_ddl(feed) == HALT.ddl
    expected = [(-1, "running", None, False), (0, "running", "0-101:77", False), (1, "running", "0-101:77", False)]
    assert await owners(feed, target) == expected


async def test_a_halt_for_another_reason_is_not_passed(feed: Feed, target: TargetSession) -> None:
    await own(target, feed, feed_control.Halted(Alarm("gap", "A gap in the log", "Look at the source")))
    with pytest.raises(TargetError, match="not by a statement: A gap in the log"):
        await feed_control.pass_ddl(feed)
    assert (await feed_control.status(feed)).halted is not None


async def test_a_live_run_is_asked_too(feed: Feed, target: TargetSession) -> None:
    await own(target, feed)
    async with serve(("127.0.0.1", 0), lambda: Sample(state="running", rows_total=5), "shop") as port:
        live = msgspec.structs.replace(feed, http=f"127.0.0.1:{port}")
        assert (await feed_control.status(live)).live == Sample(state="running", rows_total=5)
    assert (await feed_control.status(live)).live is None


async def test_an_unreachable_target_is_said_plainly_and_without_its_password(
    server: Postgres | MariaDb, feed: Feed
) -> None:
    wrong_port = msgspec.structs.replace(feed.target_url, port=1, password="tell-nobody")
    wrong_user = msgspec.structs.replace(feed.target_url, user="nobody_here", password="tell-nobody")
    for url in (wrong_port, wrong_user):
        with pytest.raises(TargetError) as caught:
            await feed_control.status(msgspec.structs.replace(feed, target_url=url))
        assert "127.0.0.1" in str(caught.value)
        assert "tell-nobody" not in str(caught.value) + caught.value.hint
        assert caught.value.hint
