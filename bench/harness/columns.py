"""The canonical form of a column's values on every server: how to select them, read them and order by them."""

from __future__ import annotations

import dataclasses
import enum
import ipaddress
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

from bench.harness.session import Flavor, Session

Reader: TypeAlias = "Callable[[Any], Any] | None"


class Form(enum.Enum):
    """Form in which two columns of different servers are compared."""

    NUMBER = "number"
    FLOAT = "float"
    BITS = "bits"
    DATETIME = "datetime"
    TIME = "time"
    TEXT = "text"
    JSON = "json"
    BINARY = "binary"
    GEOMETRY = "geometry"
    ADDRESS = "address"


@dataclasses.dataclass(frozen=True)
class Column:
    """A column in its server's own words: `type` is lower case, without length (`timestamp with time zone`)."""

    name: str
    type: str


FORMS = {
    Form.NUMBER: "tinyint smallint mediumint int bigint decimal year integer numeric",
    Form.FLOAT: "float double real double-precision",
    Form.BITS: "bit boolean bit-varying",
    Form.DATETIME: "datetime timestamp timestamp-without-time-zone timestamp-with-time-zone",
    Form.TIME: "time interval time-without-time-zone",
    Form.JSON: "json jsonb",
    Form.BINARY: "binary varbinary tinyblob blob mediumblob longblob vector bytea",
    Form.GEOMETRY: "geometry point linestring polygon multipoint multilinestring multipolygon geometrycollection"
    " geomcollection",
    Form.ADDRESS: "inet4 inet6 inet",
}
FORM_OF_TYPE = {type_.replace("-", " "): form_ for form_, types in FORMS.items() for type_ in types.split()}


def form(source: Column, target: Column) -> Form:
    """The source's form, but where the target holds something plainer (JSON as text, a number as boolean) that."""
    one, two = FORM_OF_TYPE.get(source.type, Form.TEXT), FORM_OF_TYPE.get(target.type, Form.TEXT)
    if Form.BITS in (one, two):
        return Form.BITS
    if {one, two} == {Form.JSON, Form.TEXT}:
        return Form.JSON
    if {one, two} == {Form.ADDRESS, Form.TEXT}:
        return Form.TEXT
    return one


def catalogue(session: Session, table: str) -> tuple[dict[str, Column], list[str]]:
    """Columns by name, and the names of the key columns: the primary key, else the first unique key without NULLs."""
    schema, _, name = table.partition(".")
    place = f"table_schema='{schema}' AND table_name='{name}'"
    columns = session.rows(
        f"SELECT {_text(session, 'column_name')}, {_text(session, 'data_type')}"
        f" FROM information_schema.columns WHERE {place} ORDER BY ordinal_position"
    )
    sql = _POSTGRES_KEYS if session.flavor is Flavor.POSTGRES else _MYSQL_KEYS
    keys: dict[str, list[str]] = {}
    for index, column in session.rows(sql.format(schema=schema, name=name)):
        keys.setdefault(index, []).append(column)
    return {name: Column(name, type_.lower()) for name, type_ in columns}, next(iter(keys.values()), [])


_MYSQL_KEYS = """
    SELECT index_name, column_name FROM information_schema.statistics AS s
    WHERE table_schema='{schema}' AND table_name='{name}' AND non_unique=0 AND NOT EXISTS (
        SELECT 1 FROM information_schema.statistics AS n
        WHERE n.table_schema=s.table_schema AND n.table_name=s.table_name AND n.index_name=s.index_name
          AND (n.nullable='YES' OR n.column_name IS NULL OR n.sub_part IS NOT NULL))
    ORDER BY index_name<>'PRIMARY', index_name, seq_in_index"""
_POSTGRES_KEYS = """
    SELECT i.indexrelid::text, a.attname::text
    FROM pg_index AS i CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k(number, place)
    JOIN pg_attribute AS a ON a.attrelid=i.indrelid AND a.attnum=k.number
    WHERE i.indrelid=to_regclass(format('%I.%I', '{schema}', '{name}')) AND i.indisunique AND i.indpred IS NULL
      AND i.indexprs IS NULL AND NOT EXISTS (
        SELECT 1 FROM pg_attribute AS n WHERE n.attrelid=i.indrelid AND n.attnum=ANY(i.indkey) AND NOT n.attnotnull)
    ORDER BY NOT i.indisprimary, i.indexrelid, k.place"""


def selected(
    flavor: Flavor, table: str, columns: list[Column], forms: list[Form], key_columns: int, where: str
) -> tuple[str, list[Reader]]:
    """The SELECT, ordered by its first `key_columns` columns, and a reader for each column (None: as it comes)."""
    postgres = flavor is Flavor.POSTGRES
    write, quote = (_postgres, '"') if postgres else (_mysql, "`")
    # Names are qualified: PostgreSQL would take a bare one in ORDER BY for the selected text.
    parts = [
        write(f"t.{quote}{column.name}{quote}", column, form_) for column, form_ in zip(columns, forms, strict=True)
    ]
    schema, _, name = table.partition(".")
    sql = f"SELECT {', '.join(select for select, _, _ in parts)} FROM {quote}{schema}{quote}.{quote}{name}{quote} AS t"
    if where:
        sql += f" WHERE {where}"
    if key_columns:
        sql += f" ORDER BY {', '.join(order for _, order, _ in parts[:key_columns])}"
    return sql, [reader for _, _, reader in parts]


def order_key(form_: Form) -> Callable[[Any], Any]:
    """Returns the sort key with which Python follows the servers' order of a canonical value."""
    return Decimal if form_ is Form.NUMBER else str.encode if form_ in (Form.TEXT, Form.DATETIME) else lambda v: v


def _text(session: Session, column: str) -> str:
    return f"{column}::text" if session.flavor is Flavor.POSTGRES else f"CAST({column} AS CHAR)"


def _mysql(name: str, column: Column, form_: Form) -> tuple[str, str, Reader]:
    """(what to select, what to order by, reader)."""
    match form_:
        case Form.FLOAT:
            return f"CAST({name} AS DOUBLE)", name, float  # a FLOAT is printed with six digits only
        case Form.BITS:
            return f"{name}+0", name, int
        case Form.TEXT:
            text = f"CONVERT(CAST({name} AS CHAR) USING utf8mb4)"
            return text, f"CAST({text} AS BINARY)", None
        case Form.JSON:
            return f"CONVERT({name} USING utf8mb4)", name, document
        case Form.NUMBER:
            return name, name, number
        case Form.DATETIME:
            return name, name, moment
        case Form.TIME:
            return name, name, time_micros
        case Form.BINARY:
            return f"CAST({name} AS BINARY)", name, None
        case Form.GEOMETRY:
            return f"CAST({name} AS BINARY)", name, _without_srid
        case Form.ADDRESS:
            return f"CAST({name} AS CHAR)", name, _address


def _postgres(name: str, column: Column, form_: Form) -> tuple[str, str, Reader]:
    match form_:
        case Form.FLOAT:
            return f"{name}::float8::text", name, float
        case Form.BITS:
            return f"{name}::text", name, _truth if column.type == "boolean" else _bits(column.type)
        case Form.TEXT:
            return f"{name}::text", f'{name}::text COLLATE "C"', None
        case Form.JSON:
            return f"{name}::text", name, document
        case Form.NUMBER:
            return f"{name}::text", name, number
        case Form.DATETIME:
            return f"{name}::text", name, moment
        case Form.TIME:
            return f"(extract(epoch FROM {name})*1000000)::bigint::text", name, int
        case Form.BINARY | Form.GEOMETRY:
            return name, name, None
        case Form.ADDRESS:
            return f"host({name})", name, _address


def number(text: str) -> str:
    """`-1.50` and `-1.5` alike, `0042` (ZEROFILL, YEAR) and `42`; `-0` is `0`."""
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    if text.startswith("0") and text.isdigit():
        text = text.lstrip("0") or "0"
    return "0" if text == "-0" else text


def moment(text: str) -> str:
    """A date and time in UTC, without a zone and without zeros at the end of its fraction."""
    text = text.removesuffix("+00")
    return text.rstrip("0").rstrip(".") if "." in text else text


def time_micros(text: str) -> int:
    """`[-]HHH:MM:SS[.ffffff]` as microseconds."""
    hours, minutes, seconds = text.lstrip("-").split(":")
    micros = (int(hours) * 3600 + int(minutes) * 60) * 1_000_000 + int(Decimal(seconds) * 1_000_000)
    return -micros if text.startswith("-") else micros


def document(text: str) -> str:
    """JSON with its members sorted and its numbers plain, so that equal documents are equal texts."""
    return json.dumps(_plain(json.loads(text, parse_float=Decimal, parse_int=Decimal)), sort_keys=True)


def _plain(value: Any) -> Any:
    match value:
        case Decimal():
            return {"number": str(value.normalize() + 0)}
        case list():
            return [_plain(member) for member in value]
        case dict():
            return {"object": {name: _plain(member) for name, member in value.items()}}
        case _:
            return value


def _truth(text: str) -> int:
    return int(text == "true")


def _bits(type_: str) -> Callable[[str], int]:
    return (lambda text: int(text, 2)) if type_.startswith("bit") else int


def _address(text: str) -> int:
    """Spelled in more than one way, ordered as a number (of one version)."""
    return int(ipaddress.ip_address(text))


def _without_srid(raw: bytes) -> bytes:
    """The server stores four bytes of SRID before the WKB; a target column holds the WKB."""
    return raw[4:]
