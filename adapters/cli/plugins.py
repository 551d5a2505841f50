"""Commands that live outside the adapters and register themselves in the entry-point group `tidelock.commands`.

An entry point names a function annotated as typer likes it, or a `typer.Typer`; its return value is the exit code.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points

import typer

from tidelock.adapters.cli.failure import CommandError

GROUP = "tidelock.commands"
EXPECTED = {
    "demo": "Replicate between two real databases, under load, and look at it.",
    "bench": "Measure, and compare with the recorded budgets.",
    "simulate": "Search for faults in a simulated world.",
}


def run_plugin(name: str, arguments: Sequence[str]) -> int:
    """Runs a registered command.  Raises CommandError where it is not installed."""
    found = next(iter(entry_points(group=GROUP, name=name)), None)
    try:
        loaded = found.load() if found else None
    except ModuleNotFoundError as error:
        raise CommandError(
            f"`tidelock {name}` needs the module {error.name}, which is not here",
            "It is part of the source tree: clone the repository and run `make setup` there",
        ) from None
    if loaded is None:
        raise CommandError(
            f"`tidelock {name}` is not installed",
            "It is part of the source tree: clone the repository, run `make setup` there and use .venv/bin/tidelock",
        )
    app = loaded
    if not isinstance(app, typer.Typer):
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command()(loaded)
    code = app(args=list(arguments), prog_name=f"tidelock {name}", standalone_mode=False)
    return code if isinstance(code, int) else 0
