"""The two servers of the demo, and the shop at the one that is the source."""

from __future__ import annotations

import enum
from typing import NamedTuple

from bench.harness.servers import MariaDb, Postgres, Server
from bench.harness.session import Flavor
from bench.harness.workload.shop import Shop

SCHEMA = "shop"
ORDERS = 200_000


class Source(enum.StrEnum):
    """The one of the two servers that is the source; the other one is the target."""

    MARIADB = "mariadb"
    POSTGRES = "postgres"


class Way(NamedTuple):
    """From which server to which."""

    source: type[Server]
    target: type[Server]
    source_name: str
    target_name: str

    def __str__(self) -> str:
        return f"{self.source_name} → {self.target_name}"


WAYS = {
    Source.MARIADB: Way(MariaDb, Postgres, "MariaDB", "PostgreSQL"),
    Source.POSTGRES: Way(Postgres, MariaDb, "PostgreSQL", "MariaDB"),
}


def source_url(source: Server) -> str:
    """The source as the feed names it: a PostgreSQL server's with the database that the shop is in."""
    return source.url(SCHEMA if isinstance(source, Postgres) else "")


def furnish(source: Server, shop: Shop, orders: int = ORDERS) -> int:
    """Makes the shop's tables and the rows that it holds already, so many orders among them; returns how many rows."""
    source.execute(f"CREATE DATABASE {SCHEMA}")
    tables = _postgres_tables(source, shop) if isinstance(source, Postgres) else shop.ddl(Flavor.MARIADB)
    flavor = Flavor.POSTGRES if isinstance(source, Postgres) else Flavor.MARIADB
    for statement in (*tables, *shop.fill(flavor, orders)):
        source.execute(statement, database=SCHEMA)
    counts = (source.execute(f"SELECT count(*) FROM {SCHEMA}.{table}", database=SCHEMA) for table in shop.tables)
    return sum(int(rows[0][0]) for rows in counts)


def _postgres_tables(source: Postgres, shop: Shop) -> list[str]:
    """Statements that make a schema and its tables, whose changes the log tells whole: else it says nothing of the
    unique values that they free, and the rows go one after another."""
    source.execute(f"ALTER DATABASE {SCHEMA} SET search_path = {SCHEMA}")
    whole = (f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in shop.tables)
    return [f"CREATE SCHEMA {SCHEMA}", *shop.ddl(Flavor.POSTGRES), *whole]
