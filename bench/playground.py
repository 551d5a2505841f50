"""`make playground`: a private MariaDB and a private PostgreSQL to try things at, until Ctrl-C.

Its folder, `playground/`, gets their URLs, each in a file of its own as a feed reads it (`${file:source.url}`), and a
client of each as a command (`playground/source`, `playground/target`).  Servers and folder are gone afterwards.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.harness.servers import MariaDb, Postgres, ServerFailed, ServerMissing
from bench.harness.servers import postgres as postgres_programs
from bench.harness.servers.place import program
from tidelock.adapters.cli.termination import terminated
from tidelock.adapters.process import private_files

FOLDER: Final = "playground"
DATABASE: Final = "shop"
OK: Final = 0
REFUSED: Final = 1


class FolderThere(Exception):
    """The folder is there already: another playground may use it."""


@contextlib.contextmanager
def playground(folder: Path) -> Iterator[None]:
    """Has both servers up while the block runs.  Raises FolderThere, ServerMissing, ServerFailed."""
    try:
        folder.mkdir()
    except FileExistsError:
        raise FolderThere(f"{folder}/ is there already: end that playground, or remove what it left") from None
    try:
        with MariaDb() as source, Postgres() as target:
            source.execute(f"CREATE DATABASE {DATABASE}")
            target.execute(f"CREATE DATABASE {DATABASE}")
            private_files.write(folder / "source.url", source.url().encode())
            private_files.write(folder / "target.url", target.url(DATABASE).encode())
            _command(folder / "source", _mariadb(source))
            _command(folder / "target", _psql(target))
            yield
    finally:
        shutil.rmtree(folder)


def _mariadb(server: MariaDb) -> list[str]:
    client = program("mariadb", "mariadb-client")
    return [client, "--no-defaults", f"--socket={server.socket}", f"--user={server.user}", "--table", DATABASE]


def _psql(server: Postgres) -> list[str]:
    client = postgres_programs.program("psql")
    url = f"host={server.host} port={server.port} user={server.user} dbname={DATABASE}"
    return [client, "--no-psqlrc", "--pset=pager=off", "--set=ON_ERROR_STOP=1", url]


def _command(path: Path, words: list[str]) -> None:
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o755)


def main() -> int:
    """Runs until told to end; returns the exit code."""
    folder = Path(FOLDER)
    print("playground: starting a private MariaDB and a private PostgreSQL", flush=True)
    try:
        with terminated(), playground(folder):
            print(f"playground: ready in {folder}/; Ctrl-C ends both servers and removes it", flush=True)
            threading.Event().wait()
    except KeyboardInterrupt:
        print("\nplayground: its servers and files are gone", flush=True)
    except (FolderThere, ServerMissing, ServerFailed) as error:
        print(f"playground: {error}", file=sys.stderr)
        return REFUSED
    return OK


if __name__ == "__main__":
    sys.exit(main())
