"""Copies of a feed of workers: each table group copies its own tables, and goes on with whoever owns it next.

Each asks for no difference, no unique violation in the target's log, no failed row, no chunk merged twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.copying import Trial
from bench.harness.rig import Rig, tidelock
from bench.harness.servers import Postgres, Server
from bench.harness.tidelock import Process
from bench.harness.workers import Workers
from bench.harness.workload.churn import Churn
from bench.harness.workload.mix import Mix
from bench.harness.workload.several import Several

COPY_SECONDS = 240.0
RATE = 100
ROWS = 6_000
SETTLED_CHANGES = 250

Make = Callable[..., Workers]
pytestmark = pytest.mark.timeout(600)  # Spark starts several times in each


def copying_owner(workers: Workers) -> str:
    """A worker that owns a group of a table whose copy is under way."""
    assert workers.plan is not None
    copies = workers.rig.command("status", "@", "--json").json["copies"]
    under_way = {copy["table"] for copy in copies if copy["merged"] < copy["chunks"]}
    groups = [group for name, group in workers.plan.tables if str(name) in under_way]
    return next((workers.owners[group] for group in groups if group in workers.owners), "")


def all_copied(rig: Rig) -> bool:
    copies = rig.command("status", "@", "--json").json["copies"]
    return bool(copies) and all(copy["merged"] == copy["chunks"] > 0 for copy in copies)


def held_up(rig: Rig, table: str) -> Callable[[], None]:
    """The target answers each merge into the table with a deadlock; returns what ends that."""
    if not isinstance(rig.target, Postgres):
        rig.at_target(
            f"CREATE TRIGGER {table}_wait BEFORE INSERT ON {table} FOR EACH ROW "
            "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'not yet'"
        )
        return lambda: rig.at_target(f"DROP TRIGGER {table}_wait")
    rig.at_target(
        f"CREATE FUNCTION {rig.schema}.wait() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN RAISE EXCEPTION 'not yet' USING ERRCODE = '40P01'; END$$",
        f"CREATE TRIGGER wait BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {rig.schema}.wait()",
    )
    return lambda: rig.at_target(f"DROP TRIGGER wait ON {table}")


@pytest.mark.proof
@pytest.mark.parametrize(
    ("source", "target", "small_rows"),
    [("mariadb", "postgres", 20_000), pytest.param("mysql", "mariadb", 0, marks=pytest.mark.proof, id="by Spark")],
)
def test_a_first_copy_goes_on_with_the_next_owners(
    source: str, target: str, small_rows: int, make_workers: Make, request: pytest.FixtureRequest
) -> None:
    """Under load, through the death of a worker that copies, once with its children and once alone, and no return."""
    servers = request.getfixturevalue(source), request.getfixturevalue(target)
    spark = {"small_rows": small_rows}
    workers = make_workers(*servers, "copied", 3, copy={"chunk_rows": 1000}, spark=spark, partitions=4)
    rig = workers.rig
    trial = Trial(rig, ROWS)
    go_on = held_up(rig, "item")
    workers.start()
    work = rig.work(trial.workload, 1_000_000, 3, RATE)
    killed = list[int]()
    try:
        for share, alone in ((0.1, False), (0.3, True)):
            workers.until(
                lambda at=share: trial.chunks > 0 and trial.merged >= at * trial.chunks,  # type: ignore[misc]
                "merged chunks",
                COPY_SECONDS,
            )
            workers.until(lambda: copying_owner(workers) != "", "an owner that copies", COPY_SECONDS)
            killed.append(trial.merged)
            workers.kill(copying_owner(workers), alone=alone, back_after=5.0)
        go_on()
        workers.until(lambda: trial.merged >= trial.chunks, "all chunks", COPY_SECONDS)
        copied_at = work.made
        workers.until(lambda: work.made >= copied_at + SETTLED_CHANGES, "changes after the copy")
    finally:
        changes = work.stop().changes
    workers.until_caught_up()
    copied = trial.copied(changes, RATE, tuple(killed), 1.0)
    assert copied.exact and len(killed) == 2 and killed[1] < copied.chunks, f"{copied}\n{workers.said()}"
    assert copied.rows > ROWS and changes > 500, copied
    homes = dict(workers.plan.tables) if workers.plan is not None else {}
    assert len({homes[name] for name in homes if name.table in ("item", "word", "person")}) > 1, homes
    assert rig.command("status", "@", "--json").json["left_behind"] == []
    print(copied)


@pytest.mark.proof
def test_tables_are_copied_again_while_their_groups_run(
    make_workers: Make, mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    """Asked for once, of tables in two groups, and shown until it is done; each group's journal tells of its part.

    Both groups are at one worker, and share its Spark.
    """
    journal = str(tmp_path / "run.journal")
    options = {"copy": {"chunk_rows": 1000}, "spark": {"small_rows": 0}, "partitions": 2}
    workers = make_workers(mariadb, postgres, "again", 1, journal=journal, **options)
    rig = workers.rig
    for table in ("held", "other"):
        rig.table(table, "id bigint PRIMARY KEY, v int NOT NULL, version bigint NOT NULL")
    made = "SELECT seq, seq * 2, seq FROM seq_1_to_3000"
    rig.at_source(f"INSERT INTO held {made}", f"INSERT INTO other {made}")
    rig.start_at = rig.here()  # behind them: only a copy brings these rows
    workers.start()
    workers.until_owned(2)
    copying = Process(["copy", str(rig.feed), "--yes"], rig.folder / "copy.log")
    rig.at_source("UPDATE held SET v = 77 WHERE id = 1", "DELETE FROM other WHERE id = 2")
    copying.wait(COPY_SECONDS)
    workers.until_caught_up()
    workers.assert_exact()
    status = rig.command("status", "@", "--json").json
    assert {copy["table"]: copy["merged"] for copy in status["copies"]} == {
        f"{rig.schema}.held": 3,
        f"{rig.schema}.other": 3,
    }
    assert workers.stop() == [0], workers.said()
    for group in range(2):
        said = tidelock("replay", f"{journal}.group{group}")
        assert said.code == 0 and "-- " not in said.out, said
        assert said.out.count("merge chunk ") == 3, said.out[-2000:]


@pytest.mark.proof
def test_a_first_copy_that_cannot_be_had_halts_its_group(
    make_workers: Make, mariadb: Server, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Java, and then since somebody writes before it begins: it takes no rows away.  Its advice is followed."""
    workers = make_workers(mariadb, postgres, "full", 1)
    rig = workers.rig
    for table in ("empty", "brimming"):
        rig.table(table, "id bigint PRIMARY KEY, v int")
        rig.at_source(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    rig.start_at = "copy"
    rig.options["spark"] = {"small_rows": 0}

    def halt() -> list[str]:
        said = rig.command("status", "@", "--json")
        found = said.json["halted"] if said.out else None
        return list(found["alarm"]) if found else []

    with monkeypatch.context() as without:
        without.setenv("JAVA_HOME", "/nowhere")
        workers.start()
        workers.until(lambda: bool(halt()), "the halt")
        kind, message, hint, *_ = halt()
        assert kind == "copy" and "JAVA_HOME is /nowhere" in message and "nothing of these tables" in hint, halt()
        assert workers.stop() == [0], workers.said()
    del rig.options["spark"]
    rig.at_target("INSERT INTO brimming VALUES (9, 9)")
    rig.at_source("INSERT INTO brimming VALUES (3, 3)")
    workers.start()
    workers.until(lambda: "holds rows already" in " ".join(map(str, halt())), "the other halt", COPY_SECONDS)
    _, _, hint, *_ = halt()
    assert "`tidelock resume FEED`" in hint and "`tidelock copy" not in hint, hint
    assert rig.rows("SELECT CONCAT(id, '') FROM brimming") == [("9",)]
    rig.at_target("DELETE FROM brimming")
    assert rig.command("resume").code == 0
    workers.until(rig.equal, "equal tables", COPY_SECONDS)
    workers.assert_exact()


@pytest.mark.proof
def test_differing_rows_are_repaired_by_their_groups(
    make_workers: Make, mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    """In the order of the log, while rows change beside them, and through the death of whoever owns the groups."""
    workers = make_workers(mariadb, postgres, "repaired", 2)
    rig = workers.rig
    workload = rig.make(Several(Mix(), Churn()))
    for table in ("held", "other"):
        rig.table(table, "id bigint PRIMARY KEY, v int, version bigint NOT NULL")
    workers.start()
    made = "SELECT seq, seq * 2, seq FROM seq_1_to_500"
    rig.at_source(f"INSERT INTO held {made}", f"INSERT INTO other {made}")
    workers.until_caught_up()
    for table in ("held", "other"):
        rig.at_target(
            f"UPDATE {table} SET v = -1 WHERE id % 7 = 0",
            f"DELETE FROM {table} WHERE id % 11 = 0",
            f"INSERT INTO {table} VALUES (1000, 0, 0)",
        )
    planted = rig.differences().total
    report = tmp_path / "report.json"
    found = tidelock("verify", str(rig.feed), "--report", str(report), seconds=COPY_SECONDS)
    assert found.code == 3, found
    work = rig.work(workload, 1_000_000, 5, RATE)
    try:
        repairing = Process(
            ["repair", str(rig.feed), "--from-report", str(report), "--yes", "--json"], rig.folder / "repair.log"
        )
        workers.kill(workers.coordinator, back_after=1.0)
        rig.at_source("UPDATE held SET v = 70 WHERE id = 7", "DELETE FROM other WHERE id = 11")
        assert repairing.code(COPY_SECONDS) == 0, (rig.folder / "repair.log").read_text()
    finally:
        work.stop()
    workers.until_caught_up()
    workers.assert_exact()
    said = json.loads((rig.folder / "repair.log").read_text())
    assert sum(part["rows"] for part in said["tables"]) == planted > 200, said
    assert {part["state"] for part in said["tables"]} == {"repaired"}


@pytest.mark.proof
def test_workers_are_moved_past_a_hole_in_the_log(
    make_workers: Make, make_mariadb: Callable[..., Server], postgres: Server
) -> None:
    """To the letter of the advice; under load, and with a kill while the tables are copied anew, without Spark."""
    workers = make_workers(make_mariadb(), postgres, "moved", 2, copy={"chunk_rows": 1000})
    rig = workers.rig
    workload = rig.make(Several(Mix(), Churn()))
    rig.table("held", "id bigint PRIMARY KEY, v int, version bigint NOT NULL")
    rig.at_source("INSERT INTO held SELECT seq, seq, seq FROM seq_1_to_6000")
    rig.load(workload, 2000)
    workers.start()
    workers.until_caught_up()
    assert workers.stop() == [0, 0], workers.said()
    rig.at_source("UPDATE held SET v = 7 WHERE id = 1", "DELETE FROM held WHERE id = 2")
    rig.purge()
    workers.start()
    workers.until(lambda: bool(rig.command("status", "@", "--json").json["halted"]), "the halt")
    _, message, hint, *_ = rig.command("status", "@", "--json").json["halted"]["alarm"]
    assert "does not hold the position" in message and "end all its workers, `tidelock resync FEED`" in hint, hint
    alive = tidelock("resync", str(rig.feed), "--yes", seconds=COPY_SECONDS)
    assert alive.code == 1 and "End all of them" in alive.err and "has 2 workers" in alive.err, alive
    assert workers.stop() == [0, 0], workers.said()
    said = tidelock("resync", str(rig.feed), "--yes", seconds=COPY_SECONDS)
    assert said.code == 0 and "`tidelock worker " in said.out, said
    go_on = held_up(rig, "held")
    work = rig.work(workload, 1_000_000, 5, RATE // 2)
    try:
        workers.start()
        workers.until(lambda: "not yet" in workers.said(), "a merge that is held up", COPY_SECONDS)
        workers.kill(copying_owner(workers), back_after=1.0)
        go_on()
        workers.until(lambda: all_copied(rig), "the copy", COPY_SECONDS)
    finally:
        work.stop()
    workers.until(rig.equal, "equal tables", COPY_SECONDS)
    workers.until_caught_up()
    workers.assert_exact()
