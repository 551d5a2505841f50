"""Writes `docs/reference/types.md` from the mapping and the judgement that the program uses."""

from __future__ import annotations

from tidelock.adapters.hive.values import hive_columns
from tidelock.adapters.postgres.column_types import PostgresType, column_of
from tidelock.adapters.schema.compatibility import compatible
from tidelock.adapters.schema.create_table import column_type
from tidelock.adapters.schema.dialects import from_postgres
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.adapters.schema.type_map import Type, postgres_type
from tidelock.engine.model.records import Column, Kind, Shape, TableName
from tidelock.engine.model.schema import TargetColumn

_TEXT = """\
# Types

## From MySQL and MariaDB

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
_POSTGRES_TEXT = """
## From PostgreSQL

What `tidelock init`, or a run into Hive, makes of a PostgreSQL column at each target. A PostgreSQL target gets the
source's own type, and every value as PostgreSQL spells it: none of them fails. Enums, composites, ranges and extensions
that a column needs are made there too; a column of a domain gets the type that the domain is made of. Another target
gets a type that holds every value unchanged, or text. A row with a value that the type there has not is set aside, with
table, column and reason in `tidelock rows list`. Texts get the collation that tells all texts apart. Hive has no failed
rows: such a value ends the run, or is NULL with `zero_dates: null`, but never in a key.

| source | PostgreSQL | MySQL | MariaDB | failed rows at MySQL and MariaDB | Hive | which it has not |
|---|---|---|---|---|---|---|
"""
_POSTGRES_NOTES = """
- A key of MySQL and MariaDB has at most 3,072 bytes, and nothing that becomes `longtext` is part of one: `check` asks
  for a length of a primary key (`key-length`), and other unique keys are left out there. Texts that do not fit in a
  row there (65,535 bytes) become `longtext` too, the longest first.
- Text of PostgreSQL's own types is that of `datestyle = ISO`, `intervalstyle = postgres`, `timezone = UTC`,
  `bytea_output = hex`, `lc_monetary = C`, `extra_float_digits = 3`, on both sides, whatever the server's settings are.
- `json` keeps its text at a target of type `json` or text; `check` refuses `jsonb` and MySQL's JSON for it, which keep
  neither the order nor repeated members.
- `char(n)` is replicated without the spaces that pad it.
- `timestamptz` is the same instant, in UTC; MySQL's TIMESTAMP would end in 2038.
- A column that PostgreSQL computes is not in its log: a PostgreSQL target computes it by the same expression.
- Sequences and large objects are not in the log either.
"""
_BOUNDED = ("date", "timestamp", "decimal")  # types of Hive's that do not hold all that PostgreSQL does
_NEVER, _ZERO = "never", "PostgreSQL: a zero year, month or day (`zero_dates: null` writes NULL instead)"
_TEXT_PARKED = (
    "PostgreSQL: a NUL character (not in `bytea`); everywhere: bytes that are no text in the column's character set"
)


def _built_in(name: str, form: str = "b") -> PostgresType:
    return PostgresType(0, "pg_catalog", name, form)


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


_NUMBERS, _MOMENTS = "`NaN`, `Infinity`, `-Infinity`", "`infinity`, `-infinity`, years before 1 or after 9999"
_POSTGRES_EXAMPLES: tuple[tuple[str, PostgresType, int, str], ...] = (
    ("smallint", _built_in("int2"), -1, _NEVER),
    ("integer", _built_in("int4"), -1, _NEVER),
    ("bigint", _built_in("int8"), -1, _NEVER),
    ("oid", _built_in("oid"), -1, _NEVER),
    ("boolean", _built_in("bool"), -1, _NEVER),
    ("numeric(10,2)", _built_in("numeric"), 10 << 16 | 2 + 4, "`NaN`"),
    ("numeric(70,2), numeric without a size", _built_in("numeric"), 70 << 16 | 2 + 4, _NEVER),
    ("real", _built_in("float4"), -1, _NUMBERS),
    ("double precision", _built_in("float8"), -1, _NUMBERS),
    ("date", _built_in("date"), -1, _MOMENTS),
    ("timestamp", _built_in("timestamp"), -1, _MOMENTS),
    ("timestamptz(3)", _built_in("timestamptz"), 3, _MOMENTS),
    ("time", _built_in("time"), -1, _NEVER),
    ("timetz", _built_in("timetz"), -1, _NEVER),
    ("interval", _built_in("interval"), -1, _NEVER),
    ("varchar(64)", _built_in("varchar"), 64 + 4, _NEVER),
    ("char(10)", _built_in("bpchar"), 10 + 4, _NEVER),
    ("text, varchar without a length", _built_in("text"), -1, _NEVER),
    ("citext", PostgresType(0, "public", "citext"), -1, _NEVER),
    ("bytea", _built_in("bytea"), -1, _NEVER),
    ("bit(8)", _built_in("bit"), 8, _NEVER),
    ("bit varying, bit of more than 64", _built_in("varbit"), -1, _NEVER),
    ("uuid", _built_in("uuid"), -1, _NEVER),
    ("jsonb", _built_in("jsonb"), -1, "MySQL: a number of more digits than a double keeps, more than 100 levels"),
    ("json", _built_in("json"), -1, _NEVER),
    ("enum", PostgresType(0, "public", "mood", "e", labels=("sad", "glad")), -1, _NEVER),
    ("inet, cidr", _built_in("inet"), -1, _NEVER),
    ("macaddr", _built_in("macaddr"), -1, _NEVER),
    ("money", _built_in("money"), -1, _NEVER),
    ("arrays", PostgresType(0, "pg_catalog", "_int4", element=_built_in("int4")), -1, _NEVER),
    ("int4range, int8range", _built_in("int8range", "r"), -1, _NEVER),
    ("other ranges, multiranges", _built_in("tstzrange", "r"), -1, _NEVER),
    ("composites", PostgresType(0, "public", "pair", "c"), -1, _NEVER),
    ("hstore, and any type of an extension", PostgresType(0, "public", "hstore"), -1, _NEVER),
    ("xml, tsvector, geometric and all others", _built_in("xml"), -1, _NEVER),
)


def reference() -> str:
    """Returns the page."""
    lines = "".join(_line(*example) for example in _EXAMPLES)
    own = "".join(_own_line(*example) for example in _POSTGRES_EXAMPLES)
    return _TEXT + lines + _NOTES + _POSTGRES_TEXT + own + _POSTGRES_NOTES


def _own_line(name: str, type: PostgresType, modifier: int, parked: str) -> str:
    table = SourceTable(TableName("", ""), (SourceColumn(column_of("c", type, modifier), "", True),))
    made = [
        column_type(from_postgres(table, mariadb=mariadb).columns[0], "mysql").partition(" CHARACTER")[0]
        for mariadb in (False, True)
    ]
    column = table.columns[0].column
    ((_, hive),) = hive_columns(Shape(table.name, (column,), ()))
    lacks = parked if hive.startswith(_BOUNDED) else _NEVER
    return f"| {name} | `{postgres_type(column)}` | `{made[0]}` | `{made[1]}` | {parked} | `{hive}` | {lacks} |\n"


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
