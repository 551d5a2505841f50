"""Prometheus' promtool, out of Debian's package into a folder of the cache; nothing is installed on the machine.

Installing the package would start a Prometheus that nobody wants.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from bench.harness.servers.place import ServerMissing, cache, program

PACKAGE = "prometheus"


def promtool() -> str:
    """Path of the program.  Raises ServerMissing."""
    kept = cache() / "promtool"
    return str(kept) if kept.exists() else program("promtool", PACKAGE)


def fetch_promtool() -> None:
    """Download the package, and put the program in place by a rename.  Raises ServerMissing with what apt said."""
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".promtool-", dir=cache()) as scratch:
        done = subprocess.run(
            ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", PACKAGE],
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if done.returncode:
            raise ServerMissing(
                f"`apt-get download {PACKAGE}` for promtool failed; `apt-get update` may help: {done.stderr.strip()}"
            )
        for package in Path(scratch).glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(package), scratch], check=True)
        (Path(scratch) / "usr/bin/promtool").rename(cache() / "promtool")
