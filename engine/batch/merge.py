"""Merging a batch: from row changes in log order to set-based steps with the same end (design 7).

Fold.  Of each row, only its first before-image and its last after-image matter; whether they are there decides:

| first before | last after | what is done |
|---|---|---|
| none | none | nothing (inserted and deleted again) |
| none | row  | insert |
| row  | none | delete |
| row  | row  | update |

A primary-key update is a delete of the old key and an insert of the new one.  (Folding by labels instead, as Otter's
table of nine pairs tempts to, makes two inserts clash: counter-example 8.)

An after-image may lack values that the update left alone (`UNKNOWN`).  The row's image before it in the fold fills
them: that very row's, under the key it had then, never another's that had the key once.  What is still unknown stays as
it is at the target: the row is updated in place, by its key.  Where such a row changes its key, a delete and an insert
would lose the value, so the batch runs in log order (counter-example 31).

Order.  First all deletes *and all rows whose unique or foreign key changes*, children before parents; then all rows to
write, parents before children.  That is exact for swaps and chains of unique values.

Log order, unfolded, where delete-first or the fold would hurt: a row that a foreign key refers to would have to go for
a moment, target-only columns would be lost, a cascade would not fire, or would fire on the wrong rows, a unique index
holds what the log does not tell, or an update may free a unique value that it does not tell, and self-references or
cycles of foreign keys have no order of tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelock.engine.model.index import Index, Key
from tidelock.engine.model.records import UNKNOWN, Row, TableName, Value, filled
from tidelock.engine.model.schema import Binding, TargetTable
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.steps import DeleteRows, Step, UpdateRows, UpsertRows


class Ranks:
    """Order of tables by foreign keys: parents before children; `weights` break ties, higher later.

    `looped`: tables in a cycle of foreign keys, self-references included.
    """

    def __init__(self, tables: dict[TableName, TargetTable], weights: dict[TableName, int]) -> None:
        parents = {
            name: {fk.parent for fk in table.foreign_keys if fk.parent in tables} for name, table in tables.items()
        }
        self.looped = {name for name in tables if _reaches(name, name, parents)}
        depth: dict[TableName, int] = {}
        for name in tables:
            _depth(name, parents, depth)
        self._rank = {name: (depth[name], weights.get(name, 0), i) for i, name in enumerate(sorted(tables))}

    def of(self, table: TableName) -> tuple[int, int, int]:
        """The table's place: lower ones are written first and deleted from last."""
        return self._rank[table]


def _reaches(start: TableName, goal: TableName, parents: dict[TableName, set[TableName]]) -> bool:
    seen: dict[TableName, None] = {}
    frontier = sorted(parents[start])
    while frontier:
        name = frontier.pop()
        if name == goal:
            return True
        if name not in seen:
            seen[name] = None
            frontier += sorted(parents[name])
    return False


def _depth(name: TableName, parents: dict[TableName, set[TableName]], depth: dict[TableName, int]) -> int:
    if name not in depth:
        depth[name] = 0  # a cycle ends here; its tables run in log order anyway
        depth[name] = 1 + max((_depth(p, parents, depth) for p in sorted(parents[name])), default=-1)
    return depth[name]


Fold = dict[Value, list[Row | None]]  # key → [first before-image, last after-image]


def fold(changes: Iterable[Change]) -> dict[Binding, Fold]:
    """First before-image and last after-image by table and key.

    A batch may see one table under two shapes (a column was added in between): those fold apart, so callers end a
    batch at a change of shape.
    """
    tables: dict[Binding, Fold] = {}
    binding: Binding | None = None
    for change in changes:
        if change.binding is not binding:  # neighbours are often of one table
            binding = change.binding
            rows = tables.setdefault(binding, {})
            key_of = binding.identity
        before, after = change.before, change.after
        if before is None:
            assert after is not None, "a change has an image"
            key = key_of(after)
        else:
            key = key_of(before)
            if after is not None and (moved := key_of(after)) != key:
                _fold_in(rows, key, before, None)
                key, before = moved, None
        entry = rows.get(key)
        if entry is None:
            rows[key] = [before, after]
        else:
            entry[1] = after
    return tables


def partial_fold(changes: Iterable[Change]) -> dict[Binding, Fold] | None:
    """Returns `fold` for changes whose after-images may hold `UNKNOWN`; None where such a row would be inserted.

    A row that is gone is told apart from one that was never seen, so its values fill nothing.
    """
    tables: dict[Binding, Fold] = {}
    for change in changes:
        binding, before, after = change.binding, change.before, change.after
        rows = tables.setdefault(binding, {})
        key_of = binding.identity
        if before is None:
            assert after is not None, "a change has an image"
            key = key_of(after)
        else:
            key = key_of(before)
            if after is not None:
                after = _filled(after, rows.get(key), before)
                if (moved := key_of(after)) != key:
                    _fold_in(rows, key, before, None)
                    key, before = moved, None
        if after is not None and UNKNOWN in after and (before is None or _gone(rows.get(key))):
            return None
        _fold_in(rows, key, before, after)
    return tables


def _filled(after: Row, entry: list[Row | None] | None, before: Row) -> Row:
    """Returns the image with the values that the row had before it, as far as the fold and the log tell them."""
    if UNKNOWN not in after:
        return after
    earlier = before if entry is None or entry[1] is None else entry[1]
    return filled(after, earlier)


def _gone(entry: list[Row | None] | None) -> bool:
    return entry is not None and entry[1] is None


def _fold_in(rows: Fold, key: Value, before: Row | None, after: Row | None) -> None:
    entry = rows.get(key)
    if entry is None:
        rows[key] = [before, after]
    else:
        entry[1] = after


def merge(changes: Sequence[Change], ranks: Ranks) -> list[Step]:
    """Returns the steps of one batch.  `changes`: in the order of their lane."""
    steps = set_based(changes, ranks)
    return in_log_order(changes) if steps is None else steps


def reordered(changes: Sequence[Change], ranks: Ranks) -> list[tuple[Binding, Fold]] | None:
    """Returns `fold` by table, parents before children; None where the batch has to run in log order."""
    bindings = dict.fromkeys([c.binding for c in changes])
    if must_keep_order(changes, bindings, ranks):
        return None
    tables = partial_fold(changes) if any(b.partial for b in bindings) else fold(changes)
    if tables is None or len({binding.name for binding in tables}) != len(tables):
        return None
    return sorted(tables.items(), key=lambda table: ranks.of(table[0].target.name))


def set_based(changes: Sequence[Change], ranks: Ranks) -> list[Step] | None:
    """Returns the steps of one batch that deletes first; None where it has to run in log order."""
    tables = reordered(changes, ranks)
    if tables is None:
        return None
    deletes: list[Step] = []
    writes: list[Step] = []
    for binding, rows in tables:
        gone: list[Row] = []
        fresh: list[Row] = []
        kept: list[Row] = []
        untold: list[Row] = []
        key_of, moves, partial = binding.key_of, binding.moves, binding.partial
        for before, after in rows.values():
            if before is None:
                if after is not None:
                    fresh.append(after)
            elif after is None:
                gone.append(key_of(before))
            elif moves(before, after):
                if binding.target.references or binding.has_target_only_columns:
                    return None
                gone.append(key_of(before))
                fresh.append(after)
            elif partial and UNKNOWN in after:
                untold.append(after)
            else:
                kept.append(after)
        if gone:
            deletes.append(DeleteRows(binding, gone))
        if untold:
            writes.append(UpdateRows(binding, [key_of(row) for row in untold], untold, moves=False))
        if kept:
            writes.append(UpsertRows(binding, kept, fresh=False))
        if fresh:
            writes.append(UpsertRows(binding, fresh, fresh=True))
    return [*reversed(deletes), *writes]


def must_keep_order(changes: Sequence[Change], bindings: Iterable[Binding], ranks: Ranks) -> bool:
    """Tells whether deletes may not come first."""
    if all(b.plain for b in bindings):
        return False
    if any(not b.key or b.has_unlogged_unique_column or b.unseen or b.name in ranks.looped for b in bindings):
        return True
    tied = {b: _Tied(b) for b in bindings if b.has_target_only_columns or b.target.references}
    return bool(tied) and any(rows.hurt(change) for change in changes if (rows := tied.get(change.binding)) is not None)


class _Tied:
    """Watches a table whose rows hold more than the log tells: what refers to them, or columns of the target's own.

    No row of it may leave and come back in one batch, under its key or with a value that is referred to, be it by an
    insert or an update: the fold would make an update of it, or delete first what a child still needs.  Nor may its key
    move, for the same reason.  Where its deletes cascade, each must find the children as the log has them then.
    """

    def __init__(self, binding: Binding) -> None:
        table = binding.target
        at = {c.name: i for i, c in enumerate(binding.shape.columns)}
        equality = {c.name: c.equality for c in table.columns}
        referenced = (fk.parent_columns for fk in table.references if all(c in at for c in fk.parent_columns))
        self._indexes = [
            Index(n, tuple(at[c] for c in columns), tuple(equality[c] for c in columns), is_key=False)
            for n, columns in enumerate(dict.fromkeys([table.key, *referenced]))
        ]
        self._key_of = binding.identity
        self._cascades = any(fk.cascades for fk in table.references)
        self._left: dict[Key, None] = {}

    def hurt(self, change: Change) -> bool:
        """Sees the next change; returns whether it would hurt to fold it with those seen before."""
        before, after = change.before, change.after
        if before is None:
            assert after is not None, "a change has an image"
            return bool(self._left) and any(self._returns(index, after) for index in self._indexes)
        changed = self._indexes
        if after is not None:
            if self._key_of(before) != self._key_of(after):
                return True
            changed = [index for index in self._indexes if index.values(before) != index.values(after)]
            if self._left and any(self._returns(index, after) for index in changed):
                return True
        self._left.update((key, None) for index in changed if (key := index.values(before)) is not None)
        return after is None and self._cascades

    def _returns(self, index: Index, row: Row) -> bool:
        """Returns whether the row may hold a value that has left; the index-wide key stands for any of them."""
        key, index_wide = index.values(row), index.index_wide()
        if key is None:
            return False
        return key == index_wide or key in self._left or (index.folded and index_wide in self._left)


def in_log_order(changes: Sequence[Change]) -> list[Step]:
    """The changes one after another; neighbours of one table and kind, all of different keys, share a step.

    Deletes of a table that refers to itself do not: a server goes through them in an order of its own, and MySQL then
    finds a parent before its child.
    """
    steps: list[Step] = []
    keys: set[Value] = set()
    for change in changes:
        binding, before, after = change.binding, change.before, change.after
        last = steps[-1] if steps else None
        if last is None or last.table is not binding:
            last, keys = None, set()
        if binding.partial and after is not None and UNKNOWN in after:
            if before is not None:
                after = filled(after, before)
            else:  # what is left of a move: the row is there under its new key, or cannot be made
                before = after
        if before is None:
            assert after is not None, "a change has an image"
            key = binding.key_of(after)
            if not (isinstance(last, UpsertRows) and (not binding.key or key not in keys)):
                last, keys = UpsertRows(binding, [], fresh=True), set()
                steps.append(last)
            last.rows.append(after)
            keys.add(key)
            continue
        key = binding.key_of(before)
        if after is None:
            alone = any(fk.parent == binding.name for fk in binding.target.foreign_keys)
            if alone or not (isinstance(last, DeleteRows) and (not binding.key or key not in keys)):
                last, keys = DeleteRows(binding, []), set()
                steps.append(last)
            last.keys.append(key)
            keys.add(key)
            continue
        moves = not binding.key or binding.has_unlogged_unique_column or binding.moves(before, after) or (
            binding.identity(before) != binding.identity(after)
        )
        if not (isinstance(last, UpdateRows) and key not in keys and not moves and not last.moves):
            last, keys = UpdateRows(binding, [], [], moves), set()
            steps.append(last)
        last.keys.append(key)
        last.rows.append(after)
        keys.add(key)
    return steps
