"""The merge of a chunk: what it is made of, and its second life when the target refuses it (design 8).

At M, the end of the last planned window, the chunk is

    what was staged, without the touched rows  +  the last images of the touched rows  -  rows that cannot be there

Without a key rows are counted instead: what was staged, less the rows that it has too many at M, and with those that it
lacks (`engine.copy.unkeyed_changes`).

Of the last, those that could not be *staged* are known, with their errors: each that nothing touched since is parked in
the merge's own transaction, as an insert that the target refused.  Its place names the attempt that read it, `copy-`
and its epoch, its counter, the row's number: the same however often the merge is sent, and no other row's ever.

*The second life.*  A last image may be refused as well, and then the whole merge is.  It is made again without them:
the staged rows go in, all last images are parked with it as *untried* (`engine.batch.parked_rows`), and right behind
it, with nothing new planned, they are tried again as an operator's retry would be, in halves of halves, so that in the
end only bad ones stay.  In between the target is as right as it is with any parked row: unique values of rows that are
missing are free, and later changes of these rows are parked behind them.  An owner that dies amid this leaves untried
rows, which the next one tries.  If the staged rows alone are refused, nobody can say which: then the merge is refused
for good.

*A repair* writes over rows: those that were asked for and all touched ones leave first, and what is parked for them
goes, since what comes is newer than all of it.  That is said when the merge is sent: only then is it known what is.
"""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from tidelock.engine.batch.parked_rows import ParkedRows, parked_row
from tidelock.engine.copy.chunk import Chunk
from tidelock.engine.copy.unkeyed_changes import Difference, identity
from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.records import Position, Row, RowChange, Shape, Transaction
from tidelock.engine.model.schema import Binding, SchemaMismatch, TargetTable
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import DeleteRows, EffectId, MergeChunk, ParkedRow, Step, UpsertRows
from tidelock.engine.protocol.events import ParkedKey

SOURCE = "copy-"
"""Beginning of the source of a parked row that no log tells of; the epoch of its reading follows."""


class ChunkMerge:
    """The merge of one chunk.  `effect`: as it is to be sent.  `table`: the chunk's, at the target."""

    def __init__(
        self, chunk: Chunk, difference: Difference, table: TargetTable, id_: EffectId, position: Position
    ) -> None:
        """`chunk`: staged, and the ledger has seen the log up to `position`.  `difference`: what a table without a key
        has then and was not read, or the other way round.

        Raises SchemaMismatch where a row that could not be staged does not line up with the table, or it has lost the
        key by which rows are kept.
        """
        assert chunk.attempt is not None
        if chunk.split.keep and not table.key:
            raise SchemaMismatch(
                f"{table.name} has no key any more, so its rows cannot be kept: "
                "`tidelock copy` without --keep copies it anew"
            )
        self.table = table
        self._refused, less = _untouched(chunk, difference, table)
        self._untried: list[Change] = []
        self._read = len(chunk.refused)
        images = [*(image for image in chunk.touched.values() if image is not None), *difference.more]
        without = list(chunk.touched)
        self.effect = MergeChunk(
            id=id_,
            staged=chunk.attempt,
            split=chunk.split,
            chunk=chunk.number,
            rows=chunk.rows,
            key=table.key,
            without=without,
            steps=_merge_steps(chunk.binding, less, images),
            position=position,
            gone=list(dict.fromkeys((*chunk.split.keys, *without))) if chunk.split.by is By.KEYS else [],
            parked=self._parked(id_, ""),
        )

    @property
    def repairs(self) -> bool:
        """True if it writes over rows that are there, by their keys."""
        return self.effect.split.by is By.KEYS

    def overtake(self, parked_rows: ParkedRows) -> str:
        """Takes along what is parked for the rows that it writes over; nothing is under way before it.  Returns why
        that cannot be, '' if it can."""
        if not self.repairs:
            return ""
        if self.effect.split.columns != self.table.key:
            return "the table has another key now"
        places = parked_rows.of_rows(self.table, self.effect.gone)
        if places is None:
            return "failed rows concern other rows too, or may; retry or skip them first"
        self.effect = replace(self.effect, unparked=tuple(places))
        return ""

    def set_aside(self, id_: EffectId, error: str) -> bool:
        """Makes the next try park the last images, as the target refuses this one.  False: it had none."""
        images = [step for step in self.effect.steps if isinstance(step, UpsertRows)]
        if not images:
            return False
        for step in images:
            first = self._read + len(self._untried)
            self._untried += [_insert(step.table, row, self.effect.staged, n) for n, row in enumerate(step.rows, first)]
        rest = [step for step in self.effect.steps if not isinstance(step, UpsertRows)]
        self.effect = replace(self.effect, id=id_, steps=rest, parked=self._parked(id_, error))
        return True

    def done(self, parked_rows: ParkedRows) -> list[ParkedKey]:
        """Notes what it parks: it is committed, and what was parked for its rows has been released.  Returns what is to
        be tried again now."""
        for change in (*(change for change, _ in self._refused), *self._untried):
            parked_rows.park(change)
        rows = self.effect.parked[len(self._refused) :]
        return [ParkedKey(r.source, r.number, r.ordinal, self.table.name, r.change, "retry") for r in rows]

    def _parked(self, id_: EffectId, error: str) -> tuple[ParkedRow, ...]:
        refused = [parked_row(change, why, id_, n) for n, (change, why) in enumerate(self._refused)]
        why = f"a row that was to come with it is refused: {error}"
        first = len(refused)
        untried = [parked_row(change, why, id_, n, untried=True) for n, change in enumerate(self._untried, first)]
        return (*refused, *untried)


def _merge_steps(binding: Binding | None, less: list[Row], more: list[Row]) -> list[Step]:
    """Steps that delete the rows that the table has less, then add those that it has more."""
    if binding is None:
        return []
    steps: list[Step] = [DeleteRows(binding, less)] if less else []
    return [*steps, UpsertRows(binding, more, fresh=True)] if more else steps


def _untouched(
    chunk: Chunk, difference: Difference, table: TargetTable
) -> tuple[list[tuple[Change, str]], list[Row]]:
    """The rows that could not be staged and that nothing touched since, as inserts, with their errors; and the rows
    that are staged and gone, where there is no key."""
    gone, rows = Counter(map(identity, difference.less)), {identity(row): row for row in difference.less}
    assert chunk.attempt is not None
    bindings: dict[Shape, Binding] = {}
    found = []
    for n, refused in enumerate(chunk.refused):
        binding = bindings.get(refused.shape)
        if binding is None:
            binding = bindings[refused.shape] = Binding(-1, refused.shape, table)
        known = identity(refused.row)
        if not binding.key and gone[known]:
            gone[known] -= 1
        elif not binding.key or binding.key_of(refused.row) not in chunk.touched:
            found.append((_insert(binding, refused.row, chunk.attempt, n), refused.error))
    return found, [rows[known] for known, count in gone.items() for _ in range(count)]


def _insert(binding: Binding, row: Row, attempt: EffectId, n: int) -> Change:
    """The `n`th row of the attempt that no log tells of."""
    return Change.of(binding, RowChange(-1, None, row, n), Transaction(f"{SOURCE}{attempt.epoch}", attempt.counter, 0))
