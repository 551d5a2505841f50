"""`tidelock repair` on real servers: what verify finds is written again by the feed, and by it alone, in the stream."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from bench.harness.drawn import Drawn
from bench.harness.planted import Planted
from bench.harness.rig import Rig, Said, tidelock
from bench.harness.servers import Server
from bench.harness.session import Flavor
from bench.harness.value_tables import WideKeys
from bench.harness.values import ZONE, column_values
from tidelock.adapters.config.loader import load
from tidelock.adapters.verify.plan import plan
from tidelock.adapters.verify.report import VerifyReport
from tidelock.adapters.verify.verify import VerifyStep, examine

PAIRS = [("mariadb", "postgres"), ("mysql", "other_mysql")]
CROSSED = [("mysql", "postgres"), ("mariadb", "other_mysql")]
PROOF = pytest.mark.proof
USAGE, OPERATOR = 2, 4
SECONDS = 240


class Steps:
    def begin(self, step: VerifyStep) -> None: ...

    def attach(self, spark: object) -> None: ...

    def tell(self, text: str) -> None: ...


def verified(rig: Rig, spark: object) -> VerifyReport:
    feed = load(rig.feed)
    return examine(feed, asyncio.run(plan(feed, ())), spark, 60, Steps())  # type: ignore[arg-type]


def kept(rig: Rig, report: VerifyReport) -> Path:
    path = rig.folder / "report.json"
    path.write_bytes(msgspec.json.encode(report))
    return path


def repair(rig: Rig, path: Path, *words: str) -> Said:
    return tidelock("repair", str(rig.feed), "--from-report", str(path), *words, seconds=SECONDS)


def differing(report: VerifyReport) -> int:
    return sum(table.total for table in report.tables)


def flavor_of(server: Server) -> Flavor:
    return {"postgresql": Flavor.POSTGRES, "mysql": Flavor.MYSQL, "mariadb": Flavor.MARIADB}[server.scheme]


@contextlib.contextmanager
def written_on(rig: Rig, planted: Planted, rate: float) -> Iterator[None]:
    """Inside, the feed runs, and `rate` changes a second are made at the source; not to planted rows."""
    running, stop = rig.run(), threading.Event()
    writer = threading.Thread(target=planted.write, args=(rig.source.url(rig.schema), rate, stop))
    writer.start()
    try:
        yield
        assert running.running and writer.is_alive()
    finally:
        stop.set()
        writer.join()


@pytest.mark.proof
@pytest.mark.parametrize(
    ("source", "target"), [("mariadb", "postgres"), pytest.param("mysql", "other_mysql", marks=PROOF)]
)
def test_differences_of_every_kind_are_repaired_while_rows_change(
    source: str, target: str, make_rig: Callable[..., Rig], spark: object, request: pytest.FixtureRequest
) -> None:
    rig = make_rig(
        request.getfixturevalue(source), request.getfixturevalue(target), "repair", lanes=2, spark={"small_rows": 0}
    )
    planted, ours, theirs = Planted(3000, 84), flavor_of(rig.source), flavor_of(rig.target)
    rig.at_source(*planted.ddl(ours, ours), *planted.fill(ours))
    rig.at_target(*planted.ddl(theirs, ours), *planted.fill(theirs))
    rig.start_at = rig.here()
    rig.at_target(*planted.plant(theirs))
    with written_on(rig, planted, 200):
        before = verified(rig, spark)
        assert differing(before) == len(planted.expected())
        said = repair(rig, kept(rig, before), "--yes", "--json")
        assert said.code == 0, said.err or said.out
        assert {part["state"] for part in said.json["tables"]} == {"repaired"}
        assert sum(part["rows"] for part in said.json["tables"]) == differing(before)
        after = verified(rig, spark)
    assert after.equal, after
    assert rig.parked() == 0


@pytest.mark.parametrize(
    ("source", "target", "differences"),
    [
        (*PAIRS[0], 50),
        *(pytest.param(*pair, 200, marks=PROOF) for pair in (*PAIRS, *CROSSED)),
    ],
)
def test_drawn_differences_are_found_and_repaired_and_other_spellings_are_none(
    source: str, target: str, differences: int, make_rig: Callable[..., Rig], request: pytest.FixtureRequest
) -> None:
    """About half of the rows differ; the other half are spelled otherwise, where the type has another spelling."""
    servers = request.getfixturevalue(source), request.getfixturevalue(target)
    rig = make_rig(*servers, "drawn", spark={"small_rows": 10_000})
    drawn = Drawn(differences, 7, *map(flavor_of, servers))
    drawn.plant(rig)
    rig.catch_up()
    running = rig.run()
    before = verified(rig, None)
    (table,) = before.tables
    named = sorted((d.key["id"], column) for d in table.differences for column in d.columns)
    assert named == drawn.expected and before.settled and len(named) == differences
    said = repair(rig, kept(rig, before), "--yes", "--json")
    assert said.code == 0 and sum(part["rows"] for part in said.json["tables"]) == differences, said
    after = verified(rig, None)
    assert after.equal and rig.parked() == 0 and running.running
    print(f"{source} to {target}: {drawn.rows} rows, {differences} differences, all found, {differing(after)} left")


@pytest.mark.parametrize(("source", "target"), [("mariadb", "postgres"), ("mysql", "mariadb")])
def test_rows_with_keys_of_every_kind_are_repaired(
    source: str, target: str, make_rig: Callable[..., Rig], spark: object, request: pytest.FixtureRequest
) -> None:
    """But for those that the target cannot hold: they are parked, as they were."""
    rig = make_rig(request.getfixturevalue(source), request.getfixturevalue(target), "repair")
    wide = WideKeys(column_values(Flavor(source)))
    rig.at_source(f"SET sql_mode = '', time_zone = '{ZONE}'", *wide.ddl)
    rig.start_at = rig.here()
    assert rig.command("init", "--apply").code == 0
    rig.at_source(*wide.before())
    assert rig.catch_up_code() in (0, OPERATOR), rig.said()
    refused = differing(verified(rig, spark))
    assert refused == rig.parked()
    for table in wide.tables:
        rig.at_target(f"UPDATE {rig.schema}.{table} SET v = 1", f"DELETE FROM {rig.schema}.{table} WHERE n = 0")
    running = rig.run()
    before = verified(rig, spark)
    assert differing(before) == sum(table.source_rows for table in before.tables)
    said = repair(rig, kept(rig, before), "--yes", "--json")
    assert said.code == 0, said.err or said.out
    after = verified(rig, spark)
    assert differing(after) == refused == rig.parked(), after
    assert running.running


def test_a_dry_run_prints_statements_that_would_do_and_asks_for_nothing(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, spark: object
) -> None:
    rig = make_rig(mariadb, postgres, "repair")
    rig.table("t", "id int PRIMARY KEY, v varchar(20), at date", "id int PRIMARY KEY, v text, at date, own int")
    rig.at_source("INSERT INTO t VALUES (1, 'it''s', '2024-01-01'), (2, NULL, NULL), (3, 'c', NULL), (4, 'd', NULL)")
    rig.at_source("SET sql_mode = ''", "INSERT INTO t VALUES (5, 'e', '2024-00-01')")
    assert rig.catch_up_code() == OPERATOR
    place = f"{rig.schema}.t"
    rig.at_target(f"UPDATE {place} SET v = 'x', own = 7 WHERE id = 1", f"DELETE FROM {place} WHERE id = 2")
    rig.at_target(f"INSERT INTO {place} VALUES (-1, 'extra')")
    said = repair(rig, kept(rig, verified(rig, spark)), "--dry-run")
    assert said.code == 0, said.err
    name = f'"{rig.schema}"."t"'
    lines = said.out.splitlines()
    statements = [line for line in lines if not line.startswith("--")]
    assert sorted(statements) == [
        f"DELETE FROM {name} WHERE \"id\" = '-1';",
        f'INSERT INTO {name} ("id", "v", "at") VALUES (\'2\', NULL, NULL);',
        f"UPDATE {name} SET \"v\" = 'it''s' WHERE \"id\" = '1';",
    ]
    assert any("id='5'" in line and "zero date" in line for line in lines)
    assert rig.rows(f"SELECT count(*)::text FROM tidelock.tidelock_wanted WHERE feed = '{rig.name}'") == [("0",)]
    rig.at_target(*statements)
    assert [d.key for table in verified(rig, spark).tables for d in table.differences] == [{"id": "5"}]


def test_rows_outside_the_filter_go_and_others_are_renamed_on_their_way(
    make_rig: Callable[..., Rig], mysql: Server, postgres: Server, spark: object
) -> None:
    rig = make_rig(mysql, postgres, "repair")
    rig.at_source("CREATE TABLE person (id int PRIMARY KEY, mail varchar(20), secret int, region varchar(4))")
    rig.at_target("CREATE TABLE human (no int PRIMARY KEY, email text, region text)")
    columns = {"rename": {"id": "no", "mail": "email"}, "exclude": ["secret"]}
    names = {"source": f"{rig.schema}.person", "target": f"{rig.schema}.human"}
    rig.rules = [names | {"columns": columns, "where": "region = 'eu'"}]
    rig.at_source("INSERT INTO person VALUES (1, 'a', 1, 'eu'), (2, 'b', 2, 'us'), (3, 'c', 3, 'eu')")
    rig.catch_up()
    rig.at_target("INSERT INTO human VALUES (2, 'b', 'us'), (9, 'z', 'eu')")
    rig.at_target("UPDATE human SET email = 'x' WHERE no = 3")
    running = rig.run()
    path = kept(rig, verified(rig, spark))
    assert repair(rig, path, "--yes").code == 0
    assert rig.rows("SELECT no::text, email, region FROM human ORDER BY no") == [("1", "a", "eu"), ("3", "c", "eu")]
    assert running.running


@pytest.mark.proof
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_row_that_the_target_refuses_is_in_the_report_and_all_others_are_repaired(
    source: str, target: str, make_rig: Callable[..., Rig], spark: object, request: pytest.FixtureRequest
) -> None:
    rig = make_rig(request.getfixturevalue(source), request.getfixturevalue(target), "repair")
    rig.table("parent", "id int PRIMARY KEY")
    rig.table("t", "id int PRIMARY KEY, v int, parent int")
    rig.at_source("INSERT INTO parent VALUES (1)", "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2), (3, 3, 1), (4, 4, NULL)")
    rig.at_source("UPDATE t SET v = v * 2")
    rig.catch_up()
    rig.at_target("UPDATE t SET v = 0, parent = 1")
    rig.at_target("ALTER TABLE t ADD CONSTRAINT strict FOREIGN KEY (parent) REFERENCES parent (id)")
    running = rig.run()
    path = kept(rig, verified(rig, spark))
    said = repair(rig, path, "--yes", "--json")
    assert said.code == OPERATOR, said
    (part,) = said.json["tables"]
    assert (part["state"], part["rows"], [row["key"] for row in part["unrepaired"]]) == ("repaired", 4, ["id=2"])
    assert "foreign key" in part["unrepaired"][0]["why"].lower() or "strict" in part["unrepaired"][0]["why"]
    assert rig.rows(f"SELECT CONCAT(id, ' ', v) FROM {rig.schema}.t ORDER BY id") == [
        ("1 2",), ("2 0",), ("3 6",), ("4 8",),
    ]  # fmt: skip
    again = repair(rig, path, "--yes")
    assert again.code == OPERATOR and "id=2 stays as it is" in again.out, again
    rig.at_target("ALTER TABLE t DROP " + ("CONSTRAINT" if target == "postgres" else "FOREIGN KEY") + " strict")
    assert repair(rig, path, "--yes").code == 0
    assert verified(rig, spark).equal and running.running


def test_without_a_running_feed_the_wishes_stay_for_the_next_run(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, spark: object
) -> None:
    rig = make_rig(mariadb, postgres, "repair")
    rig.table("t", "id int PRIMARY KEY, v int")
    rig.table("keyless", "v int")
    rig.at_source("INSERT INTO t VALUES (1, 1), (2, 2)", "INSERT INTO keyless VALUES (1)")
    rig.catch_up()
    rig.at_target(f"UPDATE {rig.schema}.t SET v = 0", f"DELETE FROM {rig.schema}.keyless")
    path = kept(rig, verified(rig, spark))
    said = repair(rig, path)
    assert (said.code, said.out) == (USAGE, "")
    assert "--yes" in said.err
    said = repair(rig, path, "--yes", "--wait", "0")
    assert said.code == OPERATOR
    assert "What was asked for stays" in said.out
    assert f"tidelock copy FEED --table {rig.schema}.keyless" in said.out
    rig.at_source("UPDATE t SET v = 3 WHERE id = 2")
    rig.catch_up()
    assert rig.rows(f"SELECT id::text, v::text FROM {rig.schema}.t ORDER BY id") == [("1", "1"), ("2", "3")]


def test_reports_that_do_not_fit_are_refused(make_rig: Callable[..., Rig], mysql: Server, postgres: Server) -> None:
    rig = make_rig(mysql, postgres, "repair")
    feed = load(rig.feed)
    report = VerifyReport(
        feed=feed.name, source=str(feed.source_url), target=str(feed.target_url), begun="", seconds=0,
        rows_per_second=0, settled=True, note="", tables=(), format=2,
    )  # fmt: skip
    plain = json.loads(msgspec.json.encode(report))
    path = rig.folder / "report.json"
    for content, words in [
        (plain | {"feed": "other"}, "is of the feed other"),
        (plain | {"target": "postgresql://elsewhere/db"}, "postgresql://elsewhere/db"),
        ({key: value for key, value in plain.items() if key != "format"}, "has format 0"),
        ({"feed": 1}, "is no report"),
    ]:
        path.write_text(json.dumps(content))
        said = repair(rig, path, "--yes")
        assert (said.code, said.out) == (USAGE, ""), said
        assert words in said.err
    assert "No such file" in repair(rig, rig.folder / "nothing", "--yes").err
