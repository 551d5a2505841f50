"""Builds the compiled forms of hot paths, beside their sources: `python -m tidelock.adapters.compiled.build`.

They are optional.  Where there is no C compiler, no Cython or no header of Python the build says so, ends well, and
everything runs with the Python forms.  A module holds the digest of its source, and is built anew where that changed.
"""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

from tidelock.adapters.compiled.forms import SOURCES, digest

_HINT: Final = "Debian: apt-get install gcc libc6-dev python3-dev; replication is slower without, and as exact"


class CannotBuild(Exception):
    """A module cannot be built; the text says what is missing, or what the compiler said."""


def build(source: Path) -> Path:
    """Returns the extension module of `source`, and builds it if it was made of another source.  Raises CannotBuild."""
    built = source.with_suffix(str(sysconfig.get_config_var("EXT_SUFFIX")))
    made_of = digest(source)
    if built.exists() and made_of.encode() in built.read_bytes():
        return built
    if importlib.util.find_spec("Cython") is None:
        raise CannotBuild("Cython is not installed")
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    if not header().exists():
        raise CannotBuild(f"{header()} is not here")
    darwin = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    with tempfile.TemporaryDirectory(prefix="tidelock-build-") as folder:
        text, made = Path(folder) / f"{source.stem}.c", Path(folder) / built.name
        _run([sys.executable, "-m", "cython", "-3", str(source), "-o", str(text)])
        given = [f"-I{header().parent}", f"-I{source.parent}", f'-DTIDELOCK_SOURCE="{made_of}"']
        _run([*compiler, "-O2", "-fPIC", "-shared", *darwin, *given, str(text), "-o", str(made)])
        beside = built.with_suffix(".new")  # another process may have the old one open
        beside.write_bytes(made.read_bytes())
        beside.replace(built)
    return built


def header() -> Path:
    """Returns the header of this Python, which comes with its development package."""
    return Path(sysconfig.get_paths()["include"]) / "Python.h"


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    except OSError as error:
        raise CannotBuild(f"{command[0]}: {error}") from None
    if done.returncode:
        raise CannotBuild((done.stderr or done.stdout).strip()[-2000:])


def main() -> int:
    """Builds all modules and prints what was built."""
    for source in SOURCES:
        try:
            print(f"compiled: {build(source).name}")
        except CannotBuild as error:
            print(f"compiled: {source.name} is not built: {error}. {_HINT}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
