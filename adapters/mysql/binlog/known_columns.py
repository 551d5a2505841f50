"""Columns that a log does not name (`binlog_row_metadata` MINIMAL or NO_LOG), named by what is known of their table.

A TABLE_MAP event without names tells of each column its type, what a type has for sizes, and whether it may be NULL;
with MINIMAL also signs and the character sets of texts.  A form of the table names its columns only where each agrees
in all of that: their place alone names nothing.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec.structs import replace

from tidelock.adapters.mysql.binlog import codecs
from tidelock.adapters.mysql.binlog.codecs import WireColumn
from tidelock.adapters.mysql.binlog.table_map import TableMap
from tidelock.engine.model.records import Kind
from tidelock.engine.model.schema_change import FormerColumn, FormerTable

_INTEGERS: Final = {
    "tinyint": codecs.TINY, "smallint": codecs.SHORT, "mediumint": codecs.INT24, "int": codecs.LONG,
    "bigint": codecs.LONGLONG,
}  # fmt: skip
_TIMES: Final = {
    "datetime": (codecs.DATETIME2, codecs.DATETIME), "timestamp": (codecs.TIMESTAMP2, codecs.TIMESTAMP),
    "time": (codecs.TIME2, codecs.TIME),
}  # fmt: skip
_BLOBS: Final = {
    "tinyblob": 1, "blob": 2, "mediumblob": 3, "longblob": 4, "tinytext": 1, "text": 2, "mediumtext": 3, "longtext": 4,
}  # fmt: skip
_LONGEST: Final = ("longblob", "longtext")
_FIXED: Final = {"uuid": 16, "inet6": 16, "inet4": 4}
_SIGNED: Final = (Kind.INT, Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE)
_LETTERED: Final = (Kind.TEXT, Kind.ENUM, Kind.SET)
_OWN_KINDS: Final = (Kind.UUID, Kind.INET4, Kind.INET6)
_WORD: Final = re.compile(r"[a-z0-9]+")
_MOST_OF_ONE_BYTE: Final = 255
_SET_SIZES: Final = (1, 2, 3, 4, 8)


class Named(msgspec.Struct, frozen=True):
    """A table map with its columns' names.  `kinds`: of those that are more than the log says, by name."""

    mapped: TableMap
    kinds: tuple[tuple[str, Kind], ...] = ()


def is_whole(table: FormerTable, mapped: TableMap) -> bool:
    """Tells whether a form and the log together tell all that values are read by."""
    told = {Kind.TEXT} if mapped.tells_charsets else set()
    return table.primary_key is not None and not any(
        one.column.kind in _LETTERED and not one.column.charset and one.column.kind not in told for one in table.columns
    )


def named(table: FormerTable, mapped: TableMap) -> Named:
    """Returns the map with the names of a form that agrees with it."""
    names = tuple(one.column.name for one in table.columns)
    columns = tuple(_filled(one, wire, mapped) for one, wire in zip(table.columns, mapped.columns, strict=True))
    key = tuple(names.index(name) for name in table.primary_key or () if name in names)
    kinds = tuple((one.column.name, one.column.kind) for one in table.columns if one.column.kind in _OWN_KINDS)
    return Named(replace(mapped, columns=columns, names=names, primary_key=key), kinds)


def difference(table: FormerTable, mapped: TableMap) -> str:
    """Returns in words where a form is not that of a table map; '' where each column agrees."""
    if len(table.columns) != len(mapped.columns):
        return f"the row has {len(mapped.columns)} columns, and the table {len(table.columns)}"
    for place, (one, wire) in enumerate(zip(table.columns, mapped.columns, strict=True)):
        if why := _unlike(one, wire, mapped, mapped.may_be_null(place)):
            return f"column {place + 1} of the row is not {one.column.name} {one.type}: {why}"
    return ""


def _filled(one: FormerColumn, wire: WireColumn, mapped: TableMap) -> WireColumn:
    column = one.column
    if column.kind in _SIGNED and not mapped.tells_signs:
        wire = replace(wire, unsigned=_is_unsigned(one))
    if column.kind in (Kind.ENUM, Kind.SET):
        return replace(wire, charset=_charset(column.charset), labels=column.labels)
    if column.kind is Kind.TEXT and not mapped.tells_charsets:
        return replace(wire, charset=_charset(column.charset))
    if column.kind is Kind.JSON and wire.type in codecs.BLOBS:
        return replace(wire, charset="utf8mb4")  # MariaDB's, whichever character set the table has
    return wire


def _unlike(one: FormerColumn, wire: WireColumn, mapped: TableMap, may_be_null: bool) -> str:
    column = one.column
    charset = wire.charset if mapped.tells_charsets else _charset(column.charset)
    expected = _wires(one, charset)
    if (wire.type, wire.meta) not in expected and (wire.type, None) not in expected:
        return f"its type is {wire.type} with {wire.meta}"
    if may_be_null != one.nullable:
        return "it may be NULL" if may_be_null else "it is NOT NULL"
    if mapped.tells_signs and column.kind in _SIGNED and wire.unsigned != _is_unsigned(one):
        return "it is unsigned" if wire.unsigned else "it is signed"
    if mapped.tells_charsets and column.kind is Kind.TEXT and (column.charset or not charset):
        known = _charset(column.charset)
        return "" if charset and charset == known else f"its character set is {charset or 'binary'}"
    if mapped.tells_charsets and column.kind is Kind.BINARY and charset:
        return f"its character set is {charset}"
    return ""


def _wires(one: FormerColumn, charset: str) -> set[tuple[int, int | None]]:
    """Returns types and sizes that a column may have in a table map; a size is None where any may be."""
    column, found = one.column, _WORD.match(one.type.lower())
    word = found[0] if found is not None else ""
    if word in _INTEGERS:
        return {(_INTEGERS[word], 0)}
    if word in _TIMES:
        later, former = _TIMES[word]
        return {(later, column.scale), *([(former, 0)] if not column.scale else [])}
    if column.kind is Kind.VECTOR:
        return {(codecs.VECTOR, 4), (codecs.VARCHAR, None)}
    if word in _BLOBS:  # a statement's BLOB(n) or TEXT(n) is known as the longest
        sizes = (_BLOBS[word],) if word not in _LONGEST else (1, 2, 3, 4)
        return {(type_, size) for type_ in (codecs.BLOB, codecs.BLOB_COMPRESSED) for size in sizes}
    if word in _FIXED:
        return {(codecs.STRING, _FIXED[word])}
    width = codecs.bytes_per_character(charset) if column.kind is Kind.TEXT else 1
    match word:
        case "char" | "binary":
            return {(codecs.STRING, column.length * width)}
        case "varchar" | "varbinary":
            return {(codecs.VARCHAR, column.length * width), (codecs.VARCHAR_COMPRESSED, None)}
        case "float":
            return {(codecs.FLOAT, 4)}
        case "double":
            return {(codecs.DOUBLE, 8)}
        case "decimal":
            return {(codecs.NEWDECIMAL, column.precision << 8 | column.scale)}
        case "date":
            return {(codecs.DATE, 0), (codecs.NEWDATE, 0)}
        case "year":
            return {(codecs.YEAR, 0)}
        case "bit":
            return {(codecs.BIT, column.length)}
        case "enum":
            return {(codecs.ENUM, 1 if len(column.labels) <= _MOST_OF_ONE_BYTE else 2)}
        case "set":
            return {(codecs.SET, next(size for size in _SET_SIZES if size * 8 >= len(column.labels)))}
        case "json":  # MariaDB's is a long text
            return {(codecs.JSON, 4), (codecs.BLOB, 4)}
    return {(codecs.GEOMETRY, 4)} if column.kind is Kind.GEOMETRY else set()


def _is_unsigned(one: FormerColumn) -> bool:
    return "unsigned" in one.type or "zerofill" in one.type


def _charset(name: str) -> str:
    return "utf8mb3" if name == "utf8" else name
