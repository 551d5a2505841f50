"""`python -m bench.harness.wide_engine serve DIR …`: `tidelock` whose feeds take far more of the log than they should.

A feed holds some thousand changes at once (`Options.max_in_flight_rows`), so at most as many wait for each other.  With
these limits a real one holds as many as the test of a look at them has (`tests/engine/test_batch_lock_waits.py`).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tidelock.adapters.config import apply_options
from tidelock.adapters.process import command_process
from tidelock.engine.model.options import Options

ROWS: Final = 2_000_000
BYTES: Final = 4 << 30
_MODULE: Final = "bench.harness.wide_engine"
_options_of, _command_line = apply_options.options_of, command_process.command_line


def wide(*given: Any, **named: Any) -> Options:
    """Returns a feed's options, without the bounds on what it holds at once."""
    options = _options_of(*given, **named)
    return msgspec.structs.replace(
        options,
        window_rows=1000,
        min_rows_per_lane=0,
        max_in_flight_rows=ROWS,
        max_in_flight_bytes=BYTES,
        coalesce_rows=0,
    )


def command_line(arguments: Any) -> list[str]:
    """Returns what starts a command; a feed's process is one of these."""
    words = _command_line(arguments)
    return [words[0], "-m", _MODULE, *arguments] if arguments[0] == "run" else words


def main() -> None:
    """Runs the product's command."""
    apply_options.options_of = wide
    command_process.command_line = command_line
    from tidelock.adapters.cli import main as tidelock

    tidelock()


if __name__ == "__main__":
    main()
