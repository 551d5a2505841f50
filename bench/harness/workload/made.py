"""Rows that a server makes itself, in its own SQL, so that millions take seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench.harness.session import Flavor

_AT_ONCE: Final = 250_000


def inserts(flavor: Flavor, table: str, values: str, count: int) -> Iterator[str]:
    """Statements that insert a row of `values` (SQL over the number `s`) for each number from 1 to `count`."""
    for low in range(1, count + 1, _AT_ONCE):
        yield _insert(flavor, table, values, low, min(low + _AT_ONCE - 1, count))


def _insert(flavor: Flavor, table: str, values: str, low: int, high: int) -> str:
    if flavor is Flavor.MARIADB:
        return f"INSERT INTO {table} SELECT {values} FROM (SELECT seq AS s FROM seq_{low}_to_{high}) g"
    if flavor is Flavor.POSTGRES:
        return f"INSERT INTO {table} SELECT {values} FROM generate_series({low}, {high}) AS g(s)"
    numbers = f"WITH RECURSIVE g(s) AS (SELECT {low} UNION ALL SELECT s + 1 FROM g WHERE s < {high})"
    deep = f"SET SESSION cte_max_recursion_depth = {_AT_ONCE + 1}"
    return f"{deep}; INSERT INTO {table} {numbers} SELECT {values} FROM g"
