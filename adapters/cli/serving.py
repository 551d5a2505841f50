"""`tidelock serve`: all feeds of a folder under one process."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

from tidelock.adapters.cli.failure import CommandError


def serve(folder: str, http: str, token_file: str) -> int:
    """Runs all feeds of a folder until told to stop; returns the exit code."""
    from tidelock.adapters.api.guard import Guard, is_loopback
    from tidelock.adapters.api.serving import served
    from tidelock.adapters.api.tokens import Tokens
    from tidelock.adapters.fleet.screen import screen_on
    from tidelock.adapters.fleet.supervisor import Supervisor
    from tidelock.adapters.process.service_manager import ServiceManager

    if not Path(folder).is_dir():
        raise CommandError(f"{folder} is no folder", "Give the folder that holds the feeds' YAML files")
    host, port = _address(http)
    if token_file and not http:
        raise CommandError("--token-file goes with --http", "Give both, or neither")
    if http and not token_file and not is_loopback(host):
        raise CommandError(
            f"--http {http} is reached from elsewhere, and anybody there could see the feeds",
            "Give --token-file, or an address of this machine alone, such as 127.0.0.1",
        )
    guard = Guard(host, Tokens(Path(token_file)) if token_file else None)
    screen = screen_on(sys.stdout)
    place = Path(folder).resolve()
    supervisor = Supervisor(place, screen, terminal=sys.stdout.isatty(), manager=ServiceManager())
    try:
        with served((host, port), supervisor, guard, place) if http else nullcontext(0) as number:
            if http:
                where = f"http://{http.rpartition(':')[0]}:{number}"
                screen.say("", f"console at {where}/, API at {where}/api/v1, metrics of all feeds at {where}/metrics")
            return supervisor.run()
    finally:
        screen.close()


def _address(http: str) -> tuple[str, int]:
    """Returns host and port of `--http`.  Raises CommandError."""
    host, colon, port = http.rpartition(":")
    if http and not (colon and port.isascii() and port.isdigit() and int(port) < 65_536):
        raise CommandError(f"--http {http} is no address", "Write HOST:PORT")
    return host.strip("[]"), int(port or 0)
