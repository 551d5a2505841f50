"""Compares tables of few rows without Spark: this process asks both servers the same questions.

For twenty rows Spark costs a Java machine, which compiles a dozen programs before it reads the first of them: ten
seconds of processor time, and minutes where others want the processors too.  Here the answers are read as they come.
One digest of each row is held at each end, and complete rows only of the buckets in question.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeAlias, TypeVar

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.spark.comparable_values import normal
from tidelock.adapters.spark.jdbc import MYSQL_START, POSTGRES_START
from tidelock.adapters.verify.digest_passes import SOURCE, TARGET, AskedRows, Bucket, FoundRow, Sums
from tidelock.adapters.verify.plan import Cut, ReadingPlan
from tidelock.adapters.verify.queries import digest_query, keyed_queries, rows_query
from tidelock.adapters.verify.recheck import Image
from tidelock.adapters.verify.table_pairs import Side
from tidelock.adapters.wiring.session import RowStream, streaming

RowDigest: TypeAlias = tuple[Any, ...]
Answer = TypeVar("Answer")


class SmallRow(NamedTuple):
    """A row and its bucket."""

    bucket: int
    image: Image


class Kept(list[SmallRow]):
    """Rows of the source as they were."""

    def unpersist(self) -> None:
        """Drops the rows."""
        self.clear()


class Small:
    """A reader of small tables, as a context manager; it does what `adapters.verify.digest_passes.Passes` does, for
    cuts that are `small`.

    Raises SourceError, TargetError.
    """

    def __init__(self, plan: ReadingPlan) -> None:
        self._places: Final = {SOURCE: plan.source.endpoint, TARGET: plan.target.endpoint}
        self._readers: dict[int, RowStream] = {}

    def __enter__(self) -> Self:
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._stack.aclose())
        self._runner.close()

    def sums(self, cut: Cut) -> Sums:
        """Returns the sums of a table."""
        ours, theirs = (self._digests(cut, side) for side in (SOURCE, TARGET))
        differ = [n for n in ours.keys() | theirs.keys() if ours.get(n) != theirs.get(n)]
        return Sums(_total(ours), _total(theirs), sorted(differ))

    def _digests(self, cut: Cut, side: int) -> dict[int, Counter[RowDigest]]:
        """Returns by bucket each row's text with its numbers, and how often it occurs."""
        found: dict[int, Counter[RowDigest]] = {}
        for at in _sides(cut, side):
            doubles = sum(cell.form == "double" for cell in at.cells)

            def digest(answer: tuple[Any, ...], doubles: int = doubles) -> tuple[int, RowDigest]:
                # A text longer than the server's packet is NULL: then the row is looked at value by value.
                text = answer[1] if answer[1] is not None else ("too long", side)
                return _bucket(cut, answer[0]), (text, *map(_double, answer[2 : 2 + doubles]))

            for bucket, row in self._read(side, digest_query(at, cut.pair, cut.buckets), digest):
                found.setdefault(bucket, Counter())[row] += 1
        return found

    def source_rows(self, cut: Cut, asked: AskedRows) -> Kept:
        """Returns these rows as they are now."""
        return Kept(self._rows(cut, SOURCE, asked))

    def buckets(self, cut: Cut, source: Kept, asked: AskedRows) -> Iterator[Bucket]:
        """Yields these rows beside those of the target, read now."""
        target = self._rows(cut, TARGET, asked)
        buckets: dict[int, Bucket] = {}
        for rows, name in ((source, "source"), (target, "target")):
            for n, row in enumerate(rows):
                bucket = buckets.setdefault(row.bucket, Bucket(row.bucket, [], []))
                getattr(bucket, name).append(FoundRow(row.image, (n + 0.5) / len(rows)))
        for number in sorted(buckets):
            yield buckets[number]

    def _rows(self, cut: Cut, side: int, asked: AskedRows) -> list[SmallRow]:
        normals = [normal(form) for form in cut.pair.forms]
        wanted = None if asked.keys else frozenset(asked.buckets)
        doubles = [form == "double" for form in cut.pair.forms]

        def row(answer: tuple[Any, ...]) -> SmallRow | None:
            bucket = _bucket(cut, answer[0])
            if wanted is not None and bucket not in wanted:
                return None
            values = zip(normals, doubles, answer[1:], strict=False)
            image = tuple(read(float(v) if double and v is not None else v) for read, double, v in values)
            return SmallRow(bucket, image)

        rows: list[SmallRow] = []
        for at in _sides(cut, side):
            if asked.keys:
                queries = keyed_queries(at, cut.pair, cut.buckets, asked.keys)
            else:
                queries = [rows_query(at, cut.pair, cut.buckets)]
            found = [one for query in queries for one in self._read(side, query, row) if one is not None]
            # A server may take two keys for one.
            rows += dict.fromkeys(found) if len(queries) > 1 else found
        return rows

    def _read(self, side: int, sql: str, take: Callable[[tuple[Any, ...]], Answer]) -> list[Answer]:
        async def read() -> list[Answer]:
            if side not in self._readers:
                self._readers[side] = await self._stack.enter_async_context(_opened(self._places[side]))
            return [take(tuple(map(_text, answer))) async for answer in self._readers[side](sql)]

        return self._runner.run(read())


def _opened(place: Endpoint) -> AbstractAsyncContextManager[RowStream]:
    """Opens a session with the settings that Spark's sessions have."""
    start = POSTGRES_START if place.dialect == "postgres" else f"SET SESSION {MYSQL_START}"
    return streaming(place, start)


def _sides(cut: Cut, side: int) -> Sequence[Side]:
    return cut.pair.sources if side == SOURCE else (cut.pair.target,)


def _total(rows: dict[int, Counter[RowDigest]]) -> int:
    return sum(counter.total() for counter in rows.values())


def _bucket(cut: Cut, key: Any) -> int:
    if cut.pair.integer:
        return int(key)
    return zlib.crc32(str(key).encode("utf-8", "surrogateescape")) % cut.buckets


def _text(value: Any) -> Any:
    """Decodes bytes: MySQL answers with bytes where it takes a text for a binary one."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _double(value: Any) -> Any:
    """Normalises a double: `-0.0` is `0.0`; NaN equals itself."""
    if value is None:
        return None
    number = float(value)
    return "NaN" if number != number else number + 0.0
