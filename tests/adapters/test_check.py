"""`check` and `init` against real servers: each thing that would go wrong is said beforehand, with what mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from bench.harness.servers import MariaDb, MySql, Postgres
from tests.adapters.checked_feed import PARENT, SOURCE, Place, kinds, only
from tidelock.adapters.app.init_plan import init_plan
from tidelock.adapters.app.planned_statement import PlannedStatement
from tidelock.adapters.bookkeeping.tables import create_statements
from tidelock.adapters.checks.feed import check
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.mysql.binlog.overview import look
from tidelock.adapters.ports.finding import CheckReport
from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.adapters.ports.target_inspection import CannotRun
from tidelock.adapters.wiring.inspection import opened
from tidelock.engine.model.records import Position

pytestmark = pytest.mark.usefixtures("durable_targets")


@pytest.fixture
def place(mariadb: MariaDb, postgres: Postgres) -> Place:
    return Place(mariadb, postgres, "postgres")


@pytest.fixture
def to_mysql(mariadb: MariaDb, mysql: MySql) -> Place:
    return Place(mariadb, mysql, "mysql")


async def test_nothing_to_say(place: Place, to_mysql: Place) -> None:
    for here in (place, to_mysql):
        here.both()
        report = await check(here.feed())
        assert report == CheckReport(())
        assert report.ok


async def test_a_target_that_may_lose_what_it_reported(to_mysql: Place, mysql: MySql) -> None:
    to_mysql.both()
    mysql.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
    found = only(await to_mysql.findings(), "target-durability")
    assert found.level == "warning"


# -------------------------------------------------------------------------------------------------------- the source


@pytest.fixture
def setting(mariadb: MariaDb, mysql: MySql) -> Iterator[Callable[[MariaDb | MySql, str, object], None]]:
    """Set a global variable until the test ends."""
    before: list[tuple[MariaDb | MySql, str, object]] = []

    def change(server: MariaDb | MySql, name: str, value: object) -> None:
        before.append((server, name, server.execute(f"SELECT @@global.{name}")[0][0]))
        server.execute(f"SET GLOBAL {name} = %s", value)

    yield change
    for server, name, value in reversed(before):
        server.execute(f"SET GLOBAL {name} = %s", value)


SETTINGS = [
    ("binlog_format", "STATEMENT"),
    ("binlog_format", "MIXED"),
    ("binlog_row_image", "MINIMAL"),
]


@pytest.mark.parametrize(("name", "value"), SETTINGS)
async def test_log_settings(place: Place, mariadb: MariaDb, setting: Any, name: str, value: str) -> None:
    place.both()
    setting(mariadb, name, value)
    found = only(await place.findings(), f"source-{name.replace('_', '-')}")
    assert found.level == "error"
    assert value in found.message
    assert found.hint.startswith(f"SET GLOBAL {name}=")
    mariadb.execute(found.hint.partition(";")[0])
    assert await place.findings() == []


@pytest.mark.parametrize("value", ["MINIMAL", "NO_LOG"])
async def test_a_log_that_names_no_columns(place: Place, mariadb: MariaDb, setting: Any, value: str) -> None:
    place.both()
    setting(mariadb, "binlog_row_metadata", value)
    found = only(await place.findings(), "source-binlog-row-metadata")
    assert found.level == "note" and value in found.message, found
    mariadb.execute(found.hint.partition(" has ")[0])
    assert await place.findings() == []


async def test_partial_json(mysql: MySql, postgres: Postgres, setting: Any) -> None:
    """The reader completes such rows."""
    place = Place(mysql, postgres, "postgres")
    place.both()
    setting(mysql, "binlog_row_value_options", "PARTIAL_JSON")
    assert await place.findings() == []


@pytest.mark.parametrize("server", ["mariadb", "mysql"])
async def test_images_without_blobs(
    server: str, postgres: Postgres, setting: Any, request: pytest.FixtureRequest
) -> None:
    """They are full where there are no such columns; `look` and `check` agree."""
    source = request.getfixturevalue(server)
    place = Place(source, postgres, "postgres")
    place.both()
    setting(source, "binlog_row_image", "NOBLOB")
    assert await place.findings() == []
    feed = place.feed()
    patterns = [rule.source for rule in feed.tables]
    look(feed.source_url, patterns, earliest=False)
    place.at_source("ALTER TABLE t ADD note TEXT")
    place.at_target("ALTER TABLE t ADD note TEXT")
    found = only(await place.findings(), "source-binlog-row-image")
    assert found.level == "error" and found.hint.startswith("SET GLOBAL binlog_row_image=FULL")
    with pytest.raises(UnsuitableLog, match=r"NOBLOB, which leaves columns out of the rows of .*\.t\b"):
        look(feed.source_url, patterns, earliest=False)


async def test_a_target_whose_log_takes_statements(to_mysql: Place, mysql: MySql, setting: Any) -> None:
    """A run ended there with an error of the server's."""
    to_mysql.both()
    setting(mysql, "binlog_format", "STATEMENT")
    found = only(await to_mysql.findings(), "target-binlog-format")
    assert found.level == "error"
    mysql.execute(found.hint.partition(";")[0])
    assert await to_mysql.findings() == []


async def test_no_log(make_mariadb: Callable[..., MariaDb], postgres: Postgres) -> None:
    place = Place(make_mariadb(extra=["--skip-log-bin"]), postgres, "postgres")
    place.both()
    assert "log_bin=ON" in only(await place.findings(), "source-log-bin").hint


async def test_a_log_soon_deleted_is_a_warning(place: Place, mariadb: MariaDb, setting: Any) -> None:
    place.both()
    setting(mariadb, "binlog_expire_logs_seconds", 3600)
    found = only(await place.findings(), "source-log-expiry")
    assert found.level == "warning"
    setting(mariadb, "binlog_expire_logs_seconds", 86_400)
    assert await place.findings() == []


async def test_a_log_without_checksums_is_a_warning(place: Place, mariadb: MariaDb, setting: Any) -> None:
    place.both()
    setting(mariadb, "binlog_checksum", "NONE")
    found = only(await place.findings(), "source-checksum")
    assert found.level == "warning"
    mariadb.execute(found.hint)
    assert await place.findings() == []


async def test_server_id(place: Place, mariadb: MariaDb) -> None:
    place.both()
    ((number,),) = mariadb.execute("SELECT @@server_id")
    place.options = f"server_id: {number}\n"
    assert str(number) in only(await place.findings(), "source-server-id").message


async def test_source_unreachable_and_denied(place: Place, mariadb: MariaDb) -> None:
    place.both()
    found = only(await place.findings(source="mariadb://root@127.0.0.1:1"), "source-unreachable")
    assert "127.0.0.1:1" in found.message
    mariadb.execute("CREATE OR REPLACE USER 'shut'@'%' IDENTIFIED BY 'right'")
    found = only(await place.findings(source=f"mariadb://shut:wrong-secret@127.0.0.1:{mariadb.port}"), "source-denied")
    assert "wrong-secret" not in str(found)


async def test_both_sides_are_told_at_once(place: Place) -> None:
    found = await place.findings(source="mariadb://root@127.0.0.1:1", target="postgresql://postgres@127.0.0.1:1/x")
    assert sorted(kinds(found)) == ["source-unreachable", "target-unreachable"]


@pytest.mark.parametrize("family", ["mariadb", "mysql"])
async def test_source_grants(family: str, request: pytest.FixtureRequest, postgres: Postgres) -> None:
    """Every hint is a statement: run them all and the feed may start."""
    server: MariaDb | MySql = request.getfixturevalue(family)
    place = Place(server, postgres, "postgres")
    place.both()
    place.at_source("CREATE TABLE u (id int PRIMARY KEY)")
    place.at_target("CREATE TABLE u (id int PRIMARY KEY)")
    server.execute("DROP USER IF EXISTS 'poor'@'%'")
    server.execute("CREATE USER 'poor'@'%' IDENTIFIED BY 'pw'")
    server.execute(f"GRANT SELECT ON {place.schema}.u TO 'poor'@'%'")
    server.execute(f"GRANT SELECT (id), INSERT ON {place.schema}.t TO 'poor'@'%'")
    url = f"{family}://poor:pw@127.0.0.1:{server.port}"
    found = await place.findings(source=url)
    assert kinds(found) == ["source-grant"] * 3
    monitor = "BINLOG MONITOR" if family == "mariadb" else "REPLICATION CLIENT"
    assert [f.hint for f in found] == [
        "GRANT REPLICATION SLAVE ON *.* TO 'poor'@'%';",
        f"GRANT {monitor} ON *.* TO 'poor'@'%';",
        f"GRANT SELECT ON `{place.schema}`.* TO 'poor'@'%';",
    ]
    for finding in found:
        server.execute(finding.hint)
    assert await place.findings(source=url) == []


@pytest.mark.parametrize("family", ["mariadb", "mysql"])
async def test_rights_of_a_role_and_of_a_pattern_count(
    family: str, request: pytest.FixtureRequest, postgres: Postgres
) -> None:
    server: MariaDb | MySql = request.getfixturevalue(family)
    place = Place(server, postgres, "postgres")
    place.both()
    for statement in (
        "DROP USER IF EXISTS 'roled'@'%'",
        "DROP ROLE IF EXISTS reader",
        "CREATE USER 'roled'@'%' IDENTIFIED BY 'pw'",
        "CREATE ROLE reader",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO reader",
        f"GRANT SELECT ON `{place.schema[:-1]}%%`.* TO reader".replace("%%", "%"),
        "GRANT reader TO 'roled'@'%'",
        f"SET DEFAULT ROLE reader {'FOR' if family == 'mariadb' else 'TO'} 'roled'@'%'",
    ):
        server.execute(statement)
    assert await place.findings(source=f"{family}://roled:pw@127.0.0.1:{server.port}") == []


async def test_a_pattern_that_matches_nothing(place: Place) -> None:
    place.both()
    rules = f"[{{source: {place.schema}.t, target: {place.schema}.t}}, {{source: {place.schema}.gone}}]"
    found = only(await place.findings(tables=rules), "table-unmatched")
    assert f"{place.schema}.gone" in found.message
    assert "Correct `tables`" in found.hint  # this account would see it


async def test_an_earlier_rule_takes_all(place: Place) -> None:
    place.both()
    rules = f"[{{source: {place.schema}.*, target: {place.schema}.*}}, {{source: {place.schema}.t}}]"
    assert "earlier rule" in only(await place.findings(tables=rules), "table-unmatched").message


async def test_start_position_that_is_gone(place: Place, mariadb: MariaDb) -> None:
    place.both()
    ((file, size, *_),) = mariadb.execute("SHOW MASTER STATUS")
    place.options = f"start: {file}:{size}\n"
    assert await place.findings() == []
    for gone in (f"{file}:{size + 10**9}", "other-bin.000001:4"):
        place.options = f"start: {gone}\n"
        assert gone in only(await place.findings(), "source-position").message


async def test_start_gtids_that_are_purged(make_mysql: Callable[..., MySql], postgres: Postgres) -> None:
    server = make_mysql()
    place = Place(server, postgres, "postgres")
    place.both()
    server.execute("FLUSH BINARY LOGS")
    ((newest, *_), *_) = server.execute("SHOW BINARY LOGS")[::-1]
    server.execute(f"PURGE BINARY LOGS TO '{newest}'")
    ((server_uuid, executed),) = server.execute("SELECT @@server_uuid, @@gtid_executed")
    if not executed:
        pytest.fail("the server should run with GTIDs")
    place.options = f"start: gtid:{server_uuid}:1\n"
    assert "purged" in only(await place.findings(), "source-position").message
    place.options = f"start: gtid:{executed}\n"
    assert await place.findings() == []


async def test_the_stored_checkpoint_goes_before_start(place: Place) -> None:
    place.both()
    place.options = f"schema: {place.schema}_own\n"
    for statement in create_statements("postgres", f"{place.schema}_own"):
        place.target.execute(statement, database=place.database)
    stored = msgspec.json.encode(Position("lost-bin.000007", 4)).decode()
    place.target.execute(
        f"INSERT INTO {place.schema}_own.tidelock_checkpoint VALUES ('shop', 0, '{stored}')", database=place.database
    )
    found = only(await place.findings(), "source-position")
    assert "lost-bin.000007:4" in found.message
    assert "tidelock resync" in found.hint


# -------------------------------------------------------------------------------------------------------- the target


async def test_target_unreachable_denied_and_without_database(place: Place, postgres: Postgres, mysql: MySql) -> None:
    place.both()
    mysql.execute("DROP USER IF EXISTS 'shut'@'%'")
    mysql.execute("CREATE USER 'shut'@'%' IDENTIFIED BY 'right'")
    cases = [
        ("postgresql://postgres@127.0.0.1:1/x", "target-unreachable"),
        (f"postgresql://nobody:wrong-secret@127.0.0.1:{postgres.port}/{place.database}", "target-denied"),
        (postgres.url("not_there"), "target-database"),
        ("mysql://root@127.0.0.1:1", "target-unreachable"),
        (f"mysql://shut:wrong-secret@127.0.0.1:{mysql.port}", "target-denied"),
        (mysql.url("not_there"), "target-database"),
    ]
    for url, kind in cases:
        found = only(await place.findings(target=url), kind)
        assert found.level == "error"
        assert "wrong-secret" not in str(found)


async def test_target_grants_of_postgres(place: Place, postgres: Postgres) -> None:
    place.both()
    place.options = f"schema: {place.schema}_own\n"
    postgres.execute_script(
        "DROP ROLE IF EXISTS poor; CREATE ROLE poor LOGIN PASSWORD 'pw';"
        f"GRANT SELECT ON {place.schema}.t TO poor; CREATE SCHEMA {place.schema}_own",
        database=place.database,
    )
    for statement in create_statements("postgres", f"{place.schema}_own")[:3]:
        postgres.execute(statement, database=place.database)
    url = f"postgresql://poor:pw@127.0.0.1:{postgres.port}/{place.database}"
    for _ in range(3):  # rights on tables show once the schema may be used
        found = [f for f in await place.findings(target=url) if f.kind != "bookkeeping-older"]
        assert set(kinds(found)) <= {"target-grant"}
        for finding in found:
            postgres.execute(finding.hint, database=place.database)
    assert found == []
    granted = postgres.execute(
        "SELECT table_name::text, string_agg(privilege_type, ' ' ORDER BY privilege_type) "
        "FROM information_schema.role_table_grants WHERE grantee = 'poor' GROUP BY table_name",
        database=place.database,
    )
    needed = "DELETE INSERT SELECT UPDATE"
    assert dict(granted) == {"t": needed, "tidelock_owner": needed, "tidelock_progress": needed}
    postgres.execute_script("DROP OWNED BY poor; DROP ROLE poor", database=place.database)


async def test_a_copy_needs_a_right_that_the_stream_does_not(place: Place, postgres: Postgres) -> None:
    place.both()
    place.options = f"schema: {place.schema}_own\n"
    for statement in create_statements("postgres", f"{place.schema}_own"):
        postgres.execute(statement, database=place.database)
    postgres.execute_script(
        "DROP ROLE IF EXISTS stream; CREATE ROLE stream LOGIN PASSWORD 'pw';"
        f"GRANT USAGE ON SCHEMA {place.schema}, {place.schema}_own TO stream;"
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {place.schema}.t TO stream;"
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {place.schema}_own TO stream",
        database=place.database,
    )
    url = f"postgresql://stream:pw@127.0.0.1:{postgres.port}/{place.database}"
    found = only(await place.findings(target=url), "target-copy-grant")
    assert found.level == "warning"
    assert found.hint == f'GRANT CREATE ON SCHEMA "{place.schema}_own" TO "stream";'
    postgres.execute(found.hint, database=place.database)
    assert await place.findings(target=url) == []
    postgres.execute_script("DROP OWNED BY stream; DROP ROLE stream", database=place.database)


async def test_no_right_to_make_the_bookkeeping(place: Place, postgres: Postgres) -> None:
    place.both()
    postgres.execute_script(
        "DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN PASSWORD 'pw';"
        f"GRANT USAGE ON SCHEMA {place.schema} TO guest; GRANT ALL ON {place.schema}.t TO guest",
        database=place.database,
    )
    place.options = "schema: nowhere_yet\n"
    url = f"postgresql://guest:pw@127.0.0.1:{postgres.port}/{place.database}"
    found = only(await place.findings(target=url), "target-grant")
    assert found.hint == f'GRANT CREATE ON DATABASE "{place.database}" TO "guest";'
    postgres.execute_script("DROP OWNED BY guest; DROP ROLE guest", database=place.database)


async def test_target_grants_of_mysql(to_mysql: Place, mysql: MySql) -> None:
    to_mysql.both()
    mysql.execute("DROP USER IF EXISTS 'poor'@'%'")
    mysql.execute("CREATE USER 'poor'@'%' IDENTIFIED BY 'pw'")
    mysql.execute(f"GRANT SELECT, DELETE ON {to_mysql.place}.* TO 'poor'@'%'")
    url = f"mysql://poor:pw@127.0.0.1:{mysql.port}"
    found = await to_mysql.findings(target=url)
    assert sorted(f.hint for f in found) == [
        "GRANT DROP ON `tidelock`.* TO 'poor'@'%';",
        f"GRANT INSERT, UPDATE ON `{to_mysql.place}`.`t` TO 'poor'@'%';",
        "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON `tidelock`.* TO 'poor'@'%';",
    ]
    assert only([f for f in found if f.level == "warning"], "target-copy-grant").hint.startswith("GRANT DROP")
    for finding in found:
        mysql.execute(finding.hint)
    assert await to_mysql.findings(target=url) == []


async def test_table_missing(place: Place) -> None:
    place.at_source(f"CREATE TABLE t ({SOURCE})")
    assert "tidelock init" in only(await place.findings(), "table-missing").hint


async def test_nothing_is_written(place: Place) -> None:
    place.at_source(f"CREATE TABLE t ({SOURCE})")
    before = place.target.execute("SELECT count(*) FROM pg_class", database=place.database)
    await place.findings()
    assert place.target.execute("SELECT count(*) FROM pg_class", database=place.database) == before


# ----------------------------------------------------------------------------------------------------------------- init


RICH = """CREATE TABLE t (id bigint unsigned AUTO_INCREMENT PRIMARY KEY, name varchar(64) NOT NULL DEFAULT 'x', p int,
    e enum('a','b'), j json, d datetime(6) DEFAULT current_timestamp(6), b bit(1), blob_ longblob,
    twice int AS (p * 2), note text, ts timestamp NULL, `od``d "name` int NOT NULL,
    UNIQUE KEY u (name, `od``d "name`), UNIQUE KEY pre (note(5)), KEY plain (p),
    CONSTRAINT k FOREIGN KEY (p) REFERENCES p (id) ON DELETE SET NULL)"""


async def apply(feed: Feed, plan: Sequence[PlannedStatement]) -> None:
    async with opened(feed.target_url) as target:
        for statement in plan:
            if statement.applied:
                await target.execute(statement.sql)


@pytest.mark.parametrize("family", ["mariadb", "mysql"])
@pytest.mark.parametrize("dialect", ["postgres", "mysql"])
async def test_init_makes_what_check_wants(
    family: str, dialect: str, request: pytest.FixtureRequest, postgres: Postgres, mysql: MySql
) -> None:
    place = Place(request.getfixturevalue(family), postgres if dialect == "postgres" else mysql, dialect)
    place.at_source(PARENT)
    place.at_source(RICH)
    place.options = f"schema: own_{place.place}\n"
    if dialect == "postgres":
        place.target.execute(f"DROP SCHEMA {place.schema}", database=place.database)
    feed = place.feed()
    assert kinds(list((await check(feed)).findings)) == ["table-missing", "table-missing"]
    plan = await init_plan(feed)
    assert not any(s.administrator for s in plan)
    await apply(feed, plan)
    assert kinds(list((await check(feed)).findings)) == []
    assert await init_plan(feed) == []
    await apply(feed, [s for s in plan if s.sql.startswith(("CREATE TABLE", "CREATE SCHEMA", "CREATE DATABASE"))])


async def test_init_prints_the_grants_that_only_an_administrator_can_run(place: Place, mariadb: MariaDb) -> None:
    place.both()
    mariadb.execute("DROP USER IF EXISTS 'poor'@'%'")
    mariadb.execute("CREATE USER 'poor'@'%' IDENTIFIED BY 'pw'")
    mariadb.execute(f"GRANT SELECT ON {place.schema}.* TO 'poor'@'%'")
    plan = await init_plan(place.feed(source=f"mariadb://poor:pw@127.0.0.1:{mariadb.port}"))
    assert [(s.side, s.sql) for s in plan if s.administrator] == [
        ("source", "GRANT REPLICATION SLAVE ON *.* TO 'poor'@'%'"),
        ("source", "GRANT BINLOG MONITOR ON *.* TO 'poor'@'%'"),
    ]


async def test_init_refuses_a_feed_whose_tables_cannot_be_there(place: Place) -> None:
    feed = place.feed(tables=f"[{{source: {place.schema}_typo.*}}]")
    with pytest.raises(CannotRun, match="matches"):
        await init_plan(feed)


# -------------------------------------------------------------------------------------------------------------- not yet


async def test_a_source_that_nothing_reads_is_not_yet(place: Place) -> None:
    feed = place.feed()
    place_of_files = msgspec.structs.replace(feed.source_url, scheme="hive")
    found = await check(msgspec.structs.replace(feed, source_url=place_of_files))
    assert "source" in only(list(found.findings), "not-yet").message
