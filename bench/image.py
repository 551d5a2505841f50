"""Carries a Dockerfile out in folders, where no container engine is: every stage is a copy of a bare Debian.

Each RUN is run in a chroot with the network of this machine, and a finished image in namespaces of its own for
processes and mounts.  It takes root.  An instruction that ours do not use is refused.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.harness.servers.place import program

SUITE: Final = "bookworm"
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What an engine keeps for the container's start, and what says nothing to a folder.
KEPT: Final = ("ENTRYPOINT", "HEALTHCHECK", "EXPOSE")
# What an engine lays into each container, so that it knows its own name and those of others.
NETWORK: Final = ("etc/hosts", "etc/resolv.conf")
# Whom this machine trusts, for pip and for Java: its network may have a certificate authority of its own.
TRUSTED: Final = Path("/etc/ssl/certs/ca-certificates.crt")
TRUSTED_BY_JAVA: Final = Path("/etc/ssl/certs/java/cacerts")


class BuildFailed(RuntimeError):
    """A step failed; the text holds what it said."""


@dataclasses.dataclass
class Stage:
    """A stage's folder, and what its instructions have set so far."""

    root: Path
    environment: dict[str, str] = dataclasses.field(default_factory=lambda: {"PATH": PATH})
    user: str = "0:0"
    workdir: str = "/"
    kept: dict[str, str] = dataclasses.field(default_factory=dict)

    def inside(self, *command: str, shared: Sequence[Path] = ()) -> list[str]:
        """The command as a container of its own runs it: the first of its processes, whose end is the end of all.

        `shared`: folders of this machine that are seen inside, at the same place.
        """
        root = shlex.quote(str(self.root))
        mounts = [f"mount -t proc proc {root}/proc", f"mount --rbind /dev {root}/dev"]
        for name in NETWORK:
            (self.root / name).touch()
            mounts.append(f"mount --bind /{name} {root}/{name}")
        for folder in map(str, shared):
            (self.root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
            mounts.append(f"mount --bind {shlex.quote(folder)} {root}{shlex.quote(folder)}")
        script = "\n".join([*mounts, f"exec {shlex.join(self._chroot(command))}"])
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", script]

    def beside(self, first: int, *command: str) -> list[str]:
        """The command in the container whose first process has the number `first` on this machine."""
        return ["nsenter", "--mount", "--pid", f"--target={first}", *self._chroot(command)]

    def _chroot(self, command: Sequence[str]) -> list[str]:
        """The command in the folder, with the environment of the image and none of ours."""
        environment = [f"{name}={value}" for name, value in {"HOME": self._home(), **self.environment}.items()]
        enter = f"cd {shlex.quote(self.workdir)} && exec env -i {shlex.join([*environment, *command])}"
        return ["chroot", f"--userspec={self.user}", str(self.root), "/bin/sh", "-c", enter]

    def _home(self) -> str:
        users = (line.split(":") for line in (self.root / "etc/passwd").read_text(encoding="utf-8").splitlines())
        return next((home for _, _, number, _, _, home, *_ in users if number == self.user.partition(":")[0]), "/")

    @property
    def entrypoint(self) -> list[str]:
        return list(json.loads(self.kept["ENTRYPOINT"]))

    @property
    def healthcheck(self) -> list[str]:
        return list(json.loads(self.kept["HEALTHCHECK"].partition(" CMD ")[2]))


def bare_debian(root: Path) -> Path:
    """The smallest Debian that apt and dpkg call one, fetched from the mirror that debootstrap knows."""
    if os.geteuid() != 0:
        raise BuildFailed("an image is built in a chroot here, which takes root")
    _run([program("debootstrap", "debootstrap"), "--variant=minbase", SUITE, str(root)])
    return root


def built(dockerfile: Path, target: str, bare: Path, folder: Path) -> Stage:
    """The stage `target` and those that it needs, each in a folder of its own below `folder`."""
    stages: dict[str, Stage] = {}
    stage = Stage(bare)
    for instruction, rest in _steps_for(target, dockerfile.read_text(encoding="utf-8")):
        match instruction:
            case "FROM":
                base, _, name = rest.partition(" AS ")
                before = stages.get(base, Stage(bare))
                stage = stages[name] = dataclasses.replace(
                    before, root=folder / name, environment=dict(before.environment), kept=dict(before.kept)
                )
                folder.mkdir(parents=True, exist_ok=True)
                _run(["cp", "--archive", "--reflink=auto", str(before.root), str(stage.root)])
            case "COPY":
                _copy(rest, stage, stages, dockerfile.parent)
            case "RUN":
                _in_chroot(stage, rest)
            case "ENV":
                variable, _, value = rest.partition("=")
                stage.environment[variable] = value
            case "USER":
                stage.user = rest
            case "WORKDIR":
                stage.workdir = rest
            case _ if instruction in KEPT:
                stage.kept[instruction] = rest
            case _:
                raise BuildFailed(f"{dockerfile.name}: {instruction} is not known here")
    return stages[target]


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            instruction, _, rest = line.strip().partition(" ")
            yield instruction.upper(), rest.strip()


def _steps_for(target: str, text: str) -> Iterator[tuple[str, str]]:
    """The instructions of the stage and of those that it is made from, in their order."""
    steps = [step for step in _instructions(text) if step[0] != "ARG"]
    needed, name, here = {target}, "", []
    for instruction, rest in reversed(steps):
        here.append((instruction, rest))
        if instruction != "FROM":
            continue
        base, _, name = rest.partition(" AS ")
        if name in needed:
            needed |= {base} | {word[7:] for _, line in here for word in line.split() if word.startswith("--from=")}
        here = []
    name = ""
    for instruction, rest in steps:
        name = rest.partition(" AS ")[2] if instruction == "FROM" else name
        if name in needed:
            yield instruction, rest


def _copy(rest: str, stage: Stage, stages: Mapping[str, Stage], context: Path) -> None:
    """A folder's contents go into the destination, files too where it ends in a slash; links stay links."""
    words = rest.split()
    origin = stages[words.pop(0)[7:]].root if words[0].startswith("--from=") else context
    *sources, place = words
    destination = stage.root / place.lstrip("/")
    for source in (origin / source.lstrip("/") for source in sources):
        if source.is_dir():
            ignored = shutil.ignore_patterns("*.so", "__pycache__") if origin == context else None
            shutil.copytree(source, destination, symlinks=True, dirs_exist_ok=True, ignore=ignored)
        else:
            if place.endswith("/"):
                destination.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, destination)


def _in_chroot(stage: Stage, command: str) -> None:
    """Lends the step the certificates that this machine trusts, for as long as it takes."""
    lent = {path: stage.root / "run" / path.name for path in (TRUSTED, TRUSTED_BY_JAVA) if path.exists()}
    java = f"-Djavax.net.ssl.trustStore=/run/{TRUSTED_BY_JAVA.name} -Djavax.net.ssl.trustStorePassword=changeit"
    trust = {"PIP_CERT": f"/run/{TRUSTED.name}"} if TRUSTED.exists() else {}
    trust |= {"MAVEN_OPTS": java} if TRUSTED_BY_JAVA.exists() else {}
    with contextlib.ExitStack() as stack:
        for path, place in lent.items():
            shutil.copy(path, place)
            stack.callback(place.unlink)
        _run(dataclasses.replace(stage, environment=stage.environment | trust).inside("/bin/sh", "-c", command))


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise BuildFailed(f"`{shlex.join(command)}` ended with exit code {done.returncode}:\n{done.stdout[-4000:]}")
