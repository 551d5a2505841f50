"""Bugs between the source's log and the feed's: loops, the parts of large transactions, mapping and filter."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

ORIGIN = (
    Mutant(
        "loop-not-seen",
        "tidelock.engine.capture.origin",
        """
        - return not node or not any(node in (row[_ORIGIN], *str(row[_PATH]).split(" ")) for _, row in marks)
        + return True or not any(node in (row[_ORIGIN], *str(row[_PATH]).split(" ")) for _, row in marks)
        """,
        "a change goes back to the node that it came from",
        row=16,
    ),
    Mutant(
        "loop-by-origin-only",
        "tidelock.engine.capture.origin",
        """
        - return not node or not any(node in (row[_ORIGIN], *str(row[_PATH]).split(" ")) for _, row in marks)
        + return not node or not any(node in (row[_ORIGIN],) for _, row in marks)
        """,
        "a change goes round a ring of three nodes",
        row=16,
        case="a loop in a ring (pglogical 210)",
    ),
    Mutant(
        "loop-by-part-of-a-name",
        "tidelock.engine.capture.origin",
        """
        - return not node or not any(node in (row[_ORIGIN], *str(row[_PATH]).split(" ")) for _, row in marks)
        + return not node or not any(node in " ".join(map(str, (row[_ORIGIN], row[_PATH]))) for _, row in marks)
        """,
        "changes that came through node n10 are kept from node n1",
        row=16,
    ),
    Mutant(
        "loop-of-later-parts",
        "tidelock.engine.capture.machine",
        """
        - if self._foreign != identity:
        + if True:
        """,
        "the second part of a foreign transaction, which shows no mark, is taken for local",
        row=16,
    ),
)

CAPTURE = (
    Mutant(
        "part-without-rows-lost",
        "tidelock.engine.capture.machine",
        """
        - if len(rows) > first or not source.complete or self._open:
        + if len(rows) > first:
        """,
        "a transaction whose last part holds no row of ours never ends",
    ),
    Mutant(
        "resumed-part-without-rows-lost",
        "tidelock.engine.capture.machine",
        """
        - self._open = start.rows > 0  # the last transaction goes on in the next chunk
        + self._open = False
        """,
        "a reader that resumes inside a transaction does not tell its end if no row of ours is left",
    ),
    Mutant(
        "position-stays-without-rows",
        "tidelock.engine.capture.machine",
        """
        - if chunk.last == self._last and not rows and not shapes and ddl is None and not chunk.server_us:
        + if not rows and not shapes and ddl is None and not chunk.server_us:
        """,
        "rows outside of the selected tables do not move the position",
        case="rows outside the selected tables must move the position (debezium 3970)",
    ),
    Mutant(
        "position-lost-without-rows",
        "tidelock.engine.capture.machine",
        """
        + if not rows and not shapes and ddl is None and not transactions:
        +     self._last = chunk.last
        +     return None
          batch = LogBatch(
        """,
        "rows outside of the selected tables leave a gap in the feed's log",
    ),
    Mutant(
        "plain-as-the-last-table",
        "tidelock.engine.capture.machine",
        """
        - self._plain = self._plain and mapped.plain
        + self._plain = mapped.plain
        """,
        "rows of a filtered table pass whole once a table without filter is announced",
    ),
    Mutant(
        "related-statement-passed",
        "tidelock.engine.capture.machine",
        """
        - if tables or databases:
        + if tables == ddl.tables or databases:
        """,
        "a statement on a table of ours and another passes as unrelated",
    ),
    Mutant(
        "emptied-with-the-rows-of-others",
        "tidelock.engine.capture.machine",
        """
        - kind = DdlKind.OTHER if shared else ddl.kind  # others' rows would go with it
        + kind = ddl.kind
        """,
        "a TRUNCATE takes the rows of other sources that are in the same table of the target",
    ),
    Mutant(
        "dropped-database-passed",
        "tidelock.engine.capture.machine",
        """
        - if tables or databases:
        + if tables:
        """,
        "a statement that drops a database of ours passes as unrelated",
    ),
    Mutant(
        "ordinals-after-the-filter",
        "tidelock.engine.capture.mapping",
        """
        - return RowChange(change.table, before, after, change.ordinal)
        + return RowChange(change.table, before, after, 0)
        """,
        "rows lose their place in their transaction when a filter applies",
    ),
    Mutant(
        "entering-row-updated",
        "tidelock.engine.capture.mapping",
        """
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
        "tidelock.engine.capture.mapping",
        """
        - if before is None and after is None:
        + if after is None and (before is None or change.after is not None):
        """,
        "a row that leaves the filter stays at the target",
        row=2,
    ),
    Mutant(
        "unknown-passes-the-filter",
        "tidelock.engine.capture.mapping",
        """
        - if row is None or (self._test is not None and not self._test(row)):
        + if row is None or (self._test is not None and self._test(row) is False):
        """,
        "a filter that NULL makes unknown lets the row pass",
        case="three-valued logic",
    ),
    Mutant(
        "not-unknown-is-true",
        "tidelock.engine.capture.row_filter",
        """
        - return lambda row: None if (known := inner(row)) is None else not known
        + return lambda row: not inner(row)
        """,
        "NOT of what NULL makes unknown is true",
        case="three-valued logic",
    ),
)
