"""Bugs of the merge: the fold, the order of a batch's statements, and when they must stay in log order."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

MERGE = (
    Mutant(
        "fold-by-labels",
        "tidelock.engine.batch.merge",
        """
              entry = rows.get(key)
              if entry is None:
                  rows[key] = [before, after]
              else:
        +         if entry[1] is None:
        +             entry[0] = None
                  entry[1] = after
          return tables
        """,
        "a row deleted and inserted again is an insert",
        row=8,
    ),
    Mutant(
        "fold-keeps-last-before-image",
        "tidelock.engine.batch.merge",
        """
              if entry is None:
                  rows[key] = [before, after]
              else:
        -         entry[1] = after
        +         entry[:] = [before, after]
          return tables
        """,
        "an insert that is updated becomes an update, a value given up in between is forgotten",
        row=8,
    ),
    Mutant(
        "fold-keeps-first-after-image",
        "tidelock.engine.batch.merge",
        """
                  key, before = moved, None
          entry = rows.get(key)
          if entry is None:
              rows[key] = [before, after]
        - else:
        + elif entry[1] is None or after is None:
              entry[1] = after
        """,
        "of several updates of a row the first stands",
    ),
    Mutant(
        "fold-loses-moved-row",
        "tidelock.engine.batch.merge",
        """
        - _fold_in(rows, key, before, None)
        """,
        "a row whose key moves stays under its old key as well",
        case="primary-key chain (tiflow 10918)",
    ),
    Mutant(
        "fold-two-shapes-apart",
        "tidelock.engine.batch.merge",
        """
        - if len({binding.name for binding in tables}) != len(tables):
        + if False:
        """,
        "one row under two shapes is folded as two rows",
    ),
    Mutant(
        "writes-before-deletes",
        "tidelock.engine.batch.merge",
        """
        - return [*reversed(deletes), *writes]
        + return [*writes, *reversed(deletes)]
        """,
        "values are taken before they are freed",
        case="a unique value swapped inside a transaction (tiflow 9430)",
    ),
    Mutant(
        "parents-deleted-first",
        "tidelock.engine.batch.merge",
        """
        - return [*reversed(deletes), *writes]
        + return [*deletes, *writes]
        """,
        "a parent is deleted before its children",
        row=9,
    ),
    Mutant(
        "children-written-first",
        "tidelock.engine.batch.merge",
        """
        - return [*reversed(deletes), *writes]
        + return [*reversed(deletes), *reversed(writes)]
        """,
        "a child is written before its parent",
        row=9,
    ),
    Mutant(
        "ranks-by-name",
        "tidelock.engine.batch.merge",
        """
        - self._rank = {name: (depth[name], weights.get(name, 0), i) for i, name in enumerate(sorted(tables))}
        + self._rank = {name: (weights.get(name, 0), i) for i, name in enumerate(sorted(tables))}
        """,
        "foreign keys say nothing about the order of tables",
        row=9,
    ),
    Mutant(
        "unique-change-in-place",
        "tidelock.engine.batch.merge",
        """
        - elif moves(before, after):
        + elif False:
        """,
        "a row whose unique value changes is not taken away first",
        case="a unique value swapped inside a transaction (tiflow 9430)",
    ),
    Mutant(
        "change-from-null-stays",
        "tidelock.engine.model.schema",
        """
        - return lambda before, after: bool(before[p] != after[p])
        + return lambda before, after: bool(before[p] is not None and before[p] != after[p])
        """,
        "NULL to a value is no change of a unique key",
        case="NULL in a unique key",
    ),
    Mutant(
        "second-unique-index-unknown",
        "tidelock.engine.model.schema",
        """
        - names = {c for u in target.uniques for c in u.columns}
        + names = {c for u in target.uniques[:2] for c in u.columns}
        """,
        "a change of the second unique index's value is taken for a plain update",
    ),
    Mutant(
        "foreign-key-change-in-place",
        "tidelock.engine.model.schema",
        """
        - names = {c for f in target.foreign_keys for c in f.columns}
        + names = set[str]()
        """,
        "a child that lets go of its parent is written after the parent's delete",
        row=9,
    ),
    Mutant(
        "referenced-row-taken-away",
        "tidelock.engine.batch.merge",
        """
        - if binding.target.references or binding.partial:
        + if binding.partial:
        """,
        "a row that children refer to goes for a moment",
        row=9,
    ),
    Mutant(
        "target-columns-lost",
        "tidelock.engine.batch.merge",
        """
        - if binding.target.references or binding.partial:
        + if binding.target.references:

        - tied = {b: _Tied(b) for b in bindings if b.partial or b.target.references}
        + tied = {b: _Tied(b) for b in bindings if b.target.references}
        """,
        "a row with columns that only the target has goes for a moment and comes back without them",
        case="columns of the target's own",
    ),
    Mutant(
        "plain-without-a-key",
        "tidelock.engine.model.schema",
        """
        - self.plain = bool(self.key) and not (self.blind or self.partial or target.references)
        + self.plain = not (self.blind or self.partial or target.references)
        """,
        "rows of a table without a key are folded",
    ),
    Mutant(
        "plain-though-blind",
        "tidelock.engine.model.schema",
        """
        - self.plain = bool(self.key) and not (self.blind or self.partial or target.references)
        + self.plain = bool(self.key) and not (self.partial or target.references)
        """,
        "a table is taken for plain though a unique index holds what the log does not tell",
        case="unique index on a generated column (tiflow 12696)",
    ),
    Mutant(
        "plain-though-partial",
        "tidelock.engine.model.schema",
        """
        - self.plain = bool(self.key) and not (self.blind or self.partial or target.references)
        + self.plain = bool(self.key) and not (self.blind or target.references)
        """,
        "a table is taken for plain though the target has columns of its own",
        case="columns of the target's own",
    ),
    Mutant(
        "plain-though-referred-to",
        "tidelock.engine.model.schema",
        """
        - self.plain = bool(self.key) and not (self.blind or self.partial or target.references)
        + self.plain = bool(self.key) and not (self.blind or self.partial)
        """,
        "a table is taken for plain though children refer to it",
        row=9,
    ),
    Mutant(
        "blind-index-folded",
        "tidelock.engine.batch.merge",
        """
        - if any(not b.key or b.blind or b.name in ranks.looped for b in bindings):
        + if any(not b.key or b.name in ranks.looped for b in bindings):
        """,
        "a table is folded though a unique index holds what the log does not tell",
        case="unique index on a generated column (tiflow 12696)",
    ),
    Mutant(
        "blind-change-in-place",
        "tidelock.engine.batch.merge",
        """
        - moves = not binding.key or binding.blind or any(
        + moves = not binding.key or any(
        """,
        "an update is thought to leave a unique index alone that holds what the log does not tell",
        case="unique index on a generated column (tiflow 12696)",
    ),
    Mutant(
        "self-reference-folded",
        "tidelock.engine.batch.merge",
        """
        - if any(not b.key or b.blind or b.name in ranks.looped for b in bindings):
        + if any(not b.key or b.blind for b in bindings):
        """,
        "tables that refer to themselves are folded",
        row=9,
    ),
    Mutant(
        "cycle-of-tables-folded",
        "tidelock.engine.batch.merge",
        """
        - self.looped = {name for name in tables if _reaches(name, name, parents)}
        + self.looped = {name for name in tables if name in parents[name]}
        """,
        "two tables that refer to each other are folded",
        row=9,
    ),
    Mutant(
        "self-reference-deleted-at-once",
        "tidelock.engine.batch.merge",
        """
        - alone = any(fk.parent == binding.name for fk in binding.target.foreign_keys)
        + alone = False
        """,
        "parent and child of one table go in one statement, in the server's own order",
        row=9,
    ),
    Mutant(
        "parent-back-under-its-key",
        "tidelock.engine.batch.merge",
        """
        - return bool(self._left) and any(self._returns(index, after) for index in self._indexes)
        + return False
        """,
        "a parent that left and came back is folded to an update",
        row=9,
    ),
    Mutant(
        "parent-back-in-other-letters",
        "tidelock.engine.batch.merge",
        """
        - return key is not None and (key == star or key in self._left or (index.folded and star in self._left))
        + return key is not None and (key in self._left)
        """,
        "a parent that came back with another spelling of its key is not recognised",
        row=9,
    ),
    Mutant(
        "parent-key-moved-in-a-fold",
        "tidelock.engine.batch.merge",
        """
        - if self._key_of(before) != self._key_of(after):
        + if False:
        """,
        "a parent whose key moves is folded to delete and insert",
        row=9,
    ),
    Mutant(
        "cascade-in-a-fold",
        "tidelock.engine.batch.merge",
        """
        - return after is None and self._cascades
        + return False
        """,
        "a delete that cascades is folded, and takes children that came or left at another time",
        row=11,
    ),
    Mutant(
        "referenced-value-taken-by-an-update",
        "tidelock.engine.batch.merge",
        """
        - if self._left and any(self._returns(index, after) for index in changed):
        + if False:
        """,
        "a parent's value that left comes back by an update, and the fold takes it from under its children",
        row=9,
    ),
    Mutant(
        "same-key-twice-in-a-statement",
        "tidelock.engine.batch.merge",
        """
        - if not (isinstance(last, UpdateRows) and key not in keys and not moves and not last.moves):
        + if not (isinstance(last, UpdateRows) and not moves and not last.moves):
        """,
        "two updates of one row share a statement, which knows no order",
        case="the same key twice in one ON CONFLICT (debezium 7759)",
    ),
    Mutant(
        "moves-share-a-statement",
        "tidelock.engine.batch.merge",
        """
        - if not (isinstance(last, UpdateRows) and key not in keys and not moves and not last.moves):
        + if not (isinstance(last, UpdateRows) and key not in keys ):
        """,
        "rows whose unique values change are written as if they did not",
    ),
    Mutant(
        "neighbours-of-two-tables-share",
        "tidelock.engine.batch.merge",
        """
        - if last is None or last.table is not binding:
        + if last is None or last.table.name != binding.name:
        """,
        "rows of two shapes share a statement that is made for one",
    ),
)
