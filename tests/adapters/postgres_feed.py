"""A feed from a PostgreSQL source whose slot is there: its rows, its slot, its checkpoint, its halts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from bench.harness.rig import Rig
from bench.harness.servers import Postgres, Server
from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.postgres.logical.positions import lsn_of
from tidelock.engine.model import lineage

ITEM = "id int PRIMARY KEY, name text, amount numeric(10,2)"

COPY_SECONDS = 180.0

ELSEWHERE = ("CREATE SCHEMA elsewhere", "CREATE TABLE elsewhere.other (v text)")


def made(make_rig: Callable[..., Rig], source: Server, target: Server, name: str, **options: Any) -> Rig:
    """A feed whose slot is there."""
    rig = make_rig(source, target, name, **options)
    rig.table("item", ITEM)
    rig.at_source("ALTER TABLE item REPLICA IDENTITY FULL")
    rig.catch_up()
    return rig


def insert(rig: Rig, first: int, last: int) -> None:
    rig.at_source(f"INSERT INTO item SELECT n, 'of ' || n, n / 4.0 FROM generate_series({first}, {last}) AS n")


def slot(rig: Rig, what: str) -> str:
    sql = f"SELECT ({what})::text FROM pg_replication_slots WHERE slot_name = '{slot_name(rig.name)}'"
    return str(rig.source.execute(sql, database=rig.schema)[0][0])


def confirmed(rig: Rig) -> int:
    return lsn_of(slot(rig, "confirmed_flush_lsn"))


def checkpoint(rig: Rig) -> int:
    stored = rig.rows(f"SELECT position FROM tidelock.tidelock_checkpoint WHERE feed='{rig.name}'")
    return int(json.loads(stored[0][0])[1])


def last_read(rig: Rig) -> int:
    """The commit of the last transaction before the stored checkpoint."""
    stored = rig.rows(f"SELECT position FROM tidelock.tidelock_checkpoint WHERE feed='{rig.name}'")
    proof = lineage.decode(json.loads(stored[0][0])[4])
    assert proof is not None and proof.last is not None
    return proof.last.number


def end_of_log(server: Postgres) -> int:
    return lsn_of(str(server.execute("SELECT pg_current_wal_lsn()::text")[0][0]))


def assert_halted(rig: Rig, *words: str) -> None:
    assert rig.catch_up_code() == 4, rig.said()[-3000:]
    said = rig.said()
    for word in words:
        assert word in said, said[-3000:]


def way_out(rig: Rig) -> None:
    """Do what a halt says, to the letter; then nothing differs, and the feed goes on."""
    done = rig.command("resync", "@", "--yes")
    assert done.code == 0, done
    rig.catch_up(COPY_SECONDS)
    rig.assert_exact()
    insert(rig, 9001, 9010)
    rig.catch_up()
    rig.assert_exact()


def count(rig: Rig) -> int:
    return int(rig.rows("SELECT count(*)::text FROM item")[0][0])


def moved_to(rig: Rig, server: Postgres) -> None:
    rig.source = server
    rig.source_url = server.url(rig.schema)
    rig.reconnect()
