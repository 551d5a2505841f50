"""Bugs in which keys a change locks: primary and unique keys, NULL, collations, padding, foreign keys, cascades.

NULL as a value like any other is not here: keys would be coarser, which is slower and never wrong.  What is wrong is to
take a change from NULL for none, as SQL's own comparison does.
"""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

UNIQUE = (
    Mutant(
        "primary-key-not-locked",
        """
        @ _maker
        - f"{indent}out.append({key})"
        + f"{indent}pass"
        """,
        "rows with one primary key are ordered by their home lane alone",
        row=1,
    ),
    Mutant(
        "key-move-locks-new-key-only",
        """
        @ _maker
        - [*append(index, "b", "    "), "    if moved:", *append(index, "a", "        ")]
        + ["    pass", "    if moved:", *append(index, "a", "        ")]
        """,
        "an update does not lock the key that the row had before",
        row=1,
    ),
    Mutant(
        "key-move-locks-old-key-only",
        """
        @ _maker
        - [*append(index, "b", "    "), "    if moved:", *append(index, "a", "        ")]
        + [*append(index, "b", "    ")]
        """,
        "an update does not lock the key that the row moves to",
        case="primary-key chain (tiflow 10918)",
    ),
    Mutant(
        "freed-value-not-locked",
        """
        @ _maker
        - [f"    if {changed}:", *append(index, "b", "        "), *append(index, "a", "        ")]
        + [f"    if {changed}:", *append(index, "a", "        ")]
        """,
        "an update does not lock the unique value that it gives up",
        case="delete and insert of one value in parallel (MySQL bug 86078)",
    ),
    Mutant(
        "taken-value-not-locked",
        """
        @ _maker
        - [f"    if {changed}:", *append(index, "b", "        "), *append(index, "a", "        ")]
        + [f"    if {changed}:", *append(index, "b", "        ")]
        """,
        "an update does not lock the unique value that it takes",
    ),
    Mutant(
        "first-unique-index-only",
        """
        @ _indexes
        - [u.columns for u in table.uniques if set(u.columns) != set(table.key)]
        + [u.columns for u in table.uniques if set(u.columns) != set(table.key)][:1]
        """,
        "a table's second unique index takes no locks",
    ),
    Mutant(
        "change-from-null-is-none",
        """
        @ _maker
        - (f"a{p} != b{p}" for p in index.positions)
        + (f"(b{p} is not None and a{p} != b{p})" for p in index.positions)
        """,
        "a unique value taken by a row that had NULL is not locked",
        case="NULL in a unique key",
    ),
    Mutant(
        "folded-change-from-null-is-none",
        """
        @ lock_request.changed
        - before[p] != after[p]
        + before[p] is not None and before[p] != after[p]
        """,
        "the same for the index-wide locks of indexes that fold case, and for foreign keys",
        case="NULL in a unique key",
    ),
    Mutant(
        "opaque-index-by-value",
        """
        @ serial_reason
        - if unique.opaque: ...
        + if unique.opaque == "expression": ...
        """,
        "a prefix index locks whole values, though 'ab' and 'ac' may be one to it",
        case="prefix index (tiflow 3467)",
    ),
    Mutant(
        "unlogged-unique-column",
        """
        @ compile_keys
        - _unlogged_unique(binding)
        + False

        @ _indexes
          sets = [table.key] + [u.columns for u in table.uniques if set(u.columns) != set(table.key)]
        + sets = [columns for columns in sets if all(c in at for c in columns)]
        """,
        "a unique index over a column that is not in the log takes no lock",
        case="unique index on a generated column (tiflow 12696)",
    ),
)

EQUALITY = (
    Mutant(
        "padding-ignored",
        """
        @ folded_padded
        - value.rstrip(" ") if isinstance(value, str) else value
        + value
        """,
        "'a' and 'a ' are two values to a PAD SPACE index that folds case",
        case="trailing spaces (gh-ost 1285)",
    ),
    Mutant(
        "padding-ignored-without-case",
        """
        @ _maker
        - f"pad({value})" if equality is Equality.PADDED else value
        + value
        """,
        "'a' and 'a ' are two values to a PAD SPACE index that compares bytes",
        case="trailing spaces (gh-ost 1285)",
    ),
    Mutant(
        "case-ignored",
        """
        @ folded
        - value.lower()
        + value
        """,
        "'A' and 'a' are two values to an index that folds case",
        case="collations (tiflow 9489)",
    ),
    Mutant(
        "lower-case-as-collation",
        """
        @ folded
        - not (value.isascii() and value.isprintable())
        + False
        """,
        "'é' and 'e' are two values to an index that ignores accents",
        case="collations (tiflow 9489)",
    ),
    Mutant(
        "star-shared",
        """
        @ index_wide_requests
        - (key, X)
        + (key, S)

        @ key_requests
        - (index_wide, X)
        + (index_wide, S)
        """,
        "values that may be equal to any other are held by several at once",
        case="collations (tiflow 9489)",
    ),
    Mutant(
        "star-not-shared-by-plain-values",
        """
        @ index_wide_requests
        - [(key, S)]
        + []

        @ key_requests
        - if folded:
        -     out.append((index_wide, S))
        """,
        "plain values do not wait for one that may be equal to them",
        case="collations (tiflow 9489)",
    ),
    Mutant(
        "odd-value-given-up-is-plain",
        """
        @ index_wide_requests
        - one if one is exclusive or not other else other
        + other or one
        """,
        "a change from a value that may be equal to any other to a plain one does not wait for all",
        case="collations (tiflow 9489)",
    ),
    Mutant(
        "modes-of-one-change-downgraded",
        """
        @ lock_request.joined
        - merged.get(key, S)
        + S
        """,
        "a change that needs a key twice holds it as the later need says",
    ),
)

REFERENCES = (
    Mutant(
        "child-takes-no-lock",
        """
        @ foreign_key_requests
        - requests.append(key_requests(refers, mode=S))
        """,
        "a child does not wait for the parent that it refers to",
        row=9,
    ),
    Mutant(
        "parent-locks-as-reader",
        """
        @ foreign_key_requests
        - key_requests(reference(binding, cs, table, cs, space), mode=X)
        + key_requests(reference(binding, cs, table, cs, space), mode=S)
        """,
        "a parent comes and goes beside its children",
        row=9,
    ),
    Mutant(
        "reference-as-the-child-compares",
        """
        @ reference
        - equality_of(binding.shape.columns[at[own]], theirs[c])
        + Equality.EXACT
        """,
        "a child that spells its parent's key in other letters does not wait for it",
    ),
    Mutant(
        "reference-with-its-scale",
        """
        @ Index.values
        - if self.kinds: ...
        + if False: ...
        """,
        "a child's 1.50 does not wait for its parent's 1.5",
    ),
    Mutant(
        "cascade-locks-no-children",
        """
        @ foreign_key_requests
        - if cascades_into := _cascade_targets(table, tables): ...
        + if cascades_into := (): ...
        """,
        "children that a cascade will take are written beside it",
        row=11,
    ),
    Mutant(
        "cascaded-child-does-not-wait",
        """
        @ compile_keys
        - table_shared or is_cascaded(table, tables)
        + table_shared
        """,
        "a child is written beside a cascade into its table",
        row=11,
    ),
    Mutant(
        "two-sources-not-ordered",
        """
        @ BindingLocks.bind
        - name not in self._uneven and not serial_reason(table)
        + False
        """,
        "rows without a column of a unique index take the table whole, and those of another source do not share it",
    ),
    Mutant(
        "two-sources-ordered-from-now-on",
        """
        @ BindingLocks._share
        - any(change.binding.name == name for change in segment.changes)
        + False
        """,
        "the first row without a column of a unique index does not wait for those of another source in flight",
    ),
    Mutant(
        "two-sources-later-ones-ordered",
        """
        @ BindingLocks._lock_by
        - binding.name in self._uneven
        + False
        """,
        "of two sources of a table only rows that are in flight already are ordered against those that take it whole",
    ),
    Mutant(
        "cascade-one-level",
        """
        @ _cascade_targets
        - frontier.append(fk.child)
        """,
        "a cascade is thought to end with the children",
        row=11,
    ),
    Mutant(
        "cascade-forgets-who-refers",
        """
        @ _cascade_targets
        - dict.fromkeys([*touched, *referring])
        + touched
        """,
        "rows that refer to cascaded ones are not waited for",
        row=11,
    ),
)
