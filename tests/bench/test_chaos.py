"""Chaos at one process: a short run with every blow, and each of the things that it strikes and judges with."""

from __future__ import annotations

import errno
import math
import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.chaos import blows, one
from bench.chaos.memory import MOST_SLOPE, Memory, line, measured
from bench.chaos.result import Blow, Result
from bench.chaos.steady import Steady
from bench.chaos.supervised import End
from bench.harness.namespace import mounting
from bench.harness.rig import until
from bench.harness.servers import MariaDb
from bench.harness.small_disk import SmallDisk
from bench.harness.usage import Sample
from bench.harness.wire import Way, Wire
from bench.harness.workload.churn import Churn
from bench.outcome import RESULTS, read
from bench.shown import told

SHORT = (
    "source killed",
    "target killed",
    "source silent",
    "killed alone",
    "SIGTERM",
    "killed",
)


@pytest.mark.proof
def test_a_short_run_leaves_no_difference(tmp_path: Path) -> None:
    """Blows that end the process today are left to the hour: a full disk, a full target, a read-only one; so are some
    that are like others."""
    result = one.run(10.0, 1, kinds=SHORT, short=True, folder=tmp_path)
    assert [blow.kind for blow in result.blows] == list(SHORT)
    assert result.faults == [], str(result)
    assert result.changes > 2000 and result.cut >= 1 and result.starts >= 4
    assert {memory.name for memory in result.memory} == {"run", "capture"}
    kept = read(one.NAME, tmp_path)
    assert kept is not None and kept["met"] and kept["machine"]["servers"]
    text, pictures = told(kept)
    assert "| SIGTERM | 1 |" in text and "Met." in text and len(pictures) == 1


@pytest.mark.proof
def test_an_hour_of_chaos() -> None:
    """The figures of bench/results/chaos-one.json."""
    result = one.run(60.0, 1, folder=RESULTS)
    assert result.faults == [], str(result)


# ------------------------------------------------------------------ the wire


@contextmanager
def echo() -> Iterator[int]:
    """A server that sends every connection's bytes back, with what it has heard so far in `heard`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer(connection: socket.socket) -> None:
            with connection:
                while piece := connection.recv(1 << 16):
                    connection.sendall(piece)

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def to(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10.0)


def nothing(connection: socket.socket) -> bool:
    """It is open, and nothing comes."""
    connection.settimeout(0.2)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(10.0)
    return False


@pytest.mark.parametrize("ways", [(), (Way.THERE,), (Way.BACK,)], ids=lambda ways: ",".join(w.name for w in ways))
def test_a_silent_wire_keeps_its_connections_and_delivers_later(ways: tuple[Way, ...]) -> None:
    with echo() as port, Wire(port) as wire, to(wire.port) as old:
        old.sendall(b"before")
        assert old.recv(6) == b"before"
        wire.silence(*ways)
        with to(wire.port) as new:
            old.sendall(b"meanwhile")
            new.sendall(b"new")
            assert nothing(old) and nothing(new)
            wire.speak()
            assert old.recv(9) == b"meanwhile"
            assert new.recv(3) == b"new"


def test_the_end_of_a_server_ends_the_connection() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        Wire(listener.getsockname()[1]) as wire,
        to(wire.port) as connection,
    ):
        there, _ = listener.accept()
        there.close()
        assert connection.recv(1) == b""


# ------------------------------------------------------------------ the disk, the work


@mounting
def test_a_small_disk_is_full_to_the_last_byte_and_free_again(tmp_path: Path) -> None:
    with SmallDisk(tmp_path / "small") as disk:
        if disk.missing:
            pytest.skip(disk.missing)
        disk.fill()
        with pytest.raises(OSError) as full:
            (disk.folder / "one").write_bytes(b"x")
        assert full.value.errno == errno.ENOSPC
        disk.free()
        (disk.folder / "one").write_bytes(b"x" * 1000)
    assert list(disk.folder.iterdir()) == []


@mounting
def test_a_small_disk_does_not_outlive_its_owner(tmp_path: Path) -> None:
    place = tmp_path / "small"
    program = (
        "import sys, time; from pathlib import Path; from bench.harness.small_disk import SmallDisk\n"
        "with SmallDisk(Path(sys.argv[1])) as disk: print(disk.missing, flush=True); time.sleep(600)"
    )
    owner = subprocess.Popen([sys.executable, "-c", program, str(place)], stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout is not None
        if missing := owner.stdout.readline().strip():
            owner.kill()
            pytest.skip(missing)
        assert os.path.ismount(place)
        owner.kill()
    until(lambda: not os.path.ismount(place), "the end of the mount")


def test_work_that_a_kill_cut_off_is_finished_and_nothing_is_done_twice() -> None:
    with MariaDb(durable=True) as source:
        source.execute("CREATE DATABASE shop")
        workload = Churn()
        for statement in workload.ddl("mariadb"):
            source.execute(statement, database="shop")
        work = Steady(workload, source, "shop", 1, 2000.0)
        work.prepare()
        work.start()
        for _ in range(3):
            seen = work.changes
            until(lambda seen=seen: work.changes > seen + 500, "changes")  # type: ignore[misc]
            source.kill()
            source.start()
        work.stop()
        ((rows,),) = source.execute("SELECT COUNT(*) FROM shop.member")
        assert work.cut >= 3
        assert rows == len(workload._rows), "the model and the source have parted"


# ------------------------------------------------------------------ the verdict


Curve = Callable[[float, float], float]
"""(minutes of the run, minutes of the process's life) → MB."""


def life(pid: int, begun: float, minutes: float, curve: Curve) -> list[Sample]:
    """One process, sampled once a second; it begins after so many minutes."""
    ages = [n / 60 for n in range(int(minutes * 60) + 1)]
    return [Sample((begun + age) * 60, "run", pid, 0, int(curve(begun + age, age) * 1e6), 0.0) for age in ages]


def hour(curve: Curve, last: float = 17.0) -> list[Sample]:
    """As blows make it: a life of eight minutes, then some that are cut short; the last one is long again."""
    lives = [length for _ in range(2) for length in (19.0, 0.2, 0.7, 1.5, 0.4)]
    samples: list[Sample] = []
    begun = 0.0
    for pid, length in enumerate([*lives, last]):
        samples += life(pid, begun, length, curve)
        begun += length + 0.05
    return samples


def warming(_: float, age: float) -> float:
    return 60.0 - 12.0 * math.exp(-age / 0.5)


def blows_of(at: float, age: float) -> float:
    """Rows wait for forty seconds of every one and a half minutes, more of them from blow to blow, and are gone."""
    waiting = at % 1.5 / 0.7
    return warming(at, age) + (waiting * (5.0 + at / 3) if waiting < 1 else 0.0)


def test_a_line_through_points() -> None:
    assert line([(0, 1.0), (1, 3.0), (2, 5.0)]) == pytest.approx(2.0)
    assert line([(0, 1.0)]) == line([]) == 0.0


def test_memory_of_killed_and_long_lives_that_all_are_alike_is_flat() -> None:
    """Short lives before a long one are no growth, though a line through everything says so."""
    short = [s for n in range(20) for s in life(n, n * 0.5, 0.5, warming)]
    samples = [*short, *life(20, 10.0, 20.0, warming)]
    assert line([(sample.at / 60, sample.own_bytes / 1e6) for sample in samples]) > MOST_SLOPE
    seen = measured("run", samples, 61_000_000)
    assert (seen.peak, seen.lives) == (61.0, 1)
    assert seen.flat, seen
    seen = measured("run", hour(warming), 0)
    assert seen.lives == 3 and seen.flat and abs(seen.drift) < 0.02 and seen.slope < 0.1, seen


def test_what_blows_cost_while_they_last_is_no_growth() -> None:
    seen = measured("run", hour(blows_of), 0)
    assert seen.flat, seen


def test_lives_that_hold_more_than_those_before_at_the_same_age_are_not_flat() -> None:
    long = measured("run", hour(lambda at, age: blows_of(at, age) + 0.3 * at), 0)
    assert long.drift == pytest.approx(0.3, abs=0.04) and not long.flat
    short = [s for n in range(40) for s in life(n, n * 1.5, 1.5, lambda at, age: 60.0 + (at - age) * 0.3)]
    seen = measured("run", short, 0)
    assert seen.lives == 0 and seen.drift == pytest.approx(0.3, abs=0.01) and not seen.flat


def test_a_life_that_was_at_rest_may_come_to_hold_what_others_do() -> None:
    def rested(until: float) -> list[Sample]:
        return life(9, 0, 30.0, lambda at, age: 31.0 if age < until else 50.0)

    others = [sample for pid in (1, 2, 3) for sample in life(pid, 0, 30.0, lambda at, age: 50.0)]
    assert measured("run", [*others, *rested(20.0)], 0).life_growth < 10
    alone = measured("run", rested(20.0), 0)
    assert alone.life_growth > 10 and not alone.flat
    assert alone.grown[0][1] == 31.0 and alone.grown[-1][1] == 50.0


def test_memory_that_leaks_within_lives_is_not_flat() -> None:
    fast = measured("run", hour(lambda at, age: blows_of(at, age) + 18.0 * age), 0)
    assert fast.life_growth > 80 and fast.slope > 17 and not fast.flat
    assert fast.grown[-1][1] - fast.grown[0][1] > 80
    slow = measured("run", hour(lambda at, age: warming(at, age) + 0.3 * age), 0)
    assert slow.life_growth < 5 and slow.slope > MOST_SLOPE and not slow.flat
    alone = measured("run", life(1, 0, 20.0, lambda at, age: blows_of(at, age) + 0.3 * age), 0)
    assert alone.lives == 1 and alone.slope > MOST_SLOPE and not alone.flat
    once = measured("run", hour(lambda at, age: 60.0 + (1.2 * age if at < 19 else 0.0)), 0)
    assert once.life_growth > 10 and not once.flat, "one life of three"


def test_everything_that_speaks_against_it_is_said() -> None:
    stood = Result(
        pair="mariadb:postgres", minutes=60.0, seed=1, rate=300.0, changes=9, cut=0, history=9, checkpoints=9,
        starts=1, differences=0, unique_violations=0, parked=0, violations=[], backward=[], unasked=[], left_out={},
        memory=[Memory("run", 60.0, 0.0, 0.0, 3, 1.0)], blows=[Blow(1.0, "killed", 0.1, 2.0)],
    )  # fmt: skip
    assert stood.faults == []
    fell = Result(
        pair="mariadb:postgres", minutes=60.0, seed=1, rate=300.0, changes=9, cut=0, history=9, checkpoints=9,
        starts=1, differences=1, unique_violations=1, parked=1, violations=["twice"], backward=[("b", "a")],
        unasked=[End(5.0, 4, "halted")], left_out={}, memory=[Memory("run", 60.0, 9.0, 0.0, 3, 1.0)],
        blows=[Blow(1.0, "killed", 0.1, None), Blow(2.0, "SIGTERM", 0.1, 60.0), Blow(3.0, "SIGTERM", 0.1, 59.9)],
    )  # fmt: skip
    assert len(fell.faults) == 9, fell.faults


def test_a_deck_holds_every_blow_and_whole_rounds_leave_the_process_alone() -> None:
    drawn = blows.deck(random.Random(1))
    around = [next(drawn) for _ in range(len(blows.AROUND) * blows.LONG_ROUNDS)]
    both = [next(drawn) for _ in (*blows.AROUND, *blows.AT_IT)]
    assert sorted(around) == sorted(blows.AROUND * blows.LONG_ROUNDS)
    assert set(both) == set(blows.BLOWS)
