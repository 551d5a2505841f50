"""A PostgreSQL source end to end: which log and which slot a feed goes on with, and where it halts."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import MariaDb, Postgres, Standby, StrangePostgres
from bench.harness.servers.place import give
from tests.adapters.postgres_feed import (
    ELSEWHERE,
    ITEM,
    assert_halted,
    checkpoint,
    confirmed,
    count,
    end_of_log,
    insert,
    made,
    moved_to,
    slot,
    way_out,
)
from tidelock.adapters.app import resync
from tidelock.adapters.config.loader import load
from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.adapters.postgres.logical.making import keep_log
from tidelock.engine.model.records import TableName


@pytest.fixture
def source(postgres_source: Postgres) -> Postgres:
    return postgres_source


@pytest.fixture
def make_standby() -> Iterator[Callable[[Postgres], Standby]]:
    with ExitStack() as stack:
        yield lambda primary: stack.enter_context(Standby(primary, ["--wal-keep-size=256MB"]))


def test_a_slot_that_was_made_anew_halts(make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres) -> None:
    """PostgreSQL would go on from the new slot without a word."""
    rig = made(make_rig, source, postgres, "anew")
    insert(rig, 1, 10)
    rig.catch_up()
    name = slot_name(rig.name)
    rig.at_source(f"SELECT pg_drop_replication_slot('{name}')")
    insert(rig, 11, 20)
    rig.at_source(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
    insert(rig, 21, 30)
    stood = checkpoint(rig)
    assert_halted(rig, "was made anew", "tidelock resync", spelled(stood), slot(rig, "confirmed_flush_lsn"))
    assert count(rig) == 10
    assert checkpoint(rig) == stood


def spelled(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def test_a_slot_that_was_dropped_halts(make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres) -> None:
    rig = made(make_rig, source, postgres, "dropped")
    insert(rig, 1, 10)
    rig.catch_up()
    rig.at_source(f"SELECT pg_drop_replication_slot('{slot_name(rig.name)}')")
    insert(rig, 11, 20)
    assert_halted(rig, "has no slot", "tidelock resync")
    assert count(rig) == 10
    assert rig.source.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = $1", slot_name(rig.name)) == []


def test_a_resync_that_another_run_came_before_leaves_the_slot(
    make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres
) -> None:
    rig = made(make_rig, source, postgres, "late")
    planned = asyncio.run(resync.plan(load(rig.feed), print))
    insert(rig, 1, 10)
    rig.catch_up()
    insert(rig, 11, 20)
    with pytest.raises(TargetError, match="was taken over meanwhile"):
        asyncio.run(resync.begin(load(rig.feed), planned))
    rig.catch_up()
    rig.assert_exact()


def test_a_slot_without_a_checkpoint_is_made_anew(
    make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres
) -> None:
    """A first run made it and ended before it stored a checkpoint: what came since is no part of the feed."""
    rig = make_rig(source, postgres, "early", lanes=2)
    rig.table("item", ITEM)
    name = slot_name(rig.name)
    rig.at_source(
        "ALTER TABLE item REPLICA IDENTITY FULL",
        f"CREATE PUBLICATION {name} FOR TABLE item WITH (publish_via_partition_root = true)",
        f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')",
    )
    before = confirmed(rig)
    insert(rig, 1, 10)
    rig.catch_up()
    assert confirmed(rig) > before
    assert count(rig) == 0
    insert(rig, 11, 20)
    rig.catch_up()
    assert count(rig) == 10


def test_a_lost_slot_halts(
    make_rig: Callable[..., Rig], make_postgres: Callable[..., Postgres], postgres: Postgres
) -> None:
    source = make_postgres(extra=["--max-slot-wal-keep-size=1MB", "--max-wal-size=32MB", "--min-wal-size=32MB"])
    rig = made(make_rig, source, postgres, "lost")
    insert(rig, 1, 10)
    rig.catch_up()
    rig.at_source(*ELSEWHERE)
    for _ in range(6):
        rig.at_source("INSERT INTO elsewhere.other VALUES ('x')", "SELECT pg_switch_wal()", "CHECKPOINT")
    assert slot(rig, "wal_status") == "lost"
    insert(rig, 11, 20)
    assert_halted(rig, "is lost", "max_slot_wal_keep_size", "tidelock resync")
    assert count(rig) == 10
    way_out(rig)


@pytest.mark.proof
def test_a_promoted_standby_without_the_slot_halts(
    make_rig: Callable[..., Rig],
    make_postgres: Callable[..., Postgres],
    make_standby: Callable[[Postgres], Standby],
    postgres: Postgres,
) -> None:
    primary = make_postgres()
    rig = made(make_rig, primary, postgres, "promoted")
    insert(rig, 1, 10)
    rig.catch_up()
    standby = make_standby(primary)
    until(standby.caught_up, "a standby")
    primary.stop()
    standby.promote()
    moved_to(rig, standby)
    insert(rig, 11, 20)
    assert_halted(rig, "has no slot", "promoted", "tidelock resync")
    assert count(rig) == 10
    way_out(rig)


@pytest.mark.proof
def test_a_promoted_standby_that_has_the_slot_goes_on(
    make_rig: Callable[..., Rig],
    make_postgres: Callable[..., Postgres],
    make_standby: Callable[[Postgres], Standby],
    postgres: Postgres,
) -> None:
    """The same log: all that we hold was committed before the fork."""
    primary = make_postgres(extra=["--wal-keep-size=256MB"])
    standby = make_standby(primary)
    rig = made(make_rig, primary, postgres, "switched")
    insert(rig, 1, 10)
    until(standby.caught_up, "a standby")
    rig.catch_up()
    primary.stop()
    standby.stop()
    standby.take_slots()
    standby.start()
    standby.promote()
    moved_to(rig, standby)
    insert(rig, 11, 20)
    rig.catch_up()
    rig.assert_exact()
    assert count(rig) == 20


@pytest.mark.proof
def test_a_promoted_standby_that_lacks_what_was_applied_halts(
    make_rig: Callable[..., Rig],
    make_postgres: Callable[..., Postgres],
    make_standby: Callable[[Postgres], Standby],
    postgres: Postgres,
) -> None:
    """Places behind the fork are used again, for other transactions."""
    primary = make_postgres(extra=["--wal-keep-size=256MB"])
    rig = made(make_rig, primary, postgres, "forked")
    insert(rig, 1, 10)
    rig.catch_up()
    standby = make_standby(primary)
    until(standby.caught_up, "a standby")
    standby.stop()
    insert(rig, 11, 20)
    rig.catch_up()
    stood = checkpoint(rig)
    primary.stop()
    standby.take_slots()
    with (standby.data / "postgresql.auto.conf").open("a") as settings:
        settings.write("primary_conninfo = ''\n")
    standby.start()
    standby.promote()
    moved_to(rig, standby)
    insert(rig, 31, 400)
    assert end_of_log(standby) > stood, "the places are used again"
    assert_halted(rig, "is not the one", "left timeline 1", "tidelock resync", spelled(stood))
    assert count(rig) == 20


@pytest.fixture
def stranger() -> Iterator[Postgres]:
    with StrangePostgres() as server:
        yield server


def test_another_server_halts(
    make_rig: Callable[..., Rig], source: Postgres, stranger: Postgres, postgres: Postgres
) -> None:
    rig = made(make_rig, source, postgres, "foreign")
    insert(rig, 1, 10)
    rig.catch_up()
    other = stranger
    other.execute(f"CREATE DATABASE {rig.schema}")
    other.execute_script(
        f"CREATE SCHEMA {rig.schema}; CREATE TABLE {rig.schema}.item ({ITEM}); "
        f"CREATE PUBLICATION {slot_name(rig.name)} FOR TABLE {rig.schema}.item "
        "WITH (publish_via_partition_root = true)",
        database=rig.schema,
    )
    other.execute(
        "SELECT pg_create_logical_replication_slot($1::name, 'pgoutput')", slot_name(rig.name), database=rig.schema
    )
    while end_of_log(other) <= checkpoint(rig):  # so that it has a place of that name
        other.execute("SELECT pg_logical_emit_message(true, 'test', repeat('x', 10000))")
        other.execute("SELECT pg_switch_wal()")
    rig.source_url = other.url(rig.schema)
    assert_halted(rig, "is not the one", "here is system")
    assert count(rig) == 10


class Snapshot:
    """A copy of a server's disk, and the way back to it."""

    def __init__(self, server: Postgres) -> None:
        self._server = server
        self._kept = server.folder / "kept"
        server.stop()
        shutil.copytree(server.data, self._kept)
        server.start()

    def put_back(self) -> None:
        self._server.stop()
        shutil.rmtree(self._server.data)
        self._kept.rename(self._server.data)
        give(self._server.data, self._server.account)
        self._server.start()


@pytest.mark.proof
@pytest.mark.parametrize(
    "written",
    [
        pytest.param("", id="shorter"),
        # as far as the log went before, and further: its places are there again, with other transactions
        pytest.param(
            "INSERT INTO item SELECT n, 'of another history', 1 FROM generate_series(20001, 26000) AS n",
            id="longer",
            marks=pytest.mark.proof,
        ),
        # nothing of the feed's own tables
        pytest.param(
            "INSERT INTO elsewhere.other SELECT repeat('x', 1000) FROM generate_series(1, 6000) AS n",
            id="longer by other tables",
            marks=pytest.mark.proof,
        ),
    ],
)
def test_a_server_put_back_from_a_copy_of_its_disk_halts(
    written: str, make_rig: Callable[..., Rig], make_postgres: Callable[..., Postgres], postgres: Postgres
) -> None:
    """It has the same system identifier, timeline and slot."""
    source = make_postgres()
    rig = made(make_rig, source, postgres, "restored")
    rig.at_source(*ELSEWHERE)
    insert(rig, 1, 10)
    rig.catch_up()
    snapshot = Snapshot(source)
    rig.reconnect()
    insert(rig, 11, 3000)
    insert(rig, 3001, 3100)
    rig.catch_up()
    stood = checkpoint(rig)
    snapshot.put_back()
    rig.reconnect()
    if written:
        rig.at_source(written, written.replace("26000", "26001").replace("20001", "26001"))
        assert end_of_log(source) > stood + (1 << 16)
    assert_halted(rig, "is not the one", "put back from a backup")
    assert count(rig) == 3100


def test_a_source_of_another_kind_halts(
    make_rig: Callable[..., Rig], source: Postgres, mariadb: MariaDb, postgres: Postgres
) -> None:
    """A checkpoint of the log of the one means nothing in that of the other."""
    rig = made(make_rig, source, postgres, "kind")
    insert(rig, 1, 10)
    rig.catch_up()
    mariadb.execute(f"CREATE DATABASE {rig.schema}")
    mariadb.execute(f"CREATE TABLE {rig.schema}.item (id int PRIMARY KEY, name text, amount numeric(10,2))")
    rig.source_url = mariadb.url()
    assert_halted(rig, "is a place in the log of a PostgreSQL server", "correct `source`")
    rig.source_url = rig.source_place
    insert(rig, 11, 12)
    rig.catch_up()
    rig.assert_exact()


def test_a_table_that_the_publication_lacks_halts(
    make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres
) -> None:
    """Its changes are not in the log, and the log does not say so; the command of the halt adds it."""
    rig = made(make_rig, source, postgres, "lacking")
    rig.table("later", "id int PRIMARY KEY, v int")
    rig.at_source("ALTER TABLE later REPLICA IDENTITY FULL")
    assert_halted(rig, "lacks", f"{rig.schema}.later", "ALTER PUBLICATION")
    found = re.search(r"ALTER PUBLICATION [^;]+;", rig.said())
    assert found is not None
    rig.at_source(found[0], "INSERT INTO later VALUES (1, 1)")
    rig.catch_up()
    rig.assert_exact()


def test_a_table_without_a_replica_identity_is_not_published(
    make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres
) -> None:
    """PostgreSQL would refuse each of the application's own updates."""
    rig = make_rig(source, postgres, "bare", lanes=2)
    rig.table("bare", "v int", "v int")
    assert rig.catch_up_code() in (1, 4), rig.said()
    assert "REPLICA IDENTITY FULL" in rig.said()
    with pytest.raises(UnsuitableLog, match="REPLICA IDENTITY FULL"):
        keep_log(load(rig.feed).source_url, [TableName(rig.schema, "bare")])
    rig.at_source("INSERT INTO bare VALUES (1)", "UPDATE bare SET v = 2", "DELETE FROM bare")
