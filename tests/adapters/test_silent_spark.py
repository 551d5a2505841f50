"""Spark and a database that falls silent: a query is waited for as long as the server works, silence is not."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import MariaDb, Postgres, Server
from bench.harness.wire import Wire
from tidelock.adapters.config.feed import Spark
from tidelock.adapters.config.url import Endpoint, parse
from tidelock.adapters.spark.jdbc import Database
from tidelock.adapters.spark.session import session
from tidelock.adapters.spark.vigil import Vigil, end_java

SHORT = "connect_timeout=1&read_timeout=1"
LONG_SECONDS = 4
COPY_SECONDS = 120.0


def with_port(url: str, port: int) -> str:
    place = parse(url, Path())
    return url.replace(f":{place.port}/", f":{port}/", 1) + f"?{SHORT}"


def place_of(server: Server, port: int) -> Endpoint:
    return parse(with_port(server.url(), port), Path())


@pytest.mark.proof
@pytest.mark.usefixtures("room_for_spark")
@pytest.mark.parametrize("kind", ["mariadb", pytest.param("postgres", marks=pytest.mark.proof)])
def test_a_long_query_is_waited_for_and_silence_is_not(kind: str, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(kind)
    sleep, asked = ("SELECT SLEEP({}) AS a", "information_schema.PROCESSLIST WHERE INFO LIKE '%SLEEP(3600%'")
    if kind == "postgres":
        sleep, asked = ("SELECT pg_sleep({})::text AS a", "pg_stat_activity WHERE query LIKE '%pg_sleep(3600%'")
    with (
        socket.create_server(("127.0.0.1", 0)) as deaf,
        Wire(server.port) as wire,
        ThreadPoolExecutor(1) as beside,
        session(Spark(), "silent") as spark,
    ):

        def read(place: Endpoint, seconds: int) -> object:
            return Database(place).read(spark, sleep.format(seconds), []).collect()

        with pytest.raises(Exception, match=r"(?i)time|connect"):
            read(place_of(server, deaf.getsockname()[1]), 0)
        with Vigil([place_of(server, wire.port)], end_java) as vigil:
            assert read(place_of(server, wire.port), LONG_SECONDS)
            reading = beside.submit(read, place_of(server, wire.port), 3600)
            # Ourselves, and the one that Spark asked.
            until(lambda: int(server.execute(f"SELECT count(*) FROM {asked}")[0][0]) >= 2, "the query", 30)
            assert not vigil.silent
            wire.silence()
            with pytest.raises(Exception):  # noqa: B017  # of Java's end each caller says something else
                reading.result(60)
            assert f":{wire.port}" in vigil.silent and "has not answered" in vigil.silent


@pytest.mark.proof
def test_a_copy_outlives_a_silence(mariadb: MariaDb, postgres: Postgres, make_rig: Callable[..., Rig]) -> None:
    """The source falls silent while Spark waits for its answer: the feed says so, and copies when it speaks."""
    rig = make_rig(mariadb, postgres, "silent", start="copy", spark={"small_rows": 0})
    rig.table("t", "id bigint PRIMARY KEY, note text")
    rig.at_source("INSERT INTO t SELECT seq, 'x' FROM seq_1_to_1000")
    chunks = f"SELECT count(*)::text FROM tidelock.tidelock_chunks WHERE feed = '{rig.name}'"
    waiting = (
        "SELECT count(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE '%metadata lock%' AND INFO LIKE "
        f"'SELECT%{rig.schema}%'"
    )
    with Wire(mariadb.port) as wire, closing(mariadb.connect(rig.schema)) as holder:
        rig.source_url = with_port(rig.source_url, wire.port)
        process = rig.run("--until-caught-up")

        def planned() -> bool:
            process.check()
            there = rig.rows("SELECT count(*)::text FROM pg_tables WHERE tablename = 'tidelock_chunks'")[0][0] != "0"
            return there and rig.rows(chunks)[0][0] != "0"

        until(planned, "chunks", 60)
        holder.execute("LOCK TABLES t WRITE", ())
        until(lambda: int(mariadb.execute(waiting)[0][0]) > 0, "Spark waits for its answer", 60)
        held = time.monotonic()
        until(lambda: time.monotonic() - held > LONG_SECONDS, "more than the server may be silent for")
        assert "has not answered" not in rig.said()
        wire.silence()
        until(lambda: "has not answered, and what Spark read" in rig.said(), "the feed says why", 60)
        holder.execute("UNLOCK TABLES", ())
        rig.at_source("DELETE FROM t WHERE id > 500", "INSERT INTO t VALUES (2000, 'meanwhile')")
        wire.speak()
        process.wait(COPY_SECONDS)
    rig.assert_exact()
