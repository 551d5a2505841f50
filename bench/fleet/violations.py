"""Statements that failed on a unique key at a fleet's targets, without those by which a row came back into its filter.

A row that no longer belongs to a narrower filter stays at the target.  One that comes back is inserted, finds its
former self by its key, and is written over (`engine.model.options`): the insert that failed is no fault.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

_INSERT: Final = re.compile(r"INSERT INTO `(\w+)` ?\. ?`", re.IGNORECASE)
_BY_KEY: Final = ("for key 'PRIMARY'", '_pkey"')
_OF_MYSQL: Final = re.compile(r"(\d+) \d{4}-\d\d-\d\d ")


def unexplained(count: int, told: Sequence[str], narrowed: Collection[str]) -> tuple[int, list[str]]:
    """Returns how many of a server's failures nothing explains, and what it tells of them.

    `count`: all of them.  `told`: `Database.failed_on_unique_keys`.  `narrowed`: the schemas of feeds there whose
    filters became narrower.  MySQL tells how often statements of a shape failed; PostgreSQL names no schema.
    """
    lines = [line for line in told if " 23505 " not in line or " 23505 ERROR:" in line]
    rest = [line for line in lines if not _comes_back(line, narrowed)]
    explained = sum(int(found[1]) if (found := _OF_MYSQL.match(line)) else 1 for line in lines if line not in rest)
    return max(0, count - explained), rest if count > explained else []


def _comes_back(line: str, narrowed: Collection[str]) -> bool:
    if " 23505 ERROR:" in line:
        return bool(narrowed) and any(key in line for key in _BY_KEY)
    inserted = _INSERT.search(line)
    by_key = _OF_MYSQL.match(line) is not None or any(key in line for key in _BY_KEY)
    return by_key and inserted is not None and inserted[1] in narrowed
