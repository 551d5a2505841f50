"""GTID sets of both flavours: the transactions that are wholly before a place in the log.

MariaDB: the last sequence number of each replication domain, `0-101-4711,1-102-8`.
MySQL: intervals for each source and tag, `3e11fa47-…:1-5:7:shop:1-3`; the log may hold them out of order.
"""

from __future__ import annotations

import bisect
from typing import Final, Protocol
from uuid import UUID

_MASK64: Final = (1 << 64) - 1


class GtidSet(Protocol):
    """`source` and `number` as in `engine.model.records.Transaction`; `str()` is the server's own spelling."""

    def add(self, source: str, number: int) -> None: ...

    def extend(self, source: str, first: int, last: int) -> None:
        """Adds all transactions from `first` to `last`."""


class NoGtids:
    """The set of a server without GTIDs: always empty."""

    def add(self, source: str, number: int) -> None:
        """Transactions are known by their place in the log alone."""

    def extend(self, source: str, first: int, last: int) -> None:
        """Add transactions that follow each other."""

    def __str__(self) -> str:
        return ""


class MariaDbGtids:
    """A set of MariaDB's GTIDs: the last transaction of each domain, and the server that wrote it."""

    def __init__(self, text: str = "") -> None:
        """Raises ValueError for text that is no list of `domain-server-sequence`."""
        self._last: dict[int, tuple[str, int]] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            domain, server, sequence = part.split("-")
            self.add(f"{int(domain)}-{int(server)}", int(sequence))

    def add(self, source: str, number: int) -> None:
        """Add one transaction."""
        self._last[int(source.partition("-")[0])] = (source, number)

    def extend(self, source: str, first: int, last: int) -> None:
        """Add transactions that follow each other."""
        self.add(source, last)

    def numbers(self) -> dict[int, int]:
        """The last sequence number of each domain."""
        return {domain: number for domain, (_, number) in self._last.items()}

    @property
    def ends(self) -> tuple[tuple[str, int], ...]:
        """The last transaction of each domain, as (source, number)."""
        return tuple(self._last.values())

    def domains(self) -> set[int]:
        """Return the domains that the set has."""
        return set(self._last)

    def __str__(self) -> str:
        return ",".join(f"{source}-{number}" for _, (source, number) in sorted(self._last.items()))


class MySqlGtids:
    """Intervals are half open, sorted and apart: [1, 6) for 1-5."""

    def __init__(self, text: str = "") -> None:
        """Raises ValueError for text that is no MySQL GTID set."""
        self._intervals: dict[str, list[tuple[int, int]]] = {}
        self._texts: dict[str, str] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            source, *rest = part.split(":")
            uuid = str(UUID(source))
            tag = ""
            for item in rest:
                if not item[:1].isdigit():
                    tag = item.strip().lower()
                    continue
                first, _, last = item.partition("-")
                self._insert(f"{uuid}:{tag}" if tag else uuid, int(first), int(last or first) + 1)

    def add(self, source: str, number: int) -> None:
        """Add one transaction."""
        self.extend(source, number, number)

    def extend(self, source: str, first: int, last: int) -> None:
        """Add transactions that follow each other."""
        intervals = self._intervals.get(source)
        if intervals and intervals[-1][1] == first:  # the usual case
            intervals[-1] = (intervals[-1][0], last + 1)
            self._texts[source] = ""
        else:
            self._insert(source, first, last + 1)

    def _insert(self, source: str, first: int, end: int) -> None:
        intervals = self._intervals.setdefault(source, [])
        self._texts[source] = ""
        low = bisect.bisect_left(intervals, first, key=lambda interval: interval[1])
        high = low
        while high < len(intervals) and intervals[high][0] <= end:
            first, end = min(first, intervals[high][0]), max(end, intervals[high][1])
            high += 1
        intervals[low:high] = [(first, end)]

    def __str__(self) -> str:
        uuids: dict[str, list[str]] = {}
        for source in sorted(self._intervals):
            text = self._texts[source]
            if not text:
                text = self._texts[source] = ":".join(
                    str(first) if end == first + 1 else f"{first}-{end - 1}" for first, end in self._intervals[source]
                )
            uuid, _, tag = source.partition(":")
            uuids.setdefault(uuid, []).append(f"{tag}:{text}" if tag else text)
        return ",".join(":".join([uuid, *texts]) for uuid, texts in uuids.items())

    @property
    def runs(self) -> tuple[tuple[str, int, int], ...]:
        """Its runs of transactions, as (source, first, last)."""
        return tuple((of, first, end - 1) for of, runs in self._intervals.items() for first, end in runs)

    def encode(self) -> bytes:
        """Encode the set as COM_BINLOG_DUMP_GTID wants it: the older form where no source has a tag."""
        tagged = any(":" in source for source in self._intervals)
        count = len(self._intervals)
        parts = [(1 | count << 8 | 1 << 56 if tagged else count).to_bytes(8, "little")]
        for source in sorted(self._intervals):
            uuid, _, tag = source.partition(":")
            parts.append(UUID(uuid).bytes)
            if tagged:
                parts.append(bytes([len(tag) << 1]) + tag.encode())
            parts.append(len(self._intervals[source]).to_bytes(8, "little"))
            for first, end in self._intervals[source]:
                parts.append(first.to_bytes(8, "little") + end.to_bytes(8, "little"))
        return b"".join(parts)

    @classmethod
    def decode(cls, raw: bytes) -> MySqlGtids:
        """The body of a PREVIOUS_GTIDS event, of either form."""
        header = int.from_bytes(raw[:8], "little")
        tagged = header >> 56 == 1
        count = header >> 8 & (1 << 48) - 1 if tagged else header & _MASK64 >> 8
        gtids, at = cls(), 8
        for _ in range(count):
            source = str(UUID(bytes=raw[at : at + 16]))
            at += 16
            if tagged:
                length = raw[at] >> 1
                tag = raw[at + 1 : at + 1 + length].decode()
                source = f"{source}:{tag}" if tag else source
                at += 1 + length
            intervals = int.from_bytes(raw[at : at + 8], "little")
            at += 8
            for _ in range(intervals):
                first = int.from_bytes(raw[at : at + 8], "little")
                end = int.from_bytes(raw[at + 8 : at + 16], "little")
                gtids._insert(source, first, end)
                at += 16
        return gtids
