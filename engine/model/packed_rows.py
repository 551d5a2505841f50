"""Protocols of a batch's rows as they came: bytes side by side, made into objects only when they are wanted.

`engine.model.log_batch.LogBatch.rows` may be such rows; `adapters.row_image` makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from tidelock.engine.model.records import RowChange, Transaction

Made = TypeVar("Made")


class Pile(Protocol):
    """Pile of rows of one table that wait for more of it, in log order.

    They take as few bytes as they can, side by side; nothing else is kept in memory for them.  `rows`: how
    many.  `size`: bytes that they take.
    """

    @property
    def rows(self) -> int:
        """Number of rows."""

    @property
    def size(self) -> int:
        """Bytes that they take."""

    def changes(self, make: Callable[..., Made]) -> list[Made]:
        """Returns the changes of all rows, as `PackedRows.changes` does."""


class PackedRows(Protocol):
    """Rows of a batch as they came, made into objects only when they are wanted.

    `tables`: the numbers of their shapes, each once.  Below, `bindings` goes by them, and `make` is called with the
    binding, both images, the source and number of the transaction, and the ordinal.
    """

    @property
    def tables(self) -> tuple[int, ...]:
        """Numbers of their shapes, each once."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[RowChange]: ...

    def changes(
        self, make: Callable[..., Made], bindings: Mapping[int, Any], transactions: Sequence[Transaction]
    ) -> list[Made]:
        """Returns the changes of all rows, in log order.  `transactions`: those of the batch."""

    def pile(self) -> Pile:
        """Returns an empty pile for rows that come so."""

    def pour(
        self,
        piles: Mapping[Any, Pile],
        make: Callable[..., Made],
        bindings: Mapping[int, Any],
        transactions: Sequence[Transaction],
    ) -> list[Made]:
        """Put each row onto the pile of its binding.  Returns the changes of those that have none."""
