"""A checkpoint names the log that it belongs to: no other is read on from there, be it ever so like it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from bench.rig import Rig
from bench.servers import MariaDb, MySql, Postgres, Server

RESET = {"mariadb": "RESET MASTER", "mysql": "RESET BINARY LOGS AND GTIDS"}


@pytest.fixture(scope="module")
def sources() -> Iterator[Callable[[str], Server]]:
    """Servers whose logs are reset: the others must not share them."""
    with ExitStack() as stack:
        started: dict[str, Server] = {}

        def get(scheme: str) -> Server:
            if scheme not in started:
                started[scheme] = stack.enter_context(MariaDb() if scheme == "mariadb" else MySql())
            return started[scheme]

        yield get


def _insert(rig: Rig, first: int, last: int) -> None:
    rig.at_source(*(f"INSERT INTO account VALUES ({n}, 'of {n}')" for n in range(first, last + 1)))


def _stopped_feed(make_rig: Callable[..., Rig], source: Server, target: Server, name: str, **options: object) -> Rig:
    """A feed that has taken some rows and was ended."""
    rig = make_rig(source, target, name, **options)
    rig.table("account", "id int PRIMARY KEY, name varchar(40)")
    _insert(rig, 1, 10)
    rig.catch_up()
    return rig


def _insert_more(rig: Rig, source: Server, first: int, last: int) -> None:
    """Where the server was restarted, or is another."""
    for n in range(first, last + 1):
        source.execute(f"INSERT INTO {rig.schema}.account VALUES ({n}, 'of {n}')")


def _checkpoint(rig: Rig) -> list[Any]:
    stored = rig.rows(f"SELECT position FROM tidelock.tidelock_checkpoint WHERE feed='{rig.name}'")
    found: list[Any] = json.loads(stored[0][0])
    return found


def _forget_proof(rig: Rig) -> None:
    """As a version before stored it."""
    words = json.dumps(_checkpoint(rig)[:4])
    rig.at_target(f"UPDATE tidelock.tidelock_checkpoint SET position = '{words}' WHERE feed='{rig.name}'")


def _assert_halted(rig: Rig, *words: str) -> None:
    assert rig.catch_up_code() == 4, rig.said()[-2000:]
    said = rig.said()
    for word in ("is not the one", "tidelock resync", *words):
        assert word in said, said[-2000:]


@pytest.mark.parametrize("rows", [30, 3], ids=["longer", "shorter"])
@pytest.mark.parametrize("scheme", ["mariadb", "mysql"])
def test_a_log_that_was_reset_halts(
    sources: Callable[[str], Server], postgres: Postgres, make_rig: Callable[..., Rig], scheme: str, rows: int
) -> None:
    source = sources(scheme)
    rig = _stopped_feed(make_rig, source, postgres, "reset")
    source.execute(RESET[scheme])
    _insert(rig, 11, 10 + rows)
    _assert_halted(rig)


@pytest.mark.parametrize("scheme", ["mariadb", "mysql"])
def test_a_log_that_was_reset_before_the_first_row_halts(
    sources: Callable[[str], Server], postgres: Postgres, make_rig: Callable[..., Rig], scheme: str
) -> None:
    """`init` fixes where the feed begins; then the log is reset, and longer than it was."""
    source = sources(scheme)
    rig = make_rig(source, postgres, "init", start="now")
    rig.table("account", "id int PRIMARY KEY, name varchar(40)")
    said = rig.command("init", "@", "--apply")
    assert said.code == 0, said
    source.execute(RESET[scheme])
    _insert(rig, 1, 30)
    assert rig.catch_up_code() == 1  # `check` comes before a first run
    assert "is not the one" in rig.said() and "tidelock resync" in rig.said()


@pytest.mark.parametrize("scheme", ["mariadb", "mysql"])
def test_a_checkpoint_of_an_older_version_is_adopted_with_a_word(
    sources: Callable[[str], Server], postgres: Postgres, make_rig: Callable[..., Rig], scheme: str
) -> None:
    source = sources(scheme)
    rig = _stopped_feed(make_rig, source, postgres, "upgrade")
    proof = _checkpoint(rig)[4]
    assert proof
    _forget_proof(rig)
    rig.catch_up()
    assert "does not say which log it belongs to" in rig.said()
    assert json.loads(_checkpoint(rig)[4])[2][:3] == json.loads(proof)[2][:3], "the last transaction is the same"
    rig.assert_exact()
    source.execute(RESET[scheme])
    _insert(rig, 11, 40)
    _assert_halted(rig)


@pytest.mark.parametrize("scheme", ["mariadb", "mysql"])
def test_what_is_ordinary_goes_on(
    make_mariadb: Callable[..., Server],
    make_mysql: Callable[..., Server],
    postgres: Postgres,
    make_rig: Callable[..., Rig],
    scheme: str,
) -> None:
    """Restart, rotation, another checksum, files purged that are behind the checkpoint, its own file among them."""
    source = make_mariadb() if scheme == "mariadb" else make_mysql()
    rig = _stopped_feed(make_rig, source, postgres, "ordinary")
    source.restart()
    rig.reconnect()
    rig.catch_up()  # nothing but a new file
    _insert(rig, 11, 12)
    rig.at_source("SET GLOBAL binlog_checksum=NONE")
    rig.catch_up()
    rig.purge()
    rig.catch_up()
    _insert(rig, 13, 14)
    rig.at_source("FLUSH LOGS", "FLUSH LOGS")
    rig.catch_up()
    rig.assert_exact()
    rig.purge()
    rig.purge()
    _insert(rig, 15, 16)
    rig.catch_up()
    rig.assert_exact()
