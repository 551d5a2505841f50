"""A database as Spark reads it over JDBC: URL, properties, and what each session is told first.

The password travels as a property, inside the session's memory; it is in no URL, plan or log.

Connecting and logging in are bounded by `connect_timeout`, a lost route is found by TCP keepalive.  Reads have no limit
here, which would cut a query that works for long: `adapters.spark.vigil` looks after those.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Final

import msgspec

from tidelock.adapters.config.url import Endpoint, is_pem
from tidelock.adapters.postgres.column_types import READING_SETTINGS
from tidelock.adapters.process.tcp_watch import KEEPALIVE_SECONDS
from tidelock.adapters.spark.cluster import is_cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FETCH_ROWS: Final = 10_000
# As the driver's own variables they hold also where Spark only asks which columns a query has.
MYSQL_START: Final = (
    "time_zone='+00:00',sql_mode='NO_BACKSLASH_ESCAPES',net_write_timeout=3600,sql_select_limit=18446744073709551615"
)
# The driver takes no other encoding of the client's than its own.
POSTGRES_START: Final = "SELECT " + ", ".join(
    f"set_config('{name}', '{value}', false)" for name, value in READING_SETTINGS.items() if name != "client_encoding"
)
# The driver is in a transaction by then, as it fetches by a cursor.
_JOIN: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET TRANSACTION SNAPSHOT '{}'"
_MARIADB_KEEPALIVE: Final = {
    "tcpKeepAlive": "true",
    "tcpKeepIdle": str(KEEPALIVE_SECONDS),
    "tcpKeepInterval": str(KEEPALIVE_SECONDS // 3),
    "tcpKeepCount": "3",
}
_MARIADB_TLS: Final = {"disable": "disable", "require": "trust", "verify-ca": "verify-ca", "verify-full": "verify-full"}


_POSTGRES_ANCHOR: Final = "org.postgresql.ssl.SingleCertValidatingFactory"


def _postgres_authority(root: str) -> dict[str, str]:
    """Returns how PostgreSQL's driver is told of an authority.  Without a file it takes a single certificate."""
    if not root:
        return {}
    return {"sslfactory": _POSTGRES_ANCHOR, "sslfactoryarg": root} if is_pem(root) else {"sslrootcert": root}


class Form(msgspec.Struct, frozen=True):
    """The form in which rows come.

    `types`: those of the columns, as Spark spells them, where they are not to follow from the server's; ''.  `fetch`:
    rows that the driver asks for, and holds, at once.  `snapshot`: of PostgreSQL, in which all is read; '' each query
    has its own.
    """

    types: str = ""
    fetch: int = FETCH_ROWS
    snapshot: str = ""


class Database(msgspec.Struct, frozen=True):
    """A database as Spark reads it.  `encrypted`: what `sslmode=prefer` came to when we connected ourselves; MariaDB's
    driver has no such mode.
    """

    endpoint: Endpoint
    encrypted: bool = False

    def read(self, spark: SparkSession, query: str, predicates: Sequence[str], form: Form = Form()) -> DataFrame:
        """Returns the rows of `query`, with a partition for each predicate over its columns."""
        cluster = is_cluster(spark.sparkContext.master or "")
        own = {"fetchsize": str(form.fetch)} | ({"customSchema": form.types} if form.types else {})
        if form.snapshot:
            own["sessionInitStatement"] = f"{_JOIN.format(form.snapshot)}; {POSTGRES_START}"
        properties = self._properties(cluster) | own
        return spark.read.jdbc(
            self._url, f"({query}) q", predicates=list(predicates) or ["1 = 1"], properties=properties
        )

    @property
    def _url(self) -> str:
        place = self.endpoint
        host = f"[{place.host}]" if ":" in place.host else place.host
        if place.dialect == "postgres":
            return f"jdbc:postgresql://{host}:{place.port}/{place.database}"
        # Under this name Spark quotes as MySQL does; MariaDB's driver serves both.
        return f"jdbc:mysql://{host}:{place.port}/?permitMysqlScheme"

    def _properties(self, cluster: bool) -> dict[str, str]:
        """Returns the driver's settings.  `cluster`: executors may be elsewhere, and certificates travel to them."""
        place = self.endpoint.carried() if cluster else self.endpoint
        common = {"user": place.user, "password": place.password, "fetchsize": str(FETCH_ROWS)}
        root = place.options.get("sslrootcert", "")
        if place.dialect == "postgres":
            tls = {"sslmode": place.ssl_mode} | _postgres_authority(root)
            own = {"driver": "org.postgresql.Driver", "ApplicationName": "tidelock verify"}
            seconds = str(ceil(place.connect_seconds))
            limits = {"connectTimeout": seconds, "loginTimeout": seconds, "tcpKeepAlive": "true"}
            return common | tls | own | limits | {"sessionInitStatement": POSTGRES_START}
        mode = ("require" if self.encrypted else "disable") if place.ssl_mode == "prefer" else place.ssl_mode
        tls = {"sslMode": _MARIADB_TLS[mode]} | ({"serverSslCert": root} if root else {})
        # Else the driver takes TINYINT(1) for a truth value, of which 2 is none.
        own = {"driver": "org.mariadb.jdbc.Driver", "allowPublicKeyRetrieval": "true", "tinyInt1isBit": "false"}
        own["transactionIsolation"] = "REPEATABLE-READ"  # the server's own may show what is rolled back later
        limits = {"connectTimeout": str(ceil(place.connect_seconds * 1000)), **_MARIADB_KEEPALIVE}
        return common | tls | own | limits | {"sessionVariables": MYSQL_START}
