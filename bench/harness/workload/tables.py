"""Tables described once, and their DDL for MariaDB, MySQL and PostgreSQL.

A source table is made in the session's current database; a target table in the schema
(PostgreSQL) or database (MySQL, MariaDB) of the same name, with the same keys, as a feed
needs it (design 9 has the type mapping; a workload uses only the types of `POSTGRES_TYPES`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

from bench.harness.session import APART, Flavor

POSTGRES_TYPES = {
    r"bigint": "bigint",
    r"int": "integer",
    r"binary\(\d+\)": r"bytea",
    r"char\((\d+)\)": r"char(\1)",
    r"longtext": "text",
    r"varchar\((\d+)\)": r"varchar(\1)",
    r"decimal\((\d+),(\d+)\)": r"numeric(\1,\2)",
    r"datetime\((\d)\)": r"timestamp(\1)",
}


@dataclasses.dataclass(frozen=True)
class Table:
    """`columns`: (name, MySQL type, nullable).  `references`: (column, parent table, parent's column).

    `indexes`: columns of each index that is not unique; it exists at both ends.
    """

    name: str
    columns: tuple[tuple[str, str, bool], ...]
    primary_key: tuple[str, ...] = ("id",)
    uniques: tuple[tuple[str, ...], ...] = ()
    references: tuple[tuple[str, str, str], ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(name for name, _, _ in self.columns)


def source_ddl(tables: tuple[Table, ...], flavor: Flavor) -> list[str]:
    """CREATE TABLE and INDEX statements for the session's current database or search path.

    At PostgreSQL the tables log whole rows, as MySQL's and MariaDB's do: else a feed applies one row after another
    where a table has a second unique key.  `replica_identity` says otherwise.
    """
    made = [statement for table in tables for statement in _create(table, flavor, "")]
    if flavor is Flavor.POSTGRES:
        made += replica_identity(tables, "FULL")
    return made


def replica_identity(tables: Iterable[Table], identity: str) -> list[str]:
    """Statements for PostgreSQL that say what the tables log of a row before its change: FULL or DEFAULT, the key."""
    return [f"ALTER TABLE {table.name} REPLICA IDENTITY {identity}" for table in tables]


def target_ddl(tables: tuple[Table, ...], flavor: Flavor, schema: str) -> list[str]:
    """CREATE SCHEMA or DATABASE, then the tables in it by full name."""
    place = "SCHEMA" if flavor is Flavor.POSTGRES else "DATABASE"
    statements = [statement for table in tables for statement in _create(table, flavor, f"{schema}.")]
    return [f"CREATE {place} IF NOT EXISTS {schema}", *statements]


def _create(table: Table, flavor: Flavor, prefix: str) -> list[str]:
    parts = [
        f"{name} {_type(type_, flavor)}{'' if nullable else ' NOT NULL'}" for name, type_, nullable in table.columns
    ]
    if table.primary_key:
        parts.append(f"PRIMARY KEY ({', '.join(table.primary_key)})")
    parts += [f"UNIQUE ({', '.join(columns)})" for columns in table.uniques]
    parts += [f"FOREIGN KEY ({column}) REFERENCES {prefix}{parent} ({key})" for column, parent, key in table.references]
    options = "" if flavor is Flavor.POSTGRES else f" ENGINE=InnoDB DEFAULT CHARSET=utf8mb4{_collation(table, flavor)}"
    full = f"{prefix}{table.name}"
    indexes = [
        f"CREATE INDEX {table.name}_{'_'.join(columns)} ON {full} ({', '.join(columns)})" for columns in table.indexes
    ]
    return [f"CREATE TABLE {full} ({', '.join(parts)}){options}", *indexes]


def _collation(table: Table, flavor: Flavor) -> str:
    """Returns the collation of a table whose rows are found by texts: each server's default takes others as equal."""
    found_by_text = any(type_.startswith("varchar") for name, type_, _ in table.columns if name in table.primary_key)
    return f" COLLATE {APART[flavor]}" if found_by_text else ""


def _type(type_: str, flavor: Flavor) -> str:
    if flavor is not Flavor.POSTGRES:
        return type_
    for pattern, mapped in POSTGRES_TYPES.items():
        if match := re.fullmatch(pattern, type_):
            return match.expand(mapped)
    raise ValueError(f"a workload column of type {type_} has no PostgreSQL type here: add it to POSTGRES_TYPES")
