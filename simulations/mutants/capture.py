"""Bugs between the source's log and the feed's: loops, the parts of large transactions, mapping and filter."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

ORIGIN = (
    Mutant(
        "loop-not-seen",
        """
        @ admits
        - not node
        + True
        """,
        "a change goes back to the node that it came from",
        row=16,
    ),
    Mutant(
        "loop-by-origin-only",
        """
        @ admits
        - (row[_ORIGIN], *str(row[_PATH]).split(" "))
        + (row[_ORIGIN],)
        """,
        "a change goes round a ring of three nodes",
        row=16,
        case="a loop in a ring (pglogical 210)",
    ),
    Mutant(
        "loop-by-part-of-a-name",
        """
        @ admits
        - (row[_ORIGIN], *str(row[_PATH]).split(" "))
        + " ".join(map(str, (row[_ORIGIN], row[_PATH])))
        """,
        "changes that came through node n10 are kept from node n1",
        row=16,
    ),
    Mutant(
        "loop-of-later-parts",
        """
        @ NodeFilter.admits
        - self._identity != identity
        + True
        """,
        "the second part of a foreign transaction, which shows no mark, is taken for local",
        row=16,
    ),
)

CAPTURE = (
    Mutant(
        "part-without-rows-lost",
        """
        @ CaptureMachine._append
        - len(rows) > first or not source.complete or self._open
        + len(rows) > first
        """,
        "a transaction whose last part holds no row of ours never ends",
    ),
    Mutant(
        "resumed-part-without-rows-lost",
        """
        @ CaptureMachine.__init__
        - start.rows > 0
        + False
        """,
        "a reader that resumes inside a transaction does not tell its end if no row of ours is left",
    ),
    Mutant(
        "position-stays-without-rows",
        """
        @ CaptureMachine._batch
        - chunk.last == self._last
        + True
        """,
        "rows outside of the selected tables do not move the position",
        case="rows outside the selected tables must move the position (debezium 3970)",
    ),
    Mutant(
        "position-lost-without-rows",
        """
        @ CaptureMachine._batch
          if chunk.last == self._last and not rows and not shapes and ddl is None and not chunk.server_us:
              return None
        + if not rows and not shapes and ddl is None and not transactions:
        +     self._last = chunk.last
        +     return None
        """,
        "rows outside of the selected tables leave a gap in the feed's log",
    ),
    Mutant(
        "plain-as-the-last-table",
        """
        @ CaptureMachine._announce
        - self._plain
        + True
        """,
        "rows of a filtered table pass whole once a table without filter is announced",
    ),
    Mutant(
        "related-statement-passed",
        """
        @ concern.related
        - tables or databases
        + tables == ddl.tables or databases
        """,
        "a statement on a table of ours and another passes as unrelated",
        worlds="altering",
    ),
    Mutant(
        "emptied-with-the-rows-of-others",
        """
        @ concern.related
        - returns or _is_of_others(ddl.kind, tables, mapping)
        + returns
        """,
        "a TRUNCATE takes the rows of other sources that are in the same table of the target",
    ),
    Mutant(
        "dropped-database-passed",
        """
        @ concern.related
        - tables or databases
        + tables
        """,
        "a statement that drops a database of ours passes as unrelated",
        worlds="altering",
    ),
    Mutant(
        "ordinals-after-the-filter",
        """
        @ TableMapping.apply
        - change.ordinal
        + 0
        """,
        "rows lose their place in their transaction when a filter applies",
    ),
    Mutant(
        "entering-row-updated",
        """
        @ TableMapping.apply
          if before is None and after is None:
              return None
        + if after is not None and change.before is not None:
        +     at = self._positions
        +     before = change.before if at is None else tuple(change.before[i] for i in at)
        """,
        "a row that enters the filter is an update at the target, and locks only what changed",
        row=2,
    ),
    Mutant(
        "leaving-row-kept",
        """
        @ TableMapping.apply
        - before is None and after is None
        + after is None and (before is None or change.after is not None)
        """,
        "a row that leaves the filter stays at the target",
        row=2,
    ),
    Mutant(
        "unknown-passes-the-filter",
        """
        @ TableMapping.image
        - not self._test(row)
        + self._test(row) is False
        """,
        "a filter that NULL makes unknown lets the row pass",
        case="three-valued logic",
    ),
    Mutant(
        "not-unknown-is-true",
        """
        @ compile_filter
        - lambda row: None if (known := inner(row)) is None else not known
        + lambda row: not inner(row)
        """,
        "NOT of what NULL makes unknown is true",
        case="three-valued logic",
    ),
)
