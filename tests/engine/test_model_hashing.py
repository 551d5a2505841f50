import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.world import bind, table
from tidelock.engine.model.hashing import home_of, key_hash, name_hash

VALUES = st.one_of(st.integers(), st.text(max_size=5), st.binary(max_size=5), st.floats(), st.none(), st.booleans())
KEYS = [["a"], ["b"], ["a", "b"], ["b", "a"], []]


@pytest.mark.parametrize("key", KEYS, ids=repr)
@given(row=st.tuples(VALUES, VALUES))
def test_a_rows_home_is_the_hash_of_its_table_and_key(key: list, row: tuple) -> None:
    binding = bind(table("t", ["a", "b"], key))
    assert home_of(binding)(binding.identity(row)) == key_hash(name_hash("shop.t"), binding.key_of(row))


@given(st.integers(), st.integers(0, 2**64 - 1))
def test_hashes_fit_64_bits(value: int, seed: int) -> None:
    assert 0 <= key_hash(seed, (value,)) < 2**64
    assert 0 <= key_hash(seed, (value, value)) < 2**64


@pytest.mark.parametrize("lanes", [2, 3, 8, 16])
@pytest.mark.parametrize("stride", [1, 2, 8, 1000])
def test_keys_spread_over_lanes(lanes: int, stride: int) -> None:
    home = home_of(bind(table("account", ["id"], ["id"])))
    counts = [0] * lanes
    for n in range(0, 8000 * stride, stride):
        counts[home(n) % lanes] += 1
    assert min(counts) > 0.8 * 8000 / lanes and max(counts) < 1.2 * 8000 / lanes


@pytest.mark.parametrize("spell", [int, str], ids=["numbers", "text"])
def test_tables_part_equal_keys(spell: type) -> None:
    homes = [home_of(bind(table(name, ["id"], ["id"]))) for name in ("account", "payment")]
    assert sum(homes[0](spell(n)) % 8 == homes[1](spell(n)) % 8 for n in range(4000)) < 4000 / 4


def test_a_lone_surrogate_has_a_home_too() -> None:
    assert key_hash(1, ("\udcff",)) != key_hash(1, ("\udcfe",))


def test_the_same_in_every_process() -> None:
    """Written down: a stored plan, a journal or another worker must agree, under any PYTHONHASHSEED."""
    script = (
        "from tidelock.engine.model.hashing import *\n"
        "print(name_hash('shop.t'), key_hash(7, (42,)), key_hash(7, ('a', b'b', 1.5)))"
    )
    root = Path(__file__).parents[2]
    told = {
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True, check=True, text=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert told == {f"{name_hash('shop.t')} {key_hash(7, (42,))} {key_hash(7, ('a', b'b', 1.5))}\n"}
    assert key_hash(7, (42,)) == ((42 ^ 7) * 0x9E3779B97F4A7C15 % 2**64) // 2**17
