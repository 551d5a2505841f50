"""Columns of a PostgreSQL source: from what pg_type says of a type, and a column's modifier, to a `Column`.

The relation message of a stream and the catalogue name a type by the same two numbers, so that both make the same
column.  How a value is read is its kind's (`engine.model.records`):

| type                                      | kind                                             |
|-------------------------------------------|--------------------------------------------------|
| smallint, integer, bigint, oid            | INT of 2, 4, 8 bytes; oid of 4, without a sign   |
| real, double precision                    | FLOAT, DOUBLE                                    |
| numeric(p, s)                             | DECIMAL: all digits of the scale                 |
| boolean                                   | BOOL                                             |
| date, time, timestamp, timestamptz        | DATE, TIME, DATETIME, TIMESTAMP; 6 digits if (p) |
|                                           | is not there                                     |
| text, varchar, char(n), name, citext      | TEXT; char(n) without the spaces that pad it     |
| bytea                                     | BINARY                                           |
| bit(n), up to 64 bits                     | BIT                                              |
| uuid; json, jsonb; an enum                | UUID; JSON; ENUM                                 |
| a domain                                  | as the type that it is made of                   |
| any other: numeric without a size,        | OTHER                                            |
| interval, timetz, inet, arrays, ranges, … |                                                  |

A value's text depends on the settings of the session that reads it (`OUTPUT_SETTINGS`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from tidelock.engine.model.records import Column, Kind

OUTPUT_SETTINGS: Final[Mapping[str, str]] = {
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "datestyle": "ISO, YMD",
    "extra_float_digits": "3",
    "intervalstyle": "postgres",
    "lc_monetary": "C",
    "search_path": "pg_catalog",
    "timezone": "UTC",
}
"""Settings on which the text of a value depends, in output or in input, with the values that both sides use."""
READING_SETTINGS: Final[Mapping[str, str]] = {
    **OUTPUT_SETTINGS, "row_security": "off", "quote_all_identifiers": "off"
}  # fmt: skip
"""Settings of a session that reads rows: with row security it would see fewer, so the server refuses instead; and the
names of types that it reads are not quoted."""

TYPE_FACTS: Final = """
WITH RECURSIVE wanted AS (
    SELECT t.oid, t.typbasetype, t.typelem FROM pg_type t WHERE t.oid = ANY ($1::oid[])
    UNION
    SELECT t.oid, t.typbasetype, t.typelem FROM wanted w JOIN pg_type t ON t.oid IN (w.typbasetype, w.typelem)
)
SELECT t.oid::bigint, n.nspname::text, t.typname::text, t.typtype::text, t.typbasetype::bigint, t.typtypmod,
    CASE WHEN t.typcategory = 'A' AND t.typlen = -1 AND t.typstorage <> 'p' THEN t.typelem::bigint ELSE 0 END,
    ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder)
FROM wanted w JOIN pg_type t ON t.oid = w.oid JOIN pg_namespace n ON n.oid = t.typnamespace"""
"""Query of pg_type for the types of `$1` and those that they are made of; its rows go to `types_of`."""

_NUMBERS = ("int2", "int4", "int8", "numeric", "bool", "bit", "varbit")
_TEXTS = ("text", "varchar", "bpchar", "enum", "bytea", "uuid", "inet")
_TIMES = ("date", "time", "timestamp", "timestamptz", "interval")
COMPARED: Final = frozenset((*_NUMBERS, *_TEXTS, *_TIMES))
"""Types whose values a unique index takes as equal exactly where they are the same; `enum`: all of those."""
_CATALOGUE = "pg_catalog"
_PADDED = "character("
_INTEGERS: Final = {"int2": 2, "int4": 4, "int8": 8, "oid": 4}
_MOMENTS: Final = {"time": Kind.TIME, "timestamp": Kind.DATETIME, "timestamptz": Kind.TIMESTAMP}
_KINDS: Final = {
    "float4": Kind.FLOAT,
    "float8": Kind.DOUBLE,
    "bool": Kind.BOOL,
    "date": Kind.DATE,
    "text": Kind.TEXT,
    "bytea": Kind.BINARY,
    "uuid": Kind.UUID,
    "json": Kind.JSON,
    "jsonb": Kind.JSON,
}
# Names of SQL's standard, as `format_type` has them; `{}` is where the modifier goes.
_SPELLED: Final = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "numeric": "numeric{}",
    "varchar": "character varying{}",
    "bpchar": "character{}",
    "bit": "bit{}",
    "varbit": "bit varying{}",
    "time": "time{} without time zone",
    "timetz": "time{} with time zone",
    "timestamp": "timestamp{} without time zone",
    "timestamptz": "timestamp{} with time zone",
    "interval": "interval{}",
    "char": '"char"',
}
_BARE: Final = {"bpchar": "bpchar", "bit": '"bit"'}  # without a length, where the usual name would mean one
_LENGTH_HEADER = 4  # modifiers of texts and of numeric count the header of a varying value
_MOST_BITS = 64
_NAME_BYTES = 63
_FULL_RANGE, _FULL_PRECISION = 0x7FFF, 0xFFFF
_INTERVAL_FIELDS: Final = {
    1 << 2: "year",
    1 << 1: "month",
    1 << 3: "day",
    1 << 10: "hour",
    1 << 11: "minute",
    1 << 12: "second",
    1 << 2 | 1 << 1: "year to month",
    1 << 3 | 1 << 10: "day to hour",
    1 << 3 | 1 << 10 | 1 << 11: "day to minute",
    1 << 3 | 1 << 10 | 1 << 11 | 1 << 12: "day to second",
    1 << 10 | 1 << 11: "hour to minute",
    1 << 10 | 1 << 11 | 1 << 12: "hour to second",
    1 << 11 | 1 << 12: "minute to second",
}


class PostgresType(msgspec.Struct, frozen=True):
    """A type as pg_type has it.

    `form`: pg_type's typtype: `b`ase, `c`omposite, `d`omain, `e`num, `r`ange, `m`ultirange, `p`seudo.
    `base`, `base_modifier`: the type that a domain is made of, and its modifier (-1: none).
    `element`: the type of an array's elements.  `labels`: those of an enum, in their order.
    """

    oid: int
    schema: str
    name: str
    form: str = "b"
    base: PostgresType | None = None
    base_modifier: int = -1
    element: PostgresType | None = None
    labels: tuple[str, ...] = ()


def types_of(rows: Iterable[Sequence[Any]]) -> dict[int, PostgresType]:
    """Returns types by their oid, from the rows of TYPE_FACTS."""
    facts = {row[0]: row for row in rows}
    made: dict[int, PostgresType] = {}

    def made_of(oid: int) -> PostgresType | None:
        if oid not in facts:
            return None
        if oid not in made:
            _, schema, name, form, base, modifier, element, labels = facts[oid]
            made[oid] = PostgresType(oid, schema, name, form, made_of(base), modifier, made_of(element), tuple(labels))
        return made[oid]

    for oid in facts:
        made_of(oid)
    return made


def column_of(name: str, type: PostgresType, modifier: int) -> Column:
    """Returns a column as rows of the stream have it.  `modifier`: pg_attribute's atttypmod; -1: none."""
    if type.base is not None:
        return column_of(name, type.base, modifier if modifier >= 0 else type.base_modifier)
    spelled = spelled_type(type, modifier)
    if type.form == "e":
        return Column(name, Kind.ENUM, labels=type.labels, type=spelled)
    if type.name == "citext" and type.form == "b":
        return Column(name, Kind.TEXT, type=spelled)
    if type.schema != _CATALOGUE or type.form != "b" or type.element is not None:
        return Column(name, Kind.OTHER, type=spelled)
    return _built_in(name, type.name, modifier, spelled)


def _built_in(name: str, type: str, modifier: int, spelled: str) -> Column:
    if type in _INTEGERS:
        return Column(name, Kind.INT, type == "oid", _INTEGERS[type], type=spelled)
    if type in _MOMENTS:
        return Column(name, _MOMENTS[type], scale=modifier if modifier >= 0 else 6, type=spelled)
    if type == "numeric" and modifier >= 0:
        precision, scale = _digits(modifier)
        digits = max(precision - min(scale, 0), scale)
        return Column(name, Kind.DECIMAL, precision=digits, scale=max(scale, 0), type=spelled)
    if type in ("varchar", "bpchar"):
        return Column(name, Kind.TEXT, length=max(modifier - _LENGTH_HEADER, 0), type=spelled)
    if type == "name":
        return Column(name, Kind.TEXT, length=_NAME_BYTES, type=spelled)
    if type == "bit" and 0 < modifier <= _MOST_BITS:
        return Column(name, Kind.BIT, length=modifier, type=spelled)
    return Column(name, _KINDS.get(type, Kind.OTHER), type=spelled)


def is_padded(column: Column) -> bool:
    """Returns whether PostgreSQL pads the column's texts with spaces, which are no part of the value."""
    return column.type.startswith(_PADDED)


def spelled_type(type: PostgresType, modifier: int) -> str:
    """Returns the type as `format_type` spells it where only pg_catalog is searched: `public.mood`,
    `numeric(10,2)[]`.  The modifier of a type that an extension brings is left out.
    """
    if type.element is not None:
        return spelled_type(type.element, modifier) + "[]"
    if type.schema != _CATALOGUE:
        return f"{_identifier(type.schema)}.{_identifier(type.name)}"
    if modifier < 0 and type.name in _BARE:
        return _BARE[type.name]
    return _SPELLED.get(type.name, type.name).format(_bounds(type.name, modifier))


def _bounds(type: str, modifier: int) -> str:
    if modifier < 0:
        return ""
    match type:
        case "numeric":
            return "({},{})".format(*_digits(modifier))
        case "varchar" | "bpchar":
            return f"({modifier - _LENGTH_HEADER})"
        case "interval":
            return _interval_bounds(modifier)
        case _:
            return f"({modifier})"


def _digits(modifier: int) -> tuple[int, int]:
    """Returns precision and scale; a scale may be below zero, or beyond the precision."""
    bare = modifier - _LENGTH_HEADER
    return bare >> 16 & 0xFFFF, ((bare & 0x7FF) ^ 0x400) - 0x400


def _interval_bounds(modifier: int) -> str:
    fields, precision = modifier >> 16 & _FULL_RANGE, modifier & _FULL_PRECISION
    named = f" {_INTERVAL_FIELDS[fields]}" if fields != _FULL_RANGE else ""
    return named + (f"({precision})" if precision != _FULL_PRECISION else "")


def _identifier(name: str) -> str:
    plain = name.isascii() and name.replace("_", "a").isalnum() and name == name.lower() and not name[0].isdigit()
    return name if plain else '"' + name.replace('"', '""') + '"'
