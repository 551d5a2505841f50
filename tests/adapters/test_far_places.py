"""Files of a log that are longer than a request for the log can say: they are read on from any place in them.

A small bound stands in for the 32 bits of a request where a file of 4 GiB would be needed; the proof writes one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.harness.decode import read
from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, MySql, Postgres
from tidelock.adapters.mysql import connection as server
from tidelock.adapters.mysql.binlog import far_places, log_ends
from tidelock.adapters.mysql.binlog import prepares as prepares_module
from tidelock.adapters.mysql.binlog.far_places import HEAD
from tidelock.adapters.mysql.connection import Address
from tidelock.adapters.ports.source_errors import LogGap
from tidelock.engine.model.log_batch import SourceChunk
from tidelock.engine.model.records import Position

Origin = MariaDb | MySql
ROTATE_BYTES = 19 + 8 + 4  # and the name of the file that follows


class Source:
    def __init__(self, origin: Origin) -> None:
        self.endpoint = Address(origin.host, origin.port, origin.user, origin.password)
        self.database = origin.database("far_places")
        self.session = server.connect(self.endpoint)
        self.run(f"USE {self.database}", "CREATE TABLE t (id INT PRIMARY KEY, v INT)")

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        return [server.rows(self.session, sql) for sql in statements][-1]

    def prepare(self, xid: str, statement: str) -> None:
        """In a session of its own: one that has prepared can do nothing else."""
        with contextlib.closing(server.connect(self.endpoint)) as session:
            for sql in (f"USE {self.database}", f"XA START {xid}", statement, f"XA END {xid}", f"XA PREPARE {xid}"):
                server.rows(session, sql)

    def here(self) -> Position:
        """Without a GTID set: it is asked for by its offset."""
        place = log_ends.current_position(self.session)
        return Position(place.file, place.offset)

    def read(self, start: Position) -> list[SourceChunk]:
        return list(read(self.endpoint, start, self.here(), wanted=lambda table: table.schema == self.database))


@pytest.fixture(params=["mariadb", "mysql"])
def source(request: pytest.FixtureRequest) -> Iterator[Source]:
    made = Source(request.getfixturevalue(request.param))
    yield made
    made.session.close()


@pytest.fixture
def no_place_can_be_named(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setattr(far_places, "FURTHEST", HEAD)


def keys(chunks: list[SourceChunk]) -> list[int]:
    return [row.after[0] for chunk in chunks for one in chunk.transactions for row in one.rows if row.after is not None]


def test_the_same_comes_from_a_place_that_cannot_be_named(
    source: Source, no_place_can_be_named: Callable[[], None]
) -> None:
    """Into the next file, and inside a transaction."""
    source.run("INSERT INTO t VALUES (1, 1)")
    start = source.here()
    source.run("INSERT INTO t VALUES (2, 2), (3, 3), (4, 4)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (5, 5)")
    inside = Position(start.file, start.offset, rows=2)
    expected = source.read(start), source.read(inside)
    assert keys(expected[0]) == [2, 3, 4, 5] and keys(expected[1]) == [4, 5]
    no_place_can_be_named()
    for place, chunks in zip((start, inside), expected, strict=True):
        again = source.read(place)
        assert [one.transactions for one in again] == [one.transactions for one in chunks]
        assert again[-1].last.proof == chunks[-1].last.proof  # MariaDB may log a checkpoint of its own behind it


def test_rows_that_were_prepared_there(
    source: Source, no_place_can_be_named: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read again where they were prepared."""
    source.run("INSERT INTO t VALUES (1, 1)")
    start = source.here()
    source.prepare("'far'", "INSERT INTO t VALUES (2, 2)")
    source.run("INSERT INTO t VALUES (3, 3)", "XA COMMIT 'far'")
    no_place_can_be_named()
    monkeypatch.setattr(prepares_module, "KEPT_BYTES", 0)
    assert keys(source.read(start)) == [3, 2]


@pytest.mark.parametrize("checksum", [pytest.param("CRC32", marks=pytest.mark.proof), "NONE"])
def test_a_log_without_gtids(
    checksum: str, make_mysql: Callable[..., MySql], no_place_can_be_named: Callable[[], None]
) -> None:
    """And a place that the file does not have is said."""
    options = ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF", f"--binlog-checksum={checksum}"]
    source = Source(make_mysql(extra=options))
    source.run("INSERT INTO t VALUES (1, 1)")
    start = source.here()
    source.run("INSERT INTO t VALUES (2, 2)")
    no_place_can_be_named()
    assert keys(source.read(start)) == [2]
    end = source.here()
    with pytest.raises(LogGap, match=f"ends at {end.offset}, before"):
        source.read(Position(end.file, end.offset + 100))
    source.run("FLUSH BINARY LOGS")
    with pytest.raises(LogGap, match=f"{end.file} ends at"):
        source.read(Position(end.file, end.offset + 1000))
    source.session.close()


@pytest.mark.proof
def test_a_file_of_more_than_4_gib(
    make_mysql: Callable[..., MySql], postgres: Postgres, make_rig: Callable[..., Rig]
) -> None:
    """A feed that begins behind a transaction of 4.3 GiB, which is nobody's, and before what ends its file."""
    source = make_mysql(extra=["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"])
    rig = make_rig(source, postgres, "far")
    rig.table("t", "id bigint PRIMARY KEY, v int")
    rig.rules = [{"source": f"{rig.schema}.t"}]
    rig.at_source("CREATE TABLE large (b longblob) ENGINE=BLACKHOLE")
    piece = "INSERT INTO large VALUES (REPEAT('x', 60 * 1024 * 1024))"
    rig.at_source("BEGIN", *[piece] * 74, "INSERT INTO t VALUES (1, 1)", "COMMIT")
    rig.at_target("INSERT INTO t VALUES (1, 1)")
    (file, size, *_), (following, *_) = source.execute("SHOW BINARY LOGS")[-2:]
    end = int(size) - ROTATE_BYTES - len(str(following))
    assert end > far_places.FURTHEST and following == rig.here().partition(":")[0]
    rig.start_at = f"{file}:{end}"
    rig.at_source("INSERT INTO t VALUES (2, 2)")
    rig.catch_up()
    rig.assert_exact()
