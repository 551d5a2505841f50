"""`tidelock bench peers`: the same backlog through other replication systems and through ours, in turn, in one run.

Every turn starts on empty tables and ends with a comparison of all rows, so that a system which is fast and wrong has
no rate.  At a PostgreSQL source all read copies of one slot, and tables log whole rows unless asked otherwise.
`bench.peers.roster` says who takes part; what is not on this machine is left out with a line that says so.
"""

from __future__ import annotations

import contextlib
import functools
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bench.e2e.setup import FULL, IDENTITIES
from bench.harness.forking import COMMAND
from bench.harness.workload.churn import Churn
from bench.harness.workload.mix import Mix
from bench.outcome import RESULTS, Outcome, table, version
from bench.peers.peer import Peer
from bench.peers.roster import OURS, PEERS, Entry, Field, Plan, tidelock
from bench.peers.tournament import HEADER, Tournament, rows

WORKLOADS: Final = {"mix": lambda: Mix(peers=True), "churn": lambda: Churn(peers=True)}
ROUNDS, CHANGES, SLOW_CHANGES = 3, 200_000, 20_000
FULL_ROUNDS, FULL_CHANGES = 5, 500_000


def command(
    workload: Annotated[str, typer.Option(help="mix, churn or both.")] = "mix,churn",
    peers: Annotated[str, typer.Option(help=f"all, or some of: {', '.join(PEERS)}.")] = "all",
    ours: Annotated[
        str, typer.Option(help=f"all that the peers are compared with, or some of: {', '.join(OURS)}.")
    ] = "all",
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each system.")] = ROUNDS,
    changes: Annotated[int, typer.Option(min=1, help="Row changes in the backlog.")] = CHANGES,
    slow_changes: Annotated[int, typer.Option(min=1, help="Row changes in a slow system's backlog.")] = SLOW_CHANGES,
    full: Annotated[
        bool, typer.Option(help=f"{FULL_ROUNDS} rounds of {FULL_CHANGES:,} changes: half an hour.")
    ] = False,
    lanes: Annotated[int, typer.Option(min=1, help="Lanes of our feeds.")] = 8,
    seed: Annotated[int, typer.Option(help="Of the workload.")] = 1,
    identity: Annotated[str, typer.Option(help="REPLICA IDENTITY at PostgreSQL: full or default.")] = FULL,
    program: Annotated[str, typer.Option(help="Our command to measure, without its arguments.")] = shlex.join(COMMAND),
    against: Annotated[str, typer.Option(help="The same of another checkout: both take turns.")] = "",
    keep: Annotated[
        bool | None, typer.Option(help="Write bench/results/peers.json; by default where all systems took part.")
    ] = None,
) -> int:
    """Catch up with one backlog by other systems and ours, in turn; rates, ratios and differences."""
    workloads = _chosen(workload, list(WORKLOADS), "workload")
    if identity not in IDENTITIES:
        raise typer.BadParameter(f"--identity knows {', '.join(IDENTITIES)}, not {identity}")
    names = _chosen(peers, list(PEERS), "peers")
    feeds = _chosen(ours, list(OURS), "ours") if ours != "all" else feeds_beside(names)
    if not (names or feeds):
        raise typer.BadParameter(f"nothing to measure: give --ours ({', '.join(OURS)}) or --peers")
    if full:
        rounds, changes = FULL_ROUNDS, FULL_CHANGES
    outcome = Outcome("peers")
    found: dict[str, Any] = {}
    servers: dict[str, str] = {name: PEERS[name].version for name in names if PEERS[name].version}
    for name in workloads:
        programs = {"command": shlex.split(program), "against": shlex.split(against)}
        plan = Plan(WORKLOADS[name], changes, slow_changes, rounds, seed, lanes, identity=identity, **programs)
        found[name] = measure(plan, feeds, names, servers)
        print(f"\n{name}, {changes:,} row changes (slow systems {slow_changes:,}), {rounds} rounds\n", flush=True)
        print(table(HEADER, rows(found[name])), end="\n\n", flush=True)
    if keep or (keep is None and not against and len(workloads) == len(WORKLOADS) and len(names) == len(PEERS)):
        settings: dict[str, Any] = {"changes": changes, "slow_changes": slow_changes, "rounds": rounds, "seed": seed}
        settings |= {"lanes": lanes, "identity": identity}
        machine = {**outcome.machine(), "servers": servers}
        path = outcome.write({"machine": machine, **settings, "workloads": found})
        print(f"written to {path.relative_to(RESULTS.parents[1])}")
    return 0


def feeds_beside(peers: Sequence[str]) -> list[str]:
    """Returns those of ours that do the work of `peers`."""
    return [pair for pair in OURS if any(pair in PEERS[name].beside for name in peers)]


def measure(plan: Plan, feeds: Sequence[str], peers: Sequence[str], servers: dict[str, str]) -> dict[str, Any]:
    """One workload through our `feeds` and the `peers`, by name: `systems` and `ratios`.

    `servers` takes the versions of those that ran, by kind.
    """
    entries = {f"tidelock {pair}": tidelock(pair) for pair in feeds} | {name: PEERS[name] for name in peers}
    if plan.against:
        entries |= {f"other {pair}": tidelock(pair, other=True) for pair in feeds}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-peers-")))
        field, tournament = Field(stack, folder, plan), Tournament(lambda line: print(line, flush=True))
        for name, entry in entries.items():
            tournament.enter(name, functools.partial(_entered, stack, entry, field))
        tournament.play(plan.rounds)
        servers.update({kind: version(server) for kind, server in field.servers().items()})
        return {
            "systems": {name: record.summary() for name, record in tournament.records.items()},
            "ratios": tournament.ratios({name: _ours(entry) for name, entry in entries.items()}),
        }


def _ours(entry: Entry) -> list[str]:
    return [f"tidelock {pair}" for pair in entry.beside]


def _entered(stack: contextlib.ExitStack, entry: Entry, field: Field) -> Peer:
    return stack.enter_context(entry.make(field))


def _chosen(text: str, known: Sequence[str], option: str) -> list[str]:
    """Names from a list with commas, in the order of `known`.  Raises BadParameter."""
    wanted = list(known) if text == "all" else [word.strip() for word in text.split(",") if word.strip()]
    if unknown := [word for word in wanted if word not in known]:
        raise typer.BadParameter(f"--{option} knows {', '.join(known)}, not {', '.join(unknown)}")
    return [name for name in known if name in wanted]


if __name__ == "__main__":
    from bench.command import alone

    alone("peers")
