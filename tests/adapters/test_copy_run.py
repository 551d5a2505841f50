"""`start: copy` and `tidelock copy` from end to end, on real servers, by Spark and without: the copy goes on through
SIGKILLs while the tables change, and what operators read of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.copying import Trial
from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.tidelock import Process

COPY_SECONDS = 180.0


@pytest.fixture
def pair(request: pytest.FixtureRequest) -> tuple[Server, Server]:
    """Pair of servers; another one where both are MySQL."""
    source, target = request.param
    if source == target:
        return request.getfixturevalue(source), request.getfixturevalue(f"other_{target}")
    return request.getfixturevalue(source), request.getfixturevalue(target)


PAIRS = pytest.mark.parametrize("pair", [("mariadb", "postgres"), ("mysql", "mysql")], ids="-".join, indirect=True)


@pytest.mark.parametrize(
    ("pair", "rows", "kills", "small_rows"),
    [
        pytest.param(("mariadb", "postgres"), 6_000, 1, 20_000, id="mariadb-postgres-direct"),
        pytest.param(("mariadb", "postgres"), 6_000, 1, 0, id="mariadb-postgres", marks=pytest.mark.proof),
        pytest.param(("mariadb", "postgres"), 20_000, 2, 0, id="mariadb-postgres-twice", marks=pytest.mark.proof),
        pytest.param(("mysql", "mysql"), 20_000, 1, 0, id="mysql-mysql", marks=pytest.mark.proof),
        pytest.param(("mysql", "mysql"), 20_000, 1, 20_000, id="mysql-mysql-direct", marks=pytest.mark.proof),
    ],
    indirect=["pair"],
)
def test_a_copy_through_sigkills_while_all_changes(
    pair: tuple[Server, Server], rows: int, kills: int, small_rows: int, make_rig: Callable[..., Rig]
) -> None:
    """By Spark, and without it.  More kills and more rows: the proof below."""
    rig = make_rig(*pair, "copied", copy={"chunk_rows": 1200}, spark={"small_rows": small_rows})
    copied = Trial(rig, rows).run(rate=600, kills=kills, seed=3, seconds=COPY_SECONDS)
    assert copied.exact, f"{copied}\n{rig.said()[-3000:]}"
    assert copied.rows > rows and copied.changes > 2000 and len(copied.killed) == kills, copied
    print(copied)


@pytest.mark.proof
@PAIRS
def test_five_million_rows_through_five_sigkills(pair: tuple[Server, Server], make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(*pair, "copied")
    copied = Trial(rig, 5_000_000).run(rate=2000, kills=5, seed=5, seconds=3600.0)
    assert copied.exact, f"{copied}\n{rig.said()[-3000:]}"


def copying(rig: Rig, *words: str) -> Process:
    """`tidelock copy`, which goes on until the copy is done."""
    return Process(["copy", str(rig.feed), *words], rig.folder / "copy.log")


def shown(rig: Rig) -> str:
    return (rig.folder / "copy.log").read_text()


def test_tables_of_a_running_feed_are_copied_again_or_filled_up(
    mariadb: Server, postgres: Server, make_rig: Callable[..., Rig]
) -> None:
    rig = make_rig(mariadb, postgres, "again", copy={"chunk_rows": 1000}, lanes=2)
    for table in ("held", "other"):
        rig.table(table, "id bigint PRIMARY KEY, v int NOT NULL, email varchar(40) UNIQUE")
    made = "SELECT seq, seq * 2, CONCAT('a', seq, '@b') FROM seq_1_to_3000"
    rig.at_source(f"INSERT INTO held {made}", f"INSERT INTO other {made}")
    rig.start_at = rig.here()
    rig.at_target("INSERT INTO held VALUES (1, -1, 'a1@b'), (2, -1, 'a7@b'), (-5, 0, NULL)")
    process = rig.run()
    until(lambda: rig.command("status", "@", "--json").json["epoch"] == 1, "the run")

    keep = copying(rig, "--table", f"{rig.schema}.held", "--keep")
    keep.wait(COPY_SECONDS)
    kept = rig.rows("SELECT CONCAT(id, ' ', v, ' ', email) FROM held WHERE id IN (1, 2, 3, 7) ORDER BY id")
    assert kept == [("1 -1 a1@b",), ("2 -1 a7@b",), ("3 6 a3@b",)]  # 7 clashes with the 2 that was there
    assert rig.rows("SELECT CONCAT(count(*), '') FROM held") == [("3000",)]
    assert "3 of 3 chunks" in shown(rig) and "copied" in shown(rig)

    refused = rig.command("copy", "@")
    assert refused.code == 2 and "--yes" in refused.err and f"{rig.schema}.held" in refused.err
    rig.at_source("UPDATE held SET v = 77 WHERE id = 1", "DELETE FROM held WHERE id = 2")
    copying(rig, "--yes").wait(COPY_SECONDS)
    until(rig.equal, "equal tables")
    process.check()
    status = rig.command("status", "@", "--json").json
    assert {copy["table"]: copy["merged"] for copy in status["copies"]} == {
        f"{rig.schema}.held": 3,
        f"{rig.schema}.other": 3,
    }
    said = [line for line in rig.command("status").out.splitlines() if f"{rig.schema}." in line]
    assert len(said) == 2 and all("3 of 3" in line and "copied" in line for line in said), said
    process.stop()
    rig.assert_exact()


def test_what_cannot_be_copied_is_refused_and_said(
    mariadb: Server, postgres: Server, make_rig: Callable[..., Rig]
) -> None:
    rig = make_rig(mariadb, postgres, "refused")
    rig.table("parent", "id bigint PRIMARY KEY")
    rig.table("child", "id bigint PRIMARY KEY, p bigint, FOREIGN KEY (p) REFERENCES parent (id)")
    rig.at_source("INSERT INTO parent VALUES (1), (2)", "INSERT INTO child VALUES (1, 1)")
    never = rig.command("copy", "@", "--yes")
    assert never.code in (1, 2) and rig.name in never.err, never
    rig.start_at = rig.here()
    process = rig.run()
    until(lambda: rig.command("status", "@", "--json").json["epoch"] == 1, "the run")
    unknown = rig.command("copy", "@", "--table", "no.table")
    assert unknown.code == 2 and "no.table is no source table" in unknown.err

    alone = rig.command("copy", "@", "--table", f"{rig.schema}.parent", "--yes")
    assert alone.code == 1, alone
    assert "copy both at once" in alone.out and "copy both at once" in rig.said()
    assert "copy both at once" in rig.command("status").out
    process.check()


def test_a_first_copy_takes_no_rows_away_unless_told_so(
    mariadb: Server, postgres: Server, make_rig: Callable[..., Rig]
) -> None:
    rig = make_rig(mariadb, postgres, "full")
    rig.table("item", "id bigint PRIMARY KEY, v int")
    rig.at_source("INSERT INTO item VALUES (1, 1), (2, 2)")
    rig.at_target("INSERT INTO item VALUES (9, 9)")
    rig.start_at = "copy"
    checked = rig.command("check")
    assert checked.code == 1 and "holds rows already" in checked.out and "existing: replace" in checked.out
    assert rig.catch_up_code() == 1 and "holds rows already" in rig.said()
    assert rig.rows("SELECT CONCAT(count(*), '') FROM item") == [("1",)]
    rig.options["copy"] = {"existing": "replace"}
    rig.catch_up(COPY_SECONDS)
    rig.assert_exact()
    rig.at_target("UPDATE item SET v = -1")
    rig.catch_up()  # a later run copies nothing
    assert rig.rows("SELECT CONCAT(count(*), '') FROM item WHERE v = -1") == [("2",)]


@pytest.mark.parametrize(
    ("pair", "told"),
    [
        pytest.param(("mariadb", "postgres"), True, id="mariadb-postgres", marks=pytest.mark.proof),
        pytest.param(("mysql", "mysql"), False, id="mysql-mysql"),
        pytest.param(("mysql", "mysql"), True, id="mysql-mysql-told", marks=pytest.mark.proof),
    ],
    indirect=["pair"],
)
def test_a_first_copy_replaces_nothing_that_others_wrote_before_it_began(
    pair: tuple[Server, Server], told: bool, make_rig: Callable[..., Rig]
) -> None:
    """The first run takes the feed over and ends before its copy begins; somebody writes; the next run must refuse,
    until it is told to replace."""
    rig = make_rig(*pair, "late")
    rig.table("item", "id bigint PRIMARY KEY, v int")
    rig.at_source("INSERT INTO item VALUES (1, 1), (2, 2)")
    rig.start_at = "copy"
    rig.options["spark"] = {"small_rows": 0}
    assert rig.catch_up_code({"JAVA_HOME": "/nowhere"}) == 1 and rig.epoch() == 1
    del rig.options["spark"]
    rig.at_target("INSERT INTO item VALUES (9, 9)")
    assert rig.catch_up_code() == 1 and "holds rows already" in rig.said()
    assert rig.rows("SELECT CONCAT(id, '') FROM item") == [("9",)]
    if told:
        rig.options["copy"] = {"existing": "replace"}
        rig.catch_up(COPY_SECONDS)
        rig.assert_exact()


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(("mysql", "mariadb"), id="mysql-mariadb", marks=pytest.mark.proof),
        pytest.param(("mysql", "postgres"), id="mysql-postgres"),
    ],
    indirect=True,
)
def test_rows_that_only_the_merge_refuses_become_failed_rows_and_the_rest_is_copied(
    pair: tuple[Server, Server], make_rig: Callable[..., Rig]
) -> None:
    """A parent that the target refuses, and with it its children; they come by themselves once the parent has come."""
    rig = make_rig(*pair, "strict")
    rig.table("parent", "id bigint PRIMARY KEY, v varchar(9) NOT NULL, w int NOT NULL")
    rig.table("child", "id bigint PRIMARY KEY, parent bigint, FOREIGN KEY (parent) REFERENCES parent (id)")
    rows = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT i, i"
    rig.at_source(f"INSERT INTO parent {rows}, i FROM n", f"INSERT INTO child {rows} FROM n")
    if rig.target.scheme == "postgresql":
        rig.at_source("UPDATE parent SET v = '\\0' WHERE id = 7")  # which it cannot hold, so it is not even staged
    rig.start_at = rig.here()
    rig.catch_up()
    if rig.target.scheme != "postgresql":
        rig.at_target("ALTER TABLE parent ADD CONSTRAINT strict CHECK (w <> 7)")
    process = rig.run()
    copying(rig, "--yes").wait(COPY_SECONDS)
    process.stop()
    failed = rig.command("rows", "list", "@", "--json").json
    assert sorted((row["table"], row["key"]) for row in failed) == [
        (f"{rig.schema}.child", "id=7"),
        (f"{rig.schema}.parent", "id=7"),
    ]
    assert rig.rows("SELECT CONCAT(count(*), '') FROM child") == [("899",)]
    rig.at_source("UPDATE parent SET v = '8', w = 8 WHERE id = 7")
    assert rig.catch_up_code() == 4, "it waits behind the row that failed"
    assert rig.command("rows", "retry", "@", "--table", f"{rig.schema}.parent").code == 0
    rig.catch_up()
    rig.assert_exact()


@pytest.mark.proof
def test_a_first_copy_that_cannot_be_had_is_the_end_of_the_run(
    mariadb: Server, postgres: Server, make_rig: Callable[..., Rig], tmp_path: Path
) -> None:
    """Nothing may be applied without it; the wish stays, and the next run tries again."""
    rig = make_rig(mariadb, postgres, "cycle")
    rig.table("one", "id bigint PRIMARY KEY, other bigint")
    rig.table("two", "id bigint PRIMARY KEY, other bigint, FOREIGN KEY (other) REFERENCES one (id)")
    key = "ADD CONSTRAINT cycle FOREIGN KEY (other) REFERENCES two (id)"
    rig.at_source(f"ALTER TABLE one {key}")
    rig.at_target(f"ALTER TABLE one {key}")
    rig.start_at = "copy"
    assert rig.command("init", "@", "--apply").code == 0
    rig.at_source("INSERT INTO one VALUES (1, NULL)", "INSERT INTO two VALUES (1, 1)")  # behind where the feed begins
    assert rig.catch_up_code() == 1
    assert rig.rows("SELECT CONCAT(count(*), '') FROM one") == [("0",)]
    assert "cycle of foreign keys" in rig.said() and "nothing runs without it" in rig.said()
    (copied, *_) = json.loads(rig.command("status", "@", "--json").out)["copies"]
    assert copied["queued"] and copied["wanted"], "the former name, for one release"
    rig.at_target("ALTER TABLE one DROP CONSTRAINT cycle")
    rig.catch_up(COPY_SECONDS)
    rig.assert_exact()
