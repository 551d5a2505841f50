"""Finds columns in which two sites would give the same numbers: AUTO_INCREMENT at MySQL and MariaDB, sequences at
PostgreSQL.

Sites that give numbers with the same step, at least as many as there are sites, and each from another first number,
never give the same one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from tidelock.adapters.config.pair import Pair, PairFeed
from tidelock.adapters.ports.finding import Finding, warning
from tidelock.adapters.wiring.session import TargetSession, session
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.model.records import TableName

_COUNTED = """
SELECT table_schema, table_name, column_name, @@GLOBAL.auto_increment_increment, @@GLOBAL.auto_increment_offset
FROM information_schema.columns WHERE extra LIKE '%auto_increment%'"""
_OWNED = """
SELECT n.nspname::text, c.relname::text, a.attname::text, q.seqincrement, q.seqstart
FROM pg_depend d
JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S' JOIN pg_sequence q ON q.seqrelid = s.oid
JOIN pg_class c ON c.oid = d.refobjid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid
WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')"""


class Numbers(msgspec.Struct, frozen=True):
    """The numbers that a site gives in a column: `first`, `first + step`, …"""

    column: str
    step: int
    first: int

    def meets(self, other: Numbers) -> bool:
        """Tells whether some number is among both."""
        return (self.first - other.first) % math.gcd(self.step, other.step) == 0

    def __str__(self) -> str:
        return f"every {self.step}. number from {self.first} on"


Given = Mapping[TableName, Numbers]


async def check_numbers(pair: Pair, feeds: Sequence[PairFeed]) -> list[Finding]:
    """Lists columns in which two sites of these feeds may give the same numbers.  Raises TargetError."""
    given = {one.ends[0]: await _given(one) for one in feeds if one.edge.two_way}
    sites = list(given)
    findings = list[Finding]()
    for number, site in enumerate(sites):
        for other in sites[number + 1 :]:
            way = pair.way(site, other)
            for table, numbers in given[site].items():
                there = given[other].get(way.feed.target_name(table) if way is not None else table)
                if there is not None and numbers.meets(there):
                    findings.append(_same(table, (site, numbers), (other, there), len(pair.tree.sites)))
    return findings


def _same(table: TableName, one: tuple[str, Numbers], other: tuple[str, Numbers], sites: int) -> Finding:
    return warning(
        "same-numbers",
        f"{one[0]} and {other[0]} give the same numbers in {table}.{one[1].column}: {one[1]} at {one[0]}, "
        f"{other[1]} at {other[0]}",
        f"Give each site its own: at MySQL and MariaDB auto_increment_increment={max(sites, 2)} and another "
        "auto_increment_offset each (in the configuration file); at PostgreSQL ALTER SEQUENCE … INCREMENT BY "
        f"{max(sites, 2)} START WITH … RESTART WITH …; or keys that no two sites make, as UUIDs",
    )


async def _given(one: PairFeed) -> dict[TableName, Numbers]:
    """Returns the numbers that the source of a feed gives in the feed's tables."""
    patterns = [Pattern.of(rule.source) for rule in one.feed.tables]
    async with session(one.feed.source_url) as source:
        rows = await source.fetch(_OWNED if source.dialect == "postgres" else _COUNTED)
        return {
            name: Numbers(str(column), abs(int(step)), _first(source, int(step), int(first)))
            for name, column, step, first in ((TableName(str(r[0]), str(r[1])), *r[2:]) for r in rows)
            if any(pattern.matches(name) for pattern in patterns)
        }


def _first(source: TargetSession, step: int, first: int) -> int:
    """Returns the first number: MySQL takes no notice of an offset above the step."""
    return first if source.dialect == "postgres" or first <= step else 1
