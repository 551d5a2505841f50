"""Builds the compiled forms of hot paths, beside their sources: `python -m tidelock.adapters.compiled.build`.

They are optional.  Where there is no C compiler, no Cython or no header of Python the build says so, ends well, and
everything runs with the Python forms.  A module holds the digest of its source, and is built anew where that changed.
The variables CC, CFLAGS and LDFLAGS are heeded as everywhere.  A wheel gets its modules from here too
(`adapters.compiled.wheel`).
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tidelock.adapters.compiled.forms import SOURCES, digest

# Asked for before threads are: Python 3.11 answers None to one while another makes its first call.
_SUFFIX: Final = sysconfig.get_config_var("EXT_SUFFIX")
_HINT: Final = "Debian: apt-get install gcc libc6-dev python3-dev; replication is slower without, and as exact"


class CannotBuild(Exception):
    """A module cannot be built; the text says what is missing, or what the compiler said."""


def build(source: Path) -> Path:
    """Returns the module beside `source`, and builds it if it was made of another source.  Raises CannotBuild."""
    built = source.with_name(file_name(source))
    if built.exists() and digest(source).encode() in built.read_bytes():
        return built
    with tempfile.TemporaryDirectory(prefix="tidelock-build-") as folder:
        made = compile_into(Path(folder), source)
        beside = built.with_suffix(".new")  # another process may have the old one open
        beside.write_bytes(made.read_bytes())
        beside.replace(built)
    return built


def file_name(source: Path) -> str:
    """The name of the extension module of `source`, which says for which Python and machine it is."""
    return f"{source.stem}{_SUFFIX}"


def compile_into(folder: Path, source: Path) -> Path:
    """The extension module of `source`, made in `folder`.  Raises CannotBuild."""
    if importlib.util.find_spec("Cython") is None:
        raise CannotBuild("Cython is not installed")
    if not header().exists():
        raise CannotBuild(f"{header()} is not here")
    text, made = folder / f"{source.stem}.c", folder / file_name(source)
    _run([sys.executable, "-m", "cython", "-3", str(source), "-o", str(text)])
    darwin = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    given = [f"-I{header().parent}", f"-I{source.parent}", f'-DTIDELOCK_SOURCE="{digest(source)}"']
    flags = ["-O2", "-fPIC", "-shared", *darwin, *_words("CFLAGS"), *given]
    _run([*_compiler(), *flags, str(text), *_words("LDFLAGS"), "-o", str(made)])
    return made


def _compiler() -> list[str]:
    return _words("CC") or shlex.split(sysconfig.get_config_var("CC") or "cc")


def _words(variable: str) -> list[str]:
    return shlex.split(os.environ.get(variable, ""))


def header() -> Path:
    """Returns the header of this Python, which comes with its development package."""
    return Path(sysconfig.get_paths()["include"]) / "Python.h"


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    except OSError as error:
        raise CannotBuild(f"{command[0]}: {error}") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise CannotBuild(said or f"{command[0]} ended with exit code {done.returncode}")


def main() -> int:
    """Builds all modules, side by side, and prints what was built."""
    with ThreadPoolExecutor() as pool:
        for source, building in [(source, pool.submit(build, source)) for source in SOURCES]:
            try:
                print(f"compiled: {building.result().name}")
            except CannotBuild as error:
                print(f"compiled: {source.name} is not built: {error}. {_HINT}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
