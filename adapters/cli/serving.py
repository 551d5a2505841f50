"""`tidelock serve`: all feeds of a folder under one process."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

from tidelock.adapters.cli.failure import CommandError


def serve(folder: str, http: str) -> int:
    """Runs all feeds of a folder until told to stop; returns the exit code."""
    from tidelock.adapters.fleet.pages import page
    from tidelock.adapters.fleet.screen import screen_on
    from tidelock.adapters.fleet.supervisor import Supervisor
    from tidelock.adapters.process.service_manager import ServiceManager
    from tidelock.adapters.web.plain import served

    if not Path(folder).is_dir():
        raise CommandError(f"{folder} is no folder", "Give the folder that holds the feeds' YAML files")
    host, colon, port = http.rpartition(":")
    if http and not (colon and port.isdigit()):
        raise CommandError(f"--http {http} is no address", "Write HOST:PORT")
    screen = screen_on(sys.stdout)
    supervisor = Supervisor(
        Path(folder).resolve(), screen, terminal=sys.stdout.isatty(), manager=ServiceManager()
    )
    metrics = lambda: page(list(supervisor.members.values()))  # noqa: E731
    try:
        with served((host.strip("[]"), int(port)), metrics) if http else nullcontext(0) as number:
            if http:
                screen.say("", f"metrics of all feeds at http://{host}:{number}/metrics")
            return supervisor.run()
    finally:
        screen.close()
