"""A source's log, and a reader that hands it out in pieces cut anywhere: what an adapter promises, on purpose naive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelock.engine.model import log_batch
from tidelock.engine.model.log_batch import SourceChunk, SourceTransaction
from tidelock.engine.model.records import Position, Row, RowChange, Shape
from tidelock.engine.model.schema_change import Ddl

FILE = "log.000001"
RECEIPT = -1  # in place of a table's number: the row that marks a replicated transaction


@dataclass(frozen=True)
class Committed:
    """A transaction of the log.  `images`: (number of the table, before, after), the receipt first.  `place`: its own
    offset, which ends at `end`."""

    source: str
    number: int
    place: int
    end: int
    images: tuple[tuple[int, Row | None, Row | None], ...]
    path: tuple[str, ...] = ()
    ddl: Ddl | None = None


class SourceLog:
    def __init__(self) -> None:
        self.transactions: list[Committed] = []
        self.end = 100

    def commit(
        self,
        source: str,
        images: list[tuple[int, Row | None, Row | None]],
        path: tuple[str, ...] = (),
        ddl: Callable[[str, int], Ddl] | None = None,
        of_sites: tuple[str, ...] = (),
    ) -> Committed:
        """`path`: the nodes it came through, oldest first; empty: it is local.  `of_sites`: what a receipt has besides,
        of a feed that names sites."""
        number = 1 + sum(t.source == source for t in self.transactions)
        marked = ((RECEIPT, None, ("feed", 0, 1, 1, b"", path[0], " ".join(path), *of_sites)),) if path else ()
        place, self.end = self.end, self.end + 100
        made = Committed(
            source, number, place, self.end, (*marked, *images), path, ddl(source, number) if ddl else None
        )
        self.transactions.append(made)
        return made


class Reader:
    """From `place` on.  `selected`: tables whose rows are handed out, by number; all rows count in the ordinals."""

    def __init__(self, log: SourceLog, place: Position, selected: dict[int, Shape]) -> None:
        self._log = log
        self._selected = selected
        self._place = place.offset
        self._taken = place.rows  # ordinals of the transaction at `place`
        self._parted: Committed | None = None  # the transaction of which this reader has handed out a part
        self._announced: dict[int, Shape] = {}

    @property
    def last(self) -> Position:
        return Position(FILE, self._place, self._taken)

    @property
    def more(self) -> bool:
        return self._place < self._log.end

    def read(self, ordinals: int, server_us: int = 0) -> SourceChunk:
        """About so many row images, or one statement."""
        parts: list[SourceTransaction] = []
        shapes: dict[int, Shape] = {}
        while ordinals > 0 and self.more:
            one = next(t for t in self._log.transactions if t.place == self._place)
            if one.ddl is not None:
                if not parts:
                    parts.append(SourceTransaction(one.source, one.number, FILE, one.end, [], ddl=one.ddl))
                    self._place = one.end
                break
            part = self._part(one, ordinals)
            ordinals -= max(part.ordinals, 1)
            if part.rows or part.marks or not part.complete or part.first_ordinal:
                parts.append(part)
            for row in part.rows:
                if row.table not in self._announced:
                    shapes[row.table] = self._announced[row.table] = self._selected[row.table]
        return SourceChunk(parts, self.last, shapes, server_us)

    def _part(self, one: Committed, most: int) -> SourceTransaction:
        first = self._taken
        upto = min(first + most, len(one.images))
        marks = () if self._parted is one else tuple(
            (log_batch.RECEIPT, row) for table, _, row in one.images[:upto] if table == RECEIPT and row is not None
        )  # fmt: skip
        rows = [
            RowChange(table, before, after, ordinal)
            for ordinal, (table, before, after) in enumerate(one.images[:upto])
            if ordinal >= first and table in self._selected
        ]
        complete = upto == len(one.images)
        self._parted, self._taken = one, upto
        if complete:
            self._parted, self._taken, self._place = None, 0, one.end
        return SourceTransaction(
            one.source, one.number, FILE, one.end, rows, first, upto - first, complete, one.end, None, marks
        )
