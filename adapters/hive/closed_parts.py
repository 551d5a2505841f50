"""Parts of a history that hold the versions which ended on a day.

The first part of a day is named after it, `2026-11-25`; more that ended on it are a part of their own,
`2026-11-25.000000001` and so on.  A part is written again only together with as much
as it holds itself, so that a day of many merges costs each version a few writes, and has a few parts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelock.adapters.hive.manifest import Stored

SMALL_BYTES: Final = 512 << 10  # reading so little again costs less than one part more
GROWTH: Final = 4
_PACKED: Final = 4  # bytes in memory for one in a file, about
_UNKNOWN: Final = 1 << 40


class Plan(NamedTuple):
    """`part`: what is to be written.  `absorbed`: parts whose rows it takes in."""

    part: str
    absorbed: tuple[str, ...]


def plan(stored: Stored, day: str, bytes: int) -> Plan:
    """Plans where versions go that ended on a day; `bytes`: in memory, about."""
    there = parts_of(stored, day)
    held, absorbed = bytes // _PACKED, list[str]()
    while there:
        size = stored.sizes.get(there[-1], _UNKNOWN)
        if size > max(SMALL_BYTES, GROWTH * held):
            break
        held += size
        absorbed.append(there.pop())
    if absorbed:
        return Plan(absorbed[-1], tuple(absorbed))
    return Plan(f"{day}.{_next(there):09}" if there else day, ())


def parts_of(stored: Stored, day: str) -> list[str]:
    """Returns a day's parts, the oldest first."""
    return sorted(part for part in stored.parts if part.partition(".")[0] == day)


def _next(there: list[str]) -> int:
    return int(there[-1].partition(".")[2] or 0) + 1
