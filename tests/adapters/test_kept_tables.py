"""A target's table that keeps no rows over a crash is refused by each run, also where it was altered later."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, tidelock, until
from bench.harness.servers import MariaDb, MySql, Postgres, Server

REFUSED = 1


@pytest.mark.parametrize(
    ("kind", "altered", "back"),
    [
        (Postgres, "SET UNLOGGED", "SET LOGGED"),
        (MariaDb, "ENGINE=MEMORY", "ENGINE=InnoDB"),
        pytest.param(MySql, "ENGINE=MEMORY", "ENGINE=InnoDB", marks=pytest.mark.proof),
    ],
)
def test_a_table_that_a_crash_empties(
    kind: type[Server],
    altered: str,
    back: str,
    mariadb: MariaDb,
    make_rig: Callable[..., Rig],
    make_server: Callable[..., Server],
) -> None:
    rig = make_rig(mariadb, make_server(kind), "emptied")
    rig.table("item", "id int PRIMARY KEY, v int")
    rig.at_source("INSERT INTO item VALUES (1, 1)")
    rig.catch_up()
    rig.at_target(f"ALTER TABLE item {altered}")
    rig.target.kill()
    rig.target.start()
    rig.reconnect()
    assert rig.rows("SELECT * FROM item") == []
    rig.at_source("INSERT INTO item VALUES (2, 2)")
    assert rig.catch_up_code() == REFUSED, rig.said()
    assert back in rig.said() and f"--table {rig.schema}.item" in rig.said()
    rig.at_target(f"ALTER TABLE item {back}")
    process = rig.run()
    done = tidelock("copy", str(rig.feed), "--table", f"{rig.schema}.item", "--yes", seconds=60.0)
    assert done.code == 0, done
    until(rig.equal, "equal ends")
    process.stop()
    assert rig.differences().total == 0
