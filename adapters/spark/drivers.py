"""The JDBC drivers (`adapters.spark.jars`): `drivers.pom.xml` names the versions, `drivers.sha256` the jars.

MariaDB's driver serves MySQL too: it streams an answer of any size, where MySQL's own holds all of it in memory or lets
the server write it to a temporary table first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tidelock.adapters.process.host import cache
from tidelock.adapters.spark.jars import Jars, version_in

_POM: Final = Path(__file__).with_name("drivers.pom.xml")


def drivers() -> Jars:
    """Returns the drivers."""
    versions = [version_in(_POM, artifact) for artifact in ("mariadb-java-client", "postgresql")]
    folder = cache() / f"jdbc-{'-'.join(versions)}"
    hint = "run `make servers`, or `python -m tidelock.adapters.spark.drivers`, which needs Maven"
    return Jars("JDBC drivers", _POM, _POM.with_name("drivers.sha256"), folder, hint)


if __name__ == "__main__":
    drivers().fetch()
