"""Layouts of the tables whose rows can be row images (`row_image`).

A column that may turn out to be unreadable only when somebody asks for its value (JSON, compressed columns, the times
of old servers) has no code: the place for such an error is the reader, which knows where in the log it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tidelock.adapters.mysql.binlog import codecs, temporal
from tidelock.adapters.mysql.binlog.codecs import WireColumn
from tidelock.adapters.mysql.binlog.decimals import decimal_size
from tidelock.adapters.mysql.binlog.table_map import is_possible
from tidelock.adapters.mysql.charsets import is_utf8, lenient_decoder
from tidelock.adapters.row_image import images
from tidelock.engine.model.records import Kind

Columns: TypeAlias = Sequence[tuple[WireColumn, Kind | None]]
"""As `codecs.codec` takes them: what the log says, and what the server says beyond that."""
Coded: TypeAlias = tuple[str, int, int, int, Any]

_SECONDS = {codecs.DATETIME2: ("datetime", 5), codecs.TIMESTAMP2: ("timestamp", 4), codecs.TIME2: ("time", 3)}
_PLAIN = {
    codecs.FLOAT: ("float", 4),
    codecs.DOUBLE: ("double", 8),
    codecs.YEAR: ("year", 1),
    codecs.DATE: ("date", 3),
    codecs.NEWDATE: ("date", 3),
}


def layout(number: int, columns: Columns) -> images.Layout | None:
    """The layout of a table's rows; None where rows have to be tuples."""
    if not images.CODES:
        return None
    coded = [_coded(wire, kind) if is_possible(wire) else None for wire, kind in columns]
    if not coded or any(one is None for one in coded):
        return None
    return images.Layout(number, [(images.CODES[one[0]], *one[1:]) for one in coded if one is not None])


def _coded(wire: WireColumn, kind: Kind | None) -> Coded | None:
    type_ = wire.type
    if type_ in codecs.INTEGERS or type_ == codecs.INT24:
        size = codecs.INTEGERS[type_][0] if type_ in codecs.INTEGERS else 3
        return ("unsigned" if wire.unsigned else "signed", size, 0, 0, None)
    if type_ in _PLAIN:
        code, size = _PLAIN[type_]
        return (code, size, 0, 0, None)
    if type_ in _SECONDS:
        code, size = _SECONDS[type_]
        return (code, size + (wire.meta + 1) // 2, wire.meta, 0, None)
    match type_:
        case codecs.NEWDECIMAL:
            precision, scale = wire.meta >> 8, wire.meta & 255
            return ("decimal", decimal_size(precision, scale), precision, scale, None)
        case codecs.BIT:
            return ("bit", (wire.meta + 7) // 8, 0, 0, None)
        case codecs.ENUM:
            return ("enum", wire.meta, 0, 0, ("", *wire.labels))
        case codecs.SET:
            return ("set", wire.meta, len(wire.labels), 0, temporal.Texts(lambda bits: _members(bits, wire.labels)))
        case codecs.GEOMETRY | codecs.VECTOR:
            return ("bytes", wire.meta, 0, 0, None)
        case codecs.STRING | codecs.VAR_STRING | codecs.VARCHAR:
            return _string(wire, kind)
        case codecs.BLOB | codecs.TINY_BLOB | codecs.MEDIUM_BLOB | codecs.LONG_BLOB:
            return _text(wire.meta, wire)
    return None


def _string(wire: WireColumn, kind: Kind | None) -> Coded | None:
    prefix = 2 if wire.meta > 255 else 1
    if wire.charset:
        return _text(prefix, wire)
    if wire.type != codecs.STRING:
        return ("bytes", prefix, 0, 0, None)
    return None if kind is not None else ("padded", prefix, wire.meta, 0, None)


def _text(prefix: int, wire: WireColumn) -> Coded:
    if not wire.charset:
        return ("bytes", prefix, 0, 0, None)
    if is_utf8(wire.charset):
        return ("text", prefix, 0, 0, None)
    return ("coded", prefix, 0, 0, lenient_decoder(wire.charset))


def _members(bits: int, labels: Sequence[str]) -> str:
    return ",".join(label for place, label in enumerate(labels) if bits >> place & 1)
