"""A first run that begins where a slot keeps the log already, and why it does not where that cannot be proven."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Postgres
from tidelock.adapters.config.loader import load
from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.ports.source import Beginning
from tidelock.adapters.ports.source_errors import PurgedPosition, SourceError, UnsuitableLog
from tidelock.adapters.postgres.logical.positions import lsn_of
from tidelock.adapters.postgres.logical.session import session
from tidelock.adapters.postgres.logical.source import PostgresSource
from tidelock.engine.model.records import Position, TableName, spelled_lsn

ITEM = "id int PRIMARY KEY, name varchar(20)"


@pytest.fixture
def rig(make_rig: Callable[..., Rig], postgres_source: Postgres, postgres: Postgres) -> Rig:
    made = make_rig(postgres_source, postgres, "begun", lanes=2)
    made.table("item", ITEM)
    return made


def publish(rig: Rig, *tables: str) -> None:
    names = ", ".join(f"{rig.schema}.{table}" for table in tables)
    rig.at_source(
        f"CREATE PUBLICATION {slot_name(rig.name)} FOR TABLE {names} WITH (publish_via_partition_root = true)"
    )


def keep(rig: Rig, plugin: str = "pgoutput") -> int:
    """Makes the slot and returns its place."""
    sql = f"SELECT lsn::text FROM pg_create_logical_replication_slot('{slot_name(rig.name)}', '{plugin}')"
    return lsn_of(str(rig.source.execute(sql, database=rig.schema)[0][0]))


def end(rig: Rig) -> int:
    return lsn_of(str(rig.source.execute("SELECT pg_current_wal_insert_lsn()::text")[0][0]))


def insert(rig: Rig, first: int, last: int) -> None:
    rig.at_source(f"INSERT INTO item SELECT n, 'of ' || n FROM generate_series({first}, {last}) AS n")


def begun(rig: Rig, lsn: int) -> Beginning:
    """Where a first run would begin."""
    place = load(rig.feed).source_url
    return PostgresSource(place).keep_log([TableName(rig.schema, "item")], Position("", lsn), kept=True)


@pytest.mark.parametrize("start", [pytest.param("earliest", marks=pytest.mark.proof), "LSN"])
def test_a_feed_begins_where_its_slot_keeps_the_log(start: str, rig: Rig) -> None:
    """The target holds the rows up to there, by other means; the slot is neither dropped nor made anew."""
    publish(rig, "item")
    if start == "LSN":
        keep(rig)
        insert(rig, 1, 10)
    rig.start_at = start if start == "earliest" else spelled_lsn(end(rig))
    rig.at_target(f"INSERT INTO {rig.schema}.item SELECT n, 'of ' || n FROM generate_series(1, 10) AS n")
    if start == "earliest":
        insert(rig, 1, 10)
        keep(rig)
    insert(rig, 11, 20)
    rig.at_source("UPDATE item SET name = 'other' WHERE id IN (3, 13)", "DELETE FROM item WHERE id IN (4, 14)")
    assert rig.command("check", "@").code == 0
    rig.catch_up()
    rig.assert_exact()
    insert(rig, 21, 30)
    rig.catch_up()
    rig.assert_exact()


def refused(rig: Rig, lsn: int, kind: type[SourceError], words: str) -> SourceError:
    with pytest.raises(kind, match=words) as raised:
        begun(rig, lsn)
    return raised.value


def test_why_a_feed_cannot_begin_there(rig: Rig) -> None:
    """Each refusal says what helps, and that is done to the letter."""
    none = refused(rig, 0, PurgedPosition, "there is no slot")
    publication, slot = re.findall(r"(CREATE PUBLICATION .*?);|(SELECT pg_create_.*?);", none.hint)
    rig.at_source(publication[0], slot[1])
    kept = begun(rig, 0).place.offset
    insert(rig, 1, 10)
    assert begun(rig, kept + 8).place.offset == kept + 8
    early = refused(rig, kept - 8, PurgedPosition, f"keeps the log from {spelled_lsn(kept)} on")
    assert f"`start: {spelled_lsn(kept)}`" in early.hint
    refused(rig, end(rig) + (1 << 30), UnsuitableLog, "ends at")


@contextmanager
def another_reader(rig: Rig) -> Iterator[None]:
    """Somebody else's program, which holds the feed's slot."""
    with session(load(rig.feed).source_url, replication=True) as reader:
        name = slot_name(rig.name)
        reader.connection.send_query(
            f"START_REPLICATION SLOT {name} LOGICAL 0/0 (proto_version '1', publication_names '{name}')".encode()
        )
        reader.connection.get_result()
        yield


def advised(rig: Rig, words: str, *patterns: str) -> list[str]:
    """What the runs have printed behind these words that is to be done."""
    _, _, said = rig.said().rpartition(words)
    found = [re.search(pattern, said) for pattern in patterns]
    assert said and all(found), rig.said()
    return [one[0] for one in found if one is not None]


def test_who_does_what_each_refusal_says_has_a_feed_in_the_end(rig: Rig) -> None:
    """A place before there was a slot, one before the slot's, and a slot that another program reads."""
    rig.start_at = spelled_lsn(end(rig))
    assert rig.catch_up_code() != 0
    rig.at_source(*advised(rig, "there is no slot", "CREATE PUBLICATION [^;]*;", "SELECT pg_create_[^;]*;"))
    insert(rig, 1, 10)
    assert rig.catch_up_code() != 0
    (start,) = advised(rig, "before that", "`start: [^`]*`")
    rig.start_at = start.strip("`").removeprefix("start: ")
    with another_reader(rig):
        run = rig.run("--until-caught-up")
        until(lambda: "tried again in" in rig.said(), "a run that waits for its slot")
        rig.at_source(*advised(rig, "is in use", r"SELECT pg_terminate_backend\(\d+\);"))
        run.wait(60)
    rig.assert_exact()


def test_a_publication_that_is_younger_than_its_slot_is_no_proof(rig: Rig) -> None:
    """Changes from before are not in the log, and the log says nothing of that."""
    rig.at_source("CREATE TABLE other (id int PRIMARY KEY)")
    publish(rig, "other")
    keep(rig)
    insert(rig, 1, 10)
    rig.at_source(f"ALTER PUBLICATION {slot_name(rig.name)} ADD TABLE item")
    assert "item" in refused(rig, 0, UnsuitableLog, "not known to be older").message
    rig.start_at, rig.rules = "earliest", [{"source": f"{rig.schema}.item"}]
    assert rig.catch_up_code() == 1
    words = "not known to be older than the slot"
    drop, start = advised(rig, words, "SELECT pg_drop_replication_slot[^;]*;", "`start: copy`")
    rig.at_source(drop)
    rig.start_at = start.strip("`").removeprefix("start: ")
    rig.catch_up()
    rig.assert_exact()


def test_a_slot_of_another_plugin_is_no_slot_of_ours(rig: Rig) -> None:
    publish(rig, "item")
    keep(rig, "test_decoding")
    hint = refused(rig, 0, UnsuitableLog, "plugin test_decoding").hint
    rig.at_source(*re.findall("(?:CREATE|SELECT) [^;]*;", hint))
    insert(rig, 1, 10)
    rig.start_at = "earliest"
    rig.catch_up()
    rig.assert_exact()
