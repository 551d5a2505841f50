"""The product as its users get it: a wheel and a source archive, installed outside of the tree.

Nothing is fetched: an environment borrows what the wheel says it needs from the one that runs the tests, and nothing
else, so that it has no extras, no test harness and no checkout.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.utils import parse_wheel_filename

from bench.dependencies import needed
from bench.harness.rig import Rig, Said
from bench.harness.servers import Server
from bench.harness.workload.churn import Churn
from tidelock.adapters.cli.failure import EXTRAS
from tidelock.adapters.compiled import build as compiled
from tidelock.adapters.compiled import forms as compiled_forms

ROOT = Path(__file__).parents[1]
PARTS = ("adapters", "engine", "simulations")
NO_COMPILER = {"CC": "/bin/false"}


class Installed(NamedTuple):
    """An environment with the product in it, and the folder, outside of the tree, where it is used."""

    home: Path
    cwd: Path

    @property
    def program(self) -> Path:
        return self.home / "bin" / "tidelock"

    def tidelock(self, *words: str) -> Said:
        return said(self.cwd, self.program, *words)


def said(cwd: Path, *command: str | Path, environment: Mapping[str, str] | None = None) -> Said:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, "PIP_NO_INDEX": "1", **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def wheel_of(source: Path, folder: Path, environment: Mapping[str, str] | None = None) -> Path:
    """The wheel that pip builds of a checkout or a source archive."""
    words = ("-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, source)
    done = said(folder, sys.executable, *words, environment=environment)
    assert done.code == 0, done.out + done.err
    return next(folder.glob("*.whl"))


def source_archive(folder: Path) -> Path:
    done = said(ROOT, sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", folder)
    assert done.code == 0, done.out + done.err
    return next(folder.glob("*.tar.gz"))


def installed(wheel: Path, folder: Path) -> Installed:
    """A fresh environment with the wheel and what it needs without extras."""
    home, cwd = folder / "environment", folder / "elsewhere"
    cwd.mkdir()
    said(folder, sys.executable, "-m", "venv", "--without-pip", home)
    words = ("--python", home / "bin" / "python", "install", "--no-deps", "--no-compile", wheel)
    done = said(cwd, sys.executable, "-m", "pip", *words)
    assert done.code == 0, done.out + done.err
    site = next(home.glob("lib/python*/site-packages"))
    product = next(found for found in metadata.distributions(path=[str(site)]) if found.name == "tidelock")
    for distribution in needed(product.requires or ()).values():
        lend(distribution, site)
    return Installed(home, cwd)


def lend(distribution: metadata.Distribution, site: Path) -> None:
    for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
        link = site / top
        if not link.exists():
            link.symlink_to(Path(str(distribution.locate_file(top))))


def tracked_modules() -> set[str]:
    listed = said(ROOT, "git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", *PARTS).out
    return {f"tidelock/{name}" for name in listed.split("\0") if name} - {"tidelock/adapters/compiled/wheel.py"}


def held(wheel: Path) -> list[str]:
    """The files of a wheel, which are files and no links, but for its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        infos = archive.infolist()
    assert all(stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG) for info in infos)
    return [info.filename for info in infos if ".dist-info/" not in info.filename]


def follow(product: Installed, rig: Rig) -> None:
    """Run a feed with the product until it has caught up, and compare both ends."""
    rig.program, rig.cwd = (str(product.program),), product.cwd
    rig.load(rig.make(Churn()), 500)
    rig.catch_up()
    rig.assert_exact()


CACHE = "from tidelock.adapters.process.host import cache; print(cache())"


def test_a_checkout_keeps_its_cache_to_itself() -> None:
    kept = said(ROOT, sys.executable, "-c", CACHE, environment={"TIDELOCK_CACHE": ""})
    assert Path(kept.out.strip()) in (ROOT / ".tidelock", Path("/var/cache/tidelock")), kept


@pytest.mark.proof
def test_a_wheel_runs_compiled_without_tree_or_extras(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    wheel = wheel_of(ROOT, tmp_path, {"CFLAGS": "-O0"})  # it is run for a moment only
    (tag,) = parse_wheel_filename(wheel.name)[3]
    ours = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert (tag.interpreter, tag.platform) == (ours, sysconfig.get_platform().replace("-", "_").replace(".", "_"))
    modules = {f"tidelock/{source.relative_to(ROOT / 'tidelock')}" for source in compiled_forms.SOURCES}
    modules = {f"{Path(name).parent}/{compiled.file_name(Path(name))}" for name in modules}
    alone = {f"tidelock/{name}.py" for name in ("__init__", "__main__", "faust_app")}
    assert sorted(held(wheel)) == sorted(tracked_modules() | modules | alone)

    product = installed(wheel, tmp_path)
    version = product.tidelock("--version")
    forms = "forms: row_image compiled, fast_path compiled, row_decoder compiled)"
    assert version.out.rstrip().endswith(forms), version
    python = product.home / "bin" / "python"
    home = {"TIDELOCK_CACHE": "", "HOME": str(product.cwd)}
    assert said(product.cwd, python, "-c", CACHE, environment=home).out == f"{product.cwd}/.cache/tidelock\n"
    absent = f"from importlib.util import find_spec; print([n for n in {['bench', *EXTRAS]} if find_spec(n)])"
    assert said(product.cwd, python, "-c", absent).out == "[]\n"
    simulated = product.tidelock("simulate", "--seeds", "5", "--jobs", "1", "--json")
    assert simulated.code == 0, simulated
    for command in ("demo", "bench"):
        missing = product.tidelock(command)
        assert missing.code == 2 and "It is part of the source tree" in missing.err, missing

    rig = make_rig(mariadb, postgres, "wheel", lanes=2)
    follow(product, rig)
    assert "forms: row_image compiled, fast_path compiled\n" in rig.said()
    rig.options["log"] = "kafka://127.0.0.1:1"
    streamed = product.tidelock("worker", str(rig.feed))
    assert streamed.code == 1 and "`pip install 'tidelock[stream]'`" in streamed.err, streamed


@pytest.mark.proof
def test_a_source_archive_runs_without_a_compiler_and_says_so(
    make_rig: Callable[..., Rig], mariadb: Server, mysql: Server, tmp_path: Path
) -> None:
    archive = source_archive(tmp_path)
    with tarfile.open(archive) as members:
        names = [member.name.partition("/")[2] for member in members if member.isreg()]
        assert len(members.getmembers()) == len(names) == len(set(names)), "a link, a folder or a file twice"
    wheel = wheel_of(archive, tmp_path, NO_COMPILER)
    assert wheel.name.endswith("-py3-none-any.whl")
    inside = held(wheel)
    assert sorted(inside) == sorted(set(names) & set(inside)), "more than the source archive has"
    assert set(inside) >= tracked_modules() and not [name for name in inside if name.endswith(".so")]

    product = installed(wheel, tmp_path)
    version = product.tidelock("--version")
    forms = "forms: row_image Python (not built), fast_path Python (not built), row_decoder Python (not built)"
    assert version.out.rstrip().endswith(f"{forms})"), version
    rig = make_rig(mariadb, mysql, "archive", lanes=2)
    follow(product, rig)
    assert forms.rpartition(", ")[0] in rig.said()


@pytest.mark.proof
def test_a_build_does_as_it_is_told(tmp_path: Path) -> None:
    """A release needs one wheel that is compiled and one that is for all; a wrong word is no word."""
    command = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path)
    failed = said(ROOT, *command, environment={**NO_COMPILER, "TIDELOCK_COMPILED": "required"})
    assert failed.code != 0 and "row_image.pyx is not compiled, and TIDELOCK_COMPILED requires it" in failed.err
    wrong = said(ROOT, *command, environment={"TIDELOCK_COMPILED": "yes"})
    assert wrong.code != 0 and "TIDELOCK_COMPILED is 'yes': set it to `required` or `no`" in wrong.err
    assert list(tmp_path.iterdir()) == []
    plain = said(ROOT, *command, environment={"TIDELOCK_COMPILED": "no"})
    assert plain.code == 0 and next(tmp_path.iterdir()).name.endswith("-py3-none-any.whl"), plain
    assert not [name for name in held(next(tmp_path.iterdir())) if name.endswith(".so")]
