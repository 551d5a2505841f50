"""Halts that no feed can read past: what the halt says is done, literally, and then no row differs.

Each cause leaves a hole behind the checkpoint in which rows came, went and changed, before the halting event and behind
it.  The causes share one pair of servers.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.harness.rig import Rig, tidelock, until
from bench.harness.servers import MariaDb, MySql, Server

COPY_SECONDS = 180.0
TABLE_MAP, WRITE_ROWS, INCIDENT, UNKNOWN = 19, (23, 30, 166), 26, 99
HEADER = struct.Struct("<IBIIIH")  # time, type, server, size, end, flags


@pytest.fixture(scope="module")
def torn() -> Iterator[MariaDb]:
    """A source whose log is torn on purpose; compressed nowhere, with checksums."""
    with MariaDb() as server:
        yield server


def by_statement(rig: Rig) -> None:
    rig.at_source("SET SESSION binlog_format=STATEMENT", "UPDATE account SET v = v + 1")
    rig.at_source("SET SESSION binlog_format=ROW")


def minimal(rig: Rig) -> None:
    rig.at_source("SET SESSION binlog_row_image=MINIMAL", "UPDATE account SET v = 7 WHERE id = 1")
    rig.at_source("SET SESSION binlog_row_image=FULL")


def without_names(rig: Rig) -> None:
    """The row's table was another one, by a session that logs nothing."""
    rig.at_source("SET GLOBAL binlog_row_metadata=MINIMAL")
    rig.at_source("SET sql_log_bin=0", "ALTER TABLE account MODIFY v smallint", "SET sql_log_bin=1")
    rig.at_source("UPDATE account SET v = 7 WHERE id = 1", "SET GLOBAL binlog_row_metadata=FULL")
    rig.at_source("SET sql_log_bin=0", "ALTER TABLE account MODIFY v int", "SET sql_log_bin=1")


def rolled_back(rig: Rig) -> None:
    """MariaDB logs all of it, and that it is undone, where a temporary table was made in it."""
    rig.at_source("START TRANSACTION", "UPDATE account SET v = 9", "CREATE TEMPORARY TABLE t (id int)", "ROLLBACK")


def purged(rig: Rig) -> None:
    rig.at_source("UPDATE account SET v = 7 WHERE id = 1")
    rig.purge()


def prepared_and_purged(rig: Rig) -> None:
    """The rows of a two-phase transaction go with the log before it is committed; the checkpoint is behind them."""
    with contextlib.closing(rig.source.connect(rig.schema)) as session:
        change = "UPDATE account SET v = 8 WHERE id = 1"
        for sql in ("XA START 'purged'", change, "XA END 'purged'", "XA PREPARE 'purged'"):
            session.execute(sql, ())
    rig.at_source("FLUSH LOGS", "INSERT INTO account VALUES (60, 60)")
    rig.catch_up()
    rig.purge_before_here()
    rig.at_source("XA COMMIT 'purged'")


def begun_anew(rig: Rig) -> None:
    """Its first transactions get the numbers of others that are applied."""
    rig.at_source("RESET MASTER", "UPDATE account SET v = 7 WHERE id = 1")


def incident(rig: Rig) -> None:
    """The server found that it could not write all to its log."""
    become(rig, INCIDENT)


def of_a_later_version(rig: Rig) -> None:
    """Writes an event of a type that no server writes yet."""
    become(rig, UNKNOWN)


def become(rig: Rig, kind: int) -> None:
    """An event of a row that is inserted now is one of this type, with a checksum that fits."""
    file, at, event = event_of(rig, TABLE_MAP)
    changed = event[:4] + bytes([kind]) + event[5:-4]
    rewrite(file, at, changed + struct.pack("<I", zlib.crc32(changed)))


def damaged(rig: Rig) -> None:
    """One bit of a row, on the disk."""
    file, at, event = event_of(rig, *WRITE_ROWS)
    rewrite(file, at, event[:-6] + bytes([event[-6] ^ 1]) + event[-5:])


def event_of(rig: Rig, *kinds: int) -> tuple[Path, int, bytes]:
    """The first event of these kinds in the log of a row that is inserted now: its file, offset and bytes."""
    name, _, offset = rig.here().partition(":")
    rig.at_source("INSERT INTO account VALUES (50, 50)")
    file, at = rig.source.data / name, int(offset)
    log = file.read_bytes()
    while True:
        _, kind, _, size, _, _ = HEADER.unpack_from(log, at)
        if kind in kinds:
            return file, at, log[at : at + size]
        at += size


def rewrite(file: Path, at: int, event: bytes) -> None:
    with file.open("r+b") as log:
        log.seek(at)
        log.write(event)


CAUSES = {
    "by statement": (by_statement, "as a statement"),
    "minimal images": (minimal, "only some columns"),
    "columns without names": (without_names, "does not name the columns"),
    "rolled back in the log": (rolled_back, "rolled back"),
    "purged": (purged, "does not hold the position"),
    "a prepare that is purged": (prepared_and_purged, "prepared before the log begins"),
    "a log begun anew": (begun_anew, "is not the one"),
    "an incident": (incident, "INCIDENT"),
    "an unknown event": (of_a_later_version, "is not understood"),
    "a flipped bit": (damaged, "is damaged"),
}


FOLLOWED = ("rolled back in the log", "a log begun anew", "a flipped bit")  # by `make test`; the others by `make proof`
OTHERS = [cause for cause in CAUSES if cause not in FOLLOWED]


def halted(cause: str, torn: MariaDb, postgres: Server, make_rig: Callable[..., Rig]) -> Rig:
    """A feed that this cause has halted, and whose halt names the way out."""
    tear, words = CAUSES[cause]
    rig = make_rig(torn, postgres, "torn")
    rig.table("account", "id bigint PRIMARY KEY, v int")
    rig.table("note", "id bigint PRIMARY KEY, v int")
    rig.at_source("ALTER TABLE note ENGINE=MyISAM")
    rig.start_at = rig.here()
    rig.at_source("INSERT INTO account VALUES (1, 1), (2, 2), (3, 3)", "INSERT INTO note VALUES (1, 1), (2, 2)")
    rig.catch_up()
    rig.at_source("DELETE FROM account WHERE id = 3", "INSERT INTO account VALUES (4, 4)")
    tear(rig)
    rig.at_source("DELETE FROM account WHERE id = 2", "UPDATE note SET v = 22 WHERE id = 2")
    assert rig.catch_up_code() == 4
    _, message, hint, *_ = rig.command("status", "@", "--json").json["halted"]["alarm"]
    assert words in message and "`tidelock resync FEED`" in hint, (message, hint)
    return rig


@pytest.mark.parametrize("cause", OTHERS)
def test_a_halt_names_the_way_out(cause: str, torn: MariaDb, postgres: Server, make_rig: Callable[..., Rig]) -> None:
    halted(cause, torn, postgres, make_rig)


@pytest.mark.parametrize("cause", [*FOLLOWED, *(pytest.param(one, marks=pytest.mark.proof) for one in OTHERS)])
def test_the_advice_of_a_halt(cause: str, torn: MariaDb, postgres: Server, make_rig: Callable[..., Rig]) -> None:
    rig = halted(cause, torn, postgres, make_rig)
    rig.start_at = "copy"
    assert rig.catch_up_code() == 4, "the halt stays until its advice is followed"
    assert "`start: copy` is for a first run" in rig.said()
    said = rig.command("resync", "@", "--yes")
    assert said.code == 0 and "2 tables to be copied" in said.out, said
    rig.at_source("INSERT INTO account VALUES (5, 5)")
    rig.catch_up(COPY_SECONDS)
    rig.assert_exact()
    assert rig.command("status", "@", "--json").json["halted"] is None


@pytest.mark.proof
def test_a_resync_through_a_missing_java_and_a_sigkill(
    mysql: MySql, other_mysql: MySql, make_rig: Callable[..., Rig]
) -> None:
    """Nothing is applied before the copy has begun, nothing is caught up before it is done; parked rows go."""
    rig = make_rig(mysql, other_mysql, "stuck", copy={"chunk_rows": 1000})
    rig.table("account", "id bigint PRIMARY KEY, v int")
    rig.table("parent", "id bigint PRIMARY KEY")
    rig.table("child", "id bigint PRIMARY KEY, p bigint, FOREIGN KEY (p) REFERENCES parent (id)")
    rig.start_at = rig.here()
    numbers = ", ".join(f"({n}, {n})" for n in range(1, 4001))
    rig.at_source(f"INSERT INTO account VALUES {numbers}")
    rig.at_source("INSERT INTO parent VALUES (1)", "INSERT INTO child VALUES (1, 1)")
    rig.catch_up()
    rig.at_target(f"ALTER TABLE {rig.schema}.account ADD CHECK (v <> 5000)")
    rig.at_source("INSERT INTO account VALUES (5000, 5000)")
    assert rig.catch_up_code() == 4 and rig.parked() == 1
    rig.at_target(f"ALTER TABLE {rig.schema}.account DROP CHECK account_chk_1")
    rig.at_source("DELETE FROM account WHERE id <= 100", "INSERT INTO account VALUES (6000, 6000)")
    rig.purge()
    rig.at_source("INSERT INTO account VALUES (7000, 7000)")
    assert rig.catch_up_code() == 4
    one = rig.command("resync", "@", "--table", f"{rig.schema}.account", "--yes")
    assert one.code == 2 and "any of its tables" in one.err, one
    asked = rig.command("resync", "@")
    assert asked.code == 2 and "--yes" in asked.err and f"{rig.schema}.child" in asked.err, asked
    assert rig.catch_up_code() == 4, "nothing was done"
    assert rig.command("resync", "@", "--yes").code == 0
    assert rig.parked() == 0
    rig.at_source("INSERT INTO account VALUES (8000, 8000)")

    rig.output = rig.folder / "without-java.log"
    rig.options["spark"] = {"small_rows": 1000}
    assert rig.catch_up_code({"PATH": "/nowhere", "JAVA_HOME": "/nowhere"}) == 1
    assert "nothing runs without it" in rig.said(), rig.said()
    assert rig.rows("SELECT CONCAT(count(*), '') FROM account WHERE id >= 6000") == [("0",)]
    refused = tidelock("resync", str(rig.feed), "--yes", environment={"JAVA_HOME": "/nowhere"})
    assert refused.code == 1 and "larger tables are copied by Spark" in refused.err, refused

    del rig.options["spark"]
    not_yet = "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'not yet'"
    rig.at_target(f"CREATE TRIGGER {rig.schema}.wait BEFORE INSERT ON {rig.schema}.child FOR EACH ROW {not_yet}")
    process = rig.run("--until-caught-up")
    until(lambda: merged(rig) > 0 and "not yet" in rig.said(), "merged chunks, and one that is not", COPY_SECONDS)
    process.kill()
    rig.at_target(f"DROP TRIGGER {rig.schema}.wait")
    again = rig.command("resync", "@", "--yes")
    assert again.code == 0, again
    rig.catch_up(COPY_SECONDS)
    rig.assert_exact()


@pytest.mark.proof
def test_a_source_without_gtids_is_resynced_from_a_place_in_a_file(
    make_mysql: Callable[..., MySql], postgres: Server, make_rig: Callable[..., Rig]
) -> None:
    """Its copy locks each table for a moment, so a user who may not is told before anything is moved."""
    source = make_mysql(extra=["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"])
    rig = make_rig(source, postgres, "plain")
    rig.table("account", "id bigint PRIMARY KEY, v int")
    rig.at_source("INSERT INTO account VALUES (1, 1), (2, 2)")
    rig.start_at = rig.here()
    rig.catch_up()
    rig.at_source("UPDATE account SET v = 7")
    rig.purge()
    rig.at_source("INSERT INTO account VALUES (3, 3)")
    assert rig.catch_up_code() == 4
    rig.at_source(
        "CREATE USER poor IDENTIFIED BY 'p'", "GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO poor"
    )
    rig.options["source"] = source.url().replace("root@", "poor:p@")
    denied = rig.command("resync", "@", "--yes")
    assert denied.code == 1 and f"GRANT LOCK TABLES ON `{rig.schema}`.* TO" in denied.err, denied
    assert rig.catch_up_code() == 4, "nothing was moved"
    rig.at_source(f"GRANT LOCK TABLES ON `{rig.schema}`.* TO poor")
    with contextlib.closing(source.connect(rig.schema)) as other:
        other.execute("BEGIN", ())
        other.execute("UPDATE account SET v = 9 WHERE id = 1", ())  # the lock is not given meanwhile
        said = rig.command("resync", "@", "--yes")
        other.execute("ROLLBACK", ())
    assert said.code == 0 and "1 table to be copied" in said.out, said
    rig.at_source("INSERT INTO account VALUES (4, 4)")
    rig.catch_up(COPY_SECONDS)
    rig.assert_exact()


def merged(rig: Rig) -> int:
    chunks = f"SELECT CONCAT(count(*), '') FROM tidelock.tidelock_chunks WHERE feed='{rig.name}' AND rows_merged > 0"
    return int(rig.rows(chunks)[0][0])


def test_a_feed_that_runs_or_cannot_be_copied_is_not_moved(
    mariadb: Server, postgres: Server, make_rig: Callable[..., Rig]
) -> None:
    rig = make_rig(mariadb, postgres, "moved")
    rig.table("one", "id bigint PRIMARY KEY, other bigint")
    never = rig.command("resync", "@", "--yes")
    assert never.code == 1 and rig.name in never.err, never
    process = rig.run()
    until(lambda: rig.command("status", "@", "--json").json["epoch"] == 1, "the run")
    running = rig.command("resync", "@", "--yes")
    assert running.code == 1 and "runs already" in running.err and "--take-over" not in running.err, running
    process.stop()
    before = rig.rows(f"SELECT position FROM tidelock.tidelock_checkpoint WHERE feed='{rig.name}'")

    rig.table("two", "id bigint PRIMARY KEY, other bigint, FOREIGN KEY (other) REFERENCES one (id)")
    key = "ADD CONSTRAINT cycle FOREIGN KEY (other) REFERENCES two (id)"
    rig.at_source(f"ALTER TABLE one {key}")
    rig.at_target(f"ALTER TABLE one {key}")
    cycle = rig.command("resync", "@", "--yes")
    assert cycle.code == 1 and "cycle of foreign keys" in cycle.err, cycle
    rig.at_target("ALTER TABLE one DROP CONSTRAINT cycle", "ALTER TABLE two DROP COLUMN other")
    other = rig.command("resync", "@", "--yes")
    assert other.code == 1 and "other" in other.err and "ALTER TABLE" in other.err, other
    assert rig.rows(f"SELECT position FROM tidelock.tidelock_checkpoint WHERE feed='{rig.name}'") == before
