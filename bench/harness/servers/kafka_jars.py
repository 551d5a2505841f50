"""Kafka's jars (`adapters.spark.jars`): `kafka.pom.xml` names the version, `kafka.sha256` every jar that it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tidelock.adapters.process import host
from tidelock.adapters.process.host import cache
from tidelock.adapters.spark.jars import Jars, version_in

_POM: Final = Path(__file__).with_name("kafka.pom.xml")


def kafka_version() -> str:
    """The locked version."""
    return version_in(_POM, r"kafka_[\d.]+")


def kafka() -> Jars:
    version = kafka_version()
    return Jars(f"Kafka {version}", _POM, Path(__file__).with_name("kafka.sha256"), cache() / f"kafka-{version}")


def kafka_jars() -> Path:
    """The folder of the locked version's jars.  Raises ServerMissing if they are not there."""
    return kafka().there()


def java() -> str:
    """Path of a Java that can run Kafka.  Raises ServerMissing."""
    return host.java("Kafka")
