"""`tidelock verify --since`: only rows that the source's log names are looked at, and all of those."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from bench.harness.rig import Rig, tidelock
from bench.harness.servers import MariaDb, MySql, Server
from bench.harness.session import Flavor
from bench.harness.value_tables import WideKeys
from bench.harness.values import ZONE, column_values
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.loader import load
from tidelock.adapters.verify.catalogues import paired
from tidelock.adapters.verify.changed_keys import Changed, changed, since
from tidelock.adapters.verify.plan import plan
from tidelock.adapters.verify.report import BadReport, VerifyReport
from tidelock.adapters.verify.table_pairs import NotComparable
from tidelock.adapters.verify.verify import VerifyStep, examine
from tidelock.adapters.verify.watermark import proven_position, source_position
from tidelock.engine.model.records import Position, TableName

SPARK_SECONDS = 240
DIFFERENT = 3
PARKED = 4


class Steps:
    def begin(self, step: VerifyStep) -> None: ...

    def attach(self, spark: object) -> None: ...

    def tell(self, text: str) -> None: ...


def keys_since(feed: Feed, when: str) -> Changed:
    keys = {pair.name: pair.columns[: pair.key] for pair in asyncio.run(paired(feed, ()))}
    return changed(feed, since(feed, when, datetime.now(UTC)), source_position(feed), keys, Steps().tell)


def verified(feed: Feed, keys: Changed, spark: object) -> VerifyReport:
    return examine(feed, asyncio.run(plan(feed, (), keys)), spark, 60, Steps())  # type: ignore[arg-type]


def found(report: VerifyReport) -> set[tuple[str, str, str]]:
    return {
        (table.table.rpartition(".")[2], d.kind, ",".join(map(str, d.key.values())))
        for table in report.tables
        for d in table.differences
    }


@pytest.mark.parametrize(
    ("source", "target", "small_rows"),
    [
        pytest.param("mariadb", "postgres", 10_000, id="mariadb-postgres"),
        pytest.param("mariadb", "postgres", 0, id="mariadb-postgres-spark", marks=pytest.mark.proof),
        pytest.param("mysql", "mariadb", 0, id="mysql-mariadb-spark", marks=pytest.mark.proof),
    ],
)
def test_rows_that_changed_since_a_position_are_compared_and_no_others(
    source: str,
    target: str,
    small_rows: int,
    make_rig: Callable[..., Rig],
    spark: object,
    request: pytest.FixtureRequest,
) -> None:
    servers = request.getfixturevalue(source), request.getfixturevalue(target)
    rig = make_rig(*servers, "since", spark={"small_rows": small_rows})
    rig.table("one", "id int PRIMARY KEY, v int")
    rig.table("two", "a varchar(20) NOT NULL, b decimal(6,2) NOT NULL, v int, PRIMARY KEY (a, b)")
    rig.table("still", "id int PRIMARY KEY, v int")
    rig.table("keyless", "v int")
    numbers = ", ".join(f"({n}, 0)" for n in range(1, 101))
    rig.at_source(*(f"INSERT INTO {table} VALUES {numbers}" for table in ("one", "still")))
    rig.at_source(
        "INSERT INTO two VALUES ('é', 1.5, 0), ('x', 2, 0), ('y', 3, 0)", "INSERT INTO keyless VALUES (1), (2)"
    )
    rig.catch_up()
    before = rig.here()
    rig.at_source(
        "UPDATE one SET v = 1 WHERE id <= 10", "DELETE FROM one WHERE id = 20", "UPDATE one SET id = 200 WHERE id = 30"
    )
    rig.at_source("UPDATE two SET v = 1 WHERE a = 'é'", "INSERT INTO keyless VALUES (3)")
    rig.catch_up()
    feed = load(rig.feed)
    schema = rig.schema
    keys = keys_since(feed, before)
    one, two, keyless = (TableName(schema, name) for name in ("one", "two", "keyless"))
    assert keys == {one: (*((n,) for n in range(1, 11)), (20,), (30,), (200,)), two: (("é", "1.50"),), keyless: None}
    assert not found(verified(feed, keys, spark))
    # Differences of rows that changed, and of others, which are not seen.
    rig.at_target(f"UPDATE {schema}.one SET v = 7 WHERE id IN (5, 50)", f"DELETE FROM {schema}.one WHERE id = 200")
    rig.at_target(f"INSERT INTO {schema}.one VALUES (20, 1)", f"UPDATE {schema}.two SET v = 9 WHERE v <> 5")
    rig.at_target(f"DELETE FROM {schema}.keyless WHERE v = 1", f"DELETE FROM {schema}.still WHERE id = 1")
    report = verified(feed, keys, spark)
    assert found(report) == {
        ("one", "different", "5"),
        ("one", "missing", "200"),
        ("one", "extra", "20"),
        ("two", "different", "é,1.5"),
        ("keyless", "missing", ""),
    }
    assert {t.table.rpartition(".")[2]: (t.source_rows, t.matched) for t in report.tables} == {
        "one": (13, 10),
        "two": (1, 0),
        "keyless": (3, 2),
    }


@pytest.mark.parametrize(
    ("source", "target"), [pytest.param("mariadb", "postgres", marks=pytest.mark.proof), ("mysql", "mariadb")]
)
def test_keys_of_every_kind_are_found_again(
    source: str, target: str, make_rig: Callable[..., Rig], spark: object, request: pytest.FixtureRequest
) -> None:
    """All rows differ, and the log names them all."""
    rig = make_rig(request.getfixturevalue(source), request.getfixturevalue(target), "since")
    wide = WideKeys(column_values(Flavor(source)))
    rig.at_source(f"SET sql_mode = '', time_zone = '{ZONE}'", *wide.ddl)
    rig.start_at = rig.here()
    assert rig.command("init", "--apply").code == 0
    rig.at_source(*wide.before())
    assert rig.catch_up_code() in (0, PARKED), rig.said()
    for table in wide.tables:
        rig.at_target(f"UPDATE {rig.schema}.{table} SET v = 1", f"DELETE FROM {rig.schema}.{table} WHERE n = 0")
    feed = load(rig.feed)
    keys = keys_since(feed, rig.start_at)
    report = verified(feed, keys, spark)
    assert len(report.tables) == len(wide.tables)
    for looked in report.tables:
        assert looked.matched == 0, looked
        assert looked.missing + looked.different == len(keys[TableName(*looked.table.split("."))] or ()), looked
        assert looked.different > 0


def test_the_feeds_filter_and_names_are_followed(
    make_rig: Callable[..., Rig], mysql: Server, postgres: Server, spark: object
) -> None:
    rig = make_rig(mysql, postgres, "since")
    rig.at_source("CREATE TABLE person (id int PRIMARY KEY, mail varchar(20), region varchar(4))")
    rig.at_target("CREATE TABLE human (no int PRIMARY KEY, mail text, region text)")
    columns = {"rename": {"id": "no"}}
    rig.rules = [
        {
            "source": f"{rig.schema}.person",
            "target": f"{rig.schema}.human",
            "columns": columns,
            "where": "region = 'eu'",
        }
    ]
    rig.at_source("INSERT INTO person VALUES (1, 'a', 'eu'), (2, 'b', 'us'), (3, 'c', 'eu')")
    rig.catch_up()
    before = rig.here()
    rig.at_source("UPDATE person SET region = 'us' WHERE id = 1", "UPDATE person SET mail = 'bb' WHERE id = 2")
    rig.catch_up()
    feed = load(rig.feed)
    keys = keys_since(feed, before)
    assert keys == {TableName(rig.schema, "human"): ((1,),)}
    rig.at_target("INSERT INTO human VALUES (1, 'a', 'us'), (2, 'b', 'us')")
    assert found(verified(feed, keys, spark)) == {("human", "extra", "1")}


def test_an_emptied_table_is_looked_at_as_a_whole(
    make_rig: Callable[..., Rig], mariadb: Server, mysql: Server, spark: object
) -> None:
    rig = make_rig(mariadb, mysql, "since")
    rig.table("t", "id int PRIMARY KEY")
    rig.at_source("INSERT INTO t VALUES (1), (2)")
    rig.catch_up()
    before = rig.here()
    rig.at_source("TRUNCATE t", "INSERT INTO t VALUES (3)")
    rig.catch_up()
    feed = load(rig.feed)
    keys = keys_since(feed, before)
    assert keys == {TableName(rig.schema, "t"): None}
    rig.at_target(f"INSERT INTO {rig.schema}.t VALUES (2)")
    assert found(verified(feed, keys, spark)) == {("t", "extra", "2")}


@pytest.mark.parametrize("source", ["mariadb", "mysql"])
def test_a_moment_and_a_report_say_where_to_begin(
    source: str, make_rig: Callable[..., Rig], postgres: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server: Server = request.getfixturevalue(source)
    rig = make_rig(server, postgres, "since")
    rig.table("t", "id int PRIMARY KEY")
    rig.at_source("FLUSH LOGS", "INSERT INTO t VALUES (1)")
    feed = load(rig.feed)
    file = rig.here().partition(":")[0]
    later = datetime.now(UTC) + timedelta(hours=3)
    assert since(feed, "2h", later).after_us == int((later - timedelta(hours=2)).timestamp()) * 1_000_000
    assert since(feed, "2099-01-01", later).position == Position(file, 4)
    assert keys_since(feed, "2099-01-01") == {}
    report = tmp_path / "report.json"
    empty = VerifyReport(
        feed=feed.name, source=str(feed.source_url), target=str(feed.target_url), begun="", seconds=0,
        rows_per_second=0, settled=True, note="", tables=(), format=2, position=source_position(feed),
    )  # fmt: skip
    report.write_bytes(msgspec.json.encode(empty))
    rig.at_source("INSERT INTO t VALUES (2)")
    assert keys_since(feed, str(report)) == {TableName(rig.schema, "t"): ((2,),)}
    report.write_bytes(msgspec.json.encode(msgspec.structs.replace(empty, feed="other")))
    with pytest.raises(BadReport, match="is of the feed other"):
        since(feed, str(report), later)
    with pytest.raises(NotComparable, match="is no moment"):
        since(feed, "yesterday", later)
    with pytest.raises(NotComparable, match="does not reach back so far"):
        since(feed, "2001-01-01T00:00+01:00", later)


def test_a_place_that_is_purged_is_an_error_that_says_so(make_rig: Callable[..., Rig], postgres: Server) -> None:
    with MySql() as server:
        rig = make_rig(server, postgres, "since")
        rig.table("t", "id int PRIMARY KEY")
        before = rig.here()
        rig.at_source("INSERT INTO t VALUES (1)")
        rig.purge()
        with pytest.raises(NotComparable, match="no longer reaches back to"):
            keys_since(load(rig.feed), before)


def test_the_command_compares_what_changed_and_needs_no_spark_where_nothing_did(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server
) -> None:
    rig = make_rig(mariadb, postgres, "since")
    rig.table("t", "id int PRIMARY KEY, v int")
    rig.at_source("INSERT INTO t VALUES (1, 1), (2, 2)")
    rig.catch_up()
    said = tidelock("verify", str(rig.feed), "--since", rig.here(), "--json", environment={"JAVA_HOME": "/nowhere"})
    assert (said.code, said.json["tables"], said.err) == (0, [], "")
    before = rig.here()
    rig.at_source("UPDATE t SET v = 7 WHERE id = 2")
    rig.catch_up()
    rig.at_target(f"UPDATE {rig.schema}.t SET v = 0")
    said = tidelock("verify", str(rig.feed), "--since", before, "--json", seconds=SPARK_SECONDS)
    assert said.code == DIFFERENT
    assert [d["key"] for d in said.json["tables"][0]["differences"]] == [{"id": "2"}]
    assert said.json["since"] == before


@pytest.mark.parametrize(
    ("scheme", "rows"),
    [
        pytest.param("mariadb", 30, id="mariadb-longer"),
        pytest.param("mysql", 1, id="mysql-shorter"),
        pytest.param("mariadb", 1, id="mariadb-shorter", marks=pytest.mark.proof),
        pytest.param("mysql", 30, id="mysql-longer", marks=pytest.mark.proof),
    ],
)
def test_a_report_of_another_log_compares_nothing(
    scheme: str, rows: int, make_rig: Callable[..., Rig], postgres: Server, tmp_path: Path
) -> None:
    """The log was reset since: the report's position means nothing in the new one."""
    with MariaDb() if scheme == "mariadb" else MySql() as server:
        rig = make_rig(server, postgres, "since")
        rig.table("t", "id int PRIMARY KEY")
        rig.at_source(*(f"INSERT INTO t VALUES ({n})" for n in range(10)))
        feed = load(rig.feed)
        report = tmp_path / "report.json"
        position = proven_position(feed, source_position(feed))
        told = VerifyReport(
            feed=feed.name, source=str(feed.source_url), target=str(feed.target_url), begun="", seconds=0,
            rows_per_second=0, settled=True, note="", tables=(), format=2, position=position,
        )  # fmt: skip
        report.write_bytes(msgspec.json.encode(told))
        assert keys_since(feed, str(report)) == {}
        rig.at_source("RESET MASTER" if scheme == "mariadb" else "RESET BINARY LOGS AND GTIDS")
        rig.at_source(*(f"INSERT INTO t VALUES ({n})" for n in range(100, 100 + rows)))
        with pytest.raises(NotComparable, match="is not the one that was read"):
            keys_since(feed, str(report))
