"""Command lines that need no parser: one of these commands, the feed's file, switches and a name.

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
    """`switches`: each with the name of its parameter, which is False without it.  `words`: those that take a word, ""
    without it.  `others`: all other parameters."""

    module: str
    body: str
    switches: Mapping[str, str] = _JSON
    others: Mapping[str, Any] = {}
    words: Mapping[str, str] = {}


_ALL = {**_JSON, "--all": "everything"}
_SOCKET = {"--socket": "socket"}
_UNTIL = {**_JSON, "--until-caught-up": "until_caught_up"}
_RUN = {**_UNTIL, "--take-over": "take_over", "--without-permit": "without_permit"}
COMMANDS: Mapping[str, Plain] = {
    "run": Plain("running", "run", _RUN, words=_SOCKET),
    "worker": Plain("running", "worker", _UNTIL, words={"--name": "name", **_SOCKET}),
    "check": Plain("preparing", "check"),
    "init": Plain("preparing", "init", {**_JSON, "--apply": "apply", "--indexes": "indexes"}),
    "status": Plain("watching", "status"),
    "feeds": Plain("listing", "feeds"),
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
    given = None if command is None else _given(command, arguments[length:])
    if command is None or given is None:
        return None
    module = importlib.import_module(f"tidelock.adapters.cli.{command.module}")
    return partial(getattr(module, command.body), **given, **command.others)


def _given(command: Plain, arguments: Sequence[str]) -> dict[str, Any] | None:
    """Returns the parameters that the line gives, or None where it holds something else."""
    found: dict[str, Any] = dict.fromkeys(command.switches.values(), False) | dict.fromkeys(command.words.values(), "")
    rest = iter(arguments)
    for argument in rest:
        if argument in command.switches:
            found[command.switches[argument]] = True
        elif argument in command.words:
            found[command.words[argument]] = next(rest, "")
        elif argument.startswith("-") or "path" in found:
            return None
        else:
            found["path"] = argument
    return found if "path" in found else None
