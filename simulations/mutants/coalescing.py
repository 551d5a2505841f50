"""Bugs where changes wait for more of their tables: who waits, how long, what is said meanwhile."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

COALESCING = (
    Mutant(
        "tied-table-waits",
        """
        @ Coalescer._keep
        - binding.fk_free
        + True
        """,
        "a change waits while one of another table, which shares a foreign key's lock with it, is planned",
    ),
    Mutant(
        "overtakes-what-waits",
        """
        @ Coalescer._keep
        - binding.fk_free and binding not in piles
        + binding.fk_free and binding not in piles and len(batch.changes()) < self._min_rows
        """,
        "changes of a table are planned before earlier ones of it, which wait",
    ),
    Mutant(
        "one-shape-overtakes-the-other",
        """
        @ Coalescer._keep
        - binding.target.name
        + binding

        @ Coalescer._waiting
        - binding.target.name
        + binding
        """,
        "a table that comes under two shapes waits with the one and goes with the other",
    ),
    Mutant(
        "watermark-passes-what-waits",
        """
        @ Watermark._advance
        - self._waits is not None
        + False
        """,
        "the watermark passes changes that wait for more of their table",
    ),
    Mutant(
        "held-by-the-last-that-waits",
        """
        @ Coalescer._first
        - iter(self._tables.values())
        + reversed(self._tables.values())
        """,
        "the watermark passes changes that wait for more of their table, up to the last of them",
    ),
    Mutant(
        "gathered-not-counted",
        """
        @ Watermark.open
        - window if first is None else first
        + window
        """,
        "the watermark passes changes that waited and are planned now",
    ),
    Mutant(
        "held-by-the-last-window",
        """
        @ Watermark._advance
        - iter(self._left)
        + reversed(self._left)
        """,
        "the watermark passes windows that are under way, up to the last of them",
    ),
    Mutant(
        "statement-overtakes-what-waits",
        """
        @ WindowPlanner._latest
        - self._buffer.ddl is not None
        + False
        """,
        "a statement runs before changes that it follows, which wait",
    ),
    Mutant(
        "copy-overtakes-what-waits",
        """
        @ WindowPlanner._latest
        - self._copying
        + False
        """,
        "a copy begins, or a chunk is merged, before changes that it follows, which wait",
    ),
    Mutant(
        "waits-for-ever",
        """
        @ WindowPlanner._latest
        - not self._behind
        + False
        """,
        "changes wait for more of their table though the log has no more",
    ),
    Mutant(
        "waits-without-end",
        """
        @ WindowPlanner._latest
        - self._batches.coalescer.crowded
        + False
        """,
        "however many changes wait, more may",
    ),
    Mutant(
        "fence-passed-by-piles",
        """
        @ WindowPlanner._may_wait
        - self._fence
        + False
        """,
        "what the receipts of an earlier owner cover is put on piles unseen, and applied again",
    ),
)
