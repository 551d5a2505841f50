"""Kafka Connect, Debezium's MariaDB connector and its JDBC sink, fetched with Maven into the cache on first use.

`connect.pom.xml` names the versions, `connect.sha256` every jar that they need, and nothing else is put in place.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

from bench.peers.peer import PeerMissing
from bench.peers.program import prepare
from bench.servers.kafka_jars import COPY, MAVEN_PACKAGE
from bench.servers.place import cache, program

POM: Final = Path(__file__).with_name("connect.pom.xml")
LOCK: Final = Path(__file__).with_name("connect.sha256")


def debezium_version() -> str:
    """The locked version."""
    found = re.search(r"debezium-connector-jdbc</artifactId>\s*<version>(.+?)</version>", POM.read_text())
    assert found is not None, f"{POM.name} names no version of Debezium"
    return found[1]


def connect_jars() -> Path:
    """The folder of the jars, filled now if it is not there.  Raises PeerMissing, ServerMissing."""
    folder = cache() / "peers" / f"debezium-{debezium_version()}"
    if folder.exists():
        return folder
    print(f"peers: fetching Kafka Connect and Debezium {debezium_version()} with Maven, about 76 MB …", flush=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".debezium-", dir=folder.parent) as scratch:
        jars = Path(scratch) / "jars"
        shutil.copy(POM, Path(scratch) / "pom.xml")
        command = [program("mvn", MAVEN_PACKAGE), "--batch-mode", "--quiet", COPY, f"-DoutputDirectory={jars}"]
        prepare(f"Debezium {debezium_version()}", command, Path(scratch), {})
        _compare(jars)
        jars.chmod(0o755)
        folder.parent.chmod(0o755)
        jars.rename(folder)
    return folder


def _compare(jars: Path) -> None:
    locked = {name: digest for digest, name in (line.split() for line in LOCK.read_text().splitlines())}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in jars.iterdir()}
    wrong = sorted(name for name in locked.keys() | found.keys() if locked.get(name) != found.get(name))
    if wrong:
        raise PeerMissing(f"Debezium's jars are not those of {LOCK.name}: {', '.join(wrong)}")
