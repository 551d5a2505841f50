"""A spoke's server loses its last commits, which the arbiter has (history 12): the advice lets both go on."""

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.harness.pair_file import Pair
from bench.harness.rig import Said, tidelock, until
from bench.harness.servers import MariaDb, MySql, Postgres, Server

OPERATOR = 4
SECONDS = 180.0
pytestmark = [pytest.mark.proof, pytest.mark.timeout(1500)]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Callable[..., Pair]]:
    made: list[Pair] = []

    def make(servers: Mapping[str, Server], **options: Any) -> Pair:
        conflicts = {"arbiter": "eu", "default": "arbiter"}
        made.append(Pair(tmp_path, servers, ["eu-us"], conflicts=conflicts, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def backed_up(both: Pair, folder: Path) -> Path:
    """A copy of the spoke's data, of this moment."""
    server = both["us"].server
    backup = folder / "backup"
    server.stop()
    subprocess.run(["cp", "-a", str(server.data), str(backup)], check=True)
    server.start()
    both["us"].reconnect()
    return backup


def put_back(both: Pair, backup: Path, *, recover: bool = False) -> None:
    """The spoke's server ends without a word, and all it wrote since the backup is gone.  `recover`: PostgreSQL begins
    a timeline."""
    server = both["us"].server
    server.kill()
    subprocess.run(["rm", "-rf", str(server.data)], check=True)
    subprocess.run(["cp", "-a", str(backup), str(server.data)], check=True)
    if recover:
        signal = server.data / "recovery.signal"
        signal.touch()
        shutil.chown(signal, *server.accounts, *server.accounts)
    server.start()
    if recover:
        until(lambda: server.execute("SELECT pg_is_in_recovery()") == [(False,)], "a server that takes writes")
    both["us"].reconnect()


def begun(pair: Callable[..., Pair], eu: Server, us: Server) -> Pair:
    """Both have rows of both."""
    both = pair({"eu": eu, "us": us})
    both["us"].send("DROP TABLE note")
    both["eu"].write(range(3))
    assert both.begin("eu").code == 0
    both["us"].write(range(6))
    catch_up(both)
    return both


def catch_up(both: Pair) -> None:
    """Both feeds run to the end of the logs, and once more, as what comes to the arbiter may go back."""
    for _ in range(2):
        said = both.command("run", "--until-caught-up")
        assert said.code == 0, said
    assert both["us"].notes() == both["eu"].notes()


def lose(both: Pair, backup: Path, *, running: bool, recover: bool = False) -> None:
    """The arbiter has all that the spoke loses: rows that it made, changed and deleted.  `running`: the feeds are."""
    us, first = both["us"], both["us"].first
    if running:
        both.start()
    us.write(range(10, 16))
    us.send(f"DELETE FROM note WHERE id = {first}", f"UPDATE note SET word = 'lost' WHERE id = {first + 1}")
    both["eu"].write(range(10, 13))
    if running:
        until(both.equal, "all at both", SECONDS)
    else:
        catch_up(both)
    put_back(both, backup, recover=recover)
    us.write(range(20, 26))
    us.send(f"UPDATE note SET n = 77 WHERE id = {first + 3}")


@pytest.mark.parametrize(("eu", "scheme"), [("mysql", "mariadb"), ("mariadb", "mysql"), ("postgres_source", "mariadb")])
def test_a_spoke_that_lost_commits_gets_them_back(
    eu: str,
    scheme: str,
    request: pytest.FixtureRequest,
    make_mariadb: Callable[..., MariaDb],
    make_mysql: Callable[..., MySql],
    pair: Callable[..., Pair],
    tmp_path: Path,
) -> None:
    """And what it wrote since goes to the arbiter, though its transactions have the numbers of those that it lost.  The
    log of PostgreSQL, kept for the slot, does not go back to what the spoke has of it, so the tables are copied."""
    both = begun(pair, request.getfixturevalue(eu), (make_mariadb if scheme == "mariadb" else make_mysql)())
    lose(both, backed_up(both, tmp_path), running=False)
    from_us = ("run", "--until-caught-up", "--only", f"{both.schema}-us-eu")
    halted = both.command(*from_us)
    assert halted.code == OPERATOR and "tidelock pair rewound" in halted.out + halted.err, halted
    shown = both.command("rewound", "us")
    assert shown.code == 0 and "--apply does it" in shown.out, shown
    assert both.command(*from_us).code == OPERATOR, "nothing was done"
    done = both.command("rewound", "us", "--apply")
    copied = eu == "postgres_source"
    words = "then has us get the arbiter's rows anew" if copied else "sends back what was lost by itself"
    assert done.code == 0 and words in done.out, done
    follow(both, done.out)
    catch_up(both)
    us = both["us"]
    words = {row[0]: row[1:] for row in us.notes()}
    assert str(us.first) not in words and words[str(us.first + 1)] == ("lost", "2")
    assert words[str(us.first + 3)][1] == "77" and str(us.first + 10) in words and str(us.first + 21) in words
    again = both.command("rewound", "us")
    assert again.code != 0 and "holds all that" in again.out + again.err


def postgres_spoke(make_postgres: Callable[..., Postgres]) -> Postgres:
    """A server that may be put back from a copy of its files, and recovers by what log is in it."""
    return make_postgres(extra=["-c", "restore_command=false"])


@pytest.mark.parametrize("eu", ["mariadb", "postgres_source"])
def test_a_spoke_that_began_a_timeline_gets_back_what_it_lost(
    eu: str,
    request: pytest.FixtureRequest,
    make_postgres: Callable[..., Postgres],
    pair: Callable[..., Pair],
    tmp_path: Path,
) -> None:
    """PostgreSQL's history says where that left the one before, and its slot has kept the log from there."""
    both = begun(pair, request.getfixturevalue(eu), postgres_spoke(make_postgres))
    lose(both, backed_up(both, tmp_path), running=False, recover=True)
    halted = both.command("run", "--until-caught-up", "--only", f"{both.schema}-us-eu")
    assert halted.code == OPERATOR and "tidelock pair rewound" in halted.out + halted.err, halted
    done = both.command("rewound", "us", "--apply")
    assert done.code == 0 and "with what us has written since" in done.out, done
    follow(both, done.out)
    catch_up(both)
    us = both["us"]
    words = {row[0]: row[1:] for row in us.notes()}
    assert str(us.first) not in words and words[str(us.first + 1)] == ("lost", "2")
    assert words[str(us.first + 3)][1] == "77" and str(us.first + 10) in words and str(us.first + 21) in words


def resync(both: Pair) -> None:
    said = tidelock("resync", f"{both.file}#{both.schema}-eu-us", "--yes", seconds=SECONDS)
    assert said.code == 0, said


@pytest.mark.parametrize("slot", [True, False])
def test_a_spoke_of_which_nobody_can_tell_what_it_lost_gets_the_arbiters_rows(
    slot: bool, mariadb: MariaDb, make_postgres: Callable[..., Postgres], pair: Callable[..., Pair], tmp_path: Path
) -> None:
    """A copy of its files that is started as it is uses places again; one that recovered has lost its `slot`."""
    both = begun(pair, mariadb, postgres_spoke(make_postgres))
    lose(both, backed_up(both, tmp_path), running=False, recover=not slot)
    us, first = both["us"], both["us"].first
    if not slot:
        us.send(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()"
        )
    halted = both.command("run", "--until-caught-up", "--only", f"{both.schema}-us-eu")
    assert halted.code == OPERATOR and "tidelock pair rewound" in halted.out + halted.err, halted
    untold = both.command("rewound", "us", "--apply")
    assert untold.code != 0 and "--arbiters-rows" in untold.err, untold
    report = both.folder / "report.json"
    tidelock("verify", f"{both.file}#{both.schema}-eu-us", "--report", str(report), "--wait", "0", seconds=SECONDS)
    assert str(first + 21) in report.read_text(), "what is given up is shown before"
    shown = both.command("rewound", "us", "--arbiters-rows")
    assert shown.code == 0 and "--apply does it" in shown.out, shown
    done = both.command("rewound", "us", "--arbiters-rows", "--apply")
    assert done.code == 0 and f"tidelock resync {both.file}#{both.schema}-eu-us" in done.out, done
    resync(both)
    catch_up(both)
    words = {row[0]: row[1:] for row in us.notes()}
    assert words[str(first + 1)] == ("lost", "2") and str(first + 10) in words and str(first + 21) not in words
    us.write(range(30, 33))
    catch_up(both)
    assert str(first + 30) in {row[0] for row in both["eu"].notes()}


@pytest.mark.parametrize("eu", ["postgres_source", "mysql"])
def test_a_spoke_that_lost_commits_while_its_feeds_ran(
    eu: str,
    request: pytest.FixtureRequest,
    make_mariadb: Callable[..., MariaDb],
    pair: Callable[..., Pair],
    tmp_path: Path,
) -> None:
    """The feed to it went on, so rows are compared; the advice followed makes both equal."""
    both = begun(pair, request.getfixturevalue(eu), make_mariadb())
    lose(both, backed_up(both, tmp_path), running=True)
    assert both.supervisor is not None
    until(lambda: "tidelock pair rewound" in both.said(), "the halt", SECONDS)
    both["eu"].write(range(20, 23))
    both.supervisor.kill()
    both.supervisor = None
    done = list[Said]()

    def rewound() -> bool:
        done.append(both.command("rewound", "us", "--apply"))
        return done[-1].code == 0

    until(rewound, "runs that are seen to be over", SECONDS)
    follow(both, done[-1].out)
    catch_up(both)
    assert str(both["us"].first + 21) in {row[0] for row in both["us"].notes()}


def follow(both: Pair, said: str) -> None:
    """Does what `pair rewound` has said of the feed to the spoke."""
    if "cannot go on at the place" in said:
        assert both.command("run", "--until-caught-up", "--only", f"{both.schema}-us-eu").code == 0
        resync(both)
    if "set `echo: all`" in said:
        both.options["conflicts"] = {"arbiter": "eu", "default": "arbiter", "echo": "all"}
        run = both.start()
        until(lambda: _repaired(both), "equal rows", SECONDS)
        run.stop()
        both.supervisor = None


def _repaired(both: Pair) -> bool:
    """One more comparison, and repair of what it finds."""
    name = f"{both.schema}-eu-us"
    report = both.folder / "report.json"
    tidelock("verify", f"{both.file}#{name}", "--report", str(report), seconds=SECONDS)
    tidelock("repair", f"{both.file}#{name}", "--from-report", str(report), "--yes", seconds=SECONDS)
    return both.equal()
