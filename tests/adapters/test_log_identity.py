"""A checkpoint names the log that it belongs to: no other is read on from there, be it ever so like it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

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
