"""One codec a column: how its bytes in a row image become the canonical value (`engine.model.records`).

A codec is data for the row compiler, not code that runs per value.  `Fixed` columns have a known size; the compiler
unpacks neighbours together in one `struct` call.  `Varying` columns begin with their length.  `value` is a Python
expression in which `RAW` stands for what was read; `names` are the objects that the expression uses.
"""

from __future__ import annotations

import zlib
from codecs import charmap_decode
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from tidelock.adapters.mysql.binlog import temporal
from tidelock.adapters.mysql.binlog.decimals import decimal_expression, decimal_size
from tidelock.adapters.mysql.binlog.json_binary import json_text
from tidelock.adapters.mysql.charsets import decoder, is_utf8, lenient_decoder, single_byte_table
from tidelock.adapters.mysql.spellings import SPELLINGS
from tidelock.engine.model.records import Column, Kind

TINY, SHORT, LONG, FLOAT, DOUBLE, TIMESTAMP, LONGLONG, INT24 = 1, 2, 3, 4, 5, 7, 8, 9
DATE, TIME, DATETIME, YEAR, NEWDATE, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = 10, 11, 12, 13, 14, 15, 16, 17, 18, 19
BLOB_COMPRESSED, VARCHAR_COMPRESSED, VECTOR, JSON, NEWDECIMAL, ENUM, SET = 140, 141, 242, 245, 246, 247, 248
TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB, VAR_STRING, STRING, GEOMETRY = 249, 250, 251, 252, 253, 254, 255

BLOBS: Final = frozenset((BLOB, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB_COMPRESSED))
INTEGERS: Final = {TINY: (1, "b"), SHORT: (2, "h"), LONG: (4, "i"), LONGLONG: (8, "q")}


class WireColumn(msgspec.Struct, frozen=True):
    """A column as a TABLE_MAP event describes it; `meta` is the type's own number (see `table_map`).

    `length`: bytes a STRING or VARCHAR may hold, or bytes of the length prefix of a BLOB type.
    `charset`: empty for a binary column, and for one whose type has none.
    """

    type: int
    meta: int = 0
    unsigned: bool = False
    charset: str = ""
    labels: tuple[str, ...] = ()


class Fixed(msgspec.Struct, frozen=True):
    """`format`: one struct character, or `3s`, in little-endian order."""

    size: int
    format: str
    value: str = "RAW"
    names: Mapping[str, Any] = {}


class Varying(msgspec.Struct, frozen=True):
    """`prefix`: bytes of the little-endian length before the value."""

    prefix: int
    value: str = "RAW"
    names: Mapping[str, Any] = {}


Codec: TypeAlias = Fixed | Varying


_KINDS: Final = {
    YEAR: Kind.YEAR,
    BIT: Kind.BIT,
    FLOAT: Kind.FLOAT,
    DOUBLE: Kind.DOUBLE,
    NEWDECIMAL: Kind.DECIMAL,
    DATE: Kind.DATE,
    NEWDATE: Kind.DATE,
    DATETIME: Kind.DATETIME,
    DATETIME2: Kind.DATETIME,
    TIMESTAMP: Kind.TIMESTAMP,
    TIMESTAMP2: Kind.TIMESTAMP,
    TIME: Kind.TIME,
    TIME2: Kind.TIME,
    ENUM: Kind.ENUM,
    SET: Kind.SET,
    JSON: Kind.JSON,
    GEOMETRY: Kind.GEOMETRY,
    VECTOR: Kind.VECTOR,
}
_FRACTIONAL: Final = frozenset((DATETIME2, TIMESTAMP2, TIME2))
_BYTES_PER_CHARACTER: Final = {
    "utf8mb4": 4, "utf8mb3": 3, "utf16": 4, "utf16le": 4, "utf32": 4, "ucs2": 2, "gb18030": 4, "eucjpms": 3, "ujis": 3,
    "gbk": 2, "gb2312": 2, "big5": 2, "sjis": 2, "cp932": 2, "euckr": 2,
}  # fmt: skip


def bytes_per_character(charset: str) -> int:
    """Returns the most bytes that a character has, by which lengths of texts are counted in the log."""
    return _BYTES_PER_CHARACTER.get(charset, 1)


def column(name: str, wire: WireColumn, kind: Kind | None) -> Column:
    """The column as records describe it; `kind` as in `codec`."""
    if wire.type in INTEGERS:
        return Column(name, Kind.INT, wire.unsigned, INTEGERS[wire.type][0])
    if wire.type == INT24:
        return Column(name, Kind.INT, wire.unsigned, 3)
    if wire.type == NEWDECIMAL:
        return Column(name, Kind.DECIMAL, wire.unsigned, precision=wire.meta >> 8, scale=wire.meta & 255)
    if wire.type in _FRACTIONAL:
        return Column(name, _KINDS[wire.type], scale=wire.meta)
    known = _KINDS.get(wire.type)
    if known is not None:
        length = wire.meta if known is Kind.BIT else 0
        return Column(name, known, wire.unsigned, length, charset=wire.charset, labels=wire.labels)
    length = 0 if wire.type in BLOBS else wire.meta
    if wire.charset:
        return Column(name, Kind.TEXT, length=length // bytes_per_character(wire.charset), charset=wire.charset)
    return Column(name, kind or Kind.BINARY, length=length)


class UnknownType(Exception):
    """A column type number that no server had when this was written."""


def codec(wire: WireColumn, kind: Kind | None, lenient: bool) -> Codec:
    """The codec of a column; `kind` overrides what the log says (`uuid`, `inet4`, `inet6` are logged as binary).

    `lenient`: undecodable text stays bytes; without it the expression raises UnicodeDecodeError.
    """
    if wire.type in INTEGERS:
        size, letter = INTEGERS[wire.type]
        return Fixed(size, letter.upper() if wire.unsigned else letter)
    if wire.type in (STRING, VAR_STRING, VARCHAR):
        return _string(wire, kind, lenient)
    if wire.type in BLOBS:
        return _text(wire.meta, wire, lenient)
    if wire.type == VARCHAR_COMPRESSED:
        return _text(2 if wire.meta > 255 else 1, wire, lenient)
    simple = _SIMPLE.get(wire.type)
    if simple is not None:
        return simple
    build = _BUILT.get(wire.type)
    if build is None:
        raise UnknownType(f"column type {wire.type}")
    return build(wire)


def _string(wire: WireColumn, kind: Kind | None, lenient: bool) -> Codec:
    prefix = 2 if wire.meta > 255 else 1
    if wire.charset:
        return _text(prefix, wire, lenient)
    if wire.type != STRING:
        return Varying(prefix)
    # The server strips trailing NULs (also of MariaDB's uuid and inet types, so that '::' is logged as nothing).
    padded = f'RAW.ljust({wire.meta}, b"\\0")'
    if kind is not None and kind in SPELLINGS:
        return Varying(prefix, f"spell_{kind.value}({padded})", {f"spell_{kind.value}": SPELLINGS[kind]})
    return Varying(prefix, padded)


def _text(prefix: int, wire: WireColumn, lenient: bool) -> Codec:
    raw, names = "RAW", dict[str, Any]()
    if wire.type in (BLOB_COMPRESSED, VARCHAR_COMPRESSED):
        raw, names = "inflate(RAW)", {"inflate": inflate_column}
    if not wire.charset:
        return Varying(prefix, raw, names)
    if lenient:
        name = f"lenient_{wire.charset}"
        return Varying(prefix, f"{name}({raw})", names | {name: lenient_decoder(wire.charset)})
    if is_utf8(wire.charset):
        return Varying(prefix, f"{raw}.decode()", names)
    table = single_byte_table(wire.charset)
    if table is not None:
        name = f"table_{wire.charset}"
        names |= {name: table, "charmap_decode": charmap_decode}
        return Varying(prefix, f'charmap_decode({raw}, "strict", {name})[0]', names)
    name = f"decode_{wire.charset}"
    return Varying(prefix, f"{name}({raw})", names | {name: decoder(wire.charset)})


def inflate_column(raw: bytes) -> bytes:
    """A MariaDB COMPRESSED column: 0 and the plain bytes, or a header byte, the big-endian length, and zlib data.

    The header holds the method (upper four bits, 8 is zlib), whether zlib's own header is left out (bit 3), and the
    bytes of the length (lower three bits).
    """
    if not raw or not raw[0]:
        return raw[1:]
    header = raw[0]
    if header >> 4 != 8:
        raise ValueError(f"compression method {header >> 4} of a COMPRESSED column")
    start = 1 + (header & 7)
    plain = zlib.decompress(raw[start:], -15 if header & 8 else 15)
    if len(plain) != int.from_bytes(raw[1:start], "big"):
        raise ValueError("a COMPRESSED column has not the length it claims")
    return plain


def _int24(wire: WireColumn) -> Codec:
    raw = 'from_bytes(RAW, "little")'
    return Fixed(3, "3s", raw if wire.unsigned else f"({raw} ^ 0x800000) - 0x800000")


def _decimal(wire: WireColumn) -> Codec:
    precision, scale = wire.meta >> 8, wire.meta & 255
    size = decimal_size(precision, scale)
    return Fixed(size, f"{size}s", decimal_expression("RAW", precision, scale))


def _bit(wire: WireColumn) -> Codec:
    size = (wire.meta + 7) // 8
    return Fixed(size, f"{size}s", 'from_bytes(RAW, "big")')


def _fraction_bits(scale: int) -> int:
    return 8 * ((scale + 1) // 2)


def _fraction(scale: int) -> str:
    """f-string parts for the digits after the point, in the lowest bits of `v`; an odd scale is stored times ten."""
    if not scale:
        return ""
    digits = f"(v & {(1 << _fraction_bits(scale)) - 1})"
    return f".{{{digits} // 10:0{scale}d}}" if scale & 1 else f".{{{digits}:0{scale}d}}"


def _datetime2(wire: WireColumn) -> Codec:
    bits = _fraction_bits(wire.meta)
    size = 5 + bits // 8
    day = f'{{DATETIME_DAYS[(v := from_bytes(RAW, "big")) >> {bits + 17}]}}'
    clock = f"{{CLOCKS[v >> {bits} & 0x1ffff]}}"
    return Fixed(size, f"{size}s", f"f'{day}{clock}{_fraction(wire.meta)}'", _TABLES)


def _timestamp2(wire: WireColumn) -> Codec:
    bits = _fraction_bits(wire.meta)
    size = 4 + bits // 8
    seconds = f'{{timestamp((v := from_bytes(RAW, "big")) >> {bits})}}'
    return Fixed(size, f"{size}s", f"f'{seconds}{_fraction(wire.meta)}'", _TABLES)


def _time2(wire: WireColumn) -> Codec:
    bits = _fraction_bits(wire.meta)
    size = 3 + bits // 8
    clock = f"{{CLOCKS[v >> {bits}]}}{_fraction(wire.meta)}"
    signed = f'(v := from_bytes(RAW, "big") - {0x800000 << bits})'
    return Fixed(size, f"{size}s", f"(f'{clock}' if {signed} >= 0 else f'-{clock}' if (v := -v) else '')", _TABLES)


def _enum(wire: WireColumn) -> Codec:
    labels = ("", *wire.labels)
    name = _unique("LABELS", labels)
    return Fixed(wire.meta, "B" if wire.meta == 1 else "H", f"{name}[RAW]", {name: labels})


def _set(wire: WireColumn) -> Codec:
    def members(bits: int) -> str:
        if bits >> len(wire.labels):
            raise ValueError("a SET value with more members than the column has labels")
        return ",".join(label for place, label in enumerate(wire.labels) if bits >> place & 1)

    name = _unique("MEMBERS", wire.labels)
    return Fixed(wire.meta, f"{wire.meta}s", f'{name}[from_bytes(RAW, "little")]', {name: temporal.Texts(members)})


def _unique(prefix: str, labels: tuple[str, ...]) -> str:
    """Two columns with the same labels share one name, others never collide within a table."""
    return f"{prefix}_{zlib.crc32(repr(labels).encode()):08x}_{len(labels)}"


def _prefixed(value: str, names: Mapping[str, Any]) -> Callable[[WireColumn], Codec]:
    return lambda wire: Varying(wire.meta, value, names)


_TABLES: Final = {
    "DATETIME_DAYS": temporal.DATETIME_DAYS,
    "CLOCKS": temporal.CLOCKS,
    "timestamp": temporal.timestamp,
}
_DATE: Final = Fixed(3, "3s", 'DATES[from_bytes(RAW, "little")]', {"DATES": temporal.DATES})
_SIMPLE: Final[Mapping[int, Codec]] = {
    FLOAT: Fixed(4, "f"),
    DOUBLE: Fixed(8, "d"),
    YEAR: Fixed(1, "B", "RAW + 1900 if RAW else 0"),
    DATE: _DATE,
    NEWDATE: _DATE,
    DATETIME: Fixed(8, "Q", "OLD_DATETIMES[RAW]", {"OLD_DATETIMES": temporal.OLD_DATETIMES}),
    TIMESTAMP: Fixed(4, "I", "timestamp(RAW)", {"timestamp": temporal.timestamp}),
    TIME: Fixed(3, "3s", 'OLD_TIMES[from_bytes(RAW, "little")]', {"OLD_TIMES": temporal.OLD_TIMES}),
}
_BUILT: Final[Mapping[int, Callable[[WireColumn], Codec]]] = {
    INT24: _int24,
    NEWDECIMAL: _decimal,
    BIT: _bit,
    DATETIME2: _datetime2,
    TIMESTAMP2: _timestamp2,
    TIME2: _time2,
    ENUM: _enum,
    SET: _set,
    JSON: _prefixed("json_text(RAW)", {"json_text": json_text}),
    GEOMETRY: _prefixed("RAW", {}),
    VECTOR: _prefixed("RAW", {}),
}
