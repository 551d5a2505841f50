"""Sources whose log names no columns (`binlog_row_metadata` MINIMAL, NO_LOG): what is known of the tables names them.

Each name stands for its values at the place of the row, or the feed halts and applies nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import MariaDb, MySql, Server
from bench.harness.session import connect
from bench.harness.workers import Workers
from tests.adapters.test_log_identity import RESET
from tests.adapters.test_log_identity import _replicate as replicate
from tidelock.adapters.config.feed_file import load
from tidelock.adapters.mysql.binlog.captured_log import CapturedLog
from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.adapters.wiring.capture_order import order_of

OPERATOR = 4
PROOF = pytest.mark.proof
SOURCES = {
    "mysql": (MySql, ["--binlog-row-metadata=MINIMAL"]),
    "mariadb": (MariaDb, ["--binlog-row-metadata=NO_LOG"]),
    "mariadb-minimal": (MariaDb, ["--binlog-row-metadata=MINIMAL"]),
}
PAIRS = [("mysql", "postgres"), ("mariadb", "mysql")]
OTHERS = [("mysql", "mariadb"), ("mariadb", "postgres"), ("mariadb-minimal", "mysql")]


def at_first(pair: tuple[str, str]) -> list[Any]:
    """All pairs, those but this one in the proof."""
    return [pair, *(pytest.param(other, marks=PROOF) for other in (*PAIRS, *OTHERS) if other != pair)]


def word(pair: tuple[str, str]) -> str:
    return "-to-".join(pair)


@pytest.fixture(scope="module")
def sources() -> Iterator[Callable[[str], Server]]:
    """Servers by their kind, each begun when it is first asked for."""
    made: dict[str, Server] = {}

    def made_once(kind: str) -> Server:
        if kind not in made:
            server, extra = SOURCES[kind]
            made[kind] = server(extra=extra).__enter__()
        return made[kind]

    yield made_once
    for server in made.values():
        server.__exit__(None, None, None)


Make = Callable[..., Rig]


@pytest.fixture
def make(sources: Callable[[str], Server], make_rig: Make, request: pytest.FixtureRequest) -> Make:
    """`make(("mysql", "postgres"))`: a rig whose source names no columns."""

    def made(pair: tuple[str, str], **options: object) -> Rig:
        return make_rig(sources(pair[0]), request.getfixturevalue(pair[1]), "unnamed", lanes=2, **options)

    return made


# ------------------------------------------------------------------ values

KINDS = r"""
id bigint unsigned PRIMARY KEY, t tinyint unsigned, s smallint, m mediumint unsigned, i int unsigned, b bigint,
d decimal(20,4) unsigned, f float unsigned, g double, e enum('a','it''s','back\\slash','ü') CHARACTER SET latin1,
z set('x','y','it''s','w'), l varchar(20) CHARACTER SET latin1, u varchar(30) CHARACTER SET utf8mb4,
c char(9) CHARACTER SET ucs2, x text CHARACTER SET cp1251, y tinytext, by_ varbinary(9), bl blob, bits bit(11),
dt datetime(3), ts timestamp(6) NULL, ti time(2), da date, ye year, fix binary(4) NOT NULL DEFAULT 'abcd'
""".replace("\n", " ")
ROWS = r"""
INSERT INTO kinds VALUES (18446744073709551615, 255, -32768, 16777215, 4294967295, -9223372036854775808,
 '9999999999999999.9999', 1.5, 0.1, 'it''s', 'x,y', 'é', '😀', 'ß', 'Ж', 'short', 'ab', 'cd', b'10101010101',
 '2026-11-27 01:02:03.004', '2026-11-27 01:02:03.000004', '-12:34:56.78', '2026-11-27', 2026, 'wxyz')
INSERT INTO kinds (id, e, z) VALUES (1, 'back\\slash', 'w'), (2, 'ü', ''), (3, NULL, NULL), (4, 'back\\slash', 'w')
UPDATE kinds SET t = 200, l = 'ÿ', e = 'a', z = 'x,y,w' WHERE id = 1
DELETE FROM kinds WHERE id = 2
""".replace("\n ", " ").strip().splitlines()


@pytest.mark.proof
@pytest.mark.parametrize("pair", at_first(PAIRS[0]), ids=word)
def test_values_that_the_log_tells_in_part(pair: tuple[str, str], make: Make) -> None:
    rig = make(pair)
    slash = r"back\\slash" if pair[1] != "postgres" else "back slash"  # whose CHECK of labels has no such sign
    rig.at_source(f"CREATE TABLE kinds ({KINDS})".replace(r"back\\slash", slash))
    rig.tables.append("kinds")
    rig.start_at = rig.here()
    said = rig.command("init", "@", "--apply")
    assert said.code == 0, said
    checked = rig.command("check")
    assert checked.code == 0 and "its log names no columns" in checked.out + checked.err, checked
    rig.at_source(*(row.replace(r"back\\slash", slash) for row in ROWS))
    rig.catch_up()
    rig.assert_exact()


# ------------------------------------------------------------------ statements, all of them read late

CHANGES = """
INSERT INTO t VALUES (1, 10, 20, 'x')
ALTER TABLE t ADD COLUMN n int FIRST, ADD COLUMN k int AFTER a
INSERT INTO t VALUES (1, 2, 11, 12, 21, 'y')
ALTER TABLE t RENAME COLUMN a TO a_
ALTER TABLE t RENAME COLUMN b TO a
ALTER TABLE t RENAME COLUMN a_ TO b
INSERT INTO t VALUES (3, 3, 13, 14, 23, 'z')
UPDATE t SET a = 7 WHERE id = 1
ALTER TABLE t MODIFY a int AFTER id, CHANGE k kk int FIRST
INSERT INTO t (kk, n, id, a, b, w) VALUES (1, 2, 4, 4, 5, 'v')
ALTER TABLE t CHANGE a c int
ALTER TABLE t CHANGE b a int
UPDATE t SET a = 1, c = 2 WHERE id = 2
ALTER TABLE t DROP COLUMN n
INSERT INTO t (id, a, c, kk) VALUES (5, 50, 51, 52)
CREATE TABLE _t_gho LIKE t
ALTER TABLE _t_gho ADD COLUMN o int AFTER kk, DROP COLUMN w
INSERT INTO _t_gho (id, a, c, kk) SELECT id, a, c, kk FROM t
UPDATE t SET kk = 8 WHERE id = 1
REPLACE INTO _t_gho (id, a, c, kk) SELECT id, a, c, kk FROM t WHERE id = 1
RENAME TABLE t TO _t_del, _t_gho TO t
UPDATE t SET o = 9, c = 6 WHERE id = 3
ALTER TABLE t RENAME COLUMN c TO d, DROP COLUMN kk
ALTER TABLE t RENAME COLUMN o TO c, RENAME COLUMN d TO e
DELETE FROM t WHERE id = 5
INSERT INTO t (id, a, c, e) VALUES (6, 60, 61, 62)
CREATE TABLE made (id int PRIMARY KEY, p varchar(9), q varchar(9))
INSERT INTO made VALUES (1, 'p', 'q')
RENAME TABLE made TO held
ALTER TABLE held RENAME COLUMN p TO r
ALTER TABLE held RENAME COLUMN q TO p
INSERT INTO held VALUES (2, 'q', 'p')
CREATE TABLE like_it LIKE held
INSERT INTO like_it VALUES (3, 'q', 'p')
""".strip().splitlines()


def shop(rig: Rig) -> Rig:
    rig.at_source("CREATE TABLE t (id int PRIMARY KEY, a int, b int, w varchar(9))")
    rig.tables.append("t")
    rig.start_at = rig.here()
    rig.rules = [{"source": f"{rig.schema}.{name}"} for name in ("t", "made*", "held*", "like_*")]
    said = rig.command("init", "@", "--apply")
    assert said.code == 0, said
    return rig


@pytest.mark.parametrize("pair", at_first(PAIRS[1]), ids=word)
def test_names_follow_statements_that_are_read_late(pair: tuple[str, str], make: Make) -> None:
    """The catalogue shows the last form alone by then."""
    rig = shop(make(pair))
    rig.catch_up()
    rig.at_source(*CHANGES)
    rig.tables += ["held", "like_it"]
    rig.catch_up()
    rig.assert_exact()


@pytest.mark.proof
@pytest.mark.parametrize("pair", at_first(PAIRS[1]), ids=word)
def test_killed_behind_statements_and_read_again_from_before_them(pair: tuple[str, str], make: Make) -> None:
    rig = shop(make(pair))
    rig.at_source("INSERT INTO t VALUES (8, 80, 81, 'x')")
    rig.catch_up()
    known = rig.rows(FORMS.format(rig.name))
    with held(rig, "t"):
        process = rig.run()
        rig.at_source("INSERT INTO t VALUES (9, 90, 91, 'x')", *CHANGES[1:])
        rig.at_source("INSERT INTO t (id, a, c, e) VALUES (10, 60, 61, 62)")
        until(lambda: len(rig.rows(FORMS.format(rig.name))) >= len(known) + 5, "forms behind what is not applied", 30)
        process.kill()
    rig.tables += ["held", "like_it"]
    rig.catch_up()
    rig.assert_exact()


FORMS = "SELECT form FROM tidelock.tidelock_forms WHERE feed = '{0}'"


@contextmanager
def held(rig: Rig, table: str) -> Iterator[None]:
    """Nothing is written to a table of the target."""
    session = connect(rig.target.url())
    if session.flavor.name == "POSTGRES":
        session.send("BEGIN")
        session.send(f"LOCK TABLE {rig.schema}.{table} IN EXCLUSIVE MODE")
    else:
        session.send(f"LOCK TABLES {rig.schema}.{table} READ")
    try:
        yield
    finally:
        session.close()


SWAP = "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a"


@pytest.mark.proof
def test_names_that_one_statement_exchanges(make: Make) -> None:
    rig = make(PAIRS[0])
    rig.table("t", "id int PRIMARY KEY, a int, b int")
    rig.at_source("INSERT INTO t VALUES (1, 2, 3)")
    rig.catch_up()
    rig.at_source("INSERT INTO t VALUES (2, 2, 3)", SWAP, "UPDATE t SET a = 7 WHERE id = 2")
    rig.at_source("ALTER TABLE t ADD COLUMN c int FIRST", "INSERT INTO t (id, a, b) VALUES (3, 4, 5)")
    rig.catch_up()
    rig.assert_exact()


# ------------------------------------------------------------------ what nobody knows



def halted(rig: Rig, *words: str) -> None:
    assert rig.catch_up_code() == OPERATOR, rig.said()
    _, message, hint, *_ = rig.command("status", "@", "--json").json["halted"]["alarm"]
    assert f"the log does not name the columns of {rig.schema}.t" in message, message
    for told in words:
        assert told in message, message
    assert "SET GLOBAL binlog_row_metadata=FULL" in hint and "`tidelock resync FEED`" in hint, hint


def followed(rig: Rig) -> None:
    """The advice of the halt, as it says."""
    before = rig.source.execute("SELECT @@global.binlog_row_metadata")[0][0]
    rig.at_source("SET GLOBAL binlog_row_metadata=FULL")
    try:
        said = rig.command("resync", "@", "--yes")
        assert said.code == 0, said
        rig.at_source("UPDATE t SET a = a + 1 WHERE id = 1")
        rig.catch_up()
        rig.assert_exact()
    finally:
        rig.at_source(f"SET GLOBAL binlog_row_metadata={before}")


@pytest.mark.parametrize("pair", at_first(PAIRS[0]), ids=word)
def test_a_feed_that_begins_before_a_statement_halts(pair: tuple[str, str], make: Make) -> None:
    rig = make(pair)
    rig.table("t", "id int PRIMARY KEY, a int, b int")
    rig.start_at = rig.here()
    rig.at_source("INSERT INTO t VALUES (1, 2, 3)", SWAP, "INSERT INTO t VALUES (2, 2, 3)")
    halted(rig, "how the table was at this row is not known")
    assert rig.rows(f"SELECT CONCAT(count(*), '') FROM {rig.schema}.t") == [("0",)]
    followed(rig)


@pytest.mark.parametrize("pair", at_first(PAIRS[1]), ids=word)
def test_names_that_a_session_exchanged_which_logs_nothing(pair: tuple[str, str], make: Make) -> None:
    rig = make(pair)
    rig.table("t", "id int PRIMARY KEY, a int, b int")
    rig.start_at = rig.here()
    rig.at_source("INSERT INTO t VALUES (1, 2, 3)")
    rig.catch_up()
    rig.at_source("SET sql_log_bin = 0", SWAP, "SET sql_log_bin = 1", "INSERT INTO t VALUES (2, 2, 3)")
    halted(rig, "by its statements they are id, a, b, and the source has id, b, a")
    assert rig.rows(f"SELECT CONCAT(count(*), '') FROM {rig.schema}.t") == [("1",)]


def test_a_statement_that_mariadb_tells_where_it_begins(make: Make) -> None:
    """Rows of the table of before follow, up to where it is told once more."""
    rig = make(PAIRS[1])
    rig.table("t", "id int PRIMARY KEY, a int, b int")
    rig.start_at = rig.here()
    rig.at_source("SET binlog_alter_two_phase = 1", "ALTER TABLE t MODIFY b int AFTER id")
    rig.at_source("SET binlog_alter_two_phase = 0", "INSERT INTO t VALUES (1, 2, 3)")
    assert rig.catch_up_code() == OPERATOR, rig.said()
    assert "tells an ALTER TABLE where it begins" in rig.said()
    assert "SET GLOBAL binlog_alter_two_phase=OFF" in rig.said()


@pytest.mark.parametrize("pair", at_first(PAIRS[1]), ids=word)
@pytest.mark.parametrize(
    ("unlogged", "row"),
    [
        ("MODIFY a int unsigned NOT NULL, MODIFY b varchar(5)", "INSERT INTO t VALUES (2, 2, 'b')"),
        pytest.param("DROP COLUMN a", "INSERT INTO t VALUES (2, 2)", marks=PROOF),
    ],
    ids=["types", "columns"],
)
def test_a_row_that_contradicts_what_is_known(unlogged: str, row: str, pair: tuple[str, str], make: Make) -> None:
    """The table is as it was again, when the feed reads the row."""
    rig = make(pair)
    rig.table("t", "id int PRIMARY KEY, a int, b int")
    rig.at_source("INSERT INTO t VALUES (1, 2, 3)")
    rig.catch_up()
    again = ("DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY, a int, b int)")
    rig.at_source("SET sql_log_bin = 0", f"ALTER TABLE t {unlogged}", "SET sql_log_bin = 1", row)
    rig.at_source("SET sql_log_bin = 0", *again, "SET sql_log_bin = 1")
    halted(rig, "what is known of the table is not the table of this row")


# ------------------------------------------------------------------ other ways to read a log


def test_a_feed_that_keeps_no_tables_is_refused(make: Make, tmp_path: Path) -> None:
    rig = make(PAIRS[1])
    rig.table("t", "id int PRIMARY KEY, a int, b int")
    rig.target_url = f"hive://{tmp_path}/warehouse"
    said = rig.command("check")
    assert said.code == 1 and "a feed to Hive needs 'FULL'" in said.out + said.err, said
    order = order_of(load(rig.feed), rig.place())
    with closing(CapturedLog(order)) as log, pytest.raises(UnsuitableLog, match="keeps no tables of its source") as why:
        next(log.batches())
    assert "SET GLOBAL binlog_row_metadata=FULL" in why.value.hint


LATE = [f"ALTER TABLE t {clause}" for clause in ("RENAME COLUMN a TO c", "RENAME COLUMN b TO a", "ADD b int FIRST")]


@PROOF
@pytest.mark.parametrize("pair", [*PAIRS, *OTHERS], ids=word)
def test_files_prepared_transactions_and_compressed_ones(pair: tuple[str, str], make: Make) -> None:
    rig = make(pair)
    rig.at_source("CREATE TABLE t (id int PRIMARY KEY, a int, b int)")
    rig.tables.append("t")
    rig.start_at = rig.here()
    assert rig.command("init", "@", "--apply").code == 0
    rig.at_source("INSERT INTO t VALUES (1, 2, 3)")
    rig.catch_up()
    compress = "binlog_transaction_compression = ON" if pair[0] == "mysql" else "GLOBAL log_bin_compress = ON"
    with closing(connect(rig.source.url(rig.schema))) as other:
        for sql in ("XA START 'x'", "INSERT INTO t VALUES (50, 51, 52)", "XA END 'x'", "XA PREPARE 'x'"):
            other.send(sql)
        rig.at_source("FLUSH LOGS", "INSERT INTO t VALUES (2, 3, 4)", f"SET {compress}")
        rig.at_source(f"INSERT INTO t VALUES {', '.join(f'({n}, {n}, -{n})' for n in range(100, 400))}")
        rig.at_source("FLUSH LOGS", "INSERT INTO t VALUES (3, 3, 4)")
        other.send("XA COMMIT 'x'")
    rig.at_source(LATE[0], "FLUSH LOGS", "UPDATE t SET c = 9 WHERE id = 1", *LATE[1:], "FLUSH TABLES")
    rig.at_source("UPDATE t SET a = id + 1000, b = id + 2000", "DELETE FROM t WHERE id = 50")
    if pair[0] != "mysql":
        rig.at_source("SET GLOBAL log_bin_compress = OFF")
    rig.catch_up()
    rig.assert_exact()


@PROOF
@pytest.mark.parametrize("kind", ["mysql", "mariadb"])
def test_another_server_takes_over(kind: str, make_rig: Make, postgres: Server) -> None:
    """Nothing that is known of the first server's log holds for the second one's; its tables are looked at anew."""
    server, extra = SOURCES[kind]
    with server(extra=extra) as first, server(extra=extra) as second:
        for one in (first, second):
            one.execute(RESET[kind])
        rig = make_rig(first, postgres, "unnamed", lanes=2)
        rig.table("t", "id int PRIMARY KEY, a int, b int")
        rig.at_source("INSERT INTO t VALUES (1, 2, 3)")
        rig.catch_up()
        rig.at_source("INSERT INTO t VALUES (2, 2, 3)")
        replicate(kind, first, second)
        second.execute("FLUSH LOGS")
        rig.source = second
        rig.source_url = second.url()
        rig.reconnect()
        rig.at_source("INSERT INTO t VALUES (3, 4, 5)")
        rig.catch_up()
        rig.at_source(LATE[0], "UPDATE t SET c = 9 WHERE id = 1", *LATE[1:], "UPDATE t SET a = 5, b = 6 WHERE id = 2")
        rig.catch_up()
        rig.assert_exact()


@PROOF
@pytest.mark.parametrize("pair", [PAIRS[0], PAIRS[1]], ids=word)
def test_workers(
    pair: tuple[str, str], sources: Callable[[str], Server], make_workers: Callable[..., Workers],
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    """The publisher keeps what is known, and takes it up where it goes on."""
    workers = make_workers(sources(pair[0]), request.getfixturevalue(pair[1]), "unnamed", 2)
    rig = workers.rig
    rig.table("t", "id int PRIMARY KEY, a int, b int")
    rig.at_source("INSERT INTO t VALUES (1, 2, 3)")
    workers.start()
    workers.until_caught_up()
    assert workers.stop() == [0, 0], workers.said()
    rig.at_source("INSERT INTO t VALUES (2, 2, 3)", LATE[0], "UPDATE t SET c = 9 WHERE id = 1", *LATE[1:])
    rig.at_source("UPDATE t SET a = 5, b = 6 WHERE id = 2")
    workers.start()
    workers.until_caught_up()
    rig.at_source("INSERT INTO t VALUES (7, 8, 9, 10)")
    workers.until_caught_up()
    workers.assert_exact()
