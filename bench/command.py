"""`tidelock bench`: the benchmarks under one roof, each a module that is imported when it is chosen.

| subcommand | question |
|---|---|
| micro | what does each stage of a row's way cost, and is that more than it used to? |
| e2e | how many row changes a second go from a source to a target? |
| latency | how long from the source's COMMIT until the target shows the row? |
| scale | what grows with tables, row width, backlog and lanes? |
| workers | how much do workers over Kafka add to one, and what do they cost beside the embedded run? |
| copying | how fast are rows copied that exist already, and is it exact while they change, through SIGKILLs? |
| hive | how many changes a second does a Hive warehouse keep up with, exactly? |
| stream | how soon does a stream of changes in Spark show something, and is it exact over SIGKILLs? |
| chaos | does it stand an hour of kills, restarts, silent wires and full disks, exactly and with flat memory? |
| sites | do sites that are all written to end equal under kills, cut lines and pauses, and is all that lost told? |
| serve | do many feeds under one `serve` stay exact and its memory flat, killed, edited and asked anything? |
| two-way | what do sites, marks and an arbiter cost a feed, and both directions at once? |
| peers | how do other systems do on the same work, in the same run? |
| report | what has been measured, as a page? |

A benchmark is a module with `command(<typer options>) -> int` (the exit code) and, if it is part of the short set that
`tidelock bench` alone runs, `SHORT`: the arguments that make it end within a minute or two.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Final

import typer

from bench.harness.bytecode import compile_modules
from bench.harness.servers import ServerFailed, ServerMissing
from bench.harness.tidelock import TidelockFailed
from tidelock.adapters.cli.failure import OK, REFUSED, CommandError
from tidelock.adapters.cli.termination import terminated

MODULES: Final = {
    "micro": ("bench.micro.command", "What each stage costs a row, beside its recorded budget."),
    "e2e": ("bench.e2e.command", "Row changes a second from source to target."),
    "latency": ("bench.latency.command", "From COMMIT at the source until the target shows the row."),
    "scale": ("bench.growth.command", "What grows with tables, row width, backlog and lanes."),
    "workers": ("bench.scaleout", "One backlog, embedded and through Kafka with 1, 2 and 3 workers."),
    "copying": ("bench.copying", "Rows that exist already, copied while they change, through SIGKILLs."),
    "hive": ("bench.lake", "Changes a second that a Hive warehouse keeps up with."),
    "stream": ("bench.streaming", "How soon a stream of changes in Spark shows its first file."),
    "chaos": ("bench.chaos.command", "One process (or workers over Kafka) under kills, restarts, silence, full disks."),
    "sites": ("bench.sites.command", "Sites that are all written to, under kills, restarts, cut lines and pauses."),
    "serve": ("bench.fleet.command", "Many feeds under one serve, killed and edited at random, its API fuzzed."),
    "two-way": ("bench.two_way.command", "What sites, marks, an arbiter and both directions at once cost."),
    "peers": ("bench.peers.command", "Other systems on the same work, in the same run."),
    "report": ("bench.report", "What was measured, as tables and pictures in docs/explanation/performance.md."),
}
SHORT_SET: Final = ("micro", "e2e")
INTERRUPTED: Final = 130

command = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Measure, and compare with the recorded budgets. Without a subcommand: micro, then a short e2e.",
)


@command.callback(invoke_without_command=True)
def short(context: typer.Context) -> int:
    if context.invoked_subcommand is not None:
        return OK
    codes = [run(name, getattr(_module(name), "SHORT", ())) for name in SHORT_SET]
    return max(codes)


def run(name: str, arguments: Sequence[str]) -> int:
    """A benchmark's exit code.  Raises CommandError where it cannot be run here."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(_module(name).command)
    compile_modules()
    try:
        with terminated():
            code = app(args=list(arguments), prog_name=f"tidelock bench {name}", standalone_mode=False)
    except ServerMissing as error:
        raise CommandError(str(error), "`make servers` installs them", REFUSED) from error
    except (ServerFailed, TidelockFailed) as error:
        raise CommandError(str(error), exit_code=REFUSED) from error
    if code == INTERRUPTED:  # so typer tells of a KeyboardInterrupt
        print(f"bench {name}: stopped; its servers and files are gone", file=sys.stderr)
    return code if isinstance(code, int) else OK


def _module(name: str) -> ModuleType:
    path, _ = MODULES[name]
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        raise CommandError(
            f"`tidelock bench {name}` needs the module {error.name}, which is not here",
            "`make setup` installs what the benchmarks need",
        ) from error


def _subcommand(name: str, text: str) -> None:
    @command.command(
        name,
        help=text,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    )
    def subcommand(context: typer.Context) -> int:
        return run(name, context.args)


for _name, (_, _text) in MODULES.items():
    _subcommand(_name, _text)


def alone(name: str) -> None:
    """Run a benchmark's module, as `python -m` does."""
    try:
        sys.exit(run(name, sys.argv[1:]))
    except CommandError as error:
        sys.exit(f"bench {name}: {error}. {error.hint}".rstrip(". "))
