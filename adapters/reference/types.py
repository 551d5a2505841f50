"""Writes `docs/reference/types.md` from the mapping and the judgement that the program uses."""

from __future__ import annotations

from tidelock.adapters.schema.compatibility import compatible
from tidelock.adapters.schema.type_map import Type, postgres_type
from tidelock.engine.model.records import Column, Kind
from tidelock.engine.model.schema import TargetColumn

_TEXT = """\
# Types

What `tidelock init` makes of a MySQL or MariaDB column at a PostgreSQL target, which other types `tidelock check`
accepts, because they lose nothing, and which values make a failed row. A MySQL or MariaDB target gets the source's own
type; what only the other server has becomes `char(36)` (UUID), `varchar` (INET4, INET6), `longblob` (VECTOR),
`longtext` (JSON at MariaDB), or the collation that tells all texts apart (`utf8mb4_0900_bin`, `utf8mb4_nopad_bin`).
A row with a value that its type cannot hold is set aside, with table, column and reason in `tidelock rows list`, and
the other rows go on; none is ever changed to fit. Made from the program's own mapping:
`python -m tidelock.adapters.reference.types > docs/reference/types.md`.

| source | PostgreSQL | also accepted | which values make a failed row |
|---|---|---|---|
"""
_NOTES = """
Also, of any type: a row whose statement is longer than the `max_allowed_packet` of a MySQL or MariaDB target, and a key
that is too long for PostgreSQL's index (2,704 bytes).

What is the same value in another form:

- GEOMETRY in `bytea` is its WKB, without the SRID; MySQL and MariaDB keep both.
- MySQL JSON that holds a date, a time or bytes (made with `CAST` or `JSON_OBJECT`, never by reading text) arrives as a
  string of the text that MySQL prints for it. Members are in the target's own order; numbers in `jsonb` are exact.
- The error value of an ENUM (index 0) is the text `''` in PostgreSQL, as an empty label is.
- `-0.0` in FLOAT and DOUBLE stays `-0.0`; MariaDB itself stores it as `0`.
- TIMESTAMP is the same instant, whatever the time zones of the sessions; ZEROFILL is the number without its zeros.
"""
_NEVER, _ZERO = "never", "PostgreSQL: a zero year, month or day (`zero_dates: null` writes NULL instead)"
_TEXT_PARKED = (
    "PostgreSQL: a NUL character (not in `bytea`); everywhere: bytes that are no text in the column's character set"
)
_EXAMPLES: tuple[tuple[str, Column, str], ...] = (
    ("TINYINT", Column("", Kind.INT, False, 1), "`boolean`: any but 0 and 1"),
    ("SMALLINT, TINYINT UNSIGNED", Column("", Kind.INT, False, 2), _NEVER),
    ("MEDIUMINT, INT, SMALLINT UNSIGNED, MEDIUMINT UNSIGNED", Column("", Kind.INT, False, 4), _NEVER),
    ("BIGINT, INT UNSIGNED", Column("", Kind.INT, False, 8), _NEVER),
    ("BIGINT UNSIGNED", Column("", Kind.INT, True, 8), _NEVER),
    ("DECIMAL(10,2)", Column("", Kind.DECIMAL, precision=10, scale=2), _NEVER),
    ("FLOAT", Column("", Kind.FLOAT), _NEVER),
    ("DOUBLE", Column("", Kind.DOUBLE), _NEVER),
    ("BIT(1)", Column("", Kind.BIT, length=1), _NEVER),
    ("BIT(8)", Column("", Kind.BIT, length=8), _NEVER),
    ("YEAR", Column("", Kind.YEAR), _NEVER),
    ("DATE", Column("", Kind.DATE), _ZERO),
    ("DATETIME(6)", Column("", Kind.DATETIME, scale=6), _ZERO),
    ("TIMESTAMP(6)", Column("", Kind.TIMESTAMP, scale=6), _ZERO),
    ("TIME(6)", Column("", Kind.TIME, scale=6), "`time`: negative, or beyond a day"),
    ("CHAR(64), VARCHAR(64)", Column("", Kind.TEXT, length=64), _TEXT_PARKED),
    ("TINYTEXT to LONGTEXT, JSON of MariaDB", Column("", Kind.TEXT), _TEXT_PARKED),
    ("BINARY(n), VARBINARY(n), TINYBLOB to LONGBLOB", Column("", Kind.BINARY), _NEVER),
    ("ENUM, SET", Column("", Kind.ENUM, labels=("a", "b")), "MySQL, MariaDB: the error value of an ENUM (index 0)"),
    (
        "JSON of MySQL",
        Column("", Kind.JSON),
        "`jsonb`: `\\u0000`; MySQL: a DECIMAL inside, of more digits than a double keeps",
    ),
    ("GEOMETRY and its kinds", Column("", Kind.GEOMETRY), _NEVER),
    ("VECTOR", Column("", Kind.VECTOR), _NEVER),
    ("UUID (MariaDB)", Column("", Kind.UUID), _NEVER),
    ("INET4, INET6 (MariaDB)", Column("", Kind.INET6), _NEVER),
)
_CANDIDATES = (
    "smallint", "integer", "bigint", "numeric(20)", "numeric", "boolean", "bit varying", "real",
    "double precision", "date", "timestamp without time zone", "timestamp with time zone", "interval",
    "time without time zone", "character varying(64)", "text", "citext", "bytea", "json", "jsonb", "uuid", "inet",
)  # fmt: skip


def reference() -> str:
    """Returns the page."""
    return _TEXT + "".join(_line(*example) for example in _EXAMPLES) + _NOTES


def _line(name: str, column: Column, parked: str) -> str:
    made = postgres_type(column)
    usual = made.replace("varchar", "character varying").replace("timestamptz", "timestamp with time zone")
    accepted = [c for c in _CANDIDATES if _other(c, usual) and not compatible(column, TargetColumn("", c), "postgres")]
    return f"| {name} | `{made}` | {', '.join(f'`{c}`' for c in accepted) or 'none'} | {parked} |\n"


def _other(candidate: str, usual: str) -> bool:
    """Returns whether a type is neither the type itself nor the same one spelled without its precision."""
    return candidate != usual and not candidate.startswith(Type.of(usual).base + " with")


if __name__ == "__main__":
    print(reference(), end="")
