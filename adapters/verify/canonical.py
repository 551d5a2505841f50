"""Makes the SQL by which each server writes a column, so that equal values are equal texts in nearly all cases.

The servers do the work: what travels is text that no driver interprets, so microseconds, TIME beyond a day, unsigned
integers, zero dates and 65 digits arrive as they are.  Only floating point numbers travel as doubles, because the
servers print them differently.  Equal texts are equal values; texts that differ are compared again in Python
(`adapters.spark.comparable_values`), so a server that spells an equal value in another way costs time and is no false
alarm.

A PostgreSQL source is asked as a PostgreSQL target is, and a type that we know nothing of for what its output function
writes, so that two of the same type have the same texts.

Long texts, documents and bytes are replaced by their SHA-256 while whole rows are compared.  A row is one text: its
values joined by commas, NULL as `N`, a text that might hold a comma with its length in front, so that no two different
rows have the same text.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.config.url import Dialect
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.adapters.schema.type_map import Type
from tidelock.adapters.spark.comparable_values import Form
from tidelock.adapters.spark.postgres_text import output_text
from tidelock.engine.model.records import Kind

_SHORT_BYTES = 64
_TIMES = (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)
_OPEN = (Form.TEXT, Form.ADDRESS)  # forms whose text may hold anything
# MySQL and MariaDB refuse to join texts of two binary collations, unless one of them says the collation.
_COMMA = "_utf8mb4',' COLLATE utf8mb4_bin"


class Cell(msgspec.Struct, frozen=True):
    """One column at one server.  `text`: SQL of its value (DOUBLE: a number).  `short`: SQL that stands for it in a
    row's text, the same unless values may be long."""

    name: str
    form: Form
    text: str
    short: str


def mysql_cell(own: SourceColumn, source: SourceColumn, form: Form, target: str, *, no_zero_dates: bool) -> Cell:
    """Returns the cell of `own` at a MySQL or MariaDB server, be it the source column itself or its partner at the
    target.

    `target`: the target's type, which the text must agree with.  `no_zero_dates`: they are NULL at the target.
    """
    name = f"t.{quote('mysql', own.name)}"
    text = _mysql_text(own, source, form, target, name)
    if no_zero_dates and own.column.kind in _TIMES[:3]:
        text = f"IF({name} LIKE '%-00%' OR {name} LIKE '0000-%', NULL, {text})"
    long = _is_long(source, form)
    return Cell(own.name, form, text, f"SHA2({text}, 256)" if long else text)


def _mysql_text(own: SourceColumn, source: SourceColumn, form: Form, target: str, name: str) -> str:
    column = own.column
    match form:
        case Form.NUMBER if column.kind in (Kind.YEAR, Kind.BIT) or "zerofill" in own.type:
            return f"({name} + 0)"
        case Form.NUMBER if column.kind is Kind.DECIMAL and not _same_scale(source, target):
            return _trimmed(f"CAST({name} AS CHAR)", column.scale)
        case Form.BITS:
            bits = Type.of(target)
            length = bits.first(1) if bits.base == "bit" else column.length
            return f"LPAD(BIN({name} + 0), {length}, '0')"
        case Form.DOUBLE:
            return f"CAST({name} AS DOUBLE)"
        case Form.MOMENT | Form.TIME:
            return _mysql_moment(column.kind, column.scale, target, name)
        case Form.TEXT | Form.JSON | Form.ADDRESS:
            return _mysql_utf8(own, name)
        case Form.BYTES:
            return _mysql_bytes(own, source, target, name)
    return name


def _mysql_moment(kind: Kind, scale: int, target: str, name: str) -> str:
    """Returns SQL without zeros at the end of a fraction: PostgreSQL prints none, MySQL as many as the column says."""
    type_ = Type.of(target)
    if type_.base in ("datetime", "timestamp", "time", "interval") or type_.base.startswith(("timestamp ", "time ")):
        if kind is Kind.DATE:
            return f"CONCAT({name}, ' 00:00:00')"
        return _trimmed(f"CAST({name} AS CHAR)", scale)
    return f"CAST({name} AS CHAR)"


def _trimmed(text: str, scale: int) -> str:
    return f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {text}))" if scale else text


def _mysql_utf8(own: SourceColumn, name: str) -> str:
    column = own.column
    if column.kind is Kind.TEXT and column.charset in ("utf8mb4", "utf8mb3", "utf8", "ascii"):
        return name
    if column.kind is Kind.TEXT:
        return f"CONVERT({name} USING utf8mb4)"
    return f"CAST({name} AS CHAR CHARACTER SET utf8mb4)"


def _mysql_bytes(own: SourceColumn, source: SourceColumn, target: str, name: str) -> str:
    match own.column.kind:
        case Kind.GEOMETRY if Type.of(target).base == "bytea":  # the well-known binary begins behind the SRID
            return f"LOWER(HEX(SUBSTRING(CAST({name} AS BINARY), 5)))"
        case Kind.BINARY | Kind.GEOMETRY | Kind.VECTOR:
            return f"LOWER(HEX(CAST({name} AS BINARY)))"
        case _ if source.column.kind in _TIMES:
            return f"LOWER(HEX(CAST({name} AS CHAR CHARACTER SET utf8mb4)))"
        case _:
            return f"LOWER(HEX({_mysql_utf8(own, name)}))"


def source_cell(source: SourceColumn, form: Form, target: str, *, no_zero_dates: bool) -> Cell:
    """Returns the cell of a source's column, whichever server it is of.  `target`, `no_zero_dates`: as below."""
    if source.column.type:
        return postgres_cell(source.name, source.type, source, form, target)
    return mysql_cell(source, source, form, target, no_zero_dates=no_zero_dates)


def postgres_cell(name: str, type: str, source: SourceColumn, form: Form, target: str = "") -> Cell:
    """Returns the cell of a PostgreSQL column of `type`.  `target`: the target's type where it is the source's."""
    quoted = f"t.{quote('postgres', name)}"
    text = _postgres_text(quoted, type, source, form, target or type)
    digest = f"encode(sha256(convert_to({text}, 'UTF8')), 'hex')"
    return Cell(name, form, text, digest if _is_long(source, form) else text)


def _postgres_text(name: str, type: str, source: SourceColumn, form: Form, target: str) -> str:
    base, kind = Type.of(type).base, source.column.kind
    if kind is Kind.OTHER and base != "bytea":
        return output_text(name)
    match base:
        case "bit" if form is Form.NUMBER:
            return _bits_number(name, source.column.length)
        case _ if form is Form.BYTES and base not in ("bytea", "uuid"):
            return f"encode(convert_to({name}::text, 'UTF8'), 'hex')"
        case "bytea":
            return f"encode({name}, 'hex')"
        case "uuid" if form is Form.BYTES:
            return f"replace({name}::text, '-', '')"
        case "boolean":
            return f"{name}::int::text"
        case "inet" | "cidr":
            return f"host({name})"
        case "timestamp with time zone":
            return f"({name} AT TIME ZONE 'UTC')::text"
        case "numeric" if kind is Kind.DECIMAL and not _same_scale(source, target):
            return f"trim_scale({name})::text"
    return f"{name}::float8" if form is Form.DOUBLE else f"{name}::text"


def _bits_number(name: str, bits: int) -> str:
    """Returns SQL of bits as a number without a sign."""
    if bits < 64:
        return f"{name}::bigint::text"
    return f"({name}::bigint::numeric + get_bit({name}, 0) * 18446744073709551616)::text"


def _same_scale(source: SourceColumn, target: str) -> bool:
    type_ = Type.of(target)
    exact = len(type_.numbers) == 2 and type_.numbers[1] == source.column.scale
    return exact or type_.base not in ("numeric", "decimal")


def _is_long(source: SourceColumn, form: Form) -> bool:
    """Returns whether a value may be too long for a row's text."""
    column = source.column
    if form is Form.BYTES:
        return not (column.kind is Kind.BINARY and 0 < column.length <= _SHORT_BYTES)
    if form is Form.TEXT and column.kind in (Kind.TEXT, Kind.OTHER):
        return not column.length
    return form is Form.JSON


def row_text(dialect: Dialect, cells: Sequence[Cell]) -> str:
    """Returns SQL of one text for the row.  Of a double it says only whether it is NULL: the number travels beside it.
    """
    if not cells:
        return "''"
    parts = [_marked(dialect, cell) for cell in cells]
    if dialect == "mysql":
        return f"CONCAT_WS({_COMMA}, {', '.join(parts)})"
    return " || ',' || ".join(parts)


def _marked(dialect: Dialect, cell: Cell) -> str:
    if cell.form is Form.DOUBLE:
        return f"CASE WHEN {cell.text} IS NULL THEN 'N' ELSE 'D' END"
    if cell.form not in _OPEN or cell.short != cell.text:
        return f"COALESCE({cell.short}, 'N')"
    if dialect == "mysql":
        return f"COALESCE(CONCAT(OCTET_LENGTH({cell.text}), ':', {cell.text}), 'N')"
    return f"coalesce(octet_length({cell.text}) || ':' || {cell.text}, 'N')"
