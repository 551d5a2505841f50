"""The scaled-out form end to end: workers in processes of their own, through a real broker, against real servers.

Each test asks for no difference, no unique violation in the target's log and no parked row; those that disturb the
workers also read the recorder's history: no row version twice, none after a newer one.
"""

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench import faust_cost, giant, scaleout
from bench.chaos import over_kafka, verdict
from bench.harness import recorder, usage
from bench.harness.recorder import Recorder
from bench.harness.rig import Rig, Work, until
from bench.harness.servers import Server
from bench.harness.servers.place import free_port
from bench.harness.session import connect
from bench.harness.tidelock import sample
from bench.harness.workers import Workers
from bench.harness.workload.churn import Churn
from bench.harness.workload.family import Family
from bench.harness.workload.mix import Mix
from bench.harness.workload.several import Several

GROUPS = 3
RATE = 200

Make = Callable[..., Workers]


def three_groups() -> Several:
    """Tables of three groups: `family` has two that a foreign key joins."""
    return Several(Mix(), Churn(), Family())


@contextmanager
def recorded(workers: Workers) -> Iterator[tuple[Several, Work]]:
    """Work at a steady rate while the block runs, then all of it applied, both ends equal and the history clean."""
    rig = workers.rig
    workload = three_groups()
    rig.make(workload)
    with Recorder(rig.target.url(), [f"{rig.schema}.{table}" for table in rig.tables]) as history:
        workers.start()
        work = rig.work(workload, 1_000_000, 5, RATE)
        try:
            workers.until_owned(GROUPS)
            workers.until_flowing()
            yield workload, work
            workers.until_flowing()
        finally:
            work.stop()
        workers.until_caught_up()
        workers.assert_exact()
        violations = recorder.check(history.events(), workload.deleted)
    assert violations == [], "\n".join(map(str, violations[:10]))


# ------------------------------------------------------------------ exactness


@pytest.mark.parametrize(
    ("count", "target"),
    [
        (2, "mysql"),
        pytest.param(1, "postgres", marks=pytest.mark.proof),
        pytest.param(3, "postgres", marks=pytest.mark.proof),
    ],
)
def test_no_row_differs(
    count: int, target: str, make_workers: Make, mariadb: Server, request: pytest.FixtureRequest
) -> None:
    workers = make_workers(mariadb, request.getfixturevalue(target), "exact", count)
    rig, workload = workers.rig, three_groups()
    rig.make(workload)
    rig.load(workload, 800)
    workers.start()
    workers.until_owned(GROUPS)
    rig.load(workload, 800, seed=2)
    workers.until_caught_up()
    workers.assert_exact()
    plan = workers.plan
    assert plan is not None and plan.partitions == GROUPS
    groups = {name.table: group for name, group in plan.tables}
    assert groups["parent"] == groups["child"]
    assert len(set(groups.values())) == GROUPS
    workers.until(lambda: len(set(workers.owners.values())) == count, "every worker has a group")
    assert workers.stop() == [0] * count, workers.said()


@pytest.mark.proof
def test_a_mysql_source(make_workers: Make, mysql: Server, postgres: Server) -> None:
    workers = make_workers(mysql, postgres, "exact", 2)
    rig, workload = workers.rig, three_groups()
    rig.make(workload)
    rig.load(workload, 3000)
    workers.start()
    workers.until_caught_up()
    workers.assert_exact()


@pytest.mark.proof
def test_transactions_stay_whole_in_one_group(make_workers: Make, mariadb: Server, postgres: Server) -> None:
    workers = make_workers(mariadb, postgres, "whole", 2, consistency="transaction")
    rig, workload = workers.rig, three_groups()
    rig.make(workload)
    rig.load(workload, 1500)
    workers.start()
    workers.until_caught_up()
    workers.assert_exact()
    plan = workers.plan
    assert plan is not None and len({group for _, group in plan.tables}) == 1


@pytest.mark.proof
def test_a_worker_may_end_when_the_feed_has_caught_up(make_workers: Make, mariadb: Server, postgres: Server) -> None:
    workers = make_workers(mariadb, postgres, "once", 1)
    rig = workers.rig
    workload = rig.make(three_groups())
    for seed in (1, 2):
        rig.load(workload, 1500, seed)
        workers.work_off()
        rig.assert_exact()


@pytest.mark.proof
def test_an_embedded_feed_is_moved_over(make_workers: Make, mariadb: Server, postgres: Server) -> None:
    """It goes on from the checkpoint at the target; there is no way back under the same name."""
    workers = make_workers(mariadb, postgres, "moved", 2)
    rig = workers.rig
    workload = rig.make(three_groups())
    log = rig.options.pop("log")
    rig.load(workload, 600)
    rig.catch_up()
    rig.load(workload, 600, seed=2)
    rig.options["log"] = log
    assert "tidelock worker" in rig.command("run").err
    workers.start()
    workers.until_caught_up()
    workers.assert_exact()
    assert workers.stop() == [0, 0], workers.said()
    del rig.options["log"]
    assert rig.catch_up_code() == 1
    assert "has run as workers over Kafka" in rig.said()


# ------------------------------------------------------------------ workers come and go


@pytest.mark.proof
def test_a_rolling_restart_under_load(make_workers: Make, mariadb: Server, postgres: Server) -> None:
    workers = make_workers(mariadb, postgres, "rolling", 3, batch_rows=200)
    with recorded(workers):
        for name in workers.places:
            assert workers.stop(name) == [0], workers.said()
            workers.start(name)
            workers.until(lambda: len(workers.pids) == 3, "the restarted worker")
            workers.until_flowing()


@pytest.mark.proof
@pytest.mark.parametrize("target", ["postgres", "mysql"])
def test_killed_workers_are_started_again(
    target: str, make_workers: Make, mariadb: Server, request: pytest.FixtureRequest
) -> None:
    """One with its children, and who coordinates alone."""
    workers = make_workers(mariadb, request.getfixturevalue(target), "killed", 3, batch_rows=200)
    with recorded(workers):
        leads = workers.coordinator
        other = next(name for name in workers.places if name != leads)
        for name, alone in ((other, False), (leads, True)):
            workers.kill(name, alone=alone)
            workers.until_flowing()


@pytest.mark.proof
def test_another_worker_takes_over_from_a_killed_one(make_workers: Make, mariadb: Server, postgres: Server) -> None:
    workers = make_workers(mariadb, postgres, "heirs", 3, batch_rows=200)
    with recorded(workers):
        gone = workers.coordinator
        workers.kill(gone, back_after=None)
        workers.until(lambda: gone not in {*workers.owners.values(), workers.coordinator}, "heirs")
        workers.until_flowing()


@pytest.mark.proof
def test_a_worker_that_wakes_after_others_took_over_writes_nothing(
    make_workers: Make, mariadb: Server, postgres: Server
) -> None:
    """Stopped for longer than its session lives, in the middle of its work, its children with it."""
    workers = make_workers(mariadb, postgres, "zombie", 2, batch_rows=50)
    with recorded(workers):
        workers.until(lambda: workers.coordinator in workers.owners.values(), "a group of the coordinator's")
        zombie = workers.coordinator
        workers.freeze(zombie)
        workers.until(lambda: zombie not in {*workers.owners.values(), workers.coordinator}, "heirs")
        workers.until_flowing()
        workers.thaw(zombie)
        workers.until(lambda: workers.fenced >= 1, "a rejected write")


# ------------------------------------------------------------------ statements


class Writer:
    """Rows for three tables, each its own group, with statements in between; `wide`: those that have the column."""

    TABLES = ("one", "two", "three")

    def __init__(self, rig: Rig) -> None:
        self._session = connect(rig.source.url(rig.schema))
        self._numbers = itertools.count(1)
        self._tables = list(self.TABLES)
        self._wide: set[str] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._failure: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.01):
                with self._lock:
                    self._session.send(";".join(["BEGIN", *map(self._insert, self._tables), "COMMIT"]))
        except BaseException as error:
            self._failure.append(error)

    def _insert(self, table: str) -> str:
        number = next(self._numbers)
        if table in self._wide:
            return f"INSERT INTO {table} (id, v, note) VALUES ({number}, 1, 'note {number}')"
        return f"INSERT INTO {table} (id, v) VALUES ({number}, {number})"

    def widen(self, table: str) -> None:
        with self._lock:
            self._session.send(f"ALTER TABLE {table} ADD COLUMN note varchar(40)")
            self._wide.add(table)

    def create(self, table: str) -> None:
        with self._lock:
            self._session.send(f"CREATE TABLE {table} (id bigint PRIMARY KEY, v bigint)")
            self._tables.append(table)

    def truncate(self, table: str) -> None:
        with self._lock:
            self._session.send(f"TRUNCATE TABLE {table}")

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._session.close()
        if self._failure:
            raise self._failure[0]


def count_statements(rig: Rig) -> None:
    """Committed DDL in the rig's schema is noted in its table `statements`, whichever session runs it."""
    rig.at_target(
        f"CREATE TABLE {rig.schema}_log (tag text, name text)",
        f"CREATE FUNCTION {rig.schema}_note() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" INSERT INTO {rig.schema}.{rig.schema}_log SELECT command_tag, object_identity FROM"
        f" pg_event_trigger_ddl_commands() WHERE schema_name = '{rig.schema}' AND object_type = 'table'; END $$",
        f"CREATE EVENT TRIGGER {rig.schema} ON ddl_command_end EXECUTE FUNCTION {rig.schema}_note()",
        f"ALTER EVENT TRIGGER {rig.schema} ENABLE ALWAYS",
    )


@pytest.mark.proof
@pytest.mark.parametrize(
    "killing", [pytest.param(False, marks=pytest.mark.proof), True], ids=["in peace", "coordinator killed"]
)
def test_statements_under_load_run_once(killing: bool, make_workers: Make, mariadb: Server, postgres: Server) -> None:
    workers = make_workers(mariadb, postgres, "ddl", 2)
    rig = workers.rig
    for table in Writer.TABLES:
        rig.table(table, "id bigint PRIMARY KEY, v bigint")
    count_statements(rig)
    workers.start()
    writer = Writer(rig)
    try:
        workers.until_owned(GROUPS)
        for act in (lambda: writer.widen("one"), lambda: writer.truncate("two"), lambda: writer.create("four")):
            before = workers.passed
            act()
            if killing:
                workers.kill(workers.coordinator)
            workers.until(lambda before=before: workers.passed != before, "the statement")
    finally:
        writer.stop()
        rig.tables.append("four")
    workers.until_caught_up()
    workers.assert_exact()
    seen = sorted((tag, name.partition(".")[2]) for tag, name in rig.rows(f"SELECT tag, name FROM {rig.schema}_log"))
    assert seen == [("ALTER TABLE", "one"), ("CREATE TABLE", "four")]
    rig.at_target(f"DROP EVENT TRIGGER {rig.schema}")


# ------------------------------------------------------------------ the operator


@pytest.mark.proof
@pytest.mark.usefixtures("own_interpreters")
def test_pause_resume_and_status_reach_every_group_and_a_stop_leaves_nothing_behind(
    make_workers: Make, mariadb: Server, postgres: Server
) -> None:
    before = leftovers()
    workers = make_workers(mariadb, postgres, "asked", 2)
    rig = workers.rig
    workload = rig.make(three_groups())
    rig.load(workload, 600)
    workers.start()
    workers.until(lambda: set(workers.owners.values()) == {"w1", "w2"}, "every worker has a group")
    workers.until_caught_up()
    assert_status(rig)
    assert rig.command("pause").code == 0
    workers.until(lambda: {r.state for r in workers.reports.values()} == {"paused"}, "paused groups")
    rig.load(workload, 600, seed=2)
    waiting = rig.differences().total
    assert waiting > 0
    assert rig.command("resume").code == 0
    workers.until_caught_up()
    workers.assert_exact()

    def living() -> list[int]:
        return [pid for leader in workers.pids.values() for pid in usage.group(leader)]

    workers.until(lambda: len(living()) >= 3, "two workers and the publisher")
    families = living()
    assert not listening(families)
    work = rig.work(workload, 1_000_000, 5, RATE)
    assert workers.stop() == [0, 0], workers.said()
    work.stop()
    assert not [pid for pid in families if Path(f"/proc/{pid}").exists()]
    assert leftovers() == before
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'tidelock%'"
    until(lambda: postgres.execute(sessions)[0][0] == 0, "closed sessions", 10.0)


def assert_status(rig: Rig) -> None:
    """Two workers share the groups."""
    said = rig.command("status", "@", "--json")
    assert said.code == 0, said.err
    shown = said.json["scale_out"]
    assert shown["coordinator"] in ("w1", "w2")
    assert shown["conductor"] == shown["coordinator"], "the former name, for one release"
    assert all(group["parked"] == group["failed_rows"] == 0 for group in shown["groups"])
    assert [(group["group"], group["state"]) for group in shown["groups"]] == [(n, "running") for n in range(GROUPS)]
    assert {group["worker"] for group in shown["groups"]} == {"w1", "w2"}
    text = rig.command("status").out
    assert "w1" in text and "w2" in text


@pytest.mark.proof
def test_a_prepare_without_an_answer_is_told(make_workers: Make, mariadb: Server, postgres: Server) -> None:
    """In the status, by the worker that coordinates, and as a metric of every worker."""
    address = f"127.0.0.1:{free_port()}"
    workers = make_workers(mariadb, postgres, "prepared", 1, http=address)
    rig = workers.rig
    rig.table("account", "id bigint PRIMARY KEY, v int")

    def told() -> str:
        said = rig.command("status", "@", "--json").json
        assert (said["prepared_seconds"] >= 700) is bool(said["prepared"])
        return str(said["prepared"])

    workers.start()
    workers.until_owned(1)
    old, change = "SET TIMESTAMP = UNIX_TIMESTAMP() - 700", "INSERT INTO account VALUES (1, 1)"
    with contextlib.closing(mariadb.connect(rig.schema)) as session:
        for sql in ("XA START 'left'", old, change, "XA END 'left'", "XA PREPARE 'left'"):
            session.execute(sql, ())
    workers.until(lambda: told() == "X'6c656674',X'',1", "the status tells it")
    words = "XA X'6c656674',X'',1 is prepared at the source for"
    assert words in rig.command("status").out and words in workers.said()
    workers.until(lambda: (now := sample(address)) is not None and now.prepared_seconds >= 700, "the worker's sample")
    rig.at_source("XA COMMIT 'left'")
    workers.until(lambda: not told(), "it is answered")
    workers.until_caught_up()
    workers.assert_exact()


def leftovers() -> list[str]:
    return sorted(name for name in os.listdir("/tmp") if "faust" in name or name.startswith(("tidelock.", "v1")))


def listening(pids: list[int]) -> list[str]:
    """Sockets of `pids` that listen."""
    waiting = {
        line.split()[9]
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        if line.split()[3] == "0A"
    }
    held = []
    for entry in (entry for pid in pids for entry in Path(f"/proc/{pid}/fd").iterdir()):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            held.append(os.readlink(entry))
    return [link for link in held if link.removeprefix("socket:[").rstrip("]") in waiting]


# ------------------------------------------------------------------ at full size


@pytest.mark.usefixtures("own_interpreters")
@pytest.mark.proof
def test_fifteen_minutes_of_chaos() -> None:
    """The table of bench/results/chaos.json."""
    seen = over_kafka.run(15.0, seed=1)
    verdict.write(seen)
    assert seen.ok, str(seen)


@pytest.mark.usefixtures("own_interpreters")
@pytest.mark.proof
def test_a_transaction_of_two_gigabytes() -> None:
    """The curve of docs/explanation/memory.md."""
    passed = giant.measure(2000, workers=2)
    giant.write(passed)
    assert passed.ok, str(passed)


@pytest.mark.usefixtures("own_interpreters")
@pytest.mark.proof
@pytest.mark.parametrize("target", ["postgres", "mariadb"])
def test_a_transaction_of_two_gigabytes_as_one_at_the_target(target: str) -> None:
    """The other curve of that page."""
    passed = giant.measure_embedded(2000, "mariadb", target, "transaction")
    giant.write(passed, f"giant-whole-{target}")
    assert passed.ok, str(passed)


@pytest.mark.usefixtures("own_interpreters")
@pytest.mark.proof
def test_catch_up_through_kafka_keeps_its_budget() -> None:
    assert scaleout.command() == 0


@pytest.mark.usefixtures("own_interpreters")
@pytest.mark.proof
def test_faust_keeps_its_budget() -> None:
    assert faust_cost.command() == 0
