"""Bugs of rows of which not every value is known."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

PARTIAL = (
    Mutant(
        "unseen-value-locks-nothing",
        """
        @ compile_keys
        - serial_reason(table) or _unlogged_unique(binding) or unseen_reason(binding) or alone
        + serial_reason(table) or _unlogged_unique(binding) or alone
        """,
        "delete(1), insert(2, lucy) run side by side, though row 1 had lucy",
        row=30,
    ),
    Mutant(
        "unseen-parent-locks-nothing",
        """
        @ untold_partners
        - tuple(dict.fromkeys((*parents, *children)))
        + ()
        """,
        "a parent goes before a child that leaves it unseen",
    ),
    Mutant(
        "unseen-value-is-folded",
        """
        @ must_keep_order
        - not b.key or b.has_unlogged_unique_column or b.unseen or b.name in ranks.looped
        + not b.key or b.has_unlogged_unique_column or b.name in ranks.looped
        """,
        "a row whose unique value moves unseen is written before the value is free",
    ),
    Mutant(
        "key-change-of-a-partial-row-is-delete-and-insert",
        """
        @ partial_fold
        - after is not None and UNKNOWN in after and (before is None or _gone(rows.get(key)))
        + False
        """,
        "a row that changes its key loses its long value",
        row=31,
    ),
    Mutant(
        "unknown-filled-from-another-row",
        """
        @ partial_fold
        - after = _filled(after, rows.get(key), before)
        + after = _filled(after, next(reversed(rows.values()), None), before)
        """,
        "B31: the fold keeps the older whole value of another row",
    ),
    Mutant(
        "unknown-never-filled",
        """
        @ partial_fold
        - after = _filled(after, rows.get(key), before)
        + pass
        """,
        "a value that an earlier change of the batch told is lost",
    ),
    Mutant(
        "partial-row-is-upserted",
        """
        @ set_based
        - partial and UNKNOWN in after
        + False
        """,
        "the placeholder is written",
    ),
    Mutant(
        "partial-image-replaces-the-staged-row",
        """
        @ ChunkMerge.__init__
        - [key for key in touched if key not in partial] if partial else list(touched)
        + list(touched)
        """,
        "the row that a partial image is written over is not among the staged any more",
    ),
    Mutant(
        "chunk-goes-on-with-a-partial-key-change",
        """
        @ ChunkLedger._takes_effect
        - chunk.spoiled
        + False
        """,
        "a row that changed its key while it was read is looked for under the new one",
    ),
    Mutant(
        "chunk-forgets-what-it-was-told",
        """
        @ Chunk._told
        - after = filled(after, self.touched.get(key) or before)
        + pass
        """,
        "a long value written since the reading began is taken from what was read before it",
    ),
)
