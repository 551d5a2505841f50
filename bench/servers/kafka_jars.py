"""Kafka's jars, fetched from Maven Central with Maven into a folder of the cache; nothing is installed on the machine.

`kafka.pom.xml` names the version, `kafka.sha256` every jar that this version needs.  What does not match is not put
in place, so what runs is what was locked.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench.servers.place import ServerMissing, cache, program, version

JAVA_PACKAGE = "default-jre-headless"
MAVEN_PACKAGE = "maven"
OLDEST_JAVA = 17
POM = Path(__file__).with_name("kafka.pom.xml")
LOCK = Path(__file__).with_name("kafka.sha256")
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


def kafka_version() -> str:
    """The locked version."""
    found = re.search(r"<artifactId>kafka_[\d.]+</artifactId>\s*<version>(.+?)</version>", POM.read_text())
    assert found is not None, f"{POM} names no version of Kafka"
    return found[1]


def kafka_jars() -> Path:
    """The folder of the locked version's jars.  Raises ServerMissing if they are not there."""
    folder = _folder()
    if not folder.exists():
        raise ServerMissing(f"Kafka {kafka_version()} is not in {folder.parent}: run `make servers`")
    return folder


def java() -> str:
    """Path of a Java that can run Kafka.  Raises ServerMissing."""
    path = program("java", JAVA_PACKAGE)
    found = version(path)
    if int(found.partition(".")[0]) < OLDEST_JAVA:
        raise ServerMissing(
            f"{path} is Java {found}, and Kafka needs {OLDEST_JAVA} or newer: "
            f"install {JAVA_PACKAGE} of Debian 12 or newer"
        )
    return path


def fetch_kafka() -> None:
    """Download, compare with the lock, then put in place by a rename.  Raises ServerMissing with what Maven said."""
    folder = _folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".kafka-", dir=folder.parent) as scratch:
        jars = Path(scratch) / "jars"
        shutil.copy(POM, Path(scratch) / "pom.xml")
        _maven([COPY, f"-DoutputDirectory={jars}"], Path(scratch))
        compare(jars)
        jars.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        jars.rename(folder)


def verified_jars() -> Path:
    """As `kafka_jars`, each jar read and compared with the lock."""
    folder = kafka_jars()
    compare(folder)
    return folder


def compare(jars: Path) -> None:
    """Raises ServerMissing unless the folder holds exactly the jars of the lock."""
    locked = {name: digest for digest, name in (line.split() for line in LOCK.read_text().splitlines())}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in jars.iterdir()}
    wrong = sorted(name for name in locked.keys() | found.keys() if locked.get(name) != found.get(name))
    if wrong:
        raise ServerMissing(f"Kafka's jars are not those of {LOCK.name}: {', '.join(wrong)}")


def _folder() -> Path:
    return cache() / f"kafka-{kafka_version()}"


def _maven(words: list[str], folder: Path) -> None:
    done = subprocess.run(
        [program("mvn", MAVEN_PACKAGE), "--batch-mode", "--quiet", *words],
        cwd=folder,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise ServerMissing(f"Maven could not fetch Kafka {kafka_version()}:\n{done.stdout.strip()}")
