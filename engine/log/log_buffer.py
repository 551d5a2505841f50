"""The buffer between the log's arrival and its planning, and how much of it makes a window.

A window is a stretch of whole batches, of no more rows than it may have unless one batch alone has more, and never
goes over a statement.  With `consistency: transaction` it ends where no transaction is open, however long that is, and
does not begin one whose end has not arrived.  One whose end does not fit is taken piece by piece (`streaming`).
"""

from __future__ import annotations

from collections import deque

from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.schema_change import Ddl

_FADES = 3 / 4
"""So much of what came before a message still counts with it in the size of a row."""


class LogBuffer:
    """Holds batches that are taken and not planned.

    `rows`: how many wait.  `row_bytes`: how large one was lately.
    `atomic`: with `consistency: transaction`.  `open`: the last piece that was taken ends inside a transaction.
    """

    def __init__(self, *, atomic: bool) -> None:
        self.rows = 0
        self.row_bytes = 0.0
        self.open = False
        self._lately = (0.0, 0.0)  # bytes and rows
        self._atomic = atomic
        self._batches: deque[LogBatch] = deque()

    def __bool__(self) -> bool:
        return bool(self._batches)

    def put(self, batch: LogBatch) -> None:
        """Add a batch at the end."""
        self._batches.append(batch)
        self.rows += len(batch.rows)

    def observe_size(self, size: int, rows: int) -> None:
        """Note that so many rows came in so many bytes (0: it is not known)."""
        if size and rows:
            self._lately = self._lately[0] * _FADES + size, self._lately[1] * _FADES + rows
            self.row_bytes = self._lately[0] / self._lately[1]

    @property
    def ddl(self) -> Ddl | None:
        """Statement that comes next, if one does."""
        return self._batches[0].ddl if self._batches else None

    def statement(self) -> LogBatch:
        """Take the batch of the statement that comes next."""
        return self._batches.popleft()

    @property
    def has_complete_transaction(self) -> bool:
        """Tells whether it begins with batches that end at a commit."""
        open_ = False
        for batch in self._batches:
            open_ = _left_open(batch, open_)
            if not open_:
                return True
        return False

    def window(self, limit: int) -> list[LogBatch]:
        """Take the batches of the next window, of about `limit` rows; none is a statement."""
        taken: list[LogBatch] = []
        rows = 0
        open_ = False  # atomic mode: the window would end inside a transaction
        while self._batches and self._batches[0].ddl is None:
            batch = self._batches[0]
            if rows and not open_ and rows + len(batch.rows) > limit:
                break
            if self._atomic and taken and not open_ and not self.has_complete_transaction:
                break
            taken.append(self._batches.popleft())
            rows += len(batch.rows)
            open_ = self._atomic and _left_open(batch, open_)
        self.rows -= rows
        return taken

    def piece(self, limit: int) -> list[LogBatch]:
        """Take the batches of the next piece of a transaction, of about `limit` rows, up to where no transaction is
        open, or to a statement."""
        taken: list[LogBatch] = []
        rows = 0
        while self._batches and self._batches[0].ddl is None and rows < limit:
            batch = self._batches.popleft()
            taken.append(batch)
            rows += len(batch.rows)
            self.rows -= len(batch.rows)
            self.open = _left_open(batch, self.open)
            if not self.open:
                break
        if self.ddl is not None:
            self.open = False
        return taken


def _left_open(batch: LogBatch, before: bool) -> bool:
    """Tells whether a transaction is open after the batch.  `before`: whether one was before it."""
    return not batch.transactions[-1].complete if batch.transactions else before
