"""The number of a table's buckets: as few as its size wants, because each is a partition that the metastore moves.

A table begins with few and gets more as it grows, never fewer.  The number is `hive.buckets` halved some times, so each
bucket of a smaller number is divided between whole buckets of a larger one.
"""

from __future__ import annotations

from typing import Final

BYTES: Final = 8 << 20  # of a bucket: it is read and written again sooner than a partition moves


def first(bytes: int, most: int) -> int:
    """Returns the number for a table of so many bytes."""
    return next((count for count in _counts(most) if bytes <= count * BYTES), most)


def grown(now: int, bytes: int, most: int) -> int:
    """Returns the number for a table that has `now` buckets and holds so many bytes."""
    if bytes <= now * BYTES:
        return now
    wanted = first(bytes, most)
    return wanted if wanted > now and wanted % now == 0 else now


def _counts(most: int) -> list[int]:
    counts = [most]
    while counts[-1] % 2 == 0:
        counts.append(counts[-1] // 2)
    return counts[::-1]
