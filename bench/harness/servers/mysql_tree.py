"""MySQL 9 fetched from Debian unstable into a folder of the cache; nothing is installed on the machine.

The packages come from the mirror the machine's own apt already uses, through an apt state of our own that knows
unstable and no installed package, so the C library and its loader come too and any release can run them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench.harness.servers.place import ServerMissing, cache

SERVER = "mysql-server-core"
PACKAGES = re.compile(r"^(mysql-server-core|mysql-server-core-.*|mysql-common|lib.*)$")
NOT_NEEDED = re.compile(r"^lib(perl|db5|gdbm|.*-perl)")
KEYRINGS = ("/usr/share/keyrings/debian-archive-keyring.pgp", "/usr/share/keyrings/debian-archive-keyring.gpg")
NOT_KEPT = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/bin")


def mysql_root() -> Path:
    return cache() / "mysql9"


def mysql_version() -> str | None:
    """Version of the unpacked server; None when it is not there or was not unpacked to the end."""
    stamp = mysql_root() / "version"
    return stamp.read_text().strip() if stamp.exists() else None


def fetch_mysql() -> None:
    """Download and unpack, then put in place by a rename.  Raises ServerMissing with what apt said."""
    root = mysql_root()
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".mysql9-", dir=root.parent) as scratch:
        state, packages, tree = (Path(scratch) / name for name in ("apt", "packages", "tree"))
        packages.mkdir()
        tree.mkdir(mode=0o755)
        environment = {**os.environ, "APT_CONFIG": str(_apt_state(state)), "LC_ALL": "C"}
        _apt(["update", "-qq"], environment, packages)
        plan = _apt(["install", "--simulate", "--no-install-recommends", SERVER], environment, packages)
        planned = dict(re.findall(r"^Inst (\S+) \((\S+)", plan, flags=re.MULTILINE))
        wanted = [name for name in planned if PACKAGES.match(name) and not NOT_NEEDED.match(name)]
        _apt(["download", "-qq", *wanted], environment, packages)
        for package in sorted(packages.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(package), str(tree)], check=True)
        for folder in NOT_KEPT:
            shutil.rmtree(tree / folder, ignore_errors=True)
        (tree / "version").write_text(planned[SERVER] + "\n")
        if root.exists():
            shutil.rmtree(root)
        tree.rename(root)


def _apt_state(state: Path) -> Path:
    """An apt configuration beside the machine's, with unstable as its only source."""
    keyring = next((path for path in KEYRINGS if Path(path).exists()), None)
    if keyring is None:
        raise ServerMissing(
            f"MySQL 9 comes from Debian unstable, whose keys are not here (none of {', '.join(KEYRINGS)})"
        )
    (state / "state/lists/partial").mkdir(parents=True)
    (state / "cache/archives/partial").mkdir(parents=True)
    (state / "status").touch()
    (state / "sources.list").write_text(f"deb [signed-by={keyring}] {_mirror()} unstable main\n")
    settings = {
        "Dir::State": state / "state",
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
        "Dir::Etc::SourceList": state / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "Acquire::Retries": "3",
    }
    configuration = state / "apt.conf"
    configuration.write_text("".join(f'{name} "{value}";\n' for name, value in settings.items()))
    return configuration


def _mirror() -> str:
    """The Debian mirror this machine is configured for.  Raises ServerMissing."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian"]
    found = subprocess.run(
        [*command, "Label: Debian"], capture_output=True, encoding="utf-8", check=False
    ).stdout.split()
    if not found:
        raise ServerMissing(
            "MySQL 9 comes from Debian unstable, and this machine's apt knows no Debian mirror: "
            "run `apt-get update`; if it is not Debian, run the tests on Debian 12 or newer"
        )
    return found[0]


def _apt(words: list[str], environment: dict[str, str], folder: Path) -> str:
    done = subprocess.run(
        ["apt-get", *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        raise ServerMissing(f"`apt-get {words[0]}` for MySQL 9 failed: {done.stderr.strip()}")
    return done.stdout
