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
from tidelock.adapters.cli.plain_lines import plain


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
        body = plain(arguments)
        code = _app(arguments) if body is None else body()
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


def _app(arguments: Sequence[str]) -> int:
    from tidelock.adapters.cli.app import app

    code = app(args=list(arguments), prog_name="tidelock", standalone_mode=False)
    return code if isinstance(code, int) else 0
