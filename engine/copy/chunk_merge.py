"""The merge of a chunk: what it is made of, and its second life when the target refuses it (design 8).

At M, the end of the last planned window, the chunk is

    what was staged, without the touched rows  +  the last images of the touched rows  -  rows that cannot be there

A last image that does not tell every value is written over the staged row instead, which has the rest.

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
rows, which the next one tries.

*The third.*  If the staged rows alone are refused, the target is asked which (`FindRefused`).  Those are parked with
the merge too, as inserts, and the rest goes in.  A row that only lacked its parent waits for it, as every orphan does.
Nothing touched them up to M, so they are the source's rows then, and their places are of the same attempt: rows of it
that could not be staged come first, then last images, then these.  Where it cannot be told, the merge is refused for
good.

*A repair* writes over rows: those that were asked for and all touched ones leave first, and what is parked for them
goes, since what comes is newer than all of it.  That is said when the merge is sent: only then is it known what is.
A row of it that the target refuses is not parked: it stays as it is, with what is parked for it, and is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from tidelock.engine.batch.parked_rows import ParkedRows, key_for_people, parked_row
from tidelock.engine.copy.chunk import Chunk
from tidelock.engine.copy.unkeyed_changes import Difference, identity
from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.errors import ErrorKind, Failure, lacks_parent
from tidelock.engine.model.index import folded_key
from tidelock.engine.model.records import UNKNOWN, Position, Row, RowChange, Shape, Transaction, filled
from tidelock.engine.model.schema import Binding, SchemaMismatch, TargetTable
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import EffectId, MergeChunk
from tidelock.engine.protocol.events import ParkedKey, RefusedRow
from tidelock.engine.protocol.steps import DeleteRows, ParkedRow, Step, UpdateRows, UpsertRows

SOURCE = "copy-"
"""Beginning of the source of a parked row that no log tells of; the epoch of its reading follows."""

_VAIN_SEARCHES = 3


class ChunkMerge:
    """The merge of one chunk.

    `effect`: as it is to be sent.  `table`: the chunk's, at the target.  `shape`: of what is staged, None where it is
    not known.  `repairs`: it writes over rows that are there, by their keys.
    """

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
        self.shape = chunk.shape
        self.repairs = chunk.split.by is By.KEYS
        self._refused, less = _untouched(chunk, difference, table)
        self._left_out: list[tuple[Change, RefusedRow]] = []
        self._untried: list[Change] = []
        self._read = len(chunk.refused)
        self._error = ""
        self._nothing_found = 0
        touched = _last_images(chunk)
        images = [*(image for image in touched.values() if image is not None), *difference.more]
        partial = {key: image for key, image in touched.items() if image is not None and UNKNOWN in image}
        images = [image for image in images if UNKNOWN not in image] if partial else images
        without = [key for key in touched if key not in partial] if partial else list(touched)
        self.effect = MergeChunk(
            id=id_,
            staged=chunk.attempt,
            split=chunk.split,
            chunk=chunk.number,
            rows=chunk.rows,
            key=table.key,
            without=without,
            steps=_merge_steps(chunk.binding, less, images, partial),
            position=position,
            gone=list(dict.fromkeys((*chunk.split.keys, *without))) if self.repairs else [],
            parked=self._parked(id_),
        )
        self._images = len(images)

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
        self._error = error
        self.effect = replace(self.effect, id=id_, steps=rest, parked=self._parked(id_))
        return True

    def leave_out(self, id_: EffectId, rows: Sequence[RefusedRow]) -> bool:
        """Makes the next try go without these staged rows, which the target refuses.  False: that would be in vain, as
        it refuses the merge and finds nothing again and again."""
        self._nothing_found = 0 if rows else self._nothing_found + 1
        if self._nothing_found > _VAIN_SEARCHES:
            return False
        effect, without = self.effect, list(self.effect.without)
        keyless: list[tuple[Binding, Row]] = []
        for refused in rows:
            binding = Binding(-1, refused.shape, self.table)
            change = _insert(binding, refused.row, effect.staged, self._read + self._images + len(self._left_out))
            self._left_out.append((change, refused))
            if binding.key:
                without.append(binding.key_of(refused.row))
            else:
                keyless.append((binding, refused.row))
        rest = [step for one in effect.steps if (step := _without(one, frozenset(without))) is not None]
        steps: list[Step] = [DeleteRows(keyless[0][0], [row for _, row in keyless]), *rest] if keyless else rest
        self.effect = replace(
            effect,
            id=id_,
            without=without,
            steps=steps,
            gone=self._still_gone(),
            parked=self._parked(id_),
            unrepaired=self._unrepaired(),
        )
        return True

    def _still_gone(self) -> list[Row]:
        """The rows that a repair writes over, without those that stay as they are."""
        equality = {column.name: column.equality for column in self.table.columns}
        equalities = tuple(equality[column] for column in self.table.key)
        left = [change.binding.key_of(row.row) for change, row in self._left_out] if self.repairs else []
        own = {folded_key(key, equalities) for key in left} - {None}
        return [k for k in self.effect.gone if k not in left and folded_key(k, equalities) not in own]

    def _unrepaired(self) -> tuple[tuple[str, str], ...]:
        if not self.repairs:
            return ()
        return tuple((key_for_people(change.binding, row.row), row.error) for change, row in self._left_out)

    def done(self, parked_rows: ParkedRows) -> list[ParkedKey]:
        """Notes what it parks: it is committed, and what was parked for its rows has been released.  Returns what is to
        be tried again now."""
        for change in (*(change for change, _ in self._refused), *self._untried, *self._parked_left_out()):
            parked_rows.park(change)
        first = len(self._refused)
        return [self._parked_key(row, "retry") for row in self.effect.parked[first : first + len(self._untried)]]

    def orphans(self) -> list[tuple[Change, ParkedKey]]:
        """Returns the changes that it parks because the target lacks their parent."""
        rows = self.effect.parked[len(self._refused) + len(self._untried) :]
        found = zip(self._parked_left_out(), self._left_out, rows, strict=True) if rows else ()
        return [(change, self._parked_key(row, "")) for change, (_, why), row in found if _lacks_parent(why)]

    def _parked_left_out(self) -> list[Change]:
        return [] if self.repairs else [change for change, _ in self._left_out]

    def _parked_key(self, row: ParkedRow, wish: str) -> ParkedKey:
        return ParkedKey(row.source, row.number, row.ordinal, self.table.name, row.change, wish)

    def _parked(self, id_: EffectId) -> tuple[ParkedRow, ...]:
        refused = [parked_row(change, why, id_, n) for n, (change, why) in enumerate(self._refused)]
        why = f"a row that was to come with it is refused: {self._error}"
        first = len(refused)
        untried = [parked_row(change, why, id_, n, untried=True) for n, change in enumerate(self._untried, first)]
        if self.repairs:
            return (*refused, *untried)
        first += len(untried)
        left_out = [
            parked_row(change, row.error, id_, n, orphan=_lacks_parent(row))
            for n, (change, row) in enumerate(self._left_out, first)
        ]
        return (*refused, *untried, *left_out)


def _merge_steps(
    binding: Binding | None, less: list[Row], more: list[Row], partial: dict[Row, Row]
) -> list[Step]:
    """Steps that delete the rows that the table has less, update what is known of `partial` ones, by key, then add the
    rows that it has more."""
    if binding is None:
        return []
    steps: list[Step] = [DeleteRows(binding, less)] if less else []
    if partial:
        steps.append(UpdateRows(binding, list(partial), list(partial.values()), moves=False))
    return [*steps, UpsertRows(binding, more, fresh=True)] if more else steps


def _without(step: Step, keys: frozenset[Row]) -> Step | None:
    """Returns the step without updates of rows with these keys, which are not staged any more; None: nothing is left.
    """
    if not isinstance(step, UpdateRows):
        return step
    left = [(key, row) for key, row in zip(step.keys, step.rows, strict=True) if key not in keys]
    return UpdateRows(step.table, [key for key, _ in left], [row for _, row in left], moves=False) if left else None


def _last_images(chunk: Chunk) -> dict[Row, Row | None]:
    """Returns the last images of touched rows, those that could not be staged with the values that were read.

    A repair leaves out rows that were not asked for and of which not every value is known: none is staged, and the
    stream writes them as ever.
    """
    if all(image is None or UNKNOWN not in image for image in chunk.touched.values()):
        return chunk.touched
    assert chunk.binding is not None, "whoever touched a row has a binding"
    binding = chunk.binding
    read = {binding.key_of(row.row): row.row for row in chunk.refused if row.shape.columns == binding.shape.columns}
    asked = frozenset(chunk.split.keys) if chunk.split.by is By.KEYS else None
    images: dict[Row, Row | None] = {}
    for key, image in chunk.touched.items():
        if image is not None and UNKNOWN in image and key in read:
            image = filled(image, read[key])
        if asked is None or key in asked or image is None or UNKNOWN not in image:
            images[key] = image
    return images


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


def _lacks_parent(row: RefusedRow) -> bool:
    return lacks_parent(Failure(ErrorKind.ROW, row.error, row.code))


def _insert(binding: Binding, row: Row, attempt: EffectId, n: int) -> Change:
    """The `n`th row of the attempt that no log tells of."""
    return Change.of(binding, RowChange(-1, None, row, n), Transaction(f"{SOURCE}{attempt.epoch}", attempt.counter, 0))
