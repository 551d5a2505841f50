"""Stable hashes: the same in every process and under every PYTHONHASHSEED, which builtin `hash()` is not."""

from __future__ import annotations

from xxhash import xxh3_64_intdigest

from engine.records import Row

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 0xFFFFFFFFFFFFFFFF


def name_hash(name: str) -> int:
    return xxh3_64_intdigest(name.encode())


def key_hash(seed: int, key: Row) -> int:
    """64-bit hash of a key's canonical values; `seed` is the table's `name_hash`.

    One integer is the common key, so it is mixed directly (Fibonacci hashing) rather than spelled out first.
    """
    if len(key) == 1 and type(key[0]) is int:
        return ((key[0] ^ seed) * _GOLDEN & _MASK) >> 17
    return xxh3_64_intdigest(repr(key).encode("utf-8", "surrogatepass"), seed & _MASK)
