"""`tidelock bench two-way`: what two ways cost, in one table each.

    tidelock bench two-way                           # all parts, as long as they need (about half an hour)
    tidelock bench two-way --parts sites,marks       # some
    tidelock bench two-way --changes 5000 --rounds 1 # does it run?

| part | question |
|---|---|
| sites | how many rows a second does a feed with `sites` take, against the same feed without? |
| arbiter | and to or from an arbiter of conflicts, where nothing is in conflict? |
| live | what does each of these cost in processor time, at a steady rate? |
| marks | how many bytes of the target's log does a batch with marks take, against one without? |
| both | how many rows a second do both directions take at once, against one alone? |
| crossed | and each of them after the other, where both sites have written the same rows? |
| lags | how long until a spoke's change is at its arbiter, is told as seen, and until it has what that made of both? |
| reopen | how long until a pair with a permit holds once its lines are cut, and applies once they are whole? |

`live` counts what a backlog cannot show: the index of the echo remembers only what came since its reader began.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bench.e2e import steady
from bench.e2e.command import Measuring, measure
from bench.e2e.setup import SERVERS, Setup
from bench.e2e.suites import BETWEEN, SUITES, Suite
from bench.harness.servers import Server
from bench.outcome import RESULTS, Outcome
from bench.sites.topology import named
from bench.two_way import both, crossed, lags, reopen, shown

BELOW_GOAL: Final = 3
RATE, SECONDS = 5_000.0, 10.0
BOTH_CHANGES: Final = 100_000
CROSSED_CHANGES: Final = 20_000
CROSSED: Final = ("mysql-postgres", "mariadb-mysql", "postgres-mariadb")
"""Pairs of which the first is the arbiter."""
ROUNDS: Final = 3
PROBES: Final = 60
"""Probes of each lag, a round."""
CUT_CHANGES: Final = 5_000
WAYS: Final = ("", "sites", "up", "down")


@dataclasses.dataclass(frozen=True)
class Asked:
    """`changes`, `rounds`: 0 for what each part takes by itself."""

    changes: int
    rounds: int
    seed: int
    folder: Path

    def suite(self, name: str) -> Suite:
        kept = SUITES[name]
        return dataclasses.replace(kept, changes=self.changes or kept.changes, rounds=self.rounds or kept.rounds)


Part = Callable[[Asked], tuple[str, bool]]
"""A part's table, and whether its goal is met."""


def compared(name: str, show: Callable[[Mapping[str, Any]], str]) -> Part:
    """The part that a suite of `bench.e2e` is: setups that take turns."""

    def run(asked: Asked) -> tuple[str, bool]:
        found = measure(asked.suite(name), name, asked.seed, asked.folder)
        return show(found), found["met"] is not False

    return run


def live(asked: Asked) -> tuple[str, bool]:
    setups = [Setup("mix", source, target, two_way=way) for source, target in BETWEEN for way in WAYS]
    seconds = (asked.changes or RATE * SECONDS) / RATE
    done = []
    outcome = Outcome("two-way-live")
    with contextlib.ExitStack() as stack:
        measuring = Measuring(stack, setups)
        for _ in range(asked.rounds or ROUNDS):
            for setup in setups:
                done.append(measuring.steady(setup, RATE, seconds))
                print(done[-1], flush=True)
        outcome.on(measuring.servers)
        found = steady.report(done, seconds)
        outcome.write(found, asked.folder)
    return shown.live(found), True


def both_ways(asked: Asked) -> tuple[str, bool]:
    found: dict[str, list[dict[str, Any]]] = {}
    outcome = Outcome("two-way-both")
    for kinds in BETWEEN:
        pair = found.setdefault("–".join(kinds), [])
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-both-")))
            servers = [stack.enter_context(SERVERS[kind]()) for kind in kinds]
            outcome.on(dict(zip(kinds, servers, strict=False)))
            changes, rounds = asked.changes or BOTH_CHANGES, asked.rounds or ROUNDS
            for one in both.rounds("–".join(kinds), servers, folder, changes, rounds, asked.seed):
                print(one, flush=True)
                pair.append(dataclasses.asdict(one))
    outcome.write({"pairs": found}, asked.folder)
    return shown.both({"pairs": found}), True


def lag(asked: Asked) -> tuple[str, bool]:
    probes = PROBES * (asked.rounds or ROUNDS)
    measured = partial(lags.measured, probes=probes, seed=asked.seed)
    return shown.lags({"lags": _of_pairs("two-way-lags", "lags", asked, measured)}), True


def reopening(asked: Asked) -> tuple[str, bool]:
    changes, rounds = asked.changes or CUT_CHANGES, asked.rounds or ROUNDS
    measured = partial(reopen.measured, changes=changes, rounds=rounds)
    return shown.reopen({"cuts": _of_pairs("two-way-reopen", "cuts", asked, measured)}), True


def _of_pairs(
    name: str, key: str, asked: Asked, measured: Callable[[str, Mapping[str, Server], Path], Iterator[Any]]
) -> list[dict[str, Any]]:
    """Measures at each pair of servers, a private pair at a time, and writes what was found under that key."""
    found: list[dict[str, Any]] = []
    outcome = Outcome(name)
    for kinds in BETWEEN:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"tidelock-{key}-")))
            made = [stack.enter_context(SERVERS[kind]()) for kind in kinds]
            servers = dict(zip(("eu", "us"), made, strict=True))
            outcome.on(dict(zip(kinds, made, strict=False)))
            for one in measured("-".join(kinds), servers, folder):
                print(one, flush=True)
                found.append(dataclasses.asdict(one))
    outcome.write({key: found}, asked.folder)
    return found


def crossed_rows(asked: Asked) -> tuple[str, bool]:
    found: dict[str, list[dict[str, Any]]] = {}
    outcome = Outcome("two-way-crossed")
    for name in CROSSED:
        topology = named(name)
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-crossed-")))
            servers = {site: stack.enter_context(SERVERS[kind]()) for site, kind in topology.sites.items()}
            outcome.on(servers)
            changes, rounds = asked.changes or CROSSED_CHANGES, asked.rounds or ROUNDS
            for one in crossed.rounds(topology, servers, folder, changes, rounds, asked.seed):
                print(one, flush=True)
                found.setdefault(name, []).append(dataclasses.asdict(one))
    outcome.write({"pairs": found}, asked.folder)
    return shown.crossed({"pairs": found}), True


PARTS: Final[Mapping[str, Part]] = {
    "sites": compared("sites", shown.rates),
    "arbiter": compared("arbiter", shown.rates),
    "live": live,
    "marks": compared("marks", shown.marks),
    "both": both_ways,
    "lags": lag,
    "reopen": reopening,
    "crossed": crossed_rows,
}


def command(
    parts: Annotated[str, typer.Option(help=f"Of {', '.join(PARTS)}.")] = ",".join(PARTS),
    changes: Annotated[int, typer.Option(min=0, help="In each backlog; 0: what each part takes.")] = 0,
    rounds: Annotated[int, typer.Option(min=0, help="Of each setup, in turn; 0: what each part takes.")] = 0,
    seed: Annotated[int, typer.Option(help="Of the workloads.")] = 1,
    folder: Annotated[Path, typer.Option(help="Where the results go.")] = RESULTS,
) -> int:
    """Measure what two ways cost beside one; exit code 3 if `sites` cost more than 3 %."""
    chosen = [word.strip() for word in parts.split(",")]
    if unknown := [word for word in chosen if word not in PARTS]:
        raise typer.BadParameter(f"no part {unknown[0]}: there are {', '.join(PARTS)}")
    asked = Asked(changes, rounds, seed, folder)
    told, met = [], True
    for name in chosen:
        text, reached = PARTS[name](asked)
        told.append(f"## {name}\n\n{text}\n")
        met = met and reached
    print("\n".join(told))
    return 0 if met else BELOW_GOAL


if __name__ == "__main__":
    from bench.command import alone

    alone("two-way")
