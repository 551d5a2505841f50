"""gh-ost, which changes MySQL's tables online: built by Go of the module that `.ci/gh-ost` names, with its hashes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from bench.harness.servers.place import ServerMissing, cache

LOCK: Final = Path(__file__).parents[3] / ".ci" / "gh-ost"
MODULE: Final = "github.com/github/gh-ost"
OLDEST_GO: Final = (1, 23)
GO_FOLDER: Final = "/usr/local/go/bin"  # where Go's own archive is unpacked to


def gh_ost() -> str:
    """Path of the program.  Raises ServerMissing."""
    kept = _place()
    if not kept.exists():
        raise ServerMissing(f"gh-ost {_version()} is not built: `python -m bench.harness.servers.install gh-ost`")
    return str(kept)


def fetch_gh_ost() -> None:
    """Build it in a folder that goes, and put the program in place by a rename.  Raises ServerMissing with Go's words.
    """
    go = _go()
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".gh-ost-", dir=cache()) as scratch:
        folder = Path(scratch)
        shutil.copytree(LOCK, folder / "lock")
        made = folder / "gh-ost"
        done = subprocess.run(
            [go, "build", "-mod=mod", "-modcacherw", "-o", str(made), f"{MODULE}/go/cmd/gh-ost"],
            cwd=folder / "lock",
            env={**os.environ, "GOPATH": str(folder / "path"), "GOCACHE": str(folder / "cache"), "GOFLAGS": ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if done.returncode:
            raise ServerMissing(f"gh-ost {_version()} cannot be built:\n{done.stderr.strip()[-2000:]}")
        made.rename(_place())


def _place() -> Path:
    return cache() / f"gh-ost-{_version()}"


def _version() -> str:
    found = re.search(rf"{re.escape(MODULE)} v(\S+)", (LOCK / "go.mod").read_text(encoding="utf-8"))
    assert found is not None, f"{LOCK}/go.mod requires no {MODULE}"
    return found[1]


def _go() -> str:
    """Path of a Go that can build it; Debian 12's own is too old."""
    found = shutil.which("go") or shutil.which("go", path=GO_FOLDER)
    wanted = ".".join(map(str, OLDEST_GO))
    if found is None:
        raise ServerMissing(f"gh-ost needs Go {wanted} or newer: unpack it to /usr/local/go, or put it on the PATH")
    said = subprocess.run([found, "version"], capture_output=True, encoding="utf-8", check=False).stdout
    number = re.search(r"\bgo(\d+)\.(\d+)", said)
    if number is None or (int(number[1]), int(number[2])) < OLDEST_GO:
        raise ServerMissing(f"{found} says {said.strip()!r}, and gh-ost is built by Go {wanted} or newer")
    return found
