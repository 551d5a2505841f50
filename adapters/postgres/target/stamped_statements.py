"""The statements of steps with stamps: rows and tombstones of sites without an arbiter (`engine.batch.stamp_steps`).

*Write first, then look.*  A row is written if its stamp is greater than that of the row there, and a later statement,
which sees what was committed until then, deletes it again if its tombstone is greater.  A tombstone is left, and a
later statement deletes the row if it is older.

Each looks for what the other writes, so one of them must wait for the other where both are under way.  A row that is
there is locked by whoever changes it.  A row that another transaction has inserted and not committed cannot be seen
here, nor waited for.  So there are locks of a table (`schema.postgres_stamps.bucket`), each for some of its keys:
whoever inserts shares that of its key until it commits, before it looks; whoever leaves a tombstone and finds no row
takes it alone, and then looks again.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelock.adapters.postgres.target.checked_statements import CheckedStatements
from tidelock.adapters.postgres.target.copy_text import CopyCommand
from tidelock.adapters.postgres.target.statements import parts, qualified
from tidelock.adapters.postgres.target.values import Unwritable
from tidelock.adapters.schema.postgres_stamps import bucket, wait_for_clock
from tidelock.engine.model.records import Row
from tidelock.engine.model.stamp_columns import holds_tombstones, rows_of, tombstones_of
from tidelock.engine.protocol.steps import Step, UpsertRows


class StampedStatements(CheckedStatements):
    """The SQL of one `Binding`, a table of rows or one of tombstones, for steps with stamps; as `CheckedStatements` for
    others."""

    def of(self, step: Step, careful: bool) -> Iterator[str | CopyCommand]:
        """Write a step.  `careful`: do not trust `UpsertRows.fresh`."""
        if not isinstance(step, UpsertRows) or step.stamp is None:
            yield from super().of(step, careful)
            return
        try:
            for part in parts(step.rows, self._large):
                yield from self._stamped(part, step.stamp)
        except Unwritable as error:
            raise Unwritable(f"{self.binding.name}: {error}") from None

    def _stamped(self, rows: list[Row], stamp: tuple[int, int]) -> Iterator[str]:
        source = self._source([("c", i, self._array(rows, i)) for i in self.binding.key])
        name = self.binding.name
        yield wait_for_clock(max(row[stamp[0]] or 0 for row in rows))
        if not holds_tombstones(name):
            yield self._write_greater(rows, stamp)
            yield self._share(source)
            yield self._bury(source, stamp, qualified(name), qualified(tombstones_of(name)))
            return
        table = qualified(rows_of(name))
        yield self._take_alone(source, table)
        yield self._write_greater(rows, stamp)
        yield self._bury(source, stamp, table, qualified(name))

    def _write_greater(self, rows: list[Row], stamp: tuple[int, int]) -> str:
        wanted = ", ".join(self._typed(i) for i in self._written)
        source = self._source([("c", i, self._array(rows, i)) for i in self._written])
        return (
            f"{self._insert}SELECT {wanted} FROM {source} ON CONFLICT ({', '.join(self._key_names)}) DO UPDATE SET "
            f"{self._excluded} WHERE {self._is_greater('excluded', self.table, stamp)}"
        )

    def _share(self, source: str) -> str:
        """Share the locks of the keys: who leaves a tombstone of one without a row there waits for our COMMIT."""
        return f"SELECT pg_advisory_xact_lock_shared(a, b) FROM ({self._buckets(source, self.table)} ORDER BY 2) AS l"

    def _take_alone(self, source: str, table: str) -> str:
        """Take the locks of those keys that have no row, and lock the rows of the others."""
        there = f"SELECT FROM {table} AS t WHERE {self._by_key('c')} FOR UPDATE"
        alone = self._buckets(source, table, f" WHERE NOT EXISTS ({there})")
        return f"SELECT pg_advisory_xact_lock(a, b) FROM ({alone} ORDER BY 2) AS l"

    def _buckets(self, source: str, table: str, condition: str = "") -> str:
        first, second = bucket(table, [self._typed(i) for i in self.binding.key])
        return f"SELECT DISTINCT {first} AS a, {second} AS b FROM {source}{condition}"

    def _bury(self, source: str, stamp: tuple[int, int], table: str, tombstones: str) -> str:
        """Delete the rows of these keys whose tombstone is greater."""
        dead = " AND ".join(f"d.{self._quoted[i]} = {self._typed(i)}" for i in self.binding.key)
        return (
            f"DELETE FROM {table} AS t USING {source} JOIN {tombstones} AS d ON {dead} "
            f"WHERE {self._by_key('c')} AND {self._is_greater('d', 't', stamp)}"
        )

    def _is_greater(self, one: str, other: str, stamp: tuple[int, int]) -> str:
        time, site = (self._quoted[i] for i in stamp)
        left, right = (f'({at}.{time}, {at}.{site} COLLATE "C")' for at in (one, other))
        return f"{left} > {right}"
