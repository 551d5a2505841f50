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
_PLAIN = {"DATE": Kind.DATE, "YEAR": Kind.YEAR, "UUID": Kind.UUID, "INET4": Kind.INET4, "INET6": Kind.INET6}


def column_type(reader: Reader, name: str, word: str) -> tuple[Column, str]:
    """Reads a column and its type, as COLUMN_TYPE would spell it."""
    if word == "NATIONAL" or word == "LONG":
        raise NotPlain(word)
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
    if word in ("FLOAT", "DOUBLE"):
        if word == "DOUBLE":
            reader.take("PRECISION")
        if reader.peek() == "(":
            raise NotPlain(f"{word} with a precision")
        unsigned = _unsigned(reader)
        return Column(name, Kind(word.lower()), unsigned), word.lower() + (" unsigned" if unsigned else "")
    if word in ("CHAR", "CHARACTER", "VARCHAR"):
        varying = reader.take("VARYING") or word == "VARCHAR"
        length = (*_bounds(reader, 1), 1)[0]
        return Column(name, Kind.TEXT, length=length), f"{'varchar' if varying else 'char'}({length})"
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
    return _unbounded(reader, name, word), word.lower()


def _unbounded(reader: Reader, name: str, word: str) -> Column:
    if word == "YEAR":
        _bounds(reader, 1)
    if reader.peek() == "(":
        raise NotPlain(f"{word} with a length")
    if word in _TEXTS:
        return Column(name, Kind.TEXT)
    if word in _BLOBS:
        return Column(name, Kind.BINARY)
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
