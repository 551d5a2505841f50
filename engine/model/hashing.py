"""Stable hashes: the same in every process and under every PYTHONHASHSEED, which builtin `hash()` is not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from xxhash import xxh3_64_intdigest

from tidelock.engine.model.records import Row, Value
from tidelock.engine.model.schema import Binding

Home: TypeAlias = Callable[[Value], int]  # `Binding.identity` of a row → 64-bit hash of its table and that

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 0xFFFFFFFFFFFFFFFF


def name_hash(name: str) -> int:
    """Returns a 64-bit hash of a table's name."""
    return xxh3_64_intdigest(name.encode())


def key_hash(seed: int, key: Row) -> int:
    """Returns a 64-bit hash of a key's canonical values; `seed` is the table's `name_hash`.

    One integer is the common key, so it is mixed directly (Fibonacci hashing, Knuth, TAOCP 3, 6.4) rather than
    spelled out first.
    """
    if len(key) == 1 and type(key[0]) is int:
        return ((key[0] ^ seed) * _GOLDEN & _MASK) >> 17
    return xxh3_64_intdigest(repr(key).encode("utf-8", "surrogatepass"), seed & _MASK)


def home_of(binding: Binding) -> Home:
    """Returns the `key_hash` of a binding's keys, compiled for the common key of one column."""
    seed = name_hash(str(binding.name))
    if len(binding.key) != 1:
        return partial(key_hash, seed)

    def home(value: Value) -> int:
        return ((value ^ seed) * _GOLDEN & _MASK) >> 17 if type(value) is int else key_hash(seed, (value,))

    return home
