"""A fleet under `serve`: what it is asked, what is judged of it, and a short run."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from bench.chaos.memory import WARM_SECONDS
from bench.fleet import acts
from bench.fleet.held import Handles, judged
from bench.fleet.requests import HELD, Requests
from bench.fleet.result import SHORT, Result, unasked
from bench.fleet.run import Fleet, run
from bench.fleet.serving import below
from bench.fleet.violations import unexplained
from bench.harness.rig import Said, until
from bench.outcome import read
from bench.shown import told
from tidelock.adapters.api.routes import ROUTES


def drawn(seed: int, count: int) -> list[bytes]:
    requests = Requests(random.Random(seed), "127.0.0.1:1", {"one": True, "two": False}, ["account"])
    return [requests.draw().data for _ in range(count)]


def test_every_route_is_asked_but_those_that_hold_a_feed_up_and_a_seed_draws_the_same() -> None:
    found = drawn(1, 4000)
    assert found[:100] == drawn(1, 100) != drawn(2, 100)
    for route in ROUTES:
        last = route.path.rpartition("/")[2].partition("}")[0].strip("{")
        if last.isalpha() and last not in ("feed", "job", "row", *HELD):
            assert any(f"/{last}".encode() in one for one in found), route.path
    assert not any(b"/one/restart" in one for one in found), "what is calm lives long"
    assert not any(f"/{path} HTTP".encode() in one for path in HELD for one in found)


def life(descriptors: list[int]) -> list[Handles]:
    """One a minute, from when it is warm."""
    before = [Handles(0.0, 7, 5, 5)]
    return before + [Handles(WARM_SECONDS + 60.0 * n, 7, held, 9) for n, held in enumerate(descriptors)]


@pytest.mark.parametrize(
    ("descriptors", "grows"),
    [([50, 90, 51, 50, 80, 50], False), ([50, 51, 53, 55, 57, 59], True), ([50, 70], None)],
)
def test_what_stays_is_in_every_look_and_what_comes_and_goes_is_not(
    descriptors: list[int], grows: bool | None
) -> None:
    found = {one.what: one for one in judged(life(descriptors))}
    assert (found["descriptors"].grows if found else None) is grows
    assert not found or not found["threads"].grows


def test_ends_that_no_kill_explains_are_counted_with_what_was_said_before() -> None:
    said = (
        "f1_rig2: killed by signal 9: started again in 1 s\nf1_rig2: cannot reach 127.0.0.1:20001\n"
        "f3_rig4: it runs\nf1_rig2: ended with exit code 1: started again in 2 s\nf3_rig4: ended\n"
        "f1_rig2: cannot reach 127.0.0.1:20007\nf1_rig2: ended with exit code 1: started again in 4 s\n"
        "f5_rig6: /srv/feeds/f5_rig6.yaml: No such file\nf5_rig6: ended with exit code 2\n"
    )
    assert unasked(said) == {"exit code 1: cannot reach N.N.N.N:N": 2, "exit code 2: FEED.yaml: No such file": 1}


def test_processes_below_one_are_found_with_those_below_them(tmp_path: Path) -> None:
    sleeps = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", sleeps], stdin=subprocess.PIPE) as parent:
        until(lambda: len(list(below(parent.pid))) == 1, "the one below it")
        ours = {child.pid for child in below(os.getpid())}
        assert parent.pid in ours and {child.pid for child in below(parent.pid)} < ours
        assert parent.stdin is not None
        parent.stdin.close()
    assert not list(below(parent.pid))


def test_a_command_that_takes_too_long_is_tried_again_and_kept_as_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.fleet.acts.AGAIN_SECONDS", 0.0)
    ends = iter([subprocess.TimeoutExpired("copy", 240.0), Said(1, "", "not now"), Said(0, "", "")])

    def command() -> Said:
        end = next(ends)
        if isinstance(end, subprocess.TimeoutExpired):
            raise end
        return end

    acts.until_done(command)
    assert not list(ends)
    monkeypatch.setattr("bench.fleet.acts.DONE_SECONDS", -1.0)
    with pytest.raises(acts.Failed, match="timed out after 240"):
        acts.until_done(tidelock_that_waits)


def tidelock_that_waits() -> Said:
    raise subprocess.TimeoutExpired("copy", 240.0)


def test_the_words_that_are_kept_are_those_of_the_figures_that_are_kept() -> None:
    kept = read("fleet")
    assert kept is not None
    result = msgspec.convert(kept["result"], Result)
    words = result.shown({})
    assert kept["met"] == (not result.faults)
    for part in ("title", "text"):
        assert kept["shown"][part] == words[part]


@pytest.mark.parametrize(
    ("minutes", "lives", "words"),
    [
        (5.0, 1, SHORT),
        (20.0, 1, "Met, for 20 of the 60 minutes."),
        (20.0, 0, "Met, for 20 of the 60 minutes. Memory within a life is not judged: no life of run was long enough."),
        (61.0, 1, "Met."),
    ],
)
def test_a_run_that_is_shorter_than_was_asked_for_says_so(minutes: float, lives: int, words: str) -> None:
    kept = read("fleet")
    assert kept is not None
    result = msgspec.convert(kept["result"], Result)
    (one, *_) = result.memory
    memory = [dataclasses.replace(one, drift=0.0, slope=0.0, life_growth=0.0, lives=lives, name="run")]
    result = dataclasses.replace(result, minutes=minutes, memory=memory)
    assert result.shown({})["text"].endswith(words)


def test_ctrl_c_lets_an_act_be_done_and_ends_the_run_early() -> None:
    done: list[str] = []

    class Once:
        """Acts, of which the first is when somebody presses Ctrl-C."""

        kinds: Sequence[str] = ("an act",)

        def do(self, kind: str, feed: object) -> str:
            os.kill(os.getpid(), signal.SIGINT)
            done.append(kind)
            return "done"

    serving = SimpleNamespace(look=lambda: "")
    busy = SimpleNamespace(name="one", calm=False)
    fleet = Fleet(serving, [busy], random.Random(1))  # type: ignore[arg-type,list-item]
    fleet._strike(Once(), time.monotonic(), 60.0)  # type: ignore[arg-type]
    assert done == ["an act"]
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.proof
def test_a_short_run_leaves_no_difference(tmp_path: Path) -> None:
    result = run(7, 2.0, 1, rate=6.0, kill_seconds=8.0, folder=tmp_path)
    assert result.faults == [], str(result)
    assert result.changes > 3000 and result.kills["serve"] == 3 and result.kills["feed"] > 0
    assert {"200", "404"} <= result.statuses.keys()
    kept = read("fleet", tmp_path)
    assert kept is not None and kept["met"] and SHORT in told(kept)[0]


ERROR = "2026-11-27 14:23:18 root[root] @ localhost [127.0.0.1] ERROR 1062: Duplicate entry"
BY_KEY = f"{ERROR} '1' for key 'PRIMARY' : INSERT INTO `f1`.`t` (`id`,`b`,`u`) VALUES (1,60,1);COMMIT"
BY_VALUE = f"{ERROR} '1' for key 'u' : INSERT INTO `f1`.`t` (`id`,`b`,`u`) VALUES (1,60,1)"
DIGEST = "2 2026-11-27 14:23:18.1 INSERT INTO `f1` . `t` ( `id` ) VALUES (?) INSERT INTO `f1`.`t` (`id`) VALUES (1)"
IN_POSTGRES = "2026-11-27 14:23:20.775 UTC [583] postgres@postgres 23505 {}"
PRIMARY = IN_POSTGRES.format('ERROR:  duplicate key value violates unique constraint "t_pkey"')
DETAIL = IN_POSTGRES.format("DETAIL:  Key (id)=(1) already exists.")
UNIQUE = IN_POSTGRES.format('ERROR:  duplicate key value violates unique constraint "t_u_key"')


@pytest.mark.parametrize(
    ("count", "told", "narrowed", "left"),
    [
        (1, [BY_KEY], {"f1"}, (0, [])),
        (1, [BY_KEY], {"f2"}, (1, [BY_KEY])),
        (2, [BY_KEY, BY_VALUE], {"f1"}, (1, [BY_VALUE])),
        (2, [DIGEST], {"f1"}, (0, [])),
        (3, [DIGEST], {"f1"}, (1, [])),
        (2, [DIGEST], set(), (2, [DIGEST])),
        (1, [PRIMARY, DETAIL], {"f1"}, (0, [])),
        (1, [PRIMARY, DETAIL], set(), (1, [PRIMARY])),
        (2, [PRIMARY, DETAIL, UNIQUE], {"f1"}, (1, [UNIQUE])),
    ],
)
def test_a_row_that_comes_back_into_its_filter_is_no_fault(
    count: int, told: list[str], narrowed: set[str], left: tuple[int, list[str]]
) -> None:
    assert unexplained(count, told, narrowed) == left
