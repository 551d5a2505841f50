"""The instruments that every claim of exactness rests on, against real servers: each must also be able to fail."""

import random
import threading
from collections.abc import Callable, Iterator

import pymysql
import pytest
from pymysql.constants import CLIENT

from bench.harness.compare import NotComparable, Pair, compare
from bench.harness.recorder import Event, Recorder, Rule, check
from bench.harness.servers import MariaDb, MySql, Postgres, Server
from bench.harness.session import Flavor, Session, connect
from bench.harness.workload.churn import Churn
from bench.harness.workload.family import Family
from bench.harness.workload.keyless import Keyless
from bench.harness.workload.mix import Mix
from bench.harness.workload.several import Several
from bench.harness.workload.shop import Shop
from bench.harness.workload.workload import Workload

CHANGES = 3000


def several() -> Several:
    return Several(Mix(), Churn(), Family(), Mix(table="other"))


EVERY = [Mix, Churn, Family, Shop, Keyless, several]
KEYED = [Mix, Churn, Family, Shop, several]


@pytest.fixture(params=["mariadb", "mysql", "postgres"])
def server(request: pytest.FixtureRequest) -> Server:
    """Each of the three, as a target."""
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def target(server: Server) -> Iterator[Session]:
    session = connect(server.url())
    yield session
    session.close()


def schema(session: Session, name: str) -> str:
    """An empty schema (PostgreSQL) or database, made the session's own."""
    session.send(f"DROP SCHEMA IF EXISTS {name}{' CASCADE' if session.flavor is Flavor.POSTGRES else ''}")
    session.send(f"CREATE SCHEMA {name}")
    session.send(f"SET search_path = {name}" if session.flavor is Flavor.POSTGRES else f"USE {name}")
    return name


def loaded(server: Server, workload: Workload, changes: int = CHANGES) -> str:
    """The database in which the workload ran."""
    database = server.database(workload.name)
    session = connect(server.url(database))
    for statement in workload.ddl(session.flavor):
        session.send(statement)
    workload.run(session, changes, seed=7)
    session.close()
    return database


@pytest.mark.parametrize("kind", EVERY)
def test_the_same_seed_makes_the_same_transactions(kind: Callable[[], Workload]) -> None:
    first, again, other = ([t.statements for t in kind().transactions(CHANGES, seed)] for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("kind", EVERY)
def test_half_of_the_changes_are_in_one_row_transactions(kind: Callable[[], Workload]) -> None:
    sizes = [len(transaction.kinds) for transaction in kind().transactions(CHANGES, 1)]
    assert sum(sizes) == CHANGES
    assert sizes.count(1) == CHANGES // 2
    assert sizes.count(50) == CHANGES // 100


@pytest.mark.proof
@pytest.mark.parametrize("kind", EVERY)
def test_mariadb_and_mysql_end_with_the_same_rows(kind: Callable[[], Workload], mariadb: MariaDb, mysql: MySql) -> None:
    workload = kind()
    one, two = loaded(mariadb, workload), loaded(mysql, kind())
    differences = compare(mariadb, mysql, [Pair(f"{one}.{table}", f"{two}.{table}") for table in workload.tables])
    assert differences.total == 0, differences
    assert differences.matched > 100


@pytest.mark.parametrize("kind", [*KEYED[:2], *(pytest.param(kind, marks=pytest.mark.proof) for kind in KEYED[2:])])
def test_a_publisher_takes_the_same_work(kind: Callable[[], Workload], mariadb: MariaDb, postgres: Postgres) -> None:
    workload = kind()
    one, two = loaded(mariadb, workload), loaded(postgres, kind())
    pairs = [Pair(f"{one}.{table}", f"public.{table}") for table in workload.tables]
    differences = compare(mariadb, postgres.url(two), pairs)
    assert differences.total == 0, differences


def test_peers_variants_have_no_version() -> None:
    assert "version" not in Mix(peers=True).specs[0].column_names
    assert "version" not in Churn(peers=True).specs[0].column_names
    assert not any("version" in sql for t in Churn(peers=True).transactions(500, 1) for sql in t.statements)


def test_churn_frees_values_and_other_keys_take_them_within_ten_changes() -> None:
    workload = Churn()
    list(workload.transactions(20_000, 1))
    assert len(workload.deleted) > 1000
    inserted = [sql for t in Churn().transactions(20_000, 1) for sql in t.statements if sql.startswith("INSERT")]
    emails = [sql.split(",")[1] for sql in inserted]
    keys = [sql.split("(")[1].split(",")[0] for sql in inserted]
    assert len(emails) - len(set(emails)) > 500  # an email is inserted again, by another row
    assert len(keys) - len(set(keys)) > 200  # a freed key comes back


def test_rate_and_stop(mariadb: MariaDb) -> None:
    workload, stop = Mix(), threading.Event()
    database = mariadb.database("paced")
    connection = pymysql.connect(
        host=mariadb.host,
        port=mariadb.port,
        user=mariadb.user,
        password=mariadb.password,
        database=database,
        autocommit=True,
        client_flag=CLIENT.MULTI_STATEMENTS,
    )
    with connection:
        connection.cursor().execute(workload.ddl("mariadb")[0])
        counts = workload.run(connection, 400, seed=1, rate=800)
        assert counts.changes == 400
        assert counts.seconds > 0.4
        seen: list[int] = []
        threading.Timer(0.3, stop.set).start()
        stopped = workload.run(connection, 100_000, seed=2, rate=200, stop=stop, progress=seen.append)
    assert 0 < stopped.changes < 100_000
    assert seen[-1] == stopped.changes


TYPES = """id bigint PRIMARY KEY, k varchar(20), n decimal(10,3), f {float}, d double precision, dt {datetime}(3),
    tm {time}(6), b {bytes}, u {unsigned}, bt bit(5), t {boolean}, y {year}, da date, j {json}, e {enum},
    ts {timestamp}(6) {null}"""
MYSQL_TYPES = {
    "float": "float", "datetime": "datetime", "time": "time", "bytes": "varbinary(20)", "unsigned": "bigint unsigned",
    "boolean": "tinyint(1)", "year": "year", "json": "json", "enum": "enum('x','yé')", "timestamp": "timestamp",
    "null": "NULL",
}  # fmt: skip
POSTGRES_TYPES = {
    "float": "real", "datetime": "timestamp", "time": "interval", "bytes": "bytea", "unsigned": "numeric(20)",
    "boolean": "boolean", "year": "smallint", "json": "jsonb", "enum": "text", "timestamp": "timestamptz", "null": "",
}  # fmt: skip
TYPED_ROWS = """INSERT INTO typed VALUES
    (1,'é''','1.500',0.1,0.1,'2024-01-01 10:00:00.5','-838:59:59',{bytes},18446744073709551615,b'00101',{true},2024,
     '2024-02-29','{{"b":1.0,"a":[1e3,null,true]}}','yé','2024-01-01 00:00:00.25{utc}'),
    (2,'a ',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL),
    (10,'Z',-0.5,1e20,-1e-7,'1000-01-01','12:00:00.000001','ab',0,b'00000',{false},1999,'9999-12-31','[]','x',
     '2024-01-01{utc}')"""


def typed(session: Session) -> str:
    """A table with one column of each class of values, and the same rows on every server."""
    name = schema(session, "typed")
    postgres = session.flavor is Flavor.POSTGRES
    options = "" if postgres else " DEFAULT CHARSET=utf8mb4"
    session.send(f"CREATE TABLE typed ({TYPES.format(**POSTGRES_TYPES if postgres else MYSQL_TYPES)}){options}")
    literals = {"bytes": "'\\x0001'", "true": "true", "false": "false", "utc": "+00"}
    plain = {"bytes": "0x0001", "true": "1", "false": "0", "utc": ""}
    session.send(TYPED_ROWS.format(**literals if postgres else plain))
    return f"{name}.typed"


def test_values_are_compared_across_servers(mariadb: MariaDb, target: Session) -> None:
    source = connect(mariadb.url())
    table, other = typed(source), typed(target) if target.flavor is not Flavor.MARIADB else "typed.typed"
    differences = compare(source, target, [Pair(table, other)])
    assert (differences.matched, differences.total) == (3, 0), differences
    source.close()


@pytest.mark.parametrize(
    "change",
    ["k = 'É'''", "k = 'é'' '", "n = 1.501", "f = 0.1000001", "d = 0.1000000000000001", "tm = '-838:59:58'",
     "dt = '2024-01-01 10:00:00.501'", "ts = '2024-01-01 00:00:00.250001'", "u = 18446744073709551614",
     "bt = b'00100'", "y = 2023", "da = '2024-02-28'", """j = '{"a":[1000,null,true],"b":1.01}'""", "e = 'x'",
     "b = 'a'", "k = NULL", "n = NULL"],
)  # fmt: skip
def test_the_smallest_change_of_a_value_is_found(change: str, mysql: MySql, target: Session) -> None:
    source = connect(mysql.url())
    if target.flavor is Flavor.MYSQL:  # one server on both sides: the copy is another table
        table = typed(source)
        source.send("CREATE TABLE other LIKE typed; INSERT INTO other SELECT * FROM typed")
        other = "typed.other"
    else:
        table, other = typed(source), typed(target)
    target.send(f"UPDATE {other} SET {change} WHERE id = 1")
    differences = compare(source, target, [Pair(table, other)])
    assert (differences.matched, differences.different, differences.total) == (2, 1, 1)
    assert differences.tables[0].examples[0].key == ("1",)
    source.close()


def test_missing_and_extra_rows_are_told_apart(mariadb: MariaDb, postgres: Postgres) -> None:
    source, target = connect(mariadb.url()), connect(postgres.url())
    names = ["b", "B", "a", "é", "z", "aa", "_"]
    for session in (source, target):
        schema(session, "texts")
        collation = "" if session is target else " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        session.send(f"CREATE TABLE texts (k varchar(20){collation} PRIMARY KEY, v int)")
        random.shuffle(names)
        session.send(f"INSERT INTO texts VALUES {','.join(f'({name!r},{len(name)})' for name in names)}")
    assert compare(source, target, ["texts.texts"]).total == 0
    target.send("DELETE FROM texts WHERE k='é'; INSERT INTO texts VALUES ('bb', 1), ('~', 1)")
    differences = compare(source, target, ["texts.texts"])
    assert (differences.matched, differences.missing, differences.extra, differences.different) == (6, 1, 2, 0)
    with pytest.raises(NotComparable, match=r"texts\.nothing"):
        compare(source, target, [Pair("texts.texts", "texts.nothing")])
    source.close()
    target.close()


def test_tables_without_a_key_are_counted(mariadb: MariaDb, postgres: Postgres) -> None:
    source, target = connect(mariadb.url()), connect(postgres.url())
    for session in (source, target):
        schema(session, "twins")
        session.send("CREATE TABLE twins (a int, b varchar(5))")
        session.send("INSERT INTO twins VALUES (1,'x'), (1,'x'), (2,NULL)")
    assert compare(source, target, ["twins.twins"]).matched == 3
    target.send("INSERT INTO twins VALUES (1,'x'); DELETE FROM twins WHERE a = 2")
    differences = compare(source, target, ["twins.twins"])
    assert (differences.matched, differences.missing, differences.extra) == (2, 1, 1)
    source.close()
    target.close()


def recorded(target: Session, statements: str) -> list[Event]:
    """The history that `statements` (transactions of a table `r`) leave at the target."""
    name = schema(target, "judged")
    target.send("CREATE TABLE r (id bigint PRIMARY KEY, u varchar(20) UNIQUE, version bigint)")
    with Recorder(target, [f"{name}.r"]) as recorder:
        for statement in statements.split(";"):
            target.send(statement)
        return list(recorder.events())


def test_the_recorder_sees_every_change_and_its_transaction(target: Session) -> None:
    workload = Churn()
    schema(target, "seen")
    for statement in workload.ddl(target.flavor):
        target.send(statement)
    with Recorder(target, ["seen.member"]) as recorder:
        counts = workload.run(target, CHANGES, seed=3)
        history = list(recorder.events())
    assert len(history) == counts.changes
    assert len({event.transaction for event in history}) == counts.transactions
    assert check(history, workload.deleted) == []


GOOD = {
    "versions may be skipped": "INSERT INTO r VALUES (1,'a',1); UPDATE r SET version=5; DELETE FROM r",
    "an update as delete and insert in one transaction": "INSERT INTO r VALUES (1,'a',1); BEGIN; DELETE FROM r;"
    " INSERT INTO r VALUES (1,'b',2); COMMIT; DELETE FROM r",
    "two updates of one row in one transaction": "INSERT INTO r VALUES (1,'a',1); BEGIN; UPDATE r SET version=2;"
    " UPDATE r SET version=5; COMMIT; DELETE FROM r",
    "what is rolled back never was": "INSERT INTO r VALUES (1,'a',1); BEGIN; UPDATE r SET version=9; ROLLBACK;"
    " UPDATE r SET version=5; DELETE FROM r",
}
BAD = {
    "replayed update": (Rule.TWICE, "INSERT INTO r VALUES (1,'a',1); UPDATE r SET version=2; UPDATE r SET version=2"),
    "older update": (Rule.OLDER, "INSERT INTO r VALUES (1,'a',1); UPDATE r SET version=3; UPDATE r SET version=2"),
    "replayed insert": (Rule.TWICE, "INSERT INTO r VALUES (1,'a',1); DELETE FROM r; INSERT INTO r VALUES (1,'a',1)"),
    "older version in a delete and insert": (
        Rule.OLDER,
        "INSERT INTO r VALUES (1,'a',4); BEGIN; DELETE FROM r; INSERT INTO r VALUES (1,'b',3); COMMIT",
    ),
    "older version under a reused key": (
        Rule.OLDER,
        "INSERT INTO r VALUES (1,'a',4); UPDATE r SET id=2, version=5; INSERT INTO r VALUES (1,'b',3)",
    ),
    "gone between two transactions": (
        Rule.VANISHED,
        "INSERT INTO r VALUES (1,'a',1); DELETE FROM r; INSERT INTO r VALUES (1,'b',2)",
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_histories_pass(name: str, target: Session) -> None:
    assert check(recorded(target, GOOD[name]), [("r", 1, 5)]) == []


@pytest.mark.parametrize("name", BAD)
def test_bad_histories_are_found(name: str, target: Session) -> None:
    rule, statements = BAD[name]
    gone = [] if rule is Rule.VANISHED else None
    assert [violation.rule for violation in check(recorded(target, statements), gone)] == [rule]


def test_an_upsert_is_recorded_as_what_it_did(target: Session) -> None:
    tail = {
        Flavor.POSTGRES: "ON CONFLICT (id) DO UPDATE SET version=excluded.version",
        Flavor.MARIADB: "ON DUPLICATE KEY UPDATE version=VALUES(version)",
        Flavor.MYSQL: "AS new ON DUPLICATE KEY UPDATE version=new.version",
    }[target.flavor]
    history = recorded(target, f"INSERT INTO r VALUES (1,'a',1) {tail}; INSERT INTO r VALUES (1,'a',2) {tail}")
    assert [(event.old_version, event.new_version) for event in history] == [(None, 1), (1, 2)]
    assert check(history, []) == []
