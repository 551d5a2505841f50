"""Parts of a batch at the target, as data: steps that write rows, rows that are set aside, decided about, or told."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidelock.engine.model.conflict_options import CommitClock, TableWords
from tidelock.engine.model.records import Row
from tidelock.engine.model.schema import Binding

ChangeId: TypeAlias = tuple[str, int, int]
"""A row's change as the log names it: source and number of its transaction, and ordinal."""


class DeleteRows(msgspec.Struct, gc=False):
    """Delete the rows with these keys (`Binding.key_of`, no key twice).  A key that is not there is no error.

    Without a key each entry is a whole row and deletes exactly one equal row; entries may repeat.

    `befores`: the rows' before-images, in the order of `keys`, where they are compared (`verify: image`): a row that is
    not there, or not as its before-image, is an error (ErrorKind.ROW).
    `version`: the position of the version column, else -1 (`verify: version`).  A row whose version is above that of
    its before-image stays.
    `absent`: none of these is there, as the log says, and nothing is deleted; one that is there is an error
    (ErrorKind.ROW).
    `clears`: the change that each row is of, where rows of the target that refer to it and stand in the way are deleted
    first, as the target's own change, and written to `tidelock_conflicts` (`engine.batch.blind_steps`).
    """

    table: Binding
    keys: list[Row]
    befores: list[Row] | None = None
    version: int = -1
    absent: bool = False
    clears: tuple[ChangeId, ...] = ()

    @property
    def checks(self) -> bool:
        """True where the target's rows are looked at before they are changed."""
        return self.befores is not None or self.absent


class UpsertRows(msgspec.Struct, gc=False):
    """Write whole rows, no key twice; a row that is there by *key* is overwritten, except that no unique column is set.

    `fresh`: the log says that none of these rows exists at the target, so the sink may try a plain insert first.
    A unique value held by a row of another key is an error (ErrorKind.ROW): never overwrite or move that row.
    Without a key: plain inserts.

    `absent`: a row that is there by key is an error (ErrorKind.ROW), with `verify: image`.
    `version`: as in `DeleteRows`.  A row that is there by key is overwritten only where its version is below that of
    the new one, unique columns included; no version (NULL) is an error (ErrorKind.ROW).
    `replaces`: a row of another key that holds a wanted unique value is deleted first (`on_conflict: replace`).
    `stamp`: where a row holds its stamp's time and site (`conflicts: stamp`).  A row is written only if its stamp is
    above that of the row there, and goes again if a tombstone has a greater one; of a table of tombstones likewise, and
    rows that are older than theirs go.
    `blind`: a row that is there by key is overwritten, unique columns included (`engine.batch.blind_steps`).
    `columns`: the positions of those alone that are overwritten (`engine.batch.group_steps`); none: all.
    `displaces`: the change that each row is of, where rows of other keys make room as with `replaces`, and are written
    to `tidelock_conflicts`.
    """

    table: Binding
    rows: list[Row]
    fresh: bool
    absent: bool = False
    version: int = -1
    replaces: bool = False
    stamp: tuple[int, int] | None = None
    blind: bool = False
    displaces: tuple[ChangeId, ...] = ()
    columns: tuple[int, ...] = ()

    @property
    def checks(self) -> bool:
        """True where the target's rows are looked at before they are changed."""
        looks = self.absent or self.version >= 0 or self.replaces
        return looks or self.blind or self.stamp is not None


class UpdateRows(msgspec.Struct, gc=False):
    """Update by key in list order: row `keys[i]` gets the values `rows[i]`, unique columns and key included where they
    differ.

    Only used when a batch runs in log order, and for rows that hold `UNKNOWN`: such a value stays as it is at the
    target, and nothing is written in its place.  A row that is not there is inserted; one that cannot be, as it holds
    `UNKNOWN`, is an error (ErrorKind.ROW).
    `keys` are whole rows (before-images) where the table has no key; then exactly one equal row changes.
    `moves`: some row's unique or key column changes, so rows must be written one after another.

    `befores`, `version` and `replaces`: as in the other steps.  A row that is compared is never inserted.  Where a row
    moves under `version` and its new key is taken, the row there is overwritten if its version is below, and the one
    under the old key goes if its own is not above that of the before-image.
    `displaces`: as in `UpsertRows`, of rows that move.  `clears`: as in `DeleteRows`, of what refers to the columns
    `changed`, whose values change.
    """

    table: Binding
    keys: list[Row]
    rows: list[Row]
    moves: bool
    befores: list[Row] | None = None
    version: int = -1
    replaces: bool = False
    displaces: tuple[ChangeId, ...] = ()
    clears: tuple[ChangeId, ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def checks(self) -> bool:
        """True where the target's rows are looked at before they are changed."""
        return self.befores is not None or self.replaces or bool(self.displaces)


Step: TypeAlias = DeleteRows | UpsertRows | UpdateRows


class ParkedRow(msgspec.Struct, frozen=True, array_like=True):
    """A change set aside in `tidelock_parked`. `source`, `number`, `ordinal` name it in the log; `change`: msgpack of
    `engine.batch.parked_rows.ParkedChange`, so it can be retried without the log; `key`: a short text of its key for
    people."""

    source: str
    number: int
    ordinal: int
    schema: str
    table: str
    key: str
    error: str
    change: bytes


class DecideChange(msgspec.Struct, gc=False):
    """Decide about one change that comes from a spoke, which the target does not take as it is (`engine.two_way`).

    In the batch's transaction: the row of its key and those that hold unique values which it wants are locked and read,
    spelled as the log does; what `engine.two_way.deciding.judged` says of them is written; what lost is recorded; the
    arbiter's rows under the keys of the change are told (`RowsToTell`), unless the change stands as it came.
    Where an operator has to decide, `parked` is parked.

    `policies`: of its table.  `clock`: where times of commits decide which is later; `commit_us`: that of the change, 0
    where none is known.  `refused`: what was decided could not be written, for this reason, so nothing is, and the
    change is kept out; `foreign`: the reason is a foreign key.
    """

    table: Binding
    before: Row | None
    after: Row | None
    policies: TableWords
    parked: ParkedRow
    refused: str = ""
    foreign: bool = False
    clock: CommitClock | None = None
    commit_us: int = 0


class RowsToTell(msgspec.Struct, gc=False):
    """Tell the rows with these keys (`Binding.key_of`), as they stand when the transaction commits, to the spoke: a
    *verdict* each, no row included."""

    table: Binding
    keys: list[Row]
