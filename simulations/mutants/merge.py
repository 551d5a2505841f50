"""Bugs of the merge: the fold, the order of a batch's statements, and when they must stay in log order."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

MERGE = (
    Mutant(
        "fold-by-labels",
        """
        @ fold
        + if entry[1] is None:
        +     entry[0] = None
          entry[1] = after
        """,
        "a row deleted and inserted again is an insert",
        row=8,
    ),
    Mutant(
        "fold-keeps-last-before-image",
        """
        @ fold
        - entry[1] = after
        + entry[:] = [before, after]
        """,
        "an insert that is updated becomes an update, a value given up in between is forgotten",
        row=8,
    ),
    Mutant(
        "fold-keeps-first-after-image",
        """
        @ fold
        - entry[1] = after
        + if entry[1] is None or after is None:
        +     entry[1] = after
        """,
        "of several updates of a row the first stands",
    ),
    Mutant(
        "fold-loses-moved-row",
        """
        @ fold
        - _fold_in(rows, key, before, None)
        """,
        "a row whose key moves stays under its old key as well",
        case="primary-key chain (tiflow 10918)",
    ),
    Mutant(
        "fold-two-shapes-apart",
        """
        @ reordered
        - len({binding.name for binding in tables}) != len(tables)
        + False
        """,
        "one row under two shapes is folded as two rows",
    ),
    Mutant(
        "writes-before-deletes",
        """
        @ set_based
        - [*reversed(deletes), *writes]
        + [*writes, *reversed(deletes)]
        """,
        "values are taken before they are freed",
        case="a unique value swapped inside a transaction (tiflow 9430)",
    ),
    Mutant(
        "parents-deleted-first",
        """
        @ set_based
        - reversed(deletes)
        + deletes
        """,
        "a parent is deleted before its children",
        row=9,
    ),
    Mutant(
        "children-written-first",
        """
        @ set_based
        - [*reversed(deletes), *writes]
        + [*reversed(deletes), *reversed(writes)]
        """,
        "a child is written before its parent",
        row=9,
    ),
    Mutant(
        "ranks-by-name",
        """
        @ Ranks.__init__
        - (depth[name], weights.get(name, 0), i)
        + (weights.get(name, 0), i)
        """,
        "foreign keys say nothing about the order of tables",
        row=9,
    ),
    Mutant(
        "unique-change-in-place",
        """
        @ set_based
        - moves(before, after)
        + False
        """,
        "a row whose unique value changes is not taken away first",
        case="a unique value swapped inside a transaction (tiflow 9430)",
    ),
    Mutant(
        "change-from-null-stays",
        """
        @ _mover
        - lambda before, after: bool(before[p] != after[p])
        + lambda before, after: bool(before[p] is not None and before[p] != after[p])
        """,
        "NULL to a value is no change of a unique key",
        case="NULL in a unique key",
    ),
    Mutant(
        "second-unique-index-unknown",
        """
        @ Binding.__init__
        - target.uniques
        + target.uniques[:2]
        """,
        "a change of the second unique index's value is taken for a plain update",
    ),
    Mutant(
        "foreign-key-change-in-place",
        """
        @ Binding.__init__
        - {c for f in target.foreign_keys for c in f.columns}
        + set[str]()
        """,
        "a child that lets go of its parent is written after the parent's delete",
        row=9,
    ),
    Mutant(
        "referenced-row-taken-away",
        """
        @ set_based
        - binding.target.references
        + False
        """,
        "a row that children refer to goes for a moment",
        row=9,
    ),
    Mutant(
        "target-columns-lost",
        """
        @ set_based
        - binding.has_target_only_columns
        + False

        @ must_keep_order
        - b.has_target_only_columns
        + False
        """,
        "a row with columns that only the target has goes for a moment and comes back without them",
        case="columns of the target's own",
    ),
    Mutant(
        "plain-without-a-key",
        """
        @ Binding.__init__
        - bool(self.key)
        + True
        """,
        "rows of a table without a key are folded",
    ),
    Mutant(
        "plain-though-blind",
        """
        @ Binding.__init__
        - self.has_unlogged_unique_column
        + False
        """,
        "a table is taken for plain though a unique index holds what the log does not tell",
        case="unique index on a generated column (tiflow 12696)",
    ),
    Mutant(
        "plain-though-partial",
        """
        @ Binding.__init__
        - self.has_target_only_columns
        + False
        """,
        "a table is taken for plain though the target has columns of its own",
        case="columns of the target's own",
    ),
    Mutant(
        "plain-though-referred-to",
        """
        @ Binding.__init__
        - self.has_unlogged_unique_column or self.has_target_only_columns or target.references or self.unseen
        + self.has_unlogged_unique_column or self.has_target_only_columns or self.unseen
        """,
        "a table is taken for plain though children refer to it",
        row=9,
    ),
    Mutant(
        "blind-index-folded",
        """
        @ must_keep_order
        - b.has_unlogged_unique_column
        + False
        """,
        "a table is folded though a unique index holds what the log does not tell",
        case="unique index on a generated column (tiflow 12696)",
    ),
    Mutant(
        "blind-change-in-place",
        """
        @ in_log_order
        - binding.has_unlogged_unique_column
        + False
        """,
        "an update is thought to leave a unique index alone that holds what the log does not tell",
        case="unique index on a generated column (tiflow 12696)",
    ),
    Mutant(
        "self-reference-folded",
        """
        @ must_keep_order
        - b.name in ranks.looped
        + False
        """,
        "tables that refer to themselves are folded",
        row=9,
    ),
    Mutant(
        "cycle-of-tables-folded",
        """
        @ Ranks.__init__
        - _reaches(name, name, parents)
        + name in parents[name]
        """,
        "two tables that refer to each other are folded",
        row=9,
    ),
    Mutant(
        "self-reference-deleted-at-once",
        """
        @ in_log_order
        - any(fk.parent == binding.name for fk in binding.target.foreign_keys)
        + False
        """,
        "parent and child of one table go in one statement, in the server's own order",
        row=9,
    ),
    Mutant(
        "parent-back-under-its-key",
        """
        @ _Tied.hurt
        - bool(self._left) and any(self._returns(index, after) for index in self._indexes)
        + False
        """,
        "a parent that left and came back is folded to an update",
        row=9,
    ),
    Mutant(
        "parent-back-in-other-letters",
        """
        @ _Tied._returns
        - key == index_wide or key in self._left or (index.folded and index_wide in self._left)
        + key in self._left
        """,
        "a parent that came back with another spelling of its key is not recognised",
        row=9,
    ),
    Mutant(
        "parent-key-moved-in-a-fold",
        """
        @ _Tied.hurt
        - self._key_of(before) != self._key_of(after)
        + False
        """,
        "a parent whose key moves is folded to delete and insert",
        row=9,
    ),
    Mutant(
        "cascade-in-a-fold",
        """
        @ _Tied.hurt
        - after is None and self._cascades
        + False
        """,
        "a delete that cascades is folded, and takes children that came or left at another time",
        row=11,
    ),
    Mutant(
        "referenced-value-taken-by-an-update",
        """
        @ _Tied.hurt
        - self._left and any(self._returns(index, after) for index in changed)
        + False
        """,
        "a parent's value that left comes back by an update, and the fold takes it from under its children",
        row=9,
    ),
    Mutant(
        "same-key-twice-in-a-statement",
        """
        @ in_log_order
        - isinstance(last, UpdateRows) and key not in keys and not moves and not last.moves
        + isinstance(last, UpdateRows) and not moves and not last.moves
        """,
        "two updates of one row share a statement, which knows no order",
        case="the same key twice in one ON CONFLICT (debezium 7759)",
    ),
    Mutant(
        "moves-share-a-statement",
        """
        @ in_log_order
        - isinstance(last, UpdateRows) and key not in keys and not moves and not last.moves
        + isinstance(last, UpdateRows) and key not in keys
        """,
        "rows whose unique values change are written as if they did not",
    ),
    Mutant(
        "neighbours-of-two-tables-share",
        """
        @ in_log_order
        - last.table is not binding
        + last.table.name != binding.name
        """,
        "rows of two shapes share a statement that is made for one",
    ),
)
