"""`check`, `init` and `remove` for a PostgreSQL source, at real servers in the state that each finding is about.

What a finding advises is run as it stands, and the finding goes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from bench.harness.servers import MariaDb, MySql, Postgres, Standby
from tests.adapters.checked_postgres_feed import ITEM, Place, kinds, only
from tidelock.adapters.app.init_plan import init_plan
from tidelock.adapters.app.planned_statement import PlannedStatement
from tidelock.adapters.app.removal import removal_plan
from tidelock.adapters.cli.preparing import init, remove
from tidelock.adapters.ports.target_inspection import CannotRun
from tidelock.engine.model.records import Position

LIMIT = "--max-slot-wal-keep-size=64GB"  # without one `check` says so each time

FULL = "ALTER TABLE t REPLICA IDENTITY FULL"


@pytest.fixture(scope="module")
def source() -> Iterator[Postgres]:
    with Postgres(extra=[LIMIT]) as server:
        yield server


@pytest.fixture
def place(source: Postgres, postgres: Postgres) -> Iterator[Place]:
    place = Place(source, postgres)
    yield place
    for (name,) in source.execute("SELECT slot_name::text FROM pg_replication_slots WHERE NOT active"):
        source.execute("SELECT pg_drop_replication_slot($1)", name)


@pytest.fixture(params=["mariadb", "mysql"])
def to_mysql(request: pytest.FixtureRequest, source: Postgres) -> Iterator[Place]:
    server: MariaDb | MySql = request.getfixturevalue(request.param)
    server.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
    yield Place(source, server)
    server.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 2")


# -------------------------------------------------------------------------------------------------------- the server


async def test_nothing_to_say(place: Place) -> None:
    place.both()
    assert await place.findings() == []
    place.publish()
    place.make_slot()
    assert await place.findings() == []


async def test_a_log_that_cannot_be_decoded(make_postgres: Callable[..., Postgres], postgres: Postgres) -> None:
    server = make_postgres(extra=[LIMIT, "--wal-level=replica"])
    place = Place(server, postgres)
    place.both()
    found = only(await place.findings(), "source-wal-level")
    assert found.hint == "ALTER SYSTEM SET wal_level = 'logical'; then restart the server"
    server.execute(found.hint.partition(";")[0])
    server.extra = [LIMIT]
    server.restart()
    assert await place.findings() == []


async def test_no_slot_and_no_sender_is_free(make_postgres: Callable[..., Postgres], postgres: Postgres) -> None:
    server = make_postgres(extra=[LIMIT, "--max-replication-slots=1", "--max-wal-senders=0"])
    place = Place(server, postgres)
    place.both()
    server.execute("SELECT pg_create_physical_replication_slot('other')")
    found = await place.findings()
    assert kinds(found) == ["source-slots", "source-senders"]
    assert found[0].hint == "ALTER SYSTEM SET max_replication_slots = 6; then restart the server"
    for finding in found:
        server.execute(finding.hint.partition(";")[0])
    server.extra = [LIMIT]
    server.restart()
    assert await place.findings() == []


@pytest.mark.parametrize(("value", "kind"), [("-1", "source-slot-unlimited"), ("100MB", "source-slot-limit")])
async def test_how_much_of_the_log_a_slot_may_hold(
    make_postgres: Callable[..., Postgres], postgres: Postgres, value: str, kind: str
) -> None:
    server = make_postgres()
    place = Place(server, postgres)
    place.both()
    server.execute(f"ALTER SYSTEM SET max_slot_wal_keep_size = '{value}'")
    server.execute("SELECT pg_reload_conf()")
    assert only(await place.findings(), kind).level == "warning"
    await place.gone(kind)


async def test_a_standby_is_not_read(place: Place, make_standby: Callable[[Postgres], Standby]) -> None:
    place.both()
    standby = make_standby(place.source)
    found = await place.findings(source=standby.url(place.schema))
    assert "source-standby" in kinds(found)


@pytest.fixture
def make_standby() -> Iterator[Callable[[Postgres], Standby]]:
    made: list[Standby] = []

    def make(primary: Postgres) -> Standby:
        made.append(Standby(primary).__enter__())
        return made[-1]

    yield make
    for standby in made:
        standby.__exit__(None, None, None)


async def test_unreachable_and_denied(place: Place) -> None:
    place.both()
    nowhere = place.source.url(place.schema).replace(f":{place.source.port}", ":1")
    assert kinds(await place.findings(source=nowhere)) == ["source-unreachable"]
    url = place.source.url(place.schema, "nobody", "wrong")
    assert kinds(await place.findings(source=url)) == ["source-denied"]
    assert kinds(await place.findings(source=place.source.url("not_there"))) == ["source-database"]


def role(place: Place, name: str, options: str = "") -> str:
    place.source.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'pw' {options}")
    return place.source.url(place.schema, name, "pw")


async def test_rights(place: Place) -> None:
    place.both()
    place.at_source("CREATE SCHEMA inner_", "CREATE TABLE inner_.u (id int PRIMARY KEY)")
    place.at_target("CREATE SCHEMA inner_", "CREATE TABLE inner_.u (id int PRIMARY KEY)")
    url = role(place, "reader")
    tables = "[{source: public.t}, {source: inner_.u}]"
    found = await place.findings(tables, source=url)
    assert kinds(found) == ["source-grant"] * 4
    assert [f.hint for f in found] == [
        'ALTER ROLE "reader" REPLICATION;',
        'GRANT USAGE ON SCHEMA "inner_" TO "reader";',
        'GRANT SELECT ON "inner_"."u" TO "reader";',
        'GRANT SELECT ON "public"."t" TO "reader";',
    ]
    for finding in found:
        place.follow(finding)
    assert await place.findings(tables, source=url) == []


async def test_row_security_hides_rows_from_copies(place: Place) -> None:
    place.both()
    url = role(place, "blinded", "REPLICATION")
    place.at_source(
        "GRANT SELECT ON t TO blinded", "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY own ON t USING (name = current_user)",
    )  # fmt: skip
    found = await place.gone("source-row-security", source=url)
    assert found.hint == 'ALTER ROLE "blinded" BYPASSRLS;'


# -------------------------------------------------------------------------------------------------------- its tables


@pytest.mark.parametrize(
    "columns", ["id int, name text", "id int PRIMARY KEY DEFERRABLE, name text", "id int UNIQUE NOT NULL, name text"]
)
async def test_a_table_without_replica_identity(place: Place, columns: str) -> None:
    place.both(columns, "id int PRIMARY KEY, name text")
    place.at_target("ALTER TABLE t DROP CONSTRAINT t_pkey")
    found = await place.gone("table-identity")
    assert found.level == "error"
    assert "WAL" in found.message


async def test_nothing_is_an_identity_that_tells_nothing(place: Place) -> None:
    place.both()
    place.at_source("ALTER TABLE t REPLICA IDENTITY NOTHING")
    await place.gone("table-identity")


async def test_a_partition_has_an_identity_of_its_own(place: Place) -> None:
    place.at_source(
        "CREATE TABLE t (id int PRIMARY KEY, name text) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE high PARTITION OF t FOR VALUES FROM (10) TO (20)",
        "ALTER TABLE high REPLICA IDENTITY NOTHING",
    )
    place.at_target("CREATE TABLE t (id int PRIMARY KEY, name text)")
    place.publish()
    found = await place.findings()
    assert kinds(found) == ["table-identity", "publication-breaks-writes"]
    with pytest.raises(asyncpg.PostgresError, match="replica identity"):
        place.at_source("INSERT INTO t VALUES (11)", "UPDATE t SET name = 'x'")
    await place.gone("table-identity")
    place.at_source("UPDATE t SET name = 'x'")
    assert kinds(await place.findings()) == []


async def test_names_that_the_log_has_no_rows_of(place: Place) -> None:
    place.at_source(
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE UNLOGGED TABLE fast (id int PRIMARY KEY)",
        "CREATE EXTENSION postgres_fdw", "CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw",
        "CREATE FOREIGN TABLE away (id int) SERVER far",
    )  # fmt: skip
    place.at_target("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE fast (id int PRIMARY KEY)")
    tables = "[{source: public.low}, {source: public.fast}, {source: public.away}]"
    found = await place.findings(tables)
    assert sorted(kinds(found)) == ["table-foreign", "table-partition", "table-unlogged"]
    assert {f.level for f in found} == {"error"}
    assert only(found, "table-partition").hint == "Name public.t in `tables`"
    matched = await place.findings(place.everything())
    assert sorted(kinds(matched)) == ["publication-later", "table-foreign", "table-unlogged"]
    assert only(matched, "table-unlogged").level == "warning"
    await place.gone("table-unlogged", place.everything())


async def test_a_rule_that_matches_nothing(place: Place) -> None:
    place.both()
    found = only(await place.findings("[{source: public.t}, {source: public.u}]"), "table-unmatched")
    assert found.level == "error"
    found = only(await place.findings("[{source: public.t}, {source: public.u*}]"), "table-unmatched")
    assert found.level == "warning"


async def test_what_is_not_in_the_log_is_said(place: Place) -> None:
    place.both(
        "id serial PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED",
        "id int PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED",
    )
    place.at_source("CREATE TABLE heir () INHERITS (t)", "SELECT lo_create(0)")
    found = await place.findings()
    assert kinds(found) == ["source-sequences", "source-large-objects", "table-inherited", "column-computed"]
    assert {f.level for f in found} == {"note"}


async def test_a_computed_column_is_computed_at_the_target(place: Place) -> None:
    columns = "id int PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED"
    place.both(columns, "id int PRIMARY KEY, a int, twice int")
    found = only(await place.findings(), "column-generated")
    place.at_target(found.hint)
    assert kinds(await place.findings()) == ["column-computed"]
    place.at_target("INSERT INTO t (id, a) VALUES (1, 4)")
    assert place.target.execute("SELECT twice FROM t", database=place.database) == [(8,)]


IDENTITY = [
    ("id int PRIMARY KEY, u int UNIQUE", "", "table-identity-serial", "note"),
    ("id int PRIMARY KEY, up int REFERENCES t", "", "table-identity-serial", "note"),
    ("id int PRIMARY KEY, u int UNIQUE NOT NULL", "ALTER TABLE t REPLICA IDENTITY USING INDEX t_u_key",
     "identity-key", "error"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "more", "kind", "level"), IDENTITY)
async def test_what_the_identity_does_not_tell(place: Place, columns: str, more: str, kind: str, level: str) -> None:
    place.both(columns)
    if more:
        place.at_source(more)
    found = await place.gone(kind)
    assert found.level == level


async def test_a_foreign_key_that_may_be_broken_for_a_while(place: Place) -> None:
    """A child that comes before its parent is in the log first, and another lane may take the parent."""
    place.at_source(
        "CREATE TABLE t (id int PRIMARY KEY, up int, over int REFERENCES t)",
        "ALTER TABLE t ADD CONSTRAINT above FOREIGN KEY (up) REFERENCES t DEFERRABLE",
        FULL,
    )
    (key,) = [s.sql for s in await made(place) if "FOREIGN KEY" in s.sql]
    assert 'FOREIGN KEY ("over")' in key
    place.at_target("ALTER TABLE t ADD FOREIGN KEY (up) REFERENCES t")
    found = only(await place.findings(), "foreign-key-deferrable")
    place.at_target(found.hint)
    assert await place.findings() == []


async def test_a_partial_unique_index_is_no_key_for_a_whole_one(place: Place) -> None:
    """A condition lets rows stand side by side that an index without one refuses."""
    place.both("id int PRIMARY KEY, u int")
    place.at_source(FULL, "CREATE UNIQUE INDEX living ON t (u) WHERE u > 0")
    place.at_target("CREATE UNIQUE INDEX every ON t (u)")
    found = only(await place.findings(), "unique-extra")
    place.at_target(found.hint.partition(" at the target")[0])
    place.at_target("CREATE UNIQUE INDEX living ON t (u) WHERE u > 0")
    assert kinds(await place.findings()) == ["table-serial"]


# -------------------------------------------------------------------------------------------------------- publication


async def test_a_table_that_the_publication_lacks_is_silent_loss(place: Place) -> None:
    place.both()
    place.at_source("CREATE TABLE u (id int PRIMARY KEY)")
    place.publish("u")
    found = await place.gone("publication-lacks")
    assert found.level == "error"


async def test_a_publication_that_was_dropped(place: Place) -> None:
    place.both()
    place.make_slot()
    await place.gone("publication-missing")


@pytest.mark.parametrize("more", ["", "WITH (publish = 'insert, update', publish_via_partition_root = true)"])
async def test_a_publication_that_leaves_changes_out(place: Place, more: str) -> None:
    place.both()
    place.publish(more=more)
    await place.gone("publication-options")


@pytest.mark.parametrize("cut", ["t WHERE (id > 0)", "t (id, name)"])
async def test_a_publication_that_cuts_rows_or_columns(place: Place, cut: str) -> None:
    place.both()
    place.publish(cut)
    await place.gone("publication-cut")


async def test_a_publication_that_breaks_the_writes_of_others(place: Place) -> None:
    place.both()
    place.at_source("CREATE TABLE keyless (v int)", "INSERT INTO keyless VALUES (1)")
    place.publish("t, keyless")
    with pytest.raises(asyncpg.PostgresError, match="replica identity"):
        place.at_source("UPDATE keyless SET v = 2")
    await place.gone("publication-breaks-writes")
    place.at_source("UPDATE keyless SET v = 2")


# -------------------------------------------------------------------------------------------------------- the slot


async def test_a_slot_of_somebody_else(place: Place) -> None:
    place.both()
    place.make_slot("test_decoding")
    found = only(await place.findings(), "slot-foreign")
    place.at_source(found.hint.partition(": ")[2])
    assert await place.findings() == []


async def test_a_lost_slot(make_postgres: Callable[..., Postgres], postgres: Postgres) -> None:
    server = make_postgres(extra=["--max-slot-wal-keep-size=1MB", "--max-wal-size=32MB", "--min-wal-size=32MB"])
    place = Place(server, postgres)
    place.both()
    place.publish()
    place.make_slot()
    server.execute("CREATE TABLE filler (v text)")
    for _ in range(6):
        server.execute("INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 16000)")
        server.execute("SELECT pg_switch_wal()")
        server.execute_script("CHECKPOINT")
    assert server.execute("SELECT wal_status FROM pg_replication_slots") == [("lost",)]
    await place.gone("slot-lost")
    place.store(Position(f"{place.system()}/1", 4_000))
    found = only(await place.findings(), "slot-missing")
    assert "tidelock resync" in found.hint


async def test_another_reader_of_the_slot(place: Place) -> None:
    place.both()
    place.publish()
    place.make_slot()
    assert await place.findings() == []
    import psycopg

    url = place.source.url(place.schema)
    with contextlib.closing(psycopg.connect(f"{url}?replication=database&application_name=thief")) as reader:
        options = f"(proto_version '1', publication_names '{place.slot}')"
        reader.pgconn.send_query(f"START_REPLICATION SLOT {place.slot} LOGICAL 0/0 {options}".encode())
        assert reader.pgconn.get_result().status == psycopg.pq.ExecStatus.COPY_BOTH
        found = only(await place.findings(), "slot-busy")
        assert "thief" in found.message
        with pytest.raises(CannotRun, match="thief"):
            await removal_plan(place.feed())
        place.at_source(found.hint.partition("or ")[2])
    assert await place.findings() == []


async def test_a_slot_that_was_made_anew(place: Place) -> None:
    """PostgreSQL goes on from the younger slot without a word, and what was committed in between is lost."""
    place.both()
    place.publish()
    place.make_slot()
    confirmed = "SELECT (confirmed_flush_lsn - '0/0'::pg_lsn)::bigint FROM pg_replication_slots WHERE slot_name = $1"
    ((end,),) = place.source.execute(confirmed, place.slot)
    place.store(Position(f"{place.system()}/1", end - 8))
    found = only(await place.findings(), "slot-recreated")
    assert "tidelock resync" in found.hint
    place.at_target("DELETE FROM tidelock.tidelock_checkpoint")
    assert "slot-recreated" not in kinds(await place.findings())


# -------------------------------------------------------------------------------------------------------- MySQL's side


@pytest.mark.parametrize("type_", ["text", "varchar(800)"])
async def test_a_key_that_is_too_long_for_mysql(to_mysql: Place, type_: str) -> None:
    to_mysql.at_source(f"CREATE TABLE t (id {type_} PRIMARY KEY, v {type_} UNIQUE)")
    with pytest.raises(CannotRun) as refused:
        await init_plan(to_mysql.feed())
    assert refused.value.finding.kind == "key-length"
    to_mysql.at_target("CREATE TABLE t (id varchar(20) PRIMARY KEY, v longtext)")
    to_mysql.follow(only(await to_mysql.findings(), "key-length"))
    to_mysql.at_target("DROP TABLE t")
    await made(to_mysql)
    assert "v" not in {u for (u,) in to_mysql.target.execute(
        "SELECT COLUMN_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s", to_mysql.database
    )}  # fmt: skip


async def test_texts_that_do_not_fit_in_a_row(to_mysql: Place) -> None:
    """A row of MySQL holds 65,535 bytes; the longest texts become such as are kept beside it."""
    columns = ", ".join(f"c{n} varchar({3000 + n})" for n in range(9))
    to_mysql.at_source(f"CREATE TABLE t (id int PRIMARY KEY, {columns}, flags bit(64), b char(200))")
    await made(to_mysql)
    types = to_mysql.target.execute(
        "SELECT DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s ORDER BY ORDINAL_POSITION",
        to_mysql.database,
    )
    assert [t for (t,) in types][1:10] == ["varchar"] * 4 + ["longtext"] * 5
    assert await to_mysql.findings() == []


async def test_a_collation_that_folds_what_postgresql_keeps_apart(to_mysql: Place) -> None:
    to_mysql.at_source("CREATE TABLE t (id varchar(20) PRIMARY KEY)")
    to_mysql.at_target("CREATE TABLE t (id varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci PRIMARY KEY)")
    found = only(await to_mysql.findings(), "key-collation")
    to_mysql.at_target(found.hint)
    assert await to_mysql.findings() == []


# -------------------------------------------------------------------------------------------------------- init, remove


async def made(place: Place, tables: str = "", **other: str) -> list[PlannedStatement]:
    """Run the plan as an administrator would, all of it but what the target does not get."""
    plan = [one for one in await init_plan(place.feed(tables, **other)) if not one.left_out]
    for statement in plan:
        server = place.source if statement.side == "source" else place.target
        server.execute_script(statement.sql, database=place.schema if server is place.source else place.database)
    return plan


TYPES = """CREATE EXTENSION hstore; CREATE SCHEMA words; CREATE TYPE words.mood AS ENUM ('sad', 'glad');
CREATE TABLE t (id int PRIMARY KEY, m words.mood, h hstore, a int[], r int4range, n numeric, j jsonb, u uuid,
    d timestamptz, b boolean, twice int GENERATED ALWAYS AS (id * 2) STORED, k varchar(9) UNIQUE);
CREATE TABLE child (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, t int REFERENCES t ON DELETE CASCADE);
ALTER TABLE t REPLICA IDENTITY FULL; ALTER TABLE child REPLICA IDENTITY FULL;
CREATE TABLE log (v text)"""


@pytest.mark.parametrize("kind", ["postgres", "mariadb", "mysql"])
async def test_init_makes_what_check_wants(request: pytest.FixtureRequest, source: Postgres, kind: str) -> None:
    place = Place(source, request.getfixturevalue(kind))
    place.at_source(TYPES)
    tables = place.everything()
    plan = await made(place, tables)
    identity = [s for s in plan if "REPLICA IDENTITY" in s.sql]
    assert [s.sql for s in identity] == ['ALTER TABLE "public"."log" REPLICA IDENTITY FULL']
    assert identity[0].administrator
    (publication,) = [s for s in plan if "CREATE PUBLICATION" in s.sql]
    assert '"log"' not in publication.sql, "PostgreSQL would refuse every UPDATE of it"
    assert 'TABLE "public"."child", "public"."t" WITH' in publication.sql
    plan = await made(place, tables)  # the identity is there now
    assert [s.sql for s in plan] == [f'ALTER PUBLICATION "{place.slot}" ADD TABLE "public"."log"']
    assert [one for one in await init_plan(place.feed(tables)) if not one.left_out] == []
    found = [f for f in await place.findings(tables) if f.kind != "target-durability"]
    assert {f.level for f in found} == {"note"}, found


async def test_init_does_what_the_feeds_user_may(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --apply the owner of the tables needs nobody else; who owns none is told whom to ask."""
    import asyncio

    place.source.execute("DROP ROLE IF EXISTS shopkeeper")
    url = role(place, "shopkeeper", "REPLICATION")
    place.source.execute(f"GRANT CREATE ON DATABASE {place.schema} TO shopkeeper")
    place.at_source("CREATE SCHEMA shop AUTHORIZATION shopkeeper", f"CREATE TABLE shop.t ({ITEM})")
    yaml = tmp_path / "shop.yaml"
    yaml.write_text(place.text("[{source: shop.t, target: public.t}]", source=url))

    def commanded(apply: bool) -> str:
        assert init(str(yaml), apply, False) == 0
        return capsys.readouterr().out

    said = await asyncio.to_thread(commanded, False)
    assert "-- source, by an administrator: what the log tells: the feed's tables, by who owns all of them" in said
    assert f'CREATE PUBLICATION "{place.slot}" FOR TABLE "shop"."t"' in said
    place.at_source("ALTER TABLE shop.t OWNER TO shopkeeper")
    said = await asyncio.to_thread(commanded, True)
    assert "at the source" in said, said
    assert place.source.execute("SELECT plugin::text FROM pg_replication_slots WHERE slot_name = $1", place.slot) == [
        ("pgoutput",)
    ]
    assert place.target.execute("SELECT feed FROM tidelock.tidelock_checkpoint", database=place.database) == [
        (place.name,)
    ]
    assert "nothing is missing" in await asyncio.to_thread(commanded, False)

    def removed(apply: bool) -> str:
        assert remove(str(yaml), apply, False) == 0
        return capsys.readouterr().out

    said = await asyncio.to_thread(removed, False)
    assert f"SELECT pg_drop_replication_slot('{place.slot}');" in said
    assert f"DELETE FROM \"tidelock\".tidelock_checkpoint WHERE feed = '{place.name}';" in said
    assert place.slots() == 1
    await asyncio.to_thread(removed, True)
    assert place.slots() == 0
    assert place.source.execute("SELECT count(*)::int FROM pg_publication", database=place.schema) == [(0,)]
    assert place.target.execute("SELECT count(*)::int FROM tidelock.tidelock_checkpoint", database=place.database) == [
        (0,)
    ]
    assert "nothing is left of it" in await asyncio.to_thread(removed, True)


async def test_a_feed_with_a_checkpoint_never_gets_a_new_slot(place: Place) -> None:
    """It would begin behind the checkpoint, and what was committed in between is lost."""
    place.both()
    place.publish()
    place.store(Position(f"{place.system()}/1", 4_000))
    assert [s.sql for s in await init_plan(place.feed()) if "slot" in s.sql] == []
    assert "slot-missing" in kinds(await place.findings())
