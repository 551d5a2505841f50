"""A target that is put back, while the feed runs, to before the feed was there."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import MariaDb, Server

REFUSED = 1

@pytest.mark.parametrize("kind", ["make_mariadb", "make_postgres"])
def test_a_run_whose_bookkeeping_is_gone_does_not_begin_anew(
    request: pytest.FixtureRequest, make_rig: Callable[..., Rig], mariadb: MariaDb, kind: str
) -> None:
    """At `start: now` all rows of before would be missing, and nobody would know."""
    target: Server = request.getfixturevalue(kind)()
    rig = make_rig(mariadb, target, "gone")
    rig.table("keyed", "id int PRIMARY KEY")
    rig.start_at = "now"
    run = rig.run()
    until(lambda: "running" in rig.said(), "a run")
    rig.at_source("INSERT INTO keyed VALUES (1)")
    until(rig.equal, "equal ends")
    until(lambda: rig.receipts() == 0, "a checkpoint")
    run.signal(signal.SIGSTOP)
    for table in ("owner", "progress", "checkpoint", "runs"):
        rig.at_target(f"DELETE FROM tidelock.tidelock_{table}")
    target.kill()
    target.start()
    run.signal(signal.SIGCONT)
    rig.reconnect()
    rig.at_source("INSERT INTO keyed VALUES (2)")
    assert run.code(60.0) == REFUSED, rig.said()
    assert "bookkeeping" in rig.said()
    assert not rig.rows("SELECT CONCAT(feed, '') FROM tidelock.tidelock_checkpoint")
