"""Kafka Connect, Debezium's MariaDB connector and its JDBC sink (`adapters.spark.jars`), fetched on first use.

`connect.pom.xml` names the versions, `connect.sha256` every jar that they need.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tidelock.adapters.process.host import cache
from tidelock.adapters.spark.jars import Jars, version_in

_POM: Final = Path(__file__).with_name("connect.pom.xml")


def debezium_version() -> str:
    """The locked version."""
    return version_in(_POM, "debezium-connector-jdbc")


def connect_jars() -> Path:
    """The folder of the jars, filled now if it is not there.  Raises ServerMissing."""
    name = f"Debezium {debezium_version()}"
    folder = cache() / "peers" / f"debezium-{debezium_version()}"
    if not folder.exists():
        print(f"peers: fetching Kafka Connect and {name} with Maven, about 76 MB …", flush=True)
        Jars(name, _POM, _POM.with_name("connect.sha256"), folder).fetch()
        folder.parent.chmod(0o755)
    return folder
