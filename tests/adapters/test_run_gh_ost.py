"""gh-ost for real: three migrations of a table that is written to all the while, which a feed follows to the end."""

from __future__ import annotations

import random
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.servers.gh_ost import gh_ost
from bench.harness.session import connect

pytestmark = pytest.mark.proof
ROWS = 5_000
PAUSE_SECONDS = 0.005
SECONDS = 600.0
MIGRATIONS = (
    "ADD COLUMN note varchar(20) NOT NULL DEFAULT 'none', ADD COLUMN w bigint",
    "DROP COLUMN old",
    "ADD INDEX by_v (v), DROP INDEX by_mail",
)


@contextmanager
def written(rig: Rig) -> Iterator[Callable[[], int]]:
    """Has rows inserted, updated and deleted; yields what tells how many changes there were."""
    ended, changes = threading.Event(), [0]

    def write() -> None:
        session, rng = connect(rig.source.url(rig.schema)), random.Random(5)
        while not ended.wait(PAUSE_SECONDS):  # on a small machine the tool would never catch up with more
            number = rng.randrange(1, 2 * ROWS)
            session.send(f"UPDATE orders SET v = v + 1, mail = CONCAT('u', v) WHERE id = {number}")
            session.send(f"INSERT IGNORE INTO orders (id, v, mail) VALUES ({number}, 1, 'm{changes[0]}')")
            session.send(f"DELETE FROM orders WHERE id = {rng.randrange(1, 2 * ROWS)}")
            changes[0] += 1
        session.close()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield lambda: changes[0]
    finally:
        ended.set()
        thread.join()


def migrate(program: str, rig: Rig, folder: Path, alter: str) -> None:
    place = urlsplit(rig.source.url())
    command = [
        program, f"--host={place.hostname}", f"--port={place.port}", f"--user={place.username}",
        f"--password={place.password or ''}", f"--database={rig.schema}", "--table=orders", f"--alter={alter}",
        "--allow-on-master", "--assume-rbr", "--chunk-size=500", "--initially-drop-old-table", "--execute",
        f"--serve-socket-file={folder / 'gh-ost.sock'}",
    ]  # fmt: skip
    with (folder / "gh-ost.log").open("a") as said:
        done = subprocess.run(command, stdout=said, stderr=said, timeout=SECONDS, check=False, cwd=folder)
    assert done.returncode == 0, (folder / "gh-ost.log").read_text()[-4000:]


@pytest.mark.parametrize("target", ["postgres", "mariadb"])
@pytest.mark.parametrize("takes", ["orders", "*"], ids=["shadows-left-out", "shadows-taken"])
def test_three_migrations_under_load(
    request: pytest.FixtureRequest,
    make_rig: Callable[..., Rig],
    mysql: Server,
    target: str,
    takes: str,
    tmp_path: Path,
) -> None:
    rig = make_rig(mysql, request.getfixturevalue(target), "ghost", lanes=2)
    rig.table(
        "orders", "id int PRIMARY KEY, v int, mail varchar(40), old varchar(20), KEY by_mail (mail)",
        "id int PRIMARY KEY, v int, mail varchar(40), old varchar(20)",
    )  # fmt: skip
    rig.rules = [{"source": f"{rig.schema}.{takes}"}]
    values = ",".join(f"({n}, {n}, 'm', 'x')" for n in range(1, ROWS + 1))
    rig.catch_up()
    rig.at_source(f"INSERT INTO orders VALUES {values}")
    process = rig.run()
    with written(rig) as changes:
        for alter in MIGRATIONS:
            before = changes()
            migrate(gh_ost(), rig, tmp_path, alter)
            assert changes() > before
            process.check()
    until(rig.equal, "equal ends", 240)
    process.stop()
    rig.assert_exact()
    here = f"table_schema = '{rig.schema}'"
    columns = rig.rows(f"SELECT column_name FROM information_schema.columns WHERE {here} AND table_name = 'orders'")
    assert {str(name) for (name,) in columns} == {"id", "v", "mail", "note", "w"}
    shadows = rig.rows(f"SELECT table_name FROM information_schema.tables WHERE {here} AND table_name <> 'orders'")
    assert (shadows == []) == (takes == "orders")
