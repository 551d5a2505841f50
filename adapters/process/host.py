"""Finds programs of this machine, and the cache for what is costly to make or to fetch."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

SEARCH: Final = ("/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/bin")
JAVA_PACKAGE: Final = "default-jre-headless"
OLDEST_JAVA: Final = 17


class Missing(RuntimeError):
    """Something is not on this machine; the text says what installs it."""

    exit_code = 1


def program(name: str, package: str) -> str:
    """Returns the path of `name`, also where an ordinary user's PATH does not look.  Raises Missing."""
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(SEARCH))
    if found is None:
        raise Missing(f"{name} is not installed (Debian package {package}): run `make servers`")
    return found


@functools.cache
def version(path: str) -> str:
    """Returns the version number that the program at `path` prints, asked once a process.  Raises Missing."""
    said = subprocess.run([path, "--version"], capture_output=True, encoding="utf-8", check=False).stdout
    found = re.search(r"\d+(\.\d+)+", said)
    if found is None:
        raise Missing(f"{path} --version names no version but says: {said.strip()}")
    return found[0]


def java_program() -> str:
    """Returns the path of Java: that of JAVA_HOME, else of the PATH.  Raises Missing."""
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else program("java", JAVA_PACKAGE)
    if not Path(path).exists():
        raise Missing(f"JAVA_HOME is {home}, where no bin/java is: correct it, or unset it")
    return path


def java(wanted_by: str) -> str:
    """Returns the path of a Java that can run `wanted_by`.  Raises Missing."""
    path = java_program()
    found = version(path)
    if int(found.partition(".")[0]) < OLDEST_JAVA:
        raise Missing(
            f"{path} is Java {found}, and {wanted_by} needs {OLDEST_JAVA} or newer: "
            f"install {JAVA_PACKAGE} of Debian 12 or newer"
        )
    return path


def cache() -> Path:
    """Returns the folder for what is costly to make: `.tidelock` of the checkout, where a server's user can reach it.
    """
    if named := os.environ.get("TIDELOCK_CACHE"):
        return Path(named)
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / "pyproject.toml").exists():
        return Path.home() / ".cache" / "tidelock"
    if os.geteuid() == 0 and not _open_to_all((checkout, *checkout.parents)):
        return Path("/var/cache/tidelock")  # a server that gave up root cannot enter a private checkout
    return checkout / ".tidelock"


def _open_to_all(folders: Iterable[Path]) -> bool:
    return all(folder.stat().st_mode & 0o001 for folder in folders)
