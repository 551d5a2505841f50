"""`tidelock serve`: all feeds of a folder under one process."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

from tidelock.adapters.cli.failure import CommandError
from tidelock.adapters.config.http_tls import HttpTls


def serve(folder: str, http: str, token_file: str, files: HttpTls | None = None) -> int:
    """Runs all feeds of a folder until told to stop; returns the exit code.  `files`: to serve with TLS."""
    from tidelock.adapters.api.guard import Guard, is_loopback
    from tidelock.adapters.api.serving import served
    from tidelock.adapters.api.tokens import Tokens
    from tidelock.adapters.fleet.screen import screen_on
    from tidelock.adapters.fleet.supervisor import Supervisor
    from tidelock.adapters.process.gc_tuning import tidy
    from tidelock.adapters.process.service_manager import ServiceManager
    from tidelock.adapters.web.serving import ready_tls

    if not Path(folder).is_dir():
        raise CommandError(f"{folder} is no folder", "Give the folder that holds the feeds' YAML files")
    host, port = _address(http)
    if (token_file or files) and not http:
        given = "--token-file" if token_file else "--tls-cert"
        raise CommandError(f"{given} goes with --http", "Give both, or neither")
    if http and not (token_file or (files and files.client_ca)) and not is_loopback(host):
        raise CommandError(
            f"--http {http} is reached from elsewhere, and anybody there could see the feeds",
            "Give --token-file or --client-ca, or an address of this machine alone, such as 127.0.0.1",
        )
    tls = ready_tls(files, lambda text: supervisor.tell(text))
    tokens = Tokens(Path(token_file)) if token_file else None
    guard = Guard(host, tokens, tls.knows) if tls is not None else Guard(host, tokens)
    screen = screen_on(sys.stdout)
    place = Path(folder).resolve()
    supervisor = Supervisor(place, screen, terminal=sys.stdout.isatty(), manager=ServiceManager())
    try:
        with served((host, port), supervisor, guard, place, tls) if http else nullcontext(0) as number:
            if http:
                where = f"http{'s' if tls else ''}://{http.rpartition(':')[0]}:{number}"
                screen.say("", f"console at {where}/, API at {where}/api/v1, metrics of all feeds at {where}/metrics")
            tidy()
            return supervisor.run()
    finally:
        screen.close()


def tls_files(cert: str, key: str, client_ca: str) -> HttpTls | None:
    """Returns the files of `--tls-cert`, `--tls-key` and `--client-ca`; None without any.  Raises CommandError."""
    if not (cert or key or client_ca):
        return None
    if not (cert and key):
        raise CommandError("TLS needs a certificate and its key", "Give --tls-cert and --tls-key")
    return HttpTls(cert=cert, key=key, client_ca=client_ca)


def _address(http: str) -> tuple[str, int]:
    """Returns host and port of `--http`.  Raises CommandError."""
    host, colon, port = http.rpartition(":")
    if http and not (colon and port.isascii() and port.isdigit() and int(port) < 65_536):
        raise CommandError(f"--http {http} is no address", "Write HOST:PORT")
    return host.strip("[]"), int(port or 0)
