"""A feed that is taken away: what is cut off amid it leaves bookkeeping that is whole, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import MariaDb, Server
from bench.harness.session import Flavor, Session, connect
from bench.harness.tidelock import Process

WAITS = {
    Flavor.POSTGRES: "SELECT pid::text FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}%'",
    Flavor.MYSQL: "SELECT id FROM information_schema.processlist WHERE id <> connection_id() AND info LIKE '%{}%'",
}
END = {Flavor.POSTGRES: "SELECT pg_terminate_backend({})", Flavor.MYSQL: "KILL {}"}


class Gate:
    """Statements that would change the feed's checkpoint wait."""

    def __init__(self, admin: Session, table: str) -> None:
        self._admin, self._table = admin, table

    def waiting(self) -> list[str]:
        return [str(number) for (number,) in self._admin.rows(WAITS[self._admin.flavor].format(self._table))]

    def cut_off(self, process: Process) -> None:
        """Ends the process, and the session of its that waits."""
        until(self.waiting, "a statement that waits")
        process.kill()
        for number in self.waiting():
            self._admin.send(END[self._admin.flavor].format(number))
        until(lambda: not self.waiting(), "a session that is gone")


@contextmanager
def gate(rig: Rig, table: str) -> Iterator[Gate]:
    held, admin = connect(rig.target.url()), connect(rig.target.url())
    try:
        held.send("BEGIN")
        held.send(f"UPDATE tidelock.{table} SET feed = feed WHERE feed = '{rig.name}'")
        yield Gate(admin, table)
    finally:
        held.close()
        admin.close()


@pytest.mark.parametrize("kind", ["postgres", pytest.param("mysql", marks=pytest.mark.proof)])
def test_a_removal_that_is_cut_off_leaves_all_of_the_bookkeeping(
    request: pytest.FixtureRequest, make_rig: Callable[..., Rig], mariadb: MariaDb, tmp_path: Path, kind: str
) -> None:
    """With the checkpoint and without its receipts, rows that have no key would be applied twice."""
    target: Server = request.getfixturevalue(kind)
    rig = make_rig(mariadb, target, "cutoff")
    rig.table("bare", "id int, v int")
    rig.catch_up()
    with gate(rig, "tidelock_checkpoint") as checkpoint:
        run = rig.run()
        rig.at_source("INSERT INTO bare VALUES (1, 1), (1, 1)")
        until(rig.equal, "rows at the target")
        checkpoint.cut_off(run)
    assert rig.receipts() == 1, "behind the checkpoint"
    with gate(rig, "tidelock_checkpoint") as checkpoint:
        checkpoint.cut_off(Process(["remove", str(rig.feed), "--apply"], tmp_path / "removal.log"))
    assert (rig.receipts(), rig.epoch()) == (1, 2)
    rig.catch_up()
    rig.assert_exact()
    assert rig.command("remove", "--apply").code == 0
    assert "nothing is left of it" in rig.command("remove").out
