"""The images: the Dockerfile is carried out on bare Debian (`bench.image`), and what comes of it runs a feed."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import subprocess
import tomllib
from collections.abc import Callable
from importlib import metadata
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import cast

import pytest

from bench.dependencies import needed
from bench.harness.rig import Rig, Said, until
from bench.harness.servers import Server
from bench.harness.servers.place import free_port
from bench.harness.tidelock import Process
from bench.harness.workload.churn import Churn
from bench.image import Stage, bare_debian, built
from tests.adapters.made_certificates import Authority
from tidelock.adapters.config.http_tls import HttpTls
from tidelock.adapters.runtime.progress import Sample
from tidelock.adapters.web.serving import serve

ROOT = Path(__file__).parents[1]
DOCKERFILE = ROOT / "Dockerfile"
IMAGE = ROOT / ".ci" / "image"
USER = 10001


def blocks(lock: Path) -> dict[str, str]:
    """Read a lock: of each package its version and the hashes of its files."""
    found = re.split(r"^(?=[a-z0-9])", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {block.partition("==")[0]: block for block in found if block}


@pytest.mark.parametrize(
    ("name", "extras"), [("slim", ["stream", "traces"]), ("bulk", ["stream", "bulk", "traces"]), ("build", [])]
)
def test_an_image_installs_what_is_needed_by_the_hashes_of_the_lock(name: str, extras: list[str]) -> None:
    if name == "build":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        wanted = needed(project["build-system"]["requires"])
    else:
        wanted = needed(metadata.requires("tidelock") or (), extras)
    part, whole = blocks(IMAGE / f"{name}.lock"), blocks(ROOT / "requirements.lock")
    assert part.keys() == wanted.keys(), "`make lock` writes it anew"
    assert {package: whole[package] for package in part} == part, "`make lock` writes it anew"


def test_what_an_image_is_made_of_is_named_to_the_byte() -> None:
    """One base, by its digest, and each step is a script of ours, so that it can be tried without an engine."""
    lines = DOCKERFILE.read_text(encoding="utf-8").splitlines()
    stages = {line.rpartition(" AS ")[2] for line in lines if line.startswith("FROM ")}
    bases = {line.split()[1] for line in lines if line.startswith("FROM ")} - stages
    assert bases == {"${DEBIAN}"}
    (base,) = (line for line in lines if line.startswith("ARG DEBIAN="))
    assert re.fullmatch(r"ARG DEBIAN=debian:bookworm-\d{8}-slim@sha256:[0-9a-f]{64}", base)
    steps = [shlex.split(line)[1] for line in lines if line.startswith("RUN ")]
    assert {Path(step).name for step in steps} == {script.name for script in IMAGE.glob("*.sh")}
    assert all(os.access(script, os.X_OK) for script in [*IMAGE.glob("*.sh"), IMAGE / "healthcheck"])


@pytest.mark.parametrize("tls", [False, True])
async def test_a_container_is_well_as_long_as_its_feed_answers(tmp_path: Path, tls: bool) -> None:
    """The script of HEALTHCHECK itself, asked with command lines of a container's first process."""
    loader = SourceFileLoader("healthcheck", str(IMAGE / "healthcheck"))
    check = module_from_spec(cast(ModuleSpec, spec_from_loader("healthcheck", loader)))
    loader.exec_module(check)
    server = Authority(tmp_path).server()
    files = HttpTls(cert=str(server.cert), key=str(server.key)) if tls else None
    feed = tmp_path / "shop.yaml"
    words = ["tini", "--", "tidelock", "run", str(feed)]
    assert check.main(["tini", "--", "tidelock", "--version"]) == 0
    async with serve(("127.0.0.1", 0), Sample, "shop", tls=files) as port:
        text = "feed: shop\nsource: mysql://a@h:1\ntarget: postgresql://b@h:2/c\ntables: [{source: crm.*}]\n"
        feed.write_text(f"{text}http: 127.0.0.1:{port}\n" + ("http_tls: {cert: server.pem, key: server.key}\n" * tls))
        assert await asyncio.to_thread(check.main, words) == 0
    assert check.main(words) == 1, "nobody answers"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_debian(tmp_path_factory.mktemp("debian") / "bare")


def asked(command: list[str]) -> Said:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=120, check=False
    )
    return Said(done.returncode, done.stdout, done.stderr)


def tidelock(image: Stage, *words: str) -> Said:
    return asked(image.inside(*image.entrypoint, *words))


def running(image: Stage, rig: Rig, *flags: str) -> Process:
    """A container with the rig's feed, whose file belongs to the image's user."""
    for path in (feed := rig.feed, rig.folder):
        os.chown(path, USER, USER)
    return Process([], rig.output, image.inside(*image.entrypoint, "run", str(feed), *flags, shared=[rig.folder]))


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.proof
def test_the_slim_image_runs_a_feed(
    bare: Path, tmp_path: Path, make_rig: Callable[..., Rig], mariadb: Server, postgres: Server
) -> None:
    image = built(DOCKERFILE, "slim", bare, tmp_path / "stages")
    assert image.user == f"{USER}:{USER}"
    version = tidelock(image, "--version")
    forms = "forms: row_image compiled, fast_path compiled, row_decoder compiled)"
    assert version.out.rstrip().endswith(forms), version
    missing = tidelock(image, "demo")
    assert missing.code == 2 and "It is part of the source tree" in missing.err
    for absent in ("bench", "pip", "pyspark", "pyarrow", "Cython"):
        assert asked(image.inside("python", "-c", f"import {absent}")).code == 1, absent
    assert asked(image.inside("gcc", "--version")).code == 127

    page = f"127.0.0.1:{free_port()}"
    rig = make_rig(mariadb, postgres, "image", lanes=2, http=page)
    rig.folder = tmp_path / "feed"
    rig.folder.mkdir()
    rig.load(rig.make(Churn()), 500)
    container = running(image, rig)
    until(rig.equal, "equal ends", 60.0)
    (init,) = children(container.pid)
    (feed,) = children(init)
    assert Path(f"/proc/{feed}").stat().st_uid == USER
    healthy = asked(image.beside(init, *image.healthcheck))
    assert (healthy.code, healthy.out) == (0, ""), healthy
    os.kill(feed, signal.SIGSTOP)
    stuck = asked(image.beside(init, *image.healthcheck))
    os.kill(feed, signal.SIGCONT)
    assert stuck.code == 1 and f"/livez of {page}" in stuck.out, stuck
    family = [feed, *children(feed)]
    assert len(family) > 1
    os.kill(init, signal.SIGTERM)  # to the first process alone, as an engine does
    assert container.code(30.0) == 0, rig.said()
    assert not [pid for pid in family if Path(f"/proc/{pid}").exists()]
    rig.assert_exact()


@pytest.mark.proof
def test_the_bulk_image_copies_on_spark(
    bare: Path, tmp_path: Path, make_rig: Callable[..., Rig], mariadb: Server, postgres: Server
) -> None:
    image = built(DOCKERFILE, "bulk", bare, tmp_path / "stages")
    rig = make_rig(mariadb, postgres, "image", lanes=2)
    rig.folder = tmp_path / "feed"
    rig.folder.mkdir()
    rig.load(rig.make(Churn()), 500)
    rig.start_at = "copy"
    rig.options["spark"] = {"small_rows": 0}
    assert running(image, rig, "--until-caught-up").code(300.0) == 0, rig.said()
    rig.assert_exact()
    assert asked(image.inside("mvn", "--version")).code == 127
