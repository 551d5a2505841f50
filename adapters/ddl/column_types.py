"""Column types in MySQL's and MariaDB's DDL."""

from __future__ import annotations

from tidelock.adapters.ddl.lexer import NotPlain, Reader
from tidelock.engine.model.records import Column, Kind

_INTEGERS = {
    "TINYINT": 1, "INT1": 1, "BOOL": 1, "BOOLEAN": 1, "SMALLINT": 2, "INT2": 2, "MEDIUMINT": 3, "INT3": 3,
    "MIDDLEINT": 3, "INT": 4, "INTEGER": 4, "INT4": 4, "BIGINT": 8, "INT8": 8,
}  # fmt: skip
_SPELLED = {1: "tinyint", 2: "smallint", 3: "mediumint", 4: "int", 8: "bigint"}
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC", "FIXED")
_TEXTS = ("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT")
_BLOBS = ("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB")
_TIMES = {"DATETIME": Kind.DATETIME, "TIMESTAMP": Kind.TIMESTAMP, "TIME": Kind.TIME}
_FLOATS = ("FLOAT", "FLOAT4", "FLOAT8", "DOUBLE", "REAL")
_CHARACTERS = ("CHAR", "CHARACTER", "VARCHAR", "VARCHARACTER", "NCHAR", "NVARCHAR")
_GEOMETRIES = {
    "GEOMETRY": "geometry", "POINT": "point", "LINESTRING": "linestring", "POLYGON": "polygon",
    "MULTIPOINT": "multipoint", "MULTILINESTRING": "multilinestring", "MULTIPOLYGON": "multipolygon",
    "GEOMETRYCOLLECTION": "geometrycollection", "GEOMCOLLECTION": "geometrycollection",
}  # fmt: skip
_FLOAT_BITS = 24
_PLAIN = {"DATE": Kind.DATE, "YEAR": Kind.YEAR, "UUID": Kind.UUID, "INET4": Kind.INET4, "INET6": Kind.INET6}


def column_type(reader: Reader, name: str, word: str) -> tuple[Column, str]:
    """Reads a column and its type, as COLUMN_TYPE would spell it."""
    if word in _INTEGERS:
        _bounds(reader, 1)
        unsigned = _unsigned(reader)
        size = _INTEGERS[word]
        return Column(name, Kind.INT, unsigned, size), _SPELLED[size] + (" unsigned" if unsigned else "")
    if word in _DECIMALS:
        precision, scale = (*_bounds(reader, 2), 0, 0)[:2]
        precision = precision or 10
        unsigned = _unsigned(reader)
        spelled = f"decimal({precision},{scale})" + (" unsigned" if unsigned else "")
        return Column(name, Kind.DECIMAL, unsigned, precision=precision, scale=scale), spelled
    if word in _FLOATS:
        return _float(reader, name, word)
    if word in _CHARACTERS or word == "NATIONAL":
        return _characters(reader, name, word)
    if word in ("BINARY", "VARBINARY"):
        length = (*_bounds(reader, 1), 1)[0]
        return Column(name, Kind.BINARY, length=length), f"{word.lower()}({length})"
    if word == "BIT":
        length = (*_bounds(reader, 1), 1)[0]
        return Column(name, Kind.BIT, length=length), f"bit({length})"
    if word in ("ENUM", "SET"):
        labels = _labels(reader)
        spelled = ",".join("'" + label.replace("'", "''") + "'" for label in labels)
        return Column(name, Kind(word.lower()), labels=labels), f"{word.lower()}({spelled})"
    if word in _TIMES:
        scale = (*_bounds(reader, 1), 0)[0]
        return Column(name, _TIMES[word], scale=scale), word.lower() + (f"({scale})" if scale else "")
    if word in _GEOMETRIES:
        return Column(name, Kind.GEOMETRY), _GEOMETRIES[word]
    if word in _TEXTS or word in _BLOBS or word == "LONG":
        return _long(reader, name, word)
    if word == "VECTOR":
        _bounds(reader, 1)
        return Column(name, Kind.VECTOR), "longblob"
    return _unbounded(reader, name, word), word.lower()


def _float(reader: Reader, name: str, word: str) -> tuple[Column, str]:
    """Reads the rest of a floating type.  A target need not round again to the digits that it has."""
    kind = Kind.FLOAT if word.startswith("FLOAT") and word != "FLOAT8" else Kind.DOUBLE
    if word == "DOUBLE":
        reader.take("PRECISION")
    bounds = _bounds(reader, 2)
    if word == "FLOAT" and len(bounds) == 1 and bounds[0] > _FLOAT_BITS:
        kind = Kind.DOUBLE
    unsigned = _unsigned(reader)
    precision, scale = bounds if len(bounds) > 1 else (0, 0)
    spelled = kind.value + (" unsigned" if unsigned else "")
    return Column(name, kind, unsigned, precision=precision, scale=scale), spelled


def _characters(reader: Reader, name: str, word: str) -> tuple[Column, str]:
    """Reads the rest of a type of texts with a length."""
    national = word in ("NATIONAL", "NCHAR", "NVARCHAR")
    if word == "NATIONAL":
        word = reader.next().upper
        if word not in ("CHAR", "CHARACTER", "VARCHAR", "VARCHARACTER"):
            raise NotPlain(f"NATIONAL {word}")
    varying = reader.take("VARYING") or "VAR" in word
    length = (*_bounds(reader, 1), 1)[0]
    if reader.peek() in ("BYTE", "ASCII", "UNICODE"):
        raise NotPlain(f"{word} {reader.peek()}")
    column = Column(name, Kind.TEXT, length=length, charset="utf8mb3" if national else "")
    return column, f"{'varchar' if varying else 'char'}({length})"


def _long(reader: Reader, name: str, word: str) -> tuple[Column, str]:
    """Reads the rest of a type of long texts or bytes; with a length it is the smallest that holds so many."""
    if word == "LONG":
        is_bytes = reader.take("VARBINARY")
        if not is_bytes and (reader.take("VARCHAR") or reader.take("CHAR") or reader.take("CHARACTER")):
            reader.take("VARYING")
        return Column(name, Kind.BINARY if is_bytes else Kind.TEXT), "mediumblob" if is_bytes else "mediumtext"
    kind = Kind.BINARY if word in _BLOBS else Kind.TEXT
    if word in ("TEXT", "BLOB") and _bounds(reader, 1):
        return Column(name, kind), f"long{word.lower()}"
    if reader.peek() == "(":
        raise NotPlain(f"{word} with a length")
    return Column(name, kind), word.lower()


def _unbounded(reader: Reader, name: str, word: str) -> Column:
    if word == "YEAR":
        _bounds(reader, 1)
    if reader.peek() == "(":
        raise NotPlain(f"{word} with a length")
    if word in _PLAIN:
        return Column(name, _PLAIN[word])
    if word == "JSON":
        return Column(name, Kind.JSON)
    raise NotPlain(f"type {word}")


def _bounds(reader: Reader, most: int) -> tuple[int, ...]:
    if not reader.take("("):
        return ()
    numbers = [reader.number()]
    while reader.take(","):
        numbers.append(reader.number())
    reader.expect(")")
    if len(numbers) > most:
        raise NotPlain("too many numbers")
    return tuple(numbers)


def _unsigned(reader: Reader) -> bool:
    unsigned = False
    while True:
        if reader.take("UNSIGNED") or reader.take("ZEROFILL"):
            unsigned = True
        elif not reader.take("SIGNED"):
            return unsigned


def _labels(reader: Reader) -> tuple[str, ...]:
    reader.expect("(")
    labels = [reader.string().rstrip(" ")]
    while reader.take(","):
        labels.append(reader.string().rstrip(" "))
    reader.expect(")")
    return tuple(labels)
