"""Settings that a server gives all sessions, and on which what a session is told depends, or whether it is told."""

from __future__ import annotations

from collections.abc import Callable

from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, Postgres


def test_names_of_types_that_postgres_quotes(
    make_rig: Callable[..., Rig], make_postgres: Callable[..., Postgres]
) -> None:
    server = make_postgres()
    rig = make_rig(server, server, "quoting")
    rig.table("kinds", "id int PRIMARY KEY, b bytea, t timestamptz, i interval, d date, a text[]")
    rig.begin_here()
    server.execute("ALTER ROLE postgres SET quote_all_identifiers = on")
    rig.at_source("INSERT INTO kinds VALUES (1, '\\x00ff', '2024-03-31 01:30+00', '1 day', '2024-02-29', '{a,NULL}')")
    rig.catch_up()
    assert rig.parked() == 0, rig.said()
    assert rig.command("verify").code == 0


def test_a_server_that_bounds_joins(make_rig: Callable[..., Rig], make_mariadb: Callable[..., MariaDb]) -> None:
    source, target = make_mariadb(), make_mariadb()
    rig = make_rig(source, target, "joins")
    rig.table("keyed", "id int PRIMARY KEY, v int")
    for server in (source, target):
        server.execute("SET GLOBAL max_join_size = 1")
    rig.at_source("INSERT INTO keyed VALUES (1, 1), (2, 2)")
    rig.catch_up()
    rig.at_source("UPDATE keyed SET v = 3")
    rig.catch_up()
    assert rig.command("verify").code == 0
