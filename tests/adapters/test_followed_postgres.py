"""Halts of a PostgreSQL source's tables, slot, log and publication: what each says is done, literally; no row differs.

Rows came, went and changed before and behind what halts.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Postgres
from bench.harness.servers.place import run
from bench.harness.servers.postgres import program
from tests.adapters.postgres_feed import COPY_SECONDS, insert, made
from tests.adapters.test_followed_advice import advice
from tidelock.adapters.config.slot_name import slot_name

Make = Callable[..., Rig]
PARTED = "id int PRIMARY KEY, k int NOT NULL, v text"


def resynced(rig: Rig, hint: str) -> None:
    """Does the last thing that the halt says."""
    assert "`tidelock resync FEED`" in hint, hint
    said = rig.command("resync", "@", "--yes")
    assert said.code == 0, said
    rig.catch_up(COPY_SECONDS)


def statements(words: str) -> list[str]:
    return re.findall(r"(?:ALTER|SELECT pg_drop)[^;]*;", words)


def test_a_primary_key_of_other_columns(make_rig: Make, postgres_source: Postgres, postgres: Postgres) -> None:
    rig = made(make_rig, postgres_source, postgres, "key")
    insert(rig, 1, 10)
    rig.catch_up()
    rig.at_source("UPDATE item SET name = 'x' WHERE id = 3", "DELETE FROM item WHERE id = 4")
    rig.at_source(
        "ALTER TABLE item DROP CONSTRAINT item_pkey, ADD code bigserial", "ALTER TABLE item ADD PRIMARY KEY (code)"
    )
    rig.at_source("UPDATE item SET name = 'y' WHERE id = 5", "DELETE FROM item WHERE id = 6")
    hint = advice(rig, "has other columns now than")
    assert "`tidelock check FEED`" in hint, hint
    errors = [one for one in rig.command("check", "@", "--json").json["findings"] if one["level"] == "error"]
    rig.at_target(*(statements(one["hint"])[0] for one in errors))
    resynced(rig, hint)
    rig.assert_exact()
    rig.at_source("UPDATE item SET name = 'z' WHERE id = 7", "DELETE FROM item WHERE id = 8")
    rig.catch_up()
    rig.assert_exact()


def parted(make_rig: Make, source: Postgres, target: Postgres, **rule: str) -> Rig:
    """A partitioned table whose rows have been read, and whose relation messages the next run begins with."""
    rig = make_rig(source, target, "parted")
    rig.at_source(f"CREATE TABLE p ({PARTED}) PARTITION BY RANGE (id)")
    for name, first in (("p1", 0), ("p2", 100)):
        rig.at_source(f"CREATE TABLE {name} PARTITION OF p FOR VALUES FROM ({first}) TO ({first + 100})")
    rig.at_target(f"CREATE TABLE {rig.schema}.p ({PARTED})")
    rig.rules = [{"source": f"{rig.schema}.p", **rule}]
    rig.tables = ["p"]
    rig.catch_up()
    return rig


def test_a_partition_of_another_identity(make_rig: Make, postgres_source: Postgres, postgres: Postgres) -> None:
    rig = parted(make_rig, postgres_source, postgres)
    rig.at_source("INSERT INTO p SELECT n, n, 'v' || n FROM generate_series(90, 110) AS n")
    rig.at_source("CREATE UNIQUE INDEX other ON p1 (id, k)", "ALTER TABLE p1 REPLICA IDENTITY USING INDEX other")
    changes = [
        "UPDATE p SET v = 'x' WHERE id = 91", "UPDATE p SET id = 190 WHERE id = 92", "DELETE FROM p WHERE id = 93",
        "UPDATE p SET k = k + 1 WHERE id = 95", "DELETE FROM p WHERE id = 105",
    ]  # fmt: skip
    rig.at_source(*changes)
    hint = advice(rig, "replica identities of different columns")
    assert "at each partition, then at the table" in hint, hint
    rig.at_source(*(f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in ("p1", "p2", "p")))
    resynced(rig, hint)
    rig.at_source("UPDATE p SET v = NULL WHERE id = 96", "UPDATE p SET id = 191 WHERE id = 97")
    rig.at_source("DELETE FROM p WHERE id = 98")
    rig.catch_up()
    rig.assert_exact()


def test_a_filter_whose_columns_are_not_logged(
    make_rig: Make, postgres_source: Postgres, postgres: Postgres
) -> None:
    """The table alone gets the identity that its partitions lack, and its rows come as if they were whole."""
    rig = parted(make_rig, postgres_source, postgres, where="k < 100")

    def belongs() -> list[tuple[str, ...]]:
        sql = "SELECT id::text, k::text, v FROM p WHERE k < 100 ORDER BY id"
        return [tuple(row) for row in rig.source.execute(sql, database=rig.schema)]

    rig.at_source("INSERT INTO p SELECT n, n, 'v' || n FROM generate_series(90, 110) AS n")
    rig.at_source("ALTER TABLE p REPLICA IDENTITY FULL")
    rig.at_source("DELETE FROM p WHERE id = 93", "UPDATE p SET id = 190 WHERE id = 92")
    hint = advice(rig, "`where` of")
    (first, *_) = re.findall(r"ALTER TABLE \S+ REPLICA IDENTITY FULL", hint)
    assert "at its partitions before" in hint, hint
    rig.at_source(*(first.replace(f"{rig.schema}.p", name) for name in ("p1", "p2", "p")))
    resynced(rig, hint)
    assert rig.rows("SELECT id::text, k::text, v FROM p ORDER BY id") == belongs()
    rig.at_source("DELETE FROM p WHERE id = 94", "UPDATE p SET k = 500 WHERE id = 95")
    rig.at_source("UPDATE p SET k = 5 WHERE id = 110")
    rig.catch_up()
    assert rig.rows("SELECT id::text, k::text, v FROM p ORDER BY id") == belongs()


def test_a_slot_of_somebody_else(make_rig: Make, postgres_source: Postgres, postgres: Postgres) -> None:
    rig = made(make_rig, postgres_source, postgres, "foreign")
    insert(rig, 1, 10)
    rig.catch_up()
    name = slot_name(rig.name)
    rig.at_source(f"SELECT pg_drop_replication_slot('{name}')", f"SELECT pg_create_physical_replication_slot('{name}')")
    insert(rig, 11, 20)
    rig.at_source("DELETE FROM item WHERE id < 4")
    hint = advice(rig, "is not the feed's")
    rig.at_source(*statements(hint))
    resynced(rig, hint)
    rig.assert_exact()


@pytest.mark.proof
def test_a_log_that_was_reset(
    make_rig: Make, make_postgres: Callable[..., Postgres], postgres: Postgres
) -> None:
    """The server has the same identifier, timeline and slot, and goes on at a later place."""
    source = make_postgres()
    rig = made(make_rig, source, postgres, "reset")
    insert(rig, 1, 10)
    rig.catch_up()
    insert(rig, 11, 20)
    source.stop()
    run([program("pg_resetwal"), "--force", f"--pgdata={source.data}"], source.account, source.folder)
    source.start()
    rig.reconnect()
    rig.at_source("DELETE FROM item WHERE id < 4")
    resynced(rig, advice(rig, "has already been removed"))
    rig.assert_exact()


@pytest.mark.proof
def test_a_subscription(
    make_rig: Make, make_postgres: Callable[..., Postgres], postgres_source: Postgres, postgres: Postgres
) -> None:
    """The source gets a table's rows from another server, so it is left out; what is written at the source goes on."""
    subscriber, writer = make_postgres(), postgres_source
    rig = make_rig(subscriber, postgres, "subscribed")
    rig.table("item", "id int PRIMARY KEY, v int")
    rig.table("own", "id int PRIMARY KEY, v int")
    rig.catch_up()
    there, slot = {"database": rig.schema}, f"of_{rig.schema}"
    writer.execute(f"CREATE DATABASE {rig.schema}")
    writer.execute_script(
        f"CREATE SCHEMA {rig.schema}; CREATE TABLE {rig.schema}.item (id int PRIMARY KEY, v int); "
        f"CREATE PUBLICATION up FOR TABLE {rig.schema}.item; INSERT INTO {rig.schema}.item VALUES (1, 1)", **there
    )  # fmt: skip
    writer.execute("SELECT pg_create_logical_replication_slot($1::name, 'pgoutput')", slot, **there)
    place = f"host={writer.host} port={writer.port} user=postgres dbname={rig.schema}"
    rig.at_source(
        f"CREATE SUBSCRIPTION s CONNECTION '{place}' PUBLICATION up WITH (create_slot=false, slot_name='{slot}')"
    )

    def came(rows: int) -> Callable[[], bool]:
        return lambda: subscriber.execute("SELECT count(*) FROM item", **there) == [(rows,)]

    try:
        until(came(1), "the subscription's first row")
        rig.at_source("INSERT INTO own VALUES (1, 1)")
        hint = advice(rig, "by replication, from its origin")
        assert hint.index("the feed's `tables`") < hint.index("DROP TABLE"), hint
        rig.rules, rig.tables = [{"source": f"{rig.schema}.own"}], ["own"]
        rig.at_source(f"ALTER PUBLICATION {slot_name(rig.name)} DROP TABLE item")
        resynced(rig, hint)
        writer.execute_script(f"INSERT INTO {rig.schema}.item VALUES (2, 2)", **there)
        until(came(2), "another row of the subscription")
        rig.at_source("INSERT INTO own VALUES (2, 2)")
        rig.catch_up()
        rig.assert_exact()
    finally:
        rig.at_source(
            "ALTER SUBSCRIPTION s DISABLE", "ALTER SUBSCRIPTION s SET (slot_name = NONE)", "DROP SUBSCRIPTION s"
        )
        gone = f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{slot}' AND active"
        until(lambda: not writer.execute(gone), "a slot that nobody reads")
        writer.execute("SELECT pg_drop_replication_slot($1::name)", slot)
