"""A byte of a real server's log that changed on its disk: the feed halts there, and says in which file and where."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, MySql, Server

OPERATOR = 4
SERVERS = ["mariadb", "mysql"]
COMPRESSED = {"mariadb": ["--log-bin-compress=ON", "--log-bin-compress-min-len=10"], "mysql": []}


@pytest.fixture
def rig_at(
    make_mariadb: Callable[..., MariaDb],
    make_mysql: Callable[..., MySql],
    make_rig: Callable[..., Rig],
    postgres: Server,
) -> Callable[..., Rig]:
    """A feed from a server whose log may be damaged; `extra`: its options."""

    def make(server: str, extra: tuple[str, ...] = ()) -> Rig:
        own = {"mariadb": make_mariadb, "mysql": make_mysql}[server](extra=list(extra))
        rig = make_rig(own, postgres, "damaged")
        rig.table("account", "id bigint PRIMARY KEY, email varchar(64), amount int")
        return rig

    return make


def flip(server: Server, file: str, offset: int, mask: int = 1) -> None:
    """One bit of the log file, while nobody writes to it."""
    with log_file(server, file).open("r+b") as log:
        log.seek(offset)
        found = log.read(1)[0]
        log.seek(offset)
        log.write(bytes([found ^ mask]))


def log_file(server: Server, file: str) -> Path:
    return next(server.folder.rglob(file))


def written(rig: Rig) -> tuple[str, bytes]:
    """The name and the bytes of the log file that is being written; a new one is begun after it."""
    file = rig.here().partition(":")[0]
    rig.at_source("FLUSH BINARY LOGS")
    return file, log_file(rig.source, file).read_bytes()


def rows(rig: Rig) -> list[str]:
    return [row[0] for row in rig.rows(f"SELECT id::text FROM {rig.schema}.account ORDER BY id")]


@pytest.mark.parametrize("server", SERVERS)
def test_a_flipped_byte_of_a_value_halts_with_its_place(rig_at: Callable[..., Rig], server: str) -> None:
    rig = rig_at(server)
    rig.at_source("INSERT INTO account VALUES (1, 'before@example.com', 1)", "BEGIN")
    rig.at_source("INSERT INTO account VALUES (2, 'with-it@example.com', 2)")
    begins = len("damaged@exam")
    rig.at_source("INSERT INTO account VALUES (3, 'damaged@example.com', 3)", "COMMIT")
    rig.at_source("INSERT INTO account VALUES (4, 'after@example.com', 4)")
    file, log = written(rig)
    at = log.rindex(b"damaged@example.com") + begins
    flip(rig.source, file, at)
    assert rig.catch_up_code() == OPERATOR, rig.said()
    said = rig.said()
    place = int(re.search(rf"damaged: .* at {file}:(\d+)\. ", said)[1])  # type: ignore[index]
    size = int.from_bytes(log[place + 9 : place + 13], "little")
    assert place < at < place + size, f"the event that holds {at} is not the one at {place}\n{said}"
    assert "checksum" in said and "Traceback" not in said
    assert rows(rig) in ([], ["1"]), "nothing of the damaged transaction is there, or of what came after it"
    flip(rig.source, file, at)
    assert rig.catch_up_code() == 0, rig.said()
    rig.assert_exact()
