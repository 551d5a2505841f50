"""The `tidelock` command.

Exit codes: 0 ok, 1 unreachable or refused by `check`, 2 bad YAML or usage, 3 differences found, 4 failed rows or a
halt: an operator is needed.  Each command's body is in a module of its own group, imported when it is chosen.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from tidelock.adapters.process import light_start  # noqa: F401  # isort: skip
from tidelock.adapters.cli.failure import explained, tell

_RUN_FLAGS = ("--until-caught-up", "--take-over", "--json")


def main() -> None:
    """Runs the command: the console entry point.

    Nothing is left to collect at its end: the interpreter's own last look at all that is loaded takes longer than a
    quarter of the imports.
    """
    code = command(sys.argv[1:])
    gc.freeze()
    sys.exit(code)


def command(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code."""
    json = "--json" in arguments
    try:
        code = _plain_run(arguments) if _is_plain_run(arguments) else _app(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output is gone: end quietly, also when the interpreter flushes what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        known = explained(error)
        if known is None:
            raise
        message, code = known
        if message:
            tell(message, json)
        return code


def _is_plain_run(arguments: Sequence[str]) -> bool:
    """Returns whether this is `run FEED` with nothing but its flags; its help and its mistakes go to the app."""
    words = [word for word in arguments if word not in _RUN_FLAGS]
    return len(words) == 2 and words[0] == "run" and not words[1].startswith("-") and arguments[0] == "run"


def _plain_run(arguments: Sequence[str]) -> int:
    """Runs a feed without typer, whose import would take a third of the time that a start may take."""
    from tidelock.adapters.cli.running import run

    feed = next(word for word in arguments[1:] if word not in _RUN_FLAGS)
    return run(
        feed,
        until_caught_up="--until-caught-up" in arguments,
        json="--json" in arguments,
        take_over="--take-over" in arguments,
    )


def _app(arguments: Sequence[str]) -> int:
    from tidelock.adapters.cli.app import app

    code = app(args=list(arguments), prog_name="tidelock", standalone_mode=False)
    return code if isinstance(code, int) else 0
