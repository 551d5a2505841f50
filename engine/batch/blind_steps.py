"""Blind steps: those of a feed from an arbiter, whose rows are written over whatever is there (`engine.two_way.blind`).

The last image of a row decides.  A row that the batch ends without is deleted, also where it began without: the spoke
may have one of its own under that key (history 11).  Every other is written whole, unique columns included, as the
spoke's own row may hold other values in them.  Rows whose unique or foreign key the log changes go first and come back,
so that values change hands as in a merge of rows that nobody else writes.

Where a row of another key holds a value that is wanted, the target refuses the batch, and the search for a bad row asks
for steps that let the holder make room and be recorded (*displaced*).  They delete first and write last images as well,
and then the sink asks once, for all rows of a table, which of them want a value that somebody holds.  Those that do not
are written with one statement, without a look of their own.  The others follow, row by row: look, make room, write.

That is as exact as row by row in log order.  Last images share no value, as the arbiter had them all at once.  A row
that the log gave a wanted value, and took it from, shares the value's lock with this one: its change was committed
before this batch, or has left with the deletes.  So a holder is a row of the spoke's own, or one of this batch that the
spoke has changed.  The latter is overwritten, before anybody looks again, where it wants nothing that is held.  Nobody
locks the spoke's rows beforehand.  What its writers take between the look and the write is caught by the unique index,
and the batch is tried again.  A value that a row of the batch had only in between displaces nobody, as in a batch that
is taken at once.

Tables with foreign keys, or with columns that only the target has, run row by row in log order: there a row that leaves
for a moment takes others, or values, with it.  A row whose key, or a value that is referred to, changes does so in its
place, so that what refers to it follows as at the arbiter.

A row that the arbiter deletes may have children at the spoke that the arbiter has not seen.  A change that is tried
alone has leave to *clear* them: whatever refers to the row and stands in the way is deleted first, and recorded, as a
change of the spoke's own.  So the arbiter hears of it like of any delete of the spoke, and decides about it: it is not
known which of these rows the arbiter has too.  In a batch of several changes a child may be one that an earlier change
takes elsewhere, so there is no such leave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tidelock.engine.batch.merge import Ranks, fold, reordered
from tidelock.engine.model.records import Row, Value
from tidelock.engine.model.schema import Binding, SchemaMismatch
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.steps import ChangeId, DeleteRows, Step, UpdateRows, UpsertRows


def require_blind(binding: Binding) -> None:
    """Raises SchemaMismatch where rows of the table cannot be written blindly."""
    name, why = binding.name, ""
    if not binding.key:
        why = f"{name} has no key at the target; give it one"
    elif binding.partial:
        why = f"of a row of {name} the source logs no whole images; run ALTER TABLE … REPLICA IDENTITY FULL there"
    elif binding.has_unlogged_unique_column:
        why = f"a unique index of {name} has a column that the feed does not write; add the column to the feed"
    elif opaque := [unique.name for unique in binding.target.uniques if unique.opaque]:
        why = (
            f"values of the unique index {', '.join(opaque)} of {name} cannot be told from a row of the log; make it "
            "an index over whole columns"
        )
    if why:
        raise SchemaMismatch(f"an arbiter of conflicts (`conflicts:`) is not possible: {why}")


def blind_steps(changes: Sequence[Change], ranks: Ranks) -> list[Step]:
    """Returns the steps of one batch."""
    steps = _set_based(changes, ranks)
    return displacing_steps(changes) if steps is None else steps


def _set_based(changes: Sequence[Change], ranks: Ranks) -> list[Step] | None:
    """Returns the steps of a batch that deletes first; None where it has to run in log order."""
    tables = reordered(changes, ranks)
    if tables is None:
        return None
    deletes: list[Step] = []
    writes: list[Step] = []
    for binding, rows in tables:
        tied = bool(binding.target.references) or binding.has_target_only_columns
        gone: list[Row] = []
        fresh: list[Row] = []
        kept: list[Row] = []
        for key, (before, after) in rows.items():
            if after is None:
                gone.append(key if len(binding.key) > 1 else (key,))
            elif before is None:
                fresh.append(after)
            elif not binding.moves(before, after):
                kept.append(after)
            elif tied:
                return None
            else:
                gone.append(binding.key_of(before))
                fresh.append(after)
        if gone:
            deletes.append(DeleteRows(binding, gone))
        if kept:
            writes.append(UpsertRows(binding, kept, fresh=False, blind=True))
        if fresh:
            writes.append(UpsertRows(binding, fresh, fresh=True, blind=True))
    return [*reversed(deletes), *writes]


def displacing_steps(changes: Sequence[Change]) -> list[Step]:
    """Returns steps of the same changes with leave to displace the rows that hold a wanted value; `displaces` names a
    row's last one."""
    bindings = dict.fromkeys([change.binding for change in changes])
    names = Counter(binding.name for binding in bindings)
    free = {b for b in bindings if b.fk_free and not b.has_target_only_columns and names[b.name] == 1}
    together = _displacing_together([change for change in changes if change.binding in free])
    return [*together, *_displacing_singly([change for change in changes if change.binding not in free])]


def _displacing_together(changes: Sequence[Change]) -> list[Step]:
    """Returns deletes, then all rows of a table in one step, by last images."""
    last: dict[Binding, dict[Value, ChangeId]] = {}
    for change in changes:
        if change.after is not None:
            of = (change.source, change.number, change.ordinal)
            last.setdefault(change.binding, {})[change.binding.identity(change.after)] = of
    deletes: list[Step] = []
    writes: list[Step] = []
    for binding, folded in fold(changes).items():
        gone: list[Row] = []
        rows: list[Row] = []
        ids: list[ChangeId] = []
        for key, (before, after) in folded.items():
            if after is None or (before is not None and binding.moves(before, after)):
                gone.append(key if len(binding.key) > 1 else (key,))
            if after is not None:
                rows.append(after)
                ids.append(last[binding][key])
        if gone:
            deletes.append(DeleteRows(binding, gone))
        if rows:
            writes.append(UpsertRows(binding, rows, fresh=False, blind=True, displaces=tuple(ids)))
    return [*deletes, *writes]


def _displacing_singly(changes: Sequence[Change]) -> list[Step]:
    """Returns steps of one change after another."""
    alone = len(changes) == 1
    return [step for change in changes for step in _displacing_one(change, alone)]


def _displacing_one(change: Change, alone: bool) -> Iterator[Step]:
    """`alone`: it is the only one of its batch."""
    binding, before, after = change.binding, change.before, change.after
    of = ((change.source, change.number, change.ordinal),)
    clears = of if alone else ()
    old = None if before is None else binding.key_of(before)
    if after is None:
        assert old is not None, "a change has an image"
        yield DeleteRows(binding, [old], clears=clears)
        return
    new = binding.key_of(after)
    if before is not None and old is not None and (changed := _changed_where_referred_to(binding, before, after)):
        if old != new:
            yield DeleteRows(binding, [new], clears=clears)
        yield UpdateRows(binding, [old], [after], moves=True, displaces=of, clears=clears, changed=changed)
        return
    if old is not None and old != new:
        yield DeleteRows(binding, [old], clears=clears)
    yield UpsertRows(binding, [after], fresh=False, blind=True, displaces=of)


def _changed_where_referred_to(binding: Binding, before: Row, after: Row) -> tuple[str, ...]:
    """Returns the columns that change and by which other rows may refer to this one."""
    at = {column.name: i for i, column in enumerate(binding.shape.columns)}
    referred = dict.fromkeys(name for key in binding.target.references for name in key.parent_columns)
    return tuple(name for name in referred if name in at and before[at[name]] != after[at[name]])
