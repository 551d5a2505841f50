"""`docs/reference/types.md`, made from the mapping and the judgement that the program uses."""

from __future__ import annotations

from adapters.compatibility import compatible
from adapters.types import Type, postgres_type
from engine.records import Column, Kind
from engine.schema import TargetColumn

_TEXT = """\
# Types

What `tidelock init` makes of a MySQL or MariaDB column at a PostgreSQL target, and which other types `tidelock check`
accepts, because they lose nothing. A MySQL or MariaDB target gets the source's own type. A value that a type cannot
hold (a zero date, a NUL in text, 2 in a boolean) parks its row; none is ever changed to fit. Made from the program's
own mapping: `python -m adapters.types_reference > docs/reference/types.md`.

| source | PostgreSQL | also accepted |
|---|---|---|
"""
_EXAMPLES: tuple[tuple[str, Column], ...] = (
    ("TINYINT, SMALLINT, TINYINT UNSIGNED", Column("", Kind.INT, False, 2)),
    ("MEDIUMINT, INT, SMALLINT UNSIGNED, MEDIUMINT UNSIGNED", Column("", Kind.INT, False, 4)),
    ("BIGINT, INT UNSIGNED", Column("", Kind.INT, False, 8)),
    ("BIGINT UNSIGNED", Column("", Kind.INT, True, 8)),
    ("DECIMAL(10,2)", Column("", Kind.DECIMAL, precision=10, scale=2)),
    ("FLOAT", Column("", Kind.FLOAT)),
    ("DOUBLE", Column("", Kind.DOUBLE)),
    ("BIT(1)", Column("", Kind.BIT, length=1)),
    ("BIT(8)", Column("", Kind.BIT, length=8)),
    ("YEAR", Column("", Kind.YEAR)),
    ("DATE", Column("", Kind.DATE)),
    ("DATETIME(6)", Column("", Kind.DATETIME, scale=6)),
    ("TIMESTAMP(6)", Column("", Kind.TIMESTAMP, scale=6)),
    ("TIME(6)", Column("", Kind.TIME, scale=6)),
    ("CHAR(64), VARCHAR(64)", Column("", Kind.TEXT, length=64)),
    ("TINYTEXT to LONGTEXT, JSON of MariaDB", Column("", Kind.TEXT)),
    ("BINARY(n), VARBINARY(n), TINYBLOB to LONGBLOB", Column("", Kind.BINARY)),
    ("ENUM, SET", Column("", Kind.ENUM, labels=("a", "b"))),
    ("JSON of MySQL", Column("", Kind.JSON)),
    ("GEOMETRY and its kinds", Column("", Kind.GEOMETRY)),
    ("VECTOR", Column("", Kind.VECTOR)),
    ("UUID (MariaDB)", Column("", Kind.UUID)),
    ("INET4, INET6 (MariaDB)", Column("", Kind.INET6)),
)
_CANDIDATES = (
    "smallint", "integer", "bigint", "numeric(20)", "numeric", "boolean", "bit varying", "real",
    "double precision", "date", "timestamp without time zone", "timestamp with time zone", "interval",
    "time without time zone", "character varying(64)", "text", "citext", "bytea", "json", "jsonb", "uuid", "inet",
)  # fmt: skip


def reference() -> str:
    """The page."""
    return _TEXT + "".join(_line(name, column) for name, column in _EXAMPLES)


def _line(name: str, column: Column) -> str:
    made = postgres_type(column)
    usual = made.replace("varchar", "character varying").replace("timestamptz", "timestamp with time zone")
    accepted = [c for c in _CANDIDATES if _other(c, usual) and not compatible(column, TargetColumn("", c), "postgres")]
    return f"| {name} | `{made}` | {', '.join(f'`{c}`' for c in accepted) or 'none'} |\n"


def _other(candidate: str, usual: str) -> bool:
    """Neither the type itself nor one that only spells it without its precision."""
    return candidate != usual and not candidate.startswith(Type.of(usual).base + " with")


if __name__ == "__main__":
    print(reference(), end="")
