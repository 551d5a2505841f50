"""Writes the man page and the shells' completions from the commands.

`python -m tidelock.adapters.reference.manual` does it.  A test compares, so that they cannot fall behind.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import typer.main
from typer._completion_shared import get_completion_script

from tidelock.adapters.cli.app import app
from tidelock.adapters.compiled.version import installed

FOLDER: Final = Path(__file__).resolve().parents[2] / "packages"
NOTICE: Final = '.\\" Written by `python -m tidelock.adapters.reference.manual`; change the code, not this page.\n'
COMPLETIONS: Final = {"bash": "tidelock.bash", "zsh": "_tidelock", "fish": "tidelock.fish"}
EXIT_CODES: Final = "Exit codes:"
ENVIRONMENT: Final = {
    "TIDELOCK_CACHE": "Folder of the drivers that Spark reads databases with. Default: `~/.cache/tidelock`.",
    "NOTIFY_SOCKET, WATCHDOG_USEC": "Set by systemd: `run`, `worker` and `serve` tell it that they are ready, alive "
    "and about to end (sd_notify(3)).",
}
SEE_ALSO: Final = "systemd.service(5), mariadb(1), mysql(1), psql(1)"


def files() -> dict[str, str]:
    """Returns the text of each file, by its path below `packages/`."""
    scripts = {f"completions/{name}": _completion(shell) for shell, name in COMPLETIONS.items()}
    return {"tidelock.1": page(), **scripts}


def _completion(shell: str) -> str:
    script = get_completion_script(prog_name="tidelock", complete_var="_TIDELOCK_COMPLETE", shell=shell)
    return f"{script.strip()}\n"


def page() -> str:
    """Returns the man page."""
    root: Any = typer.main.get_command(app)
    text, _, codes = str(root.help).partition(EXIT_CODES)
    parts = [
        NOTICE + f'.TH TIDELOCK 1 "" "Tidelock {installed()}" "User Commands"\n',
        _section("NAME", "tidelock \\- replicate committed row changes between databases\n"),
        _section("SYNOPSIS", ".B tidelock\n[\\fB\\-\\-version\\fR] [\\fB\\-\\-help\\fR] \\fICOMMAND\\fR \\fI…\\fR\n"),
        _section("DESCRIPTION", _text(text)),
        _section("OPTIONS", _facts(root)),
        _section("COMMANDS", "".join(_commands(root, "tidelock"))),
        _section("EXIT STATUS", _codes(codes)),
        _section("ENVIRONMENT", "".join(_item(_bold(name), what) for name, what in ENVIRONMENT.items())),
        _section("SEE ALSO", _text(SEE_ALSO)),
    ]
    return "".join(parts).replace("…", "\\[u2026]")


def _section(name: str, text: str) -> str:
    return f".SH {name}\n{text}"


def _commands(command: Any, path: str) -> list[str]:
    children = getattr(command, "commands", None)
    if children is not None:
        return [part for name, child in children.items() for part in _commands(child, f"{path} {name}")]
    words = [f"\\fI{_plain(_word(one))}\\fR" for one in command.params if one.param_type_name == "argument"]
    return [f".SS {' '.join([_plain(path), *words])}\n{_text(command.help)}{_facts(command)}"]


def _facts(command: Any) -> str:
    """Returns an item for each argument and option."""
    made = []
    for one in command.params:
        if one.name == "help" or not getattr(one, "help", None) or getattr(one, "hidden", False):
            continue
        if one.param_type_name == "argument":
            name = f"\\fI{_plain(_word(one))}\\fR"
        else:
            value = "" if one.is_flag else f" \\fI{_plain(one.metavar or 'VALUE')}\\fR"
            name = ", ".join(map(_bold, one.opts)) + value
        made.append(_item(name, one.help))
    return "".join(made)


def _codes(text: str) -> str:
    found = re.findall(r"(\d) ([^,:]+(?:: [^,]+)?)", text)
    return "".join(_item(_bold(code), what.rstrip(".").strip() + ".") for code, what in found)


def _item(name: str, text: str) -> str:
    return f".TP\n{name}\n{_text(text)}"


def _word(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _bold(word: str) -> str:
    return f"\\fB{_plain(word)}\\fR"


def _text(text: str) -> str:
    """Returns paragraphs, with what is between backticks in bold."""
    paragraphs = [" ".join(part.split()) for part in text.strip().split("\n\n")]
    shown = (re.sub(r"`([^`]*)`", r"\\fB\1\\fR", _plain(one)) for one in paragraphs if one)
    return ".PP\n".join(f"{one}\n" for one in shown)


def _plain(text: str) -> str:
    """Returns a text that roff takes as it is."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    for name, text in files().items():
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_text(text, encoding="utf-8")
