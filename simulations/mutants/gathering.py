"""Bugs where changes of tables that have few of them wait for more: who waits, how long, what is said meanwhile."""

from __future__ import annotations

from simulations.mutants.mutant import Mutant

GATHERING = (
    Mutant(
        "tied-table-waits",
        "engine.gathering",
        """
        - few = [binding for binding in counts if binding.lone and rows[binding.target.name] < self._worth]
        + few = [binding for binding in counts if rows[binding.target.name] < self._worth]
        """,
        "a change waits while one of another table, which shares a foreign key's lock with it, is planned",
    ),
    Mutant(
        "overtakes-what-waits",
        "engine.gathering",
        """
        - ready += self._kept.pop(binding.name)
        + ready += []
        """,
        "changes of a table are planned before earlier ones of it, which wait",
    ),
    Mutant(
        "one-shape-overtakes-the-other",
        "engine.gathering",
        """
        - few = [binding for binding in counts if binding.lone and rows[binding.target.name] < self._worth]
        + few = [b for b in counts if b.lone and counts[b] + len(self._kept.get(b.target.name, ())) < self._worth]
        """,
        "a table that comes under two shapes waits with the one and goes with the other",
    ),
    Mutant(
        "watermark-passes-what-waits",
        "engine.watermark",
        """
        - self._left[window] += segments + more
        + self._left[window] += segments
        """,
        "the watermark passes changes that wait for more of their table",
    ),
    Mutant(
        "gathered-not-counted",
        "engine.watermark",
        """
        - self.open(end, segments, end_us, more=more)
        + self.open(end, 0, end_us, more=more)
        """,
        "the watermark passes changes that waited and are planned now",
    ),
    Mutant(
        "statement-overtakes-what-waits",
        "engine.apply",
        """
        - return idle or bool(self.copying) or self._inbox.ddl is not None
        + return idle or bool(self.copying)
        """,
        "a statement runs before changes that it follows, which wait",
    ),
    Mutant(
        "copy-overtakes-what-waits",
        "engine.apply",
        """
        - return idle or bool(self.copying) or self._inbox.ddl is not None
        + return idle or self._inbox.ddl is not None
        """,
        "a copy begins, or a chunk is merged, before changes that it follows, which wait",
    ),
    Mutant(
        "waits-for-ever",
        "engine.apply",
        """
        - idle = not self._behind if self._inbox else not self.batches.rows
        + idle = False
        """,
        "changes wait for more of their table though the log has no more",
    ),
    Mutant(
        "waits-without-end",
        "engine.apply",
        """
        - if gathering.leaving or self._waited or gathering.rows >= self.options.gather_limit:
        + if gathering.leaving:
        """,
        "however many changes wait, more may",
    ),
)
