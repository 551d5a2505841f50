"""Command lines of `tidelock` in texts, and whether the command line that there is takes them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

import typer
import typer.main

from bench.command import MODULES
from tidelock.adapters.cli.app import app
from tidelock.adapters.cli.plugins import EXPECTED, GROUP

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`((?:\.venv/bin/)?tidelock(?: [^`]*)?)`")
# Before the name a prompt, variables and a folder; then all up to a pipe, the next command or a comment.
LINE = re.compile(r"^(?:[\w-]*\$ )?(?:\w+=\S+ )*(?:\S*/)?(tidelock [^|;>&#\n]*)", re.MULTILINE)
SHELLS = ("", "sh", "bash", "console")


def in_blocks(text: str) -> Iterator[str]:
    """Yields the command lines of a page's fenced blocks; each is whole."""
    for language, block in FENCE.findall(text):
        if language in SHELLS:
            yield from (line.strip() for line in LINE.findall(block.replace("\\\n", " ")))


def in_prose(text: str) -> Iterator[str]:
    """Yields the command lines between backticks; they may leave arguments out."""
    yield from (re.sub(r"^\S*/", "", span) for span in SPAN.findall(FENCE.sub("", text)))


def refusal(line: str, *, whole: bool) -> str:
    """Returns why `tidelock` does not take a line; '' where it does.  `whole`: no argument may be missing."""
    words = [word for word in shlex.split(line.replace("…", "")) if word.strip(".")]
    if words[1:] == ["--version"]:
        return ""
    try:
        _parse(_root(), words[0], words[1:], whole)
    except Exception as error:  # the parser's own
        return getattr(error, "message", "") or str(error)
    return ""


@cache
def _root() -> Any:
    return typer.main.get_command(app)


@cache
def _plugin(name: str) -> Any:
    """Returns what a command of the root stands for, where another module has it, or a command of `bench`."""
    if name in MODULES:
        return _command(import_module(MODULES[name][0]).command)
    (found,) = entry_points(group=GROUP, name=name)
    return _command(found.load())


def _command(loaded: Any) -> Any:
    if not isinstance(loaded, typer.Typer):
        body, loaded = loaded, typer.Typer(add_completion=False)
        loaded.command()(body)
    return typer.main.get_command(loaded)


def _parse(command: Any, name: str, words: list[str], whole: bool) -> None:
    context = command.make_context(name, list(words), resilient_parsing=not whole)
    if not hasattr(command, "commands"):
        if not whole:
            _known_options(command, words)
        return
    rest = words[len(words) - len(_rest(context)) :]
    if not rest:
        return
    below = command.commands.get(rest[0])
    if below is None:
        raise ValueError(f"no command {rest[0]!r}")
    elsewhere = name == "bench" or (name == "tidelock" and rest[0] in EXPECTED)
    _parse(_plugin(rest[0]) if elsewhere else below, rest[0], rest[1:], whole)


def _rest(context: Any) -> list[str]:
    return [*getattr(context, "_protected_args", getattr(context, "protected_args", [])), *context.args]


def _known_options(command: Any, words: list[str]) -> None:
    known = {spelling for one in command.params for spelling in (*one.opts, *one.secondary_opts)} | {"--help"}
    for word in words:
        if word.startswith("--") and word.partition("=")[0] not in known:
            raise ValueError(f"no option {word}")
