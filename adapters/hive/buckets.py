"""The bucket of a key, reckoned here as Spark reckons it (`adapters.hive.merging.bucket_of`): a hash of the key's text.

A key with a column whose text Spark and Python may spell differently (floats, long fractions) is left to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import xxhash

SEED: Final = 42
_WORD: Final = (1 << 64) - 1
_SIGN: Final = 1 << 63
_PLAIN_SCALE: Final = 6  # Java writes smaller fractions as powers of ten
_DECIMAL: Final = re.compile(r"decimal\(\d+,(\d+)\)")


def spelling(type: str) -> Callable[[Any], bytes] | None:
    """Returns the function that spells a key's value as Spark casts it to text; None: that is left to Spark."""
    match type:
        case "tinyint" | "smallint" | "int" | "bigint":
            return lambda value: b"%d" % value
        case "boolean":
            return lambda value: b"true" if value else b"false"
        case "string":
            return lambda value: str(value).encode()
        case "binary":
            return bytes
        case "date":
            return lambda value: str(value.isoformat()).encode()
        case "timestamp":
            return _moment
        case _:
            found = _DECIMAL.fullmatch(type)
            return _fraction(int(found[1])) if found and int(found[1]) <= _PLAIN_SCALE else None


def spellings(columns: Sequence[tuple[str, str]], key: Sequence[str]) -> list[Callable[[Any], bytes]] | None:
    """Returns `spelling` for each column of the key; None where one is left to Spark."""
    types = dict(columns)
    found = [spelling(types[name]) for name in key]
    known = [how for how in found if how is not None]
    return known if len(known) == len(found) else None


def bucket(key: Sequence[Any], spelled: Sequence[Callable[[Any], bytes]], buckets: int) -> int:
    """Returns the bucket of a key's values."""
    digest = SEED
    for value, spell in zip(key, spelled, strict=True):
        digest = xxhash.xxh64_intdigest(spell(value), digest)
    return (digest - (_WORD + 1) if digest >= _SIGN else digest) % buckets


def _fraction(scale: int) -> Callable[[Any], bytes]:
    """Spells all digits that the type has, whatever number of them the value has."""
    return lambda value: f"{value:.{scale}f}".encode()


def _moment(value: Any) -> bytes:
    text = value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    return str(text).rstrip("0").rstrip(".").encode()
