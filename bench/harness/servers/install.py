"""Put the servers on this machine: `python -m bench.harness.servers.install mariadb postgres mysql kafka spark`.

MariaDB, PostgreSQL and what runs Kafka are Debian packages, which takes root or sudo without a password; MySQL 9 and
Kafka themselves need neither.  No servers are `spark`, what its jobs need to reach databases, `classes`, which halve
what a start of Spark costs (`adapters.spark.kept_classes`), `compiler`, what builds the compiled forms
(`adapters.compiled.build`), `pgloader`, which one benchmark runs beside us, `debootstrap`, which makes the bare Debian
that our images are tried on, `promtool`, which tries our alert rules, `gh-ost`, whose migrations a feed follows,
`chromium`, in which the console is tried, `groff` and `systemd`, which read our man page and units.  Run again, it does
only what is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from bench.harness.servers import certificates, spark_classes
from bench.harness.servers.gh_ost import fetch_gh_ost, gh_ost
from bench.harness.servers.kafka_jars import java, kafka, kafka_version
from bench.harness.servers.mysql_tree import fetch_mysql, mysql_root, mysql_version
from bench.harness.servers.place import ServerMissing, program
from bench.harness.servers.postgres import program as postgres_program
from bench.harness.servers.promtool import fetch_promtool, promtool
from tidelock.adapters.compiled import build as compiled
from tidelock.adapters.compiled import forms as compiled_forms
from tidelock.adapters.process import host
from tidelock.adapters.process.host import JAVA_PACKAGE
from tidelock.adapters.spark import kept_classes
from tidelock.adapters.spark.drivers import drivers
from tidelock.adapters.spark.jars import MAVEN_PACKAGE


class Recipe(NamedTuple):
    """The way in which a server comes here.  The looks raise ServerMissing where they find nothing."""

    where: Callable[[], str]
    """Finds the server, ready to run."""
    packages: dict[str, Callable[[], str]] = {}
    """Debian packages that it needs, each with a look for what it holds."""
    fetching: str = ""
    fetch: Callable[[], None] | None = None
    after: str = ""
    """The recipe whose fetching this one's needs."""


def _mysql() -> str:
    if mysql_version() is None:
        raise ServerMissing("MySQL 9 is not here: run `make servers`")
    return f"{mysql_root()} ({mysql_version()})"


def _kafka() -> str:
    return f"{kafka().verified()} (Java: {java()}, {program('openssl', certificates.PACKAGE)})"


def _spark() -> str:
    if find_spec("pyspark") is None:
        raise ServerMissing("pyspark is not here: run `make setup`")
    return f"{drivers().verified()} (Java: {host.java('Spark')})"


def _compiled() -> str:
    try:
        return ", ".join(str(compiled.build(source)) for source in compiled_forms.SOURCES)
    except compiled.CannotBuild as error:
        raise ServerMissing(f"the compiled forms cannot be built: {error}") from None


def _headers_of_c() -> str:
    if not Path("/usr/include/stdlib.h").exists():
        raise ServerMissing("the headers of C are not here")
    return "/usr/include"


def _fonts() -> str:
    folder = Path("/usr/share/fonts/truetype/dejavu")
    if not folder.exists():
        raise ServerMissing(f"{folder} is not here")
    return str(folder)


def _headers() -> str:
    if not compiled.header().exists():
        raise ServerMissing(f"{compiled.header()} is not here")
    return str(compiled.header())


_MAVEN: dict[str, Callable[[], str]] = {JAVA_PACKAGE: java, MAVEN_PACKAGE: lambda: program("mvn", MAVEN_PACKAGE)}
RECIPES = {
    "mariadb": Recipe(
        lambda: program("mariadbd", "mariadb-server"), {"mariadb-server": lambda: program("mariadbd", "mariadb-server")}
    ),
    "postgres": Recipe(lambda: postgres_program("postgres"), {"postgresql": lambda: postgres_program("postgres")}),
    "mysql": Recipe(_mysql, {}, "MySQL 9: fetching from Debian unstable, about 50 MB", fetch_mysql),
    "kafka": Recipe(
        _kafka,
        {**_MAVEN, certificates.PACKAGE: lambda: program("openssl", certificates.PACKAGE)},
        f"Kafka {kafka_version()}: fetching from Maven Central, about 45 MB",
        lambda: kafka().fetch(),
    ),
    "spark": Recipe(
        _spark, _MAVEN, "JDBC drivers for Spark: fetching from Maven Central, about 2 MB", lambda: drivers().fetch()
    ),
    "classes": Recipe(
        lambda: str(spark_classes.there()),
        {},
        "Spark's classes: having Java write down how it holds them",
        kept_classes.make,
        "spark",
    ),
    "pgloader": Recipe(
        lambda: program("pgloader", "pgloader"), {"pgloader": lambda: program("pgloader", "pgloader")}
    ),
    "debootstrap": Recipe(
        lambda: program("debootstrap", "debootstrap"), {"debootstrap": lambda: program("debootstrap", "debootstrap")}
    ),
    "chromium": Recipe(
        lambda: program("chromium", "chromium"),
        {"chromium": lambda: program("chromium", "chromium"), "fonts-dejavu-core": _fonts},
    ),
    "groff": Recipe(lambda: program("groff", "groff-base"), {"groff-base": lambda: program("groff", "groff-base")}),
    "systemd": Recipe(
        lambda: program("systemd-analyze", "systemd"), {"systemd": lambda: program("systemd-analyze", "systemd")}
    ),
    "gh-ost": Recipe(gh_ost, {}, "gh-ost: building it, with Go", fetch_gh_ost),
    "promtool": Recipe(promtool, {}, "promtool: fetching from Debian, about 19 MB", fetch_promtool),
    "compiler": Recipe(
        _compiled,
        {
            "gcc": lambda: program("gcc", "gcc"),
            "libc6-dev": _headers_of_c,
            f"python3.{sys.version_info.minor}-dev": _headers,
        },
    ),
}


def main(names: list[str]) -> int:
    try:
        missing = {name: RECIPES[name] for name in names if not _there(RECIPES[name].where)}
        packages = [item for recipe in missing.values() for item in recipe.packages.items()]
        if wanted := [package for package, look in packages if not _there(look)]:
            _install(wanted)
        _fetch(missing)
        for name in names:
            print(f"servers: {name} at {RECIPES[name].where()}", flush=True)
    except ServerMissing as error:
        print(f"servers: {error}", file=sys.stderr)
        return 1
    return 0


def _there(look: Callable[[], str]) -> bool:
    try:
        look()
    except ServerMissing:
        return False
    return True


def _fetch(missing: Mapping[str, Recipe]) -> None:
    """Fetches and makes side by side: one waits for the network while another computes."""
    with ThreadPoolExecutor(len(RECIPES)) as pool:
        running: dict[str, Future[None]] = {}
        for name, recipe in missing.items():
            running[name] = pool.submit(_fetched, recipe, running.get(recipe.after))
        for one in running.values():
            one.result()


def _fetched(recipe: Recipe, before: Future[None] | None) -> None:
    if before is not None:
        before.result()
    if recipe.fetch is not None and not _there(recipe.where):
        _step(recipe.fetching, recipe.fetch)


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
    print(f"servers: {text} … {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
