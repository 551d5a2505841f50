"""Put the servers on this machine: `python -m bench.servers.install mariadb postgres mysql`.

MariaDB and PostgreSQL are Debian packages, which takes root or sudo without a password; MySQL 9 needs neither.
Run again, it does only what is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable

from bench.servers.mysql_tree import fetch_mysql, mysql_root, mysql_version
from bench.servers.place import ServerMissing, program
from bench.servers.postgres import program as postgres_program

PACKAGES = {"mariadb": "mariadb-server", "postgres": "postgresql"}
CHECKS: dict[str, Callable[[], str]] = {
    "mariadb": lambda: program("mariadbd", PACKAGES["mariadb"]),
    "postgres": lambda: postgres_program("postgres"),
}


def main(names: list[str]) -> int:
    try:
        packages = [PACKAGES[name] for name in names if name in CHECKS and not _there(name)]
        if packages:
            _install(packages)
        if "mysql" in names and mysql_version() is None:
            _step("MySQL 9: fetching from Debian unstable, about 50 MB", fetch_mysql)
        for name in names:
            where = f"{mysql_root()} ({mysql_version()})" if name == "mysql" else CHECKS[name]()
            print(f"servers: {name} at {where}", flush=True)
    except ServerMissing as error:
        print(f"servers: {error}", file=sys.stderr)
        return 1
    return 0


def _there(name: str) -> bool:
    try:
        CHECKS[name]()
    except ServerMissing:
        return False
    return True


def _install(packages: list[str]) -> None:
    by_hand = f"install {' and '.join(packages)} (Debian: `apt-get install {' '.join(packages)}`), then run this again"
    if shutil.which("apt-get") is None:
        raise ServerMissing(f"this machine has no apt-get: {by_hand}")
    if os.geteuid() == 0:
        prefix = []
    elif subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0:
        prefix = ["sudo", "-n"]
    else:
        raise ServerMissing(f"neither root nor sudo without a password: {by_hand}")
    _step("apt-get update", lambda: _apt(prefix, "update", []))
    _step(f"apt-get install {' '.join(packages)}", lambda: _apt(prefix, "install", packages))


def _apt(prefix: list[str], verb: str, packages: list[str]) -> None:
    settings = ["-qq", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"]
    command = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", verb, *settings, *packages]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        raise ServerMissing(f"`apt-get {verb} {' '.join(packages)}` failed:\n{done.stdout.strip()}")


def _step(text: str, work: Callable[[], None]) -> None:
    print(f"servers: {text} …", flush=True)
    start = time.monotonic()
    work()
    print(f"servers: … {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
