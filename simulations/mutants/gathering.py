"""Bugs where changes wait for more of their tables: who waits, how long, what is said meanwhile."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

GATHERING = (
    Mutant(
        "tied-table-waits",
        "tidelock.engine.log.coalescer",
        """
        - if binding.lone and binding not in piles:
        + if binding not in piles:
        """,
        "a change waits while one of another table, which shares a foreign key's lock with it, is planned",
    ),
    Mutant(
        "overtakes-what-waits",
        "tidelock.engine.log.coalescer",
        """
        - if binding.lone and binding not in piles:
        + if binding.lone and binding not in piles and len(batch.changes()) < self._worth:
        """,
        "changes of a table are planned before earlier ones of it, which wait",
    ),
    Mutant(
        "one-shape-overtakes-the-other",
        "tidelock.engine.log.coalescer",
        """
        - name = binding.target.name
        + name = binding

        - self._worthy[binding.target.name] = None
        + self._worthy[binding] = None
        """,
        "a table that comes under two shapes waits with the one and goes with the other",
    ),
    Mutant(
        "watermark-passes-what-waits",
        "tidelock.engine.log.watermark",
        """
        - if self._waits is not None:
        + if False:
        """,
        "the watermark passes changes that wait for more of their table",
    ),
    Mutant(
        "held-by-the-last-that-waits",
        "tidelock.engine.log.coalescer",
        """
        - return next(iter(self._tables.values()))
        + return next(reversed(self._tables.values()))
        """,
        "the watermark passes changes that wait for more of their table, up to the last of them",
    ),
    Mutant(
        "gathered-not-counted",
        "tidelock.engine.log.watermark",
        """
        - self._first[window] = window if first is None else first
        + self._first[window] = window
        """,
        "the watermark passes changes that waited and are planned now",
    ),
    Mutant(
        "held-by-the-last-window",
        "tidelock.engine.log.watermark",
        """
        - held = self._first[next(iter(self._left))] if self._left else self._next
        + held = self._first[next(reversed(self._left))] if self._left else self._next
        """,
        "the watermark passes windows that are under way, up to the last of them",
    ),
    Mutant(
        "statement-overtakes-what-waits",
        "tidelock.engine.apply.machine",
        """
        - if not self._behind or self.copying or self._inbox.ddl is not None or self.batches.gathering.crowded:
        + if not self._behind or self.copying or self.batches.gathering.crowded:
        """,
        "a statement runs before changes that it follows, which wait",
    ),
    Mutant(
        "copy-overtakes-what-waits",
        "tidelock.engine.apply.machine",
        """
        - if not self._behind or self.copying or self._inbox.ddl is not None or self.batches.gathering.crowded:
        + if not self._behind or self._inbox.ddl is not None or self.batches.gathering.crowded:
        """,
        "a copy begins, or a chunk is merged, before changes that it follows, which wait",
    ),
    Mutant(
        "waits-for-ever",
        "tidelock.engine.apply.machine",
        """
        - if not self._behind or self.copying or self._inbox.ddl is not None or self.batches.gathering.crowded:
        + if self.copying or self._inbox.ddl is not None or self.batches.gathering.crowded:
        """,
        "changes wait for more of their table though the log has no more",
    ),
    Mutant(
        "waits-without-end",
        "tidelock.engine.apply.machine",
        """
        - if not self._behind or self.copying or self._inbox.ddl is not None or self.batches.gathering.crowded:
        + if not self._behind or self.copying or self._inbox.ddl is not None:
        """,
        "however many changes wait, more may",
    ),
    Mutant(
        "fence-passed-by-piles",
        "tidelock.engine.apply.machine",
        """
        - if self.copying or self._fence:
        + if self.copying:
        """,
        "what the receipts of an earlier owner cover is put on piles unseen, and applied again",
    ),
)
