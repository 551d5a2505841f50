"""A second run leaves a live one alone, and takes over from a dead one at once: real targets, real processes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import msgspec
import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import MariaDb, MySql, Postgres, Server
from bench.harness.servers.place import free_port
from bench.harness.session import connect
from bench.harness.tidelock import Process
from tidelock.adapters.bookkeeping.lease import lock_name, lock_of, place_of
from tidelock.adapters.operator import runs
from tidelock.adapters.operator.runs import Lookout, Run, judge

SOON = 60.0


@pytest.fixture(params=["postgres", "mariadb"])
def rig(request: pytest.FixtureRequest, make_rig: Callable[..., Rig], mysql: MySql) -> Rig:
    target: Server = request.getfixturevalue(request.param)
    made = make_rig(mysql, target, "runs", lanes=2)
    made.table("account", "id int PRIMARY KEY")
    made.catch_up()
    return made


# Where what is tried is the feed's own doing, and no lock of the target's: one target, the other in the proof.
PROOF = pytest.mark.proof
AT_POSTGRES = pytest.mark.parametrize("rig", ["postgres", pytest.param("mariadb", marks=PROOF)], indirect=True)
AT_MARIADB = pytest.mark.parametrize("rig", ["mariadb", pytest.param("postgres", marks=PROOF)], indirect=True)


def entry(rig: Rig, column: str) -> str | None:
    """As the target has it; None: NULL."""
    found = rig.rows(f"SELECT CONCAT({column}, '') FROM tidelock.tidelock_runs WHERE feed = '{rig.name}'")
    return str(found[0][0]) if found and found[0][0] not in (None, "") else None


def alter(rig: Rig, **values: str) -> None:
    """Make the run's row what another machine would have left there."""
    changes = ", ".join(f"{name} = '{value}'" for name, value in values.items())
    rig.at_target(f"UPDATE tidelock.tidelock_runs SET {changes} WHERE feed = '{rig.name}'")


def begun(rig: Rig, *arguments: str) -> Process:
    """A run that has taken the feed over, and its row too."""
    process = rig.run(*arguments)

    def there() -> bool:
        process.check()
        return entry(rig, "pid") == str(process.pid) and entry(rig, "beat_at") is not None

    until(there, "the run's name at the target")
    return process


def beaten(rig: Rig) -> None:
    before = entry(rig, "beat_at")
    until(lambda: entry(rig, "beat_at") != before, "a sign of life")


def said_by(rig: Rig, code: int, *arguments: str) -> str:
    """Returns what a further run says, which ends with `code`."""
    before = len(rig.said())
    assert rig.run("--until-caught-up", *arguments).code(SOON) == code, rig.said()
    return rig.said()[before:]


def moved_on(rig: Rig, row: int) -> None:
    rig.at_source(f"INSERT INTO account VALUES ({row})")
    until(lambda: rig.differences().total == 0, f"row {row}")


# -------------------------------------------------------------------------------------------- a live one is left alone


def test_a_second_run_is_refused_and_the_first_goes_on(rig: Rig) -> None:
    first = begun(rig)
    said = said_by(rig, 1)
    assert f"runs already, on {socket.gethostname()} as process {first.pid} since 20" in said, said
    assert "--take-over" in said
    assert "Traceback" not in said
    moved_on(rig, 1)
    first.check()
    first.stop()


def test_take_over_ends_the_first_run_whose_restart_is_refused(rig: Rig) -> None:
    first = begun(rig)
    second = begun(rig, "--take-over")
    assert first.code(SOON) == 1, rig.said()
    assert "newer owner" in rig.said()
    assert "runs already" in said_by(rig, 1), (
        "a supervisor that starts the first one again must not steal the feed back"
    )
    moved_on(rig, 1)
    second.stop()
    assert entry(rig, "beat_at") is None


@AT_MARIADB
def test_a_run_of_another_machine_shows_a_sign_of_life(rig: Rig) -> None:
    """The same host name and a pid that is not here, as from two containers."""
    first = begun(rig)
    alter(rig, place="another-boot pid:[1] 77", pid="1", host=socket.gethostname())
    said = said_by(rig, 1)
    assert "waiting to see" in said
    assert "as process 1 " in said
    moved_on(rig, 1)
    first.stop()


def test_of_two_that_begin_together_one_has_the_feed(rig: Rig) -> None:
    both = [rig.run(), rig.run()]
    until(lambda: not all(process.running for process in both), "one of them to end", SOON)
    (left,) = [process for process in both if process.running]
    (ended,) = [process for process in both if not process.running]
    assert ended.code(1) == 1
    assert "runs already" in rig.said()
    moved_on(rig, 1)
    left.stop()


# -------------------------------------------------------------------------------------------- a dead one is taken over


@AT_POSTGRES
def test_a_killed_run_is_followed_at_once(rig: Rig) -> None:
    begun(rig).kill()
    assert entry(rig, "beat_at") is not None
    rig.at_source("INSERT INTO account VALUES (1)")
    assert "waiting" not in said_by(rig, 0)
    rig.assert_exact()


@AT_MARIADB
def test_a_stopped_run_leaves_no_name(rig: Rig) -> None:
    begun(rig).stop()
    assert entry(rig, "beat_at") is None
    alter(rig, place="another-boot pid:[1] 77")
    assert "waiting" not in said_by(rig, 0)


@AT_POSTGRES
def test_a_run_that_is_stopped_amid_a_sign_of_life_leaves_no_name(rig: Rig) -> None:
    run = begun(rig)
    waiting = (
        "SELECT pid::text FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE %tidelock_runs%'"
        if isinstance(rig.target, Postgres)
        else "SELECT id FROM information_schema.processlist WHERE command = 'Query' AND info LIKE 'UPDATE %_runs%'"
    )
    other = rig.target.connect()
    other.execute("BEGIN", ())
    other.execute("SELECT pid FROM tidelock.tidelock_runs FOR UPDATE", ())
    until(lambda: bool(rig.rows(waiting)), "a sign of life that waits")
    beat = set(rig.rows(waiting))
    run.signal(signal.SIGTERM)
    until(lambda: bool(set(rig.rows(waiting)) - beat), "the word that it ends, which waits too")
    other.execute("ROLLBACK", ())
    other.close()
    assert run.code(SOON) == 0
    assert entry(rig, "beat_at") is None, rig.said()


def test_a_run_killed_on_another_machine_is_followed_when_its_session_is_gone(rig: Rig) -> None:
    begun(rig).kill()
    alter(rig, place="another-boot pid:[1] 77", lease_seconds="3600")
    assert "waiting to see" in said_by(rig, 0)


def test_a_machine_that_vanished_is_followed_when_its_lease_ends(rig: Rig) -> None:
    """The server does not know yet that the other end is gone: the session is still there."""
    begun(rig).kill()
    token = entry(rig, "token")
    assert token is not None
    with held(rig, lock_of("tidelock", rig.name, token)):
        alter(rig, place="another-boot pid:[1] 77", lease_seconds="8")
        assert "waiting to see" in said_by(rig, 0)


@contextlib.contextmanager
def held(rig: Rig, lock: int) -> Iterator[None]:
    other = connect(rig.target.url())
    postgres = isinstance(rig.target, Postgres)
    other.rows(f"SELECT pg_advisory_lock({lock})::text" if postgres else f"SELECT GET_LOCK('{lock_name(lock)}', 0)")
    yield
    other.close()


@pytest.mark.proof
@AT_MARIADB
def test_a_run_that_hangs_is_taken_over_when_its_lease_ends(rig: Rig) -> None:
    hung = begun(rig)
    beaten(rig)
    alter(rig, lease_seconds="1")
    hung.signal(signal.SIGSTOP)
    before = entry(rig, "token")
    until(lambda: rig.run("--until-caught-up").code(SOON) == 0, "the lease to end")
    assert entry(rig, "token") != before
    hung.signal(signal.SIGCONT)
    assert hung.code(SOON) == 1
    rig.assert_exact()


@AT_POSTGRES
def test_a_run_taken_over_between_look_and_takeover_is_left_alone(rig: Rig) -> None:
    """The look comes before the takeover; whoever came in between is found in the takeover's own transaction."""
    first = begun(rig)
    beaten(rig)
    epoch = rig.epoch()
    alter(rig, lease_seconds="0")  # the look finds it dead; the next beat makes no difference
    # A lease of 0 lets any number of runs judge it dead, but only the first of them finds the token it saw.
    codes: list[int] = []
    threads = [threading.Thread(target=lambda: codes.append(rig.run().code(SOON))) for _ in range(3)]
    for thread in threads:
        thread.start()
    until(lambda: len(codes) == 2, "all but one to end", SOON)
    assert first.code(SOON) == 1, rig.said()
    assert codes == [1, 1]
    assert rig.epoch() == epoch + 1


# ---------------------------------------------------------------------------------------------------------- judgement


def here(**changes: object) -> Run:
    run = Run(
        token="a", host="h", pid=os.getpid(), place=place_of(os.getpid()), since=0.0, silent_seconds=1.0, beat=1.0,
        lease_seconds=30, session=True,
    )  # fmt: skip
    return msgspec.structs.replace(run, **changes)


def test_judgement_by_one_look() -> None:
    boot, namespace, start = place_of(os.getpid()).split()
    assert judge(None) == "free"
    assert judge(here()) == "alive"
    assert judge(here(silent_seconds=None)) == "free"
    assert judge(here(silent_seconds=30.1)) == "free"
    assert judge(here(place=f"{boot} {namespace} {int(start) - 1}")) == "free", "the pid is another process's now"
    assert judge(here(pid=2**22 + 1)) == "free"
    assert judge(here(place=f"{boot} pid:[1] {start}")) == "unknown", "another container"
    assert judge(here(place=f"another {namespace} {start}")) == "unknown"
    assert judge(here(place="")) == "unknown"


def test_a_zombie_is_no_process() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert place_of(child) == ""
    os.waitpid(child, 0)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_watching_a_run_elsewhere() -> None:
    clock = Clock()
    lookout = Lookout(clock)
    elsewhere = here(place="")
    gone = here(place="", session=False)
    assert lookout.step(elsewhere) == "unknown"
    clock.now = 20.0
    assert lookout.step(elsewhere) == "unknown", "its session is there"
    clock.now += runs.WATCH_SECONDS - 1
    assert lookout.step(gone) == "unknown", "it may come back within a heartbeat"
    clock.now += 2
    assert lookout.step(gone) == "free"
    assert lookout.step(here(place="", session=False, beat=2.0)) == "alive"
    assert lookout.step(here(place="", token="b")) == "unknown", "another run: all begins anew"
    assert lookout.step(here(place="", token="b", silent_seconds=31.0)) == "free"


# ---------------------------------------------------------------------------------------------- what operators are told


@AT_MARIADB
def test_status_tells_whether_anyone_runs_the_feed(rig: Rig) -> None:
    ended = rig.command("status")
    assert (ended.code, "NOT RUNNING: the last run was on" in ended.out, "in order" in ended.out) == (1, True, True)
    first = begun(rig)
    running = rig.command("status")
    assert running.code == 0, running.out
    assert f"RUNNING on {socket.gethostname()} as process {first.pid} since 20" in running.out
    told = rig.command("status", "@", "--json").json
    assert (told["activity"], told["run"]["pid"]) == ("running", first.pid)
    assert rig.command("pause").out.endswith("the feed does it within seconds\n")
    assert "RUNNING, paused on" in rig.command("status").out
    first.kill()
    killed = rig.command("status")
    assert (killed.code, "NOT RUNNING" in killed.out, "without a word" in killed.out) == (1, True, True), killed.out
    assert "nobody runs this feed now" in rig.command("resume").out


@AT_POSTGRES
def test_a_copy_and_a_repair_say_at_once_that_nobody_is_there(rig: Rig) -> None:
    copying = Process(["copy", str(rig.feed), "--yes"], rig.output)
    try:
        until(lambda: "nobody runs this feed now" in rig.said(), "the word")
        copying.signal(signal.SIGHUP)
        assert copying.code(SOON) == 130, rig.said()
        assert "The copy goes on" in rig.said()
    finally:
        if copying.running:
            copying.kill()


# ------------------------------------------------------------------------------------------------------------ readiness


def test_readiness_ends_while_a_server_is_away(
    make_rig: Callable[..., Rig], make_mariadb: Callable[..., MariaDb], make_postgres: Callable[..., Postgres]
) -> None:
    page = f"127.0.0.1:{free_port()}"
    source, target = make_mariadb(), make_postgres()
    rig = make_rig(source, target, "ready", lanes=2, http=page, ready_seconds=3)
    rig.table("account", "id int PRIMARY KEY")
    process = rig.run()
    until(lambda: ready(page) == (200, "running"), "readiness")
    target.kill()
    until(lambda: ready(page)[0] == 503, "the loss of the target", SOON)
    assert "the target has not answered for" in ready(page)[1]
    assert "the source" not in ready(page)[1], "an idle source is heard all the same"
    assert urllib.request.urlopen(f"http://{page}/livez").status == 200
    target.start()
    until(lambda: ready(page) == (200, "running"), "readiness", SOON)
    source.kill()
    until(lambda: ready(page)[0] == 503, "the loss of the source", SOON)
    assert "running: the source has not answered for" in ready(page)[1]
    source.start()
    until(lambda: ready(page) == (200, "running"), "readiness", SOON)
    rig.reconnect()
    moved_on(rig, 1)
    process.check()
    process.stop()


def ready(page: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{page}/readyz", timeout=2) as answer:
            return answer.status, answer.read().decode().strip()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.read().decode().strip()
    except OSError:
        return 0, ""
