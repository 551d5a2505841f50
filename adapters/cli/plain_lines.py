"""Command lines that need no parser: one of these commands, the feed's file, and switches.

Typer and what it imports take two fifths of the time of `tidelock status`, and longer than the imports of
`tidelock run`.  Help, mistakes and all other options go to the app, which has these commands too.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

_JSON: Mapping[str, str] = {"--json": "json"}


class Plain(NamedTuple):
    """`switches`: each with the name of its parameter, which is False without it.  `others`: all other parameters."""

    module: str
    body: str
    switches: Mapping[str, str] = _JSON
    others: Mapping[str, Any] = {}


_ALL = {**_JSON, "--all": "everything"}
_UNTIL = {**_JSON, "--until-caught-up": "until_caught_up"}
COMMANDS: Mapping[str, Plain] = {
    "run": Plain("running", "run", {**_UNTIL, "--take-over": "take_over"}),
    "check": Plain("preparing", "check"),
    "init": Plain("preparing", "init", {**_JSON, "--apply": "apply"}),
    "status": Plain("watching", "status"),
    "pause": Plain("watching", "set_state", others={"state": "paused"}),
    "resume": Plain("watching", "set_state", others={"state": "running"}),
    "rows list": Plain("watching", "list_rows", others={"table": "", "limit": 100}),
    "ddl show": Plain("watching", "show_ddl"),
    "ddl done": Plain("watching", "pass_ddl", others={"word": "done"}),
    "ddl skip": Plain("watching", "pass_ddl", others={"word": "skipped"}),
    "rows retry": Plain("watching", "queue", _ALL, {"what": "retry", "ids": [], "table": ""}),
    "rows skip": Plain("watching", "queue", _ALL, {"what": "skip", "ids": [], "table": ""}),
    "resync": Plain("resyncing", "resync", {**_JSON, "--yes": "yes"}, {"tables": []}),
}


def plain(arguments: Sequence[str]) -> Callable[[], int] | None:
    """Returns what runs this line, or None where it is for the app."""
    if not arguments:
        return None
    length = 2 if arguments[0] in ("rows", "ddl") else 1
    command = COMMANDS.get(" ".join(arguments[:length]))
    rest = arguments[length:]
    paths = [word for word in rest if not word.startswith("-")]
    if command is None or len(paths) != 1 or len(set(rest) - set(paths) - command.switches.keys()):
        return None
    module = importlib.import_module(f"tidelock.adapters.cli.{command.module}")
    given = {name: switch in rest for switch, name in command.switches.items()}
    return partial(getattr(module, command.body), path=paths[0], **given, **command.others)
