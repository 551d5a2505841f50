"""Facts of a table besides the form that its rows show: what its columns may hold, its unique keys, its partitions.

The catalogue has them, and so does the message of a command (`command_messages`); a relation message has none.
"""

from __future__ import annotations

import msgspec

from tidelock.adapters.postgres.logical.relation_catalogue import ColumnFacts


class ColumnState(msgspec.Struct, frozen=True, array_like=True):
    """A column, also one that the server computes.  `type`, `modifier`, `spelled`: as in `FormColumn`.  `fill`: as in
    `ColumnFacts`."""

    number: int
    name: str
    type: int
    modifier: int
    spelled: str
    nullable: bool
    has_default: bool
    fill: str | None = None

    @property
    def facts(self) -> ColumnFacts:
        """The same as the catalogue tells it of a column."""
        return ColumnFacts(self.number, self.nullable, self.has_default, self.fill)


class UniqueIndex(msgspec.Struct, frozen=True, array_like=True):
    """A unique index over whole columns, by their numbers.  `plain`: it takes values as equal exactly where they are
    the same, in every row and at every moment."""

    name: str
    columns: tuple[int, ...]
    primary: bool = False
    plain: bool = True


class Partition(msgspec.Struct, frozen=True, array_like=True):
    """A partition that holds rows.  `empty`: it has none, and had none since it was made or emptied.  `file`: number of
    the file that they are in; 0: not known.  `attached`: the transaction that attached it, or what it is a partition
    of; 0 for one that was made as a partition."""

    oid: int
    empty: bool
    name: str = ""
    file: int = 0
    attached: int = 0


class FormFacts(msgspec.Struct, frozen=True, array_like=True):
    """The facts of one table.  `converted`: columns whose definition was written by the transaction that made the
    table's files or those of its indexes, as (number, transaction).  `labels`: those of its enums, as (oid, label).
    `file`: as `Form.file`, at that time.  None and 0: not known."""

    columns: tuple[ColumnState, ...]
    uniques: tuple[UniqueIndex, ...] = ()
    partitions: tuple[Partition, ...] = ()
    converted: tuple[tuple[int, int], ...] | None = None
    labels: tuple[tuple[int, str], ...] | None = None
    file: int = 0

    def column(self, number: int) -> ColumnState | None:
        """Returns the column of this number."""
        return next((one for one in self.columns if one.number == number), None)

    @property
    def primary_key(self) -> tuple[int, ...]:
        """The columns of the primary key, in its order."""
        return next((one.columns for one in self.uniques if one.primary), ())
