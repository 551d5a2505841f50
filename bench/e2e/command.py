"""`tidelock bench e2e`: row changes a second, from the log of a real source to the tables of a real target.

    tidelock bench e2e --suite lanes                 # one of the kept comparisons, see `bench.e2e.suites`
    tidelock bench e2e --workload mix,hot --pair mysql:postgres --lanes 1,8 --changes 200000 --rounds 5
    tidelock bench e2e --workload mix --delay-ms 0,10 --set batch_rows=500
    tidelock bench e2e --pair postgres:postgres,postgres:mysql --workload churn,oltp --consistency both
    tidelock bench e2e --workload toast --pair postgres:postgres --identity both  # the bytes that each logs, too
    tidelock bench e2e --matrix                      # every workload between every pair, once
    tidelock bench e2e --steady 5000,20000           # a source that goes on writing, in place of a backlog

Setups of one workload take turns, round by round; what is kept is the median with its spread, and the ratio to the
first setup, round by round.  Each (source, workload) has a source server of its own while it is measured, so that no
feed reads another's backlog.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from bench.command import alone
from bench.e2e import steady
from bench.e2e.backlog import Backlog, Round
from bench.e2e.report import lines, report
from bench.e2e.setup import COMMITS, CONSISTENCIES, FULL, IDENTITIES, SERVERS, Setup, every
from bench.e2e.suites import SUITES, Suite
from bench.harness.servers import Server
from bench.harness.workload.named import HEAVY
from bench.outcome import RESULTS, Outcome

SHORT: Final = ("--suite", "short")
BELOW_GOAL: Final = 3
BOTH, NONE = "both", "none"
EXACT: Final = "after every round: 0 rows differ from the source, 0 unique violations at the target, 0 failed rows"


class Measuring:
    """The servers of a run: a target of each kind, and sources that are used again by the next group."""

    def __init__(self, stack: contextlib.ExitStack, setups: Sequence[Setup]) -> None:
        self._stack = stack
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-e2e-")))
        durable = any(setup.commit == "sync" for setup in setups)
        kinds = dict.fromkeys(setup.target for setup in setups)
        self._targets = {kind: stack.enter_context(SERVERS[kind](durable=durable)) for kind in kinds}
        self._sources: dict[tuple[str, int], Server] = {}

    def steady(self, setup: Setup, rate: float, seconds: float) -> steady.Steady:
        source, target = self._source(setup.source, 0), self._targets[setup.target]
        return steady.run(setup, source, target, self._folder, rate, seconds)

    @property
    def servers(self) -> dict[str, Server]:
        sources = {f"source {kind}": server for (kind, _), server in self._sources.items()}
        return {**sources, **{f"target {kind}": server for kind, server in self._targets.items()}}

    def rounds(self, setups: Sequence[Setup], changes: int, count: int, seed: int) -> Iterator[Round]:
        """Run the rounds of one group: `count` of each setup, in turn."""
        with contextlib.ExitStack() as stack:
            backlogs: dict[tuple[str, str, str], Backlog] = {}
            for setup in setups:
                place = (setup.source, setup.workload, setup.identity)
                if place not in backlogs:
                    source = self._source(setup.source, sum(kind == setup.source for kind, *_ in backlogs))
                    target = self._targets[setup.target]
                    fewer = max(1, changes // HEAVY.get(setup.workload, 1))
                    backlog = Backlog(source, target, self._folder, setup.workload, fewer, seed, setup.identity)
                    backlogs[place] = stack.enter_context(contextlib.closing(backlog))
            for _ in range(count):
                for setup in setups:
                    yield backlogs[setup.source, setup.workload, setup.identity].catch_up(
                        setup, self._targets[setup.target]
                    )

    def _source(self, kind: str, number: int) -> Server:
        if (kind, number) not in self._sources:
            self._sources[kind, number] = self._stack.enter_context(SERVERS[kind]())
        return self._sources[kind, number]


def measure(suite: Suite, name: str, seed: int, folder: Path = RESULTS) -> dict[str, object]:
    """Run, print each round as it ends, and write `e2e-NAME.json`.  Raises AssertionError where rows differ."""
    outcome = Outcome(f"e2e-{name}")
    with contextlib.ExitStack() as stack:
        measuring = Measuring(stack, suite.setups)
        groups = []
        for group in _groups(suite):
            done = []
            for one in measuring.rounds(group, suite.changes, suite.rounds, seed):
                print(one, flush=True)
                done.append(one)
            groups.append(done)
        found = report(suite, seed, groups)
        outcome.on(measuring.servers)
        path = outcome.write(found, folder)
    print("\n".join([*lines(found), EXACT]))
    print(f"written to {path.name}")
    return found


def measure_steady(suite: Suite, rates: Sequence[float], seconds: float, folder: Path = RESULTS) -> None:
    """Run each setup at each rate, in turn, and write `e2e-steady.json`.  Raises AssertionError where rows differ."""
    done = []
    outcome = Outcome("e2e-steady")
    with contextlib.ExitStack() as stack:
        measuring = Measuring(stack, suite.setups)
        for _ in range(suite.rounds):
            for setup in suite.setups:
                for rate in rates:
                    done.append(measuring.steady(setup, rate, seconds))
                    print(done[-1], flush=True)
        outcome.on(measuring.servers)
        path = outcome.write(steady.report(done, seconds), folder)
    print(f"written to {path.name}")


def _groups(suite: Suite) -> list[list[Setup]]:
    """Group the setups that take turns: everything, or what has the same workload, and pair of servers if asked."""
    if suite.together:
        return [list(suite.setups)]
    groups: dict[tuple[str, ...], list[Setup]] = {}
    for setup in suite.setups:
        pair = (setup.source, setup.target) if suite.by_pair else ()
        groups.setdefault((setup.workload, *pair), []).append(setup)
    return list(groups.values())


def command(
    suite: Annotated[str, typer.Option(help=f"A kept comparison: {', '.join(SUITES)}.")] = "",
    matrix: Annotated[bool, typer.Option("--matrix", help="The same as --suite matrix.")] = False,
    workload: Annotated[str, typer.Option(help="One or several, by comma.")] = "mix",
    pair: Annotated[str, typer.Option(help="SOURCE:TARGET, one or several.")] = "mariadb:postgres",
    lanes: Annotated[str, typer.Option(help="1 to 64, one or several.")] = "8",
    consistency: Annotated[str, typer.Option(help="row, transaction or both.")] = "row",
    commit: Annotated[str, typer.Option(help="async, sync (the target waits for its disk) or both.")] = "async",
    delay_ms: Annotated[str, typer.Option(help="To the target, each way; one or several.")] = "0",
    identity: Annotated[str, typer.Option(help="REPLICA IDENTITY at PostgreSQL: full, default or both.")] = FULL,
    two_way: Annotated[str, typer.Option(help="none, sites, up, down (to, from an arbiter); one or several.")] = NONE,
    setting: Annotated[list[str], typer.Option("--set", help="KEY=VALUE of the feed; again for more.")] = [],  # noqa: B006
    serial: Annotated[bool, typer.Option("--serial", help="Row-by-row apply too, and first.")] = False,
    together: Annotated[bool, typer.Option("--together", help="Workloads take turns too.")] = False,
    steady_rates: Annotated[str, typer.Option("--steady", help="Changes a second; one or several.")] = "",
    seconds: Annotated[float, typer.Option(min=0.1, help="Of steady load.")] = 10.0,
    changes: Annotated[int, typer.Option(min=0, help="In each backlog; of wide, toast a tenth; 0: the suite's.")] = 0,
    rounds: Annotated[int, typer.Option(min=0, help="Of each setup; 0: the suite's.")] = 0,
    seed: Annotated[int, typer.Option(help="Of the workloads.")] = 1,
    name: Annotated[str, typer.Option(help="Of the result, e2e-NAME.json.")] = "",
    folder: Annotated[Path, typer.Option(help="Where the result goes.")] = RESULTS,
) -> int:
    """Measure backlog catch-up end to end; exit code 3 if a suite's goal is missed."""
    chosen = "matrix" if matrix else suite
    if chosen and chosen not in SUITES:
        raise typer.BadParameter(f"no suite {chosen}: there are {', '.join(SUITES)}")
    try:
        asked = SUITES[chosen] if chosen else Suite("As asked for.", tuple(every(
            _words(workload), _words(pair), [int(count) for count in _words(lanes)],
            _ways(consistency, CONSISTENCIES), _ways(commit, COMMITS),
            [float(delay) for delay in _words(delay_ms)], setting, serial, _ways(identity, IDENTITIES),
            ["" if way == NONE else way for way in _words(two_way)],
        )), together=together)  # fmt: skip
        rates = [float(rate) for rate in _words(steady_rates)]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    shaped = dataclasses.replace(asked, changes=changes or asked.changes, rounds=rounds or asked.rounds)
    if rates:
        measure_steady(shaped, rates, seconds, folder)
        return 0
    found = measure(shaped, name or chosen or "chosen", seed, folder)
    return 0 if found["met"] in (True, None) else BELOW_GOAL


def _ways(text: str, known: Sequence[str]) -> Sequence[str]:
    return known if text == BOTH else _words(text)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


if __name__ == "__main__":
    alone("e2e")
