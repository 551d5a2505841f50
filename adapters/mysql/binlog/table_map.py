"""TABLE_MAP events: the table, its columns and (with binlog_row_metadata=FULL) their names, signs, charsets and keys.
MINIMAL, MySQL's default, tells signs and charsets alone, and NO_LOG, MariaDB's, none of them (`known_columns`).

The payload after table id and flags is: schema, table, column types, one block of type-specific `meta`, a bitmap of
nullable columns, then optional metadata as (field, length, value).  `meta` as kept in `WireColumn`: precision << 8 |
scale (DECIMAL), fractional digits (times), bits (BIT), bytes of the value (ENUM, SET), bytes of the length prefix
(BLOB types), most bytes of the value (string types).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from tidelock.adapters.mysql.binlog import codecs
from tidelock.adapters.mysql.binlog.codecs import (
    BIT,
    BLOBS,
    ENUM,
    NEWDECIMAL,
    SET,
    STRING,
    VAR_STRING,
    VARCHAR,
    WireColumn,
)
from tidelock.adapters.mysql.charsets import BINARY, charset_of, decoder
from tidelock.adapters.mysql.errors import DamagedLog
from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import Kind, Shape, TableName

_ONE_BYTE_META: Final = BLOBS | {
    codecs.FLOAT, codecs.DOUBLE, codecs.JSON, codecs.GEOMETRY, codecs.VECTOR,
    codecs.TIMESTAMP2, codecs.DATETIME2, codecs.TIME2,
}  # fmt: skip
_TWO_BYTE_META: Final = {VARCHAR, codecs.VARCHAR_COMPRESSED, BIT, NEWDECIMAL, STRING, VAR_STRING, ENUM, SET}
_NUMERIC: Final = {
    codecs.TINY, codecs.SHORT, codecs.INT24, codecs.LONG, codecs.LONGLONG,
    codecs.FLOAT, codecs.DOUBLE, NEWDECIMAL, codecs.YEAR,
}  # fmt: skip
# The columns that the metadata gives a collation: each server counts in a type that is a BLOB inside.
_TEXTUAL: Final = BLOBS | {VARCHAR, VAR_STRING, STRING}
_MYSQL_CHARACTER: Final = _TEXTUAL | {codecs.VECTOR}
_MARIADB_CHARACTER: Final = _TEXTUAL | {codecs.VARCHAR_COMPRESSED, codecs.GEOMETRY}

# Fields of the optional metadata.
_SIGNEDNESS, _DEFAULT_CHARSET, _COLUMN_CHARSET, _NAMES, _SET_LABELS, _ENUM_LABELS = 1, 2, 3, 4, 5, 6
_SIMPLE_KEY, _PREFIX_KEY, _LABEL_DEFAULT_CHARSET, _LABEL_CHARSET = 8, 9, 10, 11


_MOST_COLUMNS, _MOST_DIGITS, _MOST_SCALE, _MOST_FRACTION, _MOST_BITS = 4096, 65, 38, 6, 64  # of any server
_PREFIXED: Final = BLOBS | {codecs.GEOMETRY, codecs.VECTOR, codecs.JSON}


class TableMap(msgspec.Struct, frozen=True):
    """`names`: empty without FULL metadata.  `primary_key`: column indexes, in key order.  `nullable`: a bit for each
    column, the first one lowest.  `tells_signs`, `tells_charsets`: the log has signs of numbers, character sets of
    texts.
    """

    name: TableName
    columns: tuple[WireColumn, ...]
    names: tuple[str, ...] = ()
    primary_key: tuple[int, ...] = ()
    nullable: int = 0
    tells_signs: bool = False
    tells_charsets: bool = False

    def may_be_null(self, index: int) -> bool:
        """Tells whether a column may be NULL."""
        return bool(self.nullable >> index & 1)

    def fixed_binaries(self) -> list[int]:
        """Indexes of columns that may be MariaDB uuid, inet6 or inet4: all are logged as BINARY(16) or BINARY(4)."""
        return [
            index
            for index, column in enumerate(self.columns)
            if column.type == STRING and not column.charset and column.meta in (4, 16)
        ]

    def shape(self, kinds: Mapping[str, Kind]) -> Shape:
        """Describe the columns.

        `kinds` override what the log says, by column name.  Raises UnsuitableLog without column names.
        """
        if len(self.names) != len(self.columns):
            raise UnsuitableLog(
                f"the log does not name the columns of {self.name}",
                f"SET GLOBAL binlog_row_metadata=FULL at the source; then {RESYNC}",
            )
        columns = tuple(
            codecs.column(name, wire, kinds.get(name)) for name, wire in zip(self.names, self.columns, strict=True)
        )
        return Shape(self.name, columns, tuple(self.names[index] for index in self.primary_key))


def lenenc(raw: bytes, at: int) -> tuple[int, int]:
    """A length-encoded integer and where it ends."""
    first = raw[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(raw[at + 1 : at + 1 + size], "little"), at + 1 + size


def parse_name(raw: bytes, at: int) -> tuple[TableName, int]:
    """Schema and table at the start of the payload, and where they end."""
    schema, at = _string(raw, at)
    table, at = _string(raw, at)
    return TableName(schema, table), at


def parse(raw: bytes, *, described: bool, by_mariadb: bool) -> TableMap:
    """Read a TABLE_MAP payload.

    `described`: with the optional metadata; `by_mariadb`: it wrote the log.  Raises DamagedLog for bytes that are
    none.
    """
    name, at = parse_name(raw, 0)
    try:
        return _parse(raw, at, name, described, by_mariadb)
    except (IndexError, KeyError, ValueError, StopIteration) as error:
        raise DamagedLog(f"the table map of {name} cannot be read ({error!r})") from error


def _string(raw: bytes, at: int) -> tuple[str, int]:
    length = raw[at]
    return raw[at + 1 : at + 1 + length].decode(), at + length + 2


def _parse(raw: bytes, at: int, name: TableName, described: bool, by_mariadb: bool) -> TableMap:
    count, at = lenenc(raw, at)
    types = raw[at : at + count]
    if not 0 < count <= _MOST_COLUMNS or len(types) != count:
        raise ValueError(f"{count} columns")
    size, at = lenenc(raw, at + count)
    if at + size + (count + 7) // 8 > len(raw):
        raise ValueError("it ends within its columns")
    columns = _columns(types, raw[at : at + size])
    for column in columns:
        if not is_possible(column):
            raise ValueError(f"a column of type {column.type} with {column.meta}")
    if not described:
        return TableMap(name, tuple(columns))
    fields = _fields(raw, at + size + (count + 7) // 8)
    signs = _signs(columns, fields.get(_SIGNEDNESS, b""))
    character = _MARIADB_CHARACTER if by_mariadb else _MYSQL_CHARACTER
    charsets = _charsets(columns, character, fields, _DEFAULT_CHARSET, _COLUMN_CHARSET)
    charsets |= _charsets(columns, {ENUM, SET}, fields, _LABEL_DEFAULT_CHARSET, _LABEL_CHARSET)
    enums, sets = _labels(fields.get(_ENUM_LABELS, b"")), _labels(fields.get(_SET_LABELS, b""))
    enum_columns = [index for index, column in enumerate(columns) if column.type == ENUM]
    set_columns = [index for index, column in enumerate(columns) if column.type == SET]
    labels = dict(zip(enum_columns, enums, strict=False)) | dict(zip(set_columns, sets, strict=False))
    return TableMap(
        name,
        tuple(
            WireColumn(
                column.type,
                column.meta,
                index in signs,
                charsets.get(index, ""),
                _decoded(labels.get(index, []), charsets.get(index, "")),
            )
            for index, column in enumerate(columns)
        ),
        tuple(part.decode() for part in _strings(fields.get(_NAMES, b""))),
        _primary_key(fields),
        int.from_bytes(raw[at + size : at + size + (count + 7) // 8], "little") & (1 << count) - 1,
        _SIGNEDNESS in fields,
        _DEFAULT_CHARSET in fields or _COLUMN_CHARSET in fields,
    )


def is_possible(column: WireColumn) -> bool:
    """Tell whether a server can have such a column: damage names sizes that no reader has room for."""
    match column.type:
        case codecs.NEWDECIMAL:
            precision, scale = column.meta >> 8, column.meta & 255
            return 1 <= precision <= _MOST_DIGITS and scale <= min(precision, _MOST_SCALE)
        case codecs.DATETIME2 | codecs.TIMESTAMP2 | codecs.TIME2:
            return column.meta <= _MOST_FRACTION
        case codecs.BIT:
            return 1 <= column.meta <= _MOST_BITS
        case codecs.ENUM:
            return column.meta in (1, 2)
        case codecs.SET:
            return 1 <= column.meta <= 8
    return column.type not in _PREFIXED or 1 <= column.meta <= 4


def _columns(types: bytes, meta: bytes) -> list[WireColumn]:
    at = 0
    columns = []
    for kind in types:
        if kind in _TWO_BYTE_META:
            columns.append(_two_byte_column(kind, meta[at], meta[at + 1]))
            at += 2
        elif kind in _ONE_BYTE_META:
            columns.append(WireColumn(kind, meta[at]))
            at += 1
        else:
            columns.append(WireColumn(kind))
    return columns


def _two_byte_column(kind: int, first: int, second: int) -> WireColumn:
    if kind in (STRING, VAR_STRING, ENUM, SET):
        if first in (ENUM, SET):
            return WireColumn(first, second)
        # Bits 4 and 5 of the real type, inverted, are bits 8 and 9 of the length (MySQL bug 37426).
        return WireColumn(STRING, second | ((first & 0x30) ^ 0x30) << 4)
    if kind == NEWDECIMAL:
        return WireColumn(kind, first << 8 | second)
    if kind == BIT:
        return WireColumn(kind, first + 8 * second)
    return WireColumn(kind, first | second << 8)


def _fields(raw: bytes, at: int) -> dict[int, bytes]:
    fields = {}
    while at < len(raw):
        field = raw[at]
        length, at = lenenc(raw, at + 1)
        fields[field] = raw[at : at + length]
        at += length
    if at > len(raw):
        raise ValueError("optional metadata ends after the event")
    return fields


def _signs(columns: list[WireColumn], bits: bytes) -> set[int]:
    """Indexes of the unsigned columns: one bit for each numeric column, highest first."""
    numeric = [index for index, column in enumerate(columns) if column.type in _NUMERIC]
    return {index for place, index in enumerate(numeric) if bits and bits[place // 8] & 0x80 >> place % 8}


def _numbers(raw: bytes) -> list[int]:
    numbers, at = [], 0
    while at < len(raw):
        number, at = lenenc(raw, at)
        numbers.append(number)
    return numbers


def _strings(raw: bytes) -> list[bytes]:
    strings, at = [], 0
    while at < len(raw):
        length, at = lenenc(raw, at)
        strings.append(raw[at : at + length])
        at += length
    return strings


def _labels(raw: bytes) -> list[list[bytes]]:
    """The labels of each ENUM or SET column: a count, then so many strings."""
    columns, at = [], 0
    while at < len(raw):
        count, at = lenenc(raw, at)
        labels = []
        for _ in range(count):
            length, at = lenenc(raw, at)
            labels.append(raw[at : at + length])
            at += length
        columns.append(labels)
    return columns


def _decoded(labels: list[bytes], charset: str) -> tuple[str, ...]:
    decode = decoder(charset or "utf8mb4")
    return tuple(decode(label) for label in labels)


def _charsets(
    columns: list[WireColumn], types: frozenset[int] | set[int], fields: dict[int, bytes], default: int, each: int
) -> dict[int, str]:
    """Charsets by column index: a default with exceptions, or one number for each column of these types."""
    chosen = [index for index, column in enumerate(columns) if column.type in types]
    if each in fields:
        collations = dict(enumerate(_numbers(fields[each])))
        usual = BINARY
    elif default in fields:
        usual, *pairs = _numbers(fields[default])
        collations = dict(zip(pairs[::2], pairs[1::2], strict=True))
    else:
        return {}
    return {
        index: _charset(collation)
        for place, index in enumerate(chosen)
        if (collation := collations.get(place, usual)) != BINARY
    }


def _charset(collation: int) -> str:
    charset = charset_of(collation)
    if charset is None:
        raise ValueError(f"collation {collation} is not known")
    return charset


def _primary_key(fields: dict[int, bytes]) -> tuple[int, ...]:
    if _SIMPLE_KEY in fields:
        return tuple(_numbers(fields[_SIMPLE_KEY]))
    return tuple(_numbers(fields.get(_PREFIX_KEY, b""))[::2])
