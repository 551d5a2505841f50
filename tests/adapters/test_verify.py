"""`tidelock verify` on real servers: every planted difference is found, and nothing else, also while rows change."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest

from bench.harness.planted import Planted
from bench.harness.rig import Rig
from bench.harness.servers import Server
from bench.harness.session import Flavor
from bench.harness.value_tables import Keyed
from bench.harness.values import ZONE, column_values
from tidelock.adapters.config.loader import load
from tidelock.adapters.verify.page import page
from tidelock.adapters.verify.plan import plan
from tidelock.adapters.verify.report import VerifyReport
from tidelock.adapters.verify.verify import VerifyStep, examine

FROM_POSTGRES = [("postgres", "postgres"), ("postgres", "mariadb"), ("postgres", "mysql")]
PAIRS = [("mariadb", "postgres"), ("mysql", "postgres"), ("mysql", "other_mysql"), *FROM_POSTGRES]
PROOF = pytest.mark.proof
ALIKE = [("mysql", "postgres"), ("mysql", "other_mysql"), ("postgres", "postgres"), ("postgres", "mariadb")]
OPERATOR = 4


class Steps:
    """Steps that a verification tells of itself."""

    def __init__(self) -> None:
        self.phases: list[str] = []

    def begin(self, step: VerifyStep) -> None:
        self.phases.append(step.phase)

    def attach(self, spark: object) -> None: ...

    def tell(self, text: str) -> None: ...


def verified(rig: Rig, spark: object, *tables: str, wait: float = 60) -> VerifyReport:
    feed = load(rig.feed)
    return examine(feed, asyncio.run(plan(feed, tables)), spark, wait, Steps())  # type: ignore[arg-type]


def found(report: VerifyReport) -> list[tuple[str, str, str, str]]:
    """As `Planted.expected` has them: a column each, '' for rows that one end lacks."""
    return sorted(
        (table.table.rpartition(".")[2], d.kind, ",".join(map(str, d.key.values())), column)
        for table in report.tables
        for d in table.differences
        for column in (d.columns if d.kind == "different" else [""])
    )


def planted_rig(
    make_rig: Callable[..., Rig],
    source: Server,
    target: Server,
    planted: Planted,
    differences: bool = True,
    small_rows: int = 0,
) -> tuple[Rig, Planted]:
    pieces = {"piece_rows": "2000"} if differences else {}
    rig = make_rig(source, target, "verify", lanes=2, spark={**pieces, "small_rows": small_rows})
    ours, theirs = flavor_of(source), flavor_of(target)
    rig.at_source(*planted.ddl(ours, ours), *planted.fill(ours))
    rig.at_target(*planted.ddl(theirs, ours), *planted.fill(theirs))
    rig.start_at = rig.here()
    if differences:
        rig.at_target(*planted.plant(theirs))
    rig.catch_up()
    return rig, planted


def flavor_of(server: Server) -> Flavor:
    return {"postgresql": Flavor.POSTGRES, "mysql": Flavor.MYSQL, "mariadb": Flavor.MARIADB}[server.scheme]


@contextlib.contextmanager
def written_on(rig: Rig, planted: Planted, rate: float) -> Iterator[list[int]]:
    """Inside, the feed runs, and `rate` changes a second are made at the source; not to planted rows.

    Afterwards the list holds how many rows may have been counted not at all, or twice: PostgreSQL writes a changed row
    to another block, and blocks are read at several moments.
    """
    running, stop, written = rig.run(), threading.Event(), list[int]()
    url = rig.source.url(rig.schema)
    writer = threading.Thread(target=lambda: written.append(planted.write(url, rate, stop)))
    writer.start()
    moved = list[int]()
    try:
        yield moved
        assert running.running and writer.is_alive()
    finally:
        stop.set()
        writer.join()
    assert written[0] > 0
    moved.append(written[0] if flavor_of(rig.source) is Flavor.POSTGRES else 0)


def check(report: VerifyReport, planted: Planted, expected: list[tuple[str, str, str, str]], moved: int = 0) -> None:
    """`moved`: how many rows changed their place, and so may not have been counted."""
    assert found(report) == expected
    assert report.settled, report.note
    assert [t.still_changing for t in report.tables] == [0, 0]
    assert [t.source_rows for t in report.tables if t.source_rows < planted.rows - moved or not t.complete] == []


def but(proven: list[tuple[str, str]]) -> pytest.MarkDecorator:
    """All pairs, of which these are in the proof."""
    cases = [pytest.param(*pair, marks=PROOF) if pair in proven else pair for pair in PAIRS]
    return pytest.mark.parametrize(("source", "target"), cases)


@PROOF
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_planted_differences_are_found_and_nothing_else_while_rows_change(
    source: str, target: str, make_rig: Callable[..., Rig], spark: object, request: pytest.FixtureRequest
) -> None:
    """By Spark, which `make test` sees beside changes in `test_repair.py`."""
    servers = request.getfixturevalue(source), request.getfixturevalue(target)
    rig, planted = planted_rig(make_rig, *servers, Planted(6_000, 84))
    with written_on(rig, planted, 300) as moved:
        report = verified(rig, spark)
    check(report, planted, sorted(planted.expected()), *moved)


@but(ALIKE)
def test_planted_differences_of_small_tables_are_found_and_nothing_else_while_rows_change(
    source: str, target: str, make_rig: Callable[..., Rig], request: pytest.FixtureRequest
) -> None:
    """Without Spark."""
    servers = request.getfixturevalue(source), request.getfixturevalue(target)
    rig, planted = planted_rig(make_rig, *servers, Planted(4_000, 84), small_rows=10_000)
    with written_on(rig, planted, 300):
        report = verified(rig, None)
    check(report, planted, sorted(planted.expected()))


@pytest.mark.proof
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_thousand_differences_among_five_million_rows_are_found(
    source: str, target: str, make_rig: Callable[..., Rig], spark: object, request: pytest.FixtureRequest
) -> None:
    servers = request.getfixturevalue(source), request.getfixturevalue(target)
    rig, planted = planted_rig(make_rig, *servers, Planted(2_500_000, 560), differences=False)
    with written_on(rig, planted, 2000) as moved:
        before = verified(rig, spark)
        rig.at_target(*planted.plant(flavor_of(rig.target)))
        after = verified(rig, spark)
    print(*(f"{r.seconds} s, {r.rows_per_second:,} rows/s while rows changed" for r in (before, after)))
    check(before, planted, [], *moved)
    check(after, planted, sorted(planted.expected()), *moved)


@pytest.mark.parametrize(
    ("source", "small_rows"),
    [
        pytest.param("mariadb", 0, id="mariadb-spark"),
        pytest.param("mysql", 10_000, id="mysql-small"),
        pytest.param("mariadb", 10_000, id="mariadb-small", marks=PROOF),
        pytest.param("mysql", 0, id="mysql-spark", marks=PROOF),
    ],
)
def test_every_value_is_equal_to_itself(
    source: str,
    small_rows: int,
    make_rig: Callable[..., Rig],
    postgres: Server,
    spark: object,
    request: pytest.FixtureRequest,
) -> None:
    """All values of all types that a target can hold, after the feed has brought them there."""
    rig = make_rig(request.getfixturevalue(source), postgres, "verify", spark={"small_rows": small_rows})
    keyed = Keyed(column_values(Flavor(source)), Flavor.POSTGRES)
    rig.at_source(f"SET sql_mode = '', time_zone = '{ZONE}'", *keyed.ddl)
    rig.start_at = rig.here()
    assert rig.command("init", "--apply").code == 0
    rig.at_source(*keyed.before())
    assert rig.catch_up_code() == OPERATOR, rig.said()
    (table,) = verified(rig, spark, wait=0).tables
    refused = {number for number, _, _, reason in keyed.cells if reason}
    assert {int(d.key["id"]) % 1000 for d in table.differences} == refused, table.differences
    assert {d.kind for d in table.differences} == {"missing"}
    assert table.failed_rows == table.missing == len(refused) * 2


@pytest.mark.parametrize(
    "small_rows", [pytest.param(0, id="spark", marks=PROOF), pytest.param(10_000, id="small")]
)
def test_the_feeds_mapping_is_followed(
    small_rows: int, make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, spark: object
) -> None:
    """Other names, columns that stay behind, a row filter, two tables that go to one, a table without a key; texts of
    two binary collations, which MariaDB and MySQL do not join by themselves."""
    rig = make_rig(mariadb, postgres, "verify", spark={"small_rows": small_rows})
    people = "id int PRIMARY KEY, mail varchar(40) CHARACTER SET latin1, secret int, region varchar(4), born datetime"
    rig.at_source(*(f"CREATE TABLE {name} ({people})" for name in ("person_eu", "person_us", "filtered")))
    binary = "varchar(10) CHARACTER SET utf8mb4 COLLATE"
    rig.at_source(f"CREATE TABLE plain (a int, b {binary} utf8mb4_bin, c {binary} utf8mb4_nopad_bin)")
    rig.at_source("INSERT INTO plain VALUES (1, 'x', 'y'), (1, 'x', 'y'), (NULL, '', '')")
    rig.at_source(
        "INSERT INTO person_eu VALUES (1, 'é@x', 1, 'eu', '2024-01-01'), (2, NULL, 2, 'eu', NULL)",
        "INSERT INTO person_us VALUES (3, 'c@x', 3, 'us', NULL)",
        "INSERT INTO filtered VALUES (1, 'a', 1, 'eu', '2024-05-05'), (2, 'b', 1, 'EU', '2024-05-05'),"
        " (3, 'c', 1, 'eu', '2019-01-01'), (4, 'd', 1, NULL, '2024-05-05')",
    )
    target = "id int PRIMARY KEY, email text, region text, born timestamp, own int DEFAULT 5"
    rig.at_target(
        *(f"CREATE TABLE {name} ({target})" for name in ("everyone", "chosen")),
        "CREATE TABLE plain (a int, b varchar(10), c varchar(10))",
        "INSERT INTO everyone VALUES (1, 'é@x', 'eu', '2024-01-01'), (2, NULL, 'eu', NULL), (3, 'c@x', 'us', NULL)",
        "INSERT INTO chosen VALUES (1, 'a', 'eu', '2024-05-05')",
        "INSERT INTO plain VALUES (NULL, '', ''), (1, 'x', 'y'), (1, 'x', 'y')",
    )
    columns = {"exclude": ["secret"], "rename": {"mail": "email"}}
    where = "region = 'eu' AND born >= '2020-01-01 00:00:00'"
    rig.rules = [
        {"source": f"{rig.schema}.person_*", "target": f"{rig.schema}.everyone", "columns": columns},
        {"source": f"{rig.schema}.filtered", "target": f"{rig.schema}.chosen", "columns": columns, "where": where},
        {"source": f"{rig.schema}.plain"},
    ]
    report = verified(rig, spark)
    assert report.equal, report
    assert "never run" in report.note
    assert [(t.table.rpartition(".")[2], t.source_rows) for t in report.tables] == [
        ("chosen", 1),
        ("everyone", 3),
        ("plain", 3),
    ]
    rig.at_target("INSERT INTO chosen VALUES (2, 'b', 'EU', '2024-05-05')", "INSERT INTO plain VALUES (1, 'x', 'y')")
    rig.at_target("UPDATE everyone SET email = '' WHERE id = 2", "DELETE FROM everyone WHERE id = 3")
    assert found(verified(rig, spark)) == [
        ("chosen", "extra", "2", ""),
        ("everyone", "different", "2", "email"),
        ("everyone", "missing", "3", ""),
        ("plain", "extra", "", ""),
    ]
    only = asyncio.run(plan(load(rig.feed), [f"{rig.schema}.pl*"]))
    assert [cut.pair.name.table for cut in only.tables] == ["plain"]


def test_rows_that_the_feed_has_not_applied_are_said_to_be_perhaps_on_their_way(
    make_rig: Callable[..., Rig], mysql: Server, postgres: Server, spark: object
) -> None:
    rig = make_rig(mysql, postgres, "verify")
    rig.table("t", "id int PRIMARY KEY, v varchar(20)")
    rig.at_source("INSERT INTO t VALUES (1, 'a')")
    rig.catch_up()
    rig.at_source("INSERT INTO t VALUES (2, 'b')")
    report = verified(rig, spark, wait=0)
    assert [d.key for d in report.tables[0].differences] == [{"id": "2"}]
    assert not report.settled
    assert "has not passed" in report.note
    rig.catch_up()
    report = verified(rig, spark)
    assert report.equal
    assert not report.note


def test_the_page_needs_nothing_else_and_shows_no_markup_of_the_data(
    make_rig: Callable[..., Rig], mysql: Server, postgres: Server, spark: object
) -> None:
    rig = make_rig(mysql, postgres, "verify")
    rig.table("t", "id int PRIMARY KEY, v varchar(40)")
    rig.at_source("INSERT INTO t VALUES (1, '<script>alert(1)</script>'), (2, NULL)")
    text = page(verified(rig, spark))
    assert "<svg" in text
    assert "missing: 2" in text
    assert "<script" not in text
    assert "://" not in text.replace(str(load(rig.feed).source_url), "").replace(str(load(rig.feed).target_url), "")
