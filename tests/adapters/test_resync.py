"""Halts that no feed can read past: what the halt says is done, literally, and then no row differs."""

from __future__ import annotations

from collections.abc import Callable

from bench.rig import Rig
from bench.servers import MariaDb, Server

COPY_SECONDS = 180.0


def test_a_purged_log(make_rig: Callable[..., Rig], make_mariadb: Callable[..., MariaDb], postgres: Server) -> None:
    rig = make_rig(make_mariadb(), postgres, "hole")
    rig.table("account", "id bigint PRIMARY KEY, v int")
    rig.at_source("INSERT INTO account VALUES (1, 1), (2, 2), (3, 3)")
    rig.catch_up()
    rig.at_source("UPDATE account SET v = 22 WHERE id = 2", "DELETE FROM account WHERE id = 3")
    rig.at_source("INSERT INTO account VALUES (4, 4)")
    rig.purge()
    assert rig.catch_up_code() == 4
    assert "tidelock resync" in rig.said()
    said = rig.command("resync", "@", "--yes")
    assert said.code == 0, said
    rig.catch_up(COPY_SECONDS)
    rig.assert_exact()
