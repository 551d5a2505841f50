"""The SQL of steps with stamps: rows and tombstones of sites without an arbiter (`engine.batch.stamp_steps`).

*Write first, then look.*  A row is written if its stamp is greater than that of the row there; then its tombstone is
read, and the row deleted again if that is greater.  A tombstone is left, and then the row deleted if it is older.

Each looks for what the other writes, and sees it even where it is not committed: the looks are locking reads, which
wait for whoever has written the record last.  Without that, two transactions would each have looked too early.  Both
lock the row before the tombstone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelock.adapters.mysql.target.statements import Dialect, qualified
from tidelock.adapters.mysql.target.suspect_statements import SuspectStatements
from tidelock.adapters.schema.mysql_stamps import wait_for_clock
from tidelock.engine.model.records import Row
from tidelock.engine.model.schema import Binding
from tidelock.engine.model.stamp_columns import holds_tombstones, rows_of, tombstones_of

_BY_KEY = " FORCE INDEX (PRIMARY)"


class StampedStatements(SuspectStatements):
    """Statements for the rows of one `Binding`, a table of rows or one of tombstones; all raise Unwritable."""

    def __init__(self, table: Binding, dialect: Dialect, packet_bytes: int) -> None:
        super().__init__(table, dialect, packet_bytes)
        self._leaves = holds_tombstones(table.name)
        rows = rows_of(table.name) if self._leaves else table.name
        self._alive, self._dead = qualified(rows), qualified(tombstones_of(rows))

    def stamped(self, rows: Sequence[Row], stamp: tuple[int, int]) -> Iterator[bytes]:
        """Write rows, or leave tombstones, whose stamp is greater; `stamp`: where they hold its time and site."""
        keys = [self.table.key_of(row) for row in rows]
        yield self._alone(wait_for_clock(max(row[stamp[0]] or 0 for row in rows)))
        if self._leaves:
            yield from self._look(self._alive, keys, "FOR UPDATE")
            yield from self._write_greater(rows, stamp)
        else:
            yield from self._write_greater(rows, stamp)
            yield from self._look(self._dead, keys, "LOCK IN SHARE MODE")
        yield from self._bury(keys, stamp)

    def _write_greater(self, rows: Sequence[Row], stamp: tuple[int, int]) -> Iterator[bytes]:
        """Assignments take effect one after another: the stamp's come last, its site before its time."""
        time, site = stamp
        alias = " AS tide_row" if self._dialect is Dialect.MYSQL else ""
        greater = self._is_greater((self._new(time), self._new(site)), self._name, stamp)
        sets = [
            f"{self._names[i]}=IF({greater},{self._new(i)},{self._name}.{self._names[i]})"
            for i in (*(i for i in self._whole if i not in stamp), site)
        ]
        sets.append(f"{self._names[time]}=GREATEST({self._name}.{self._names[time]},{self._new(time)})")
        tail = f"{alias} ON DUPLICATE KEY UPDATE {','.join(sets)}"
        return self._cut(self._insert, ",", self._rows(self._render_insert, rows), tail)

    def _new(self, at: int) -> str:
        name = self._names[at]
        return f"tide_row.{name}" if self._dialect is Dialect.MYSQL else f"VALUES({name})"

    def _look(self, place: str, keys: Sequence[Row], lock: str) -> Iterator[bytes]:
        """Lock the records of these keys in a table, those of others' open transactions too."""
        if self.joins(keys):
            tail = f") tide_new STRAIGHT_JOIN {place} tide_old{_BY_KEY} ON {self._join()} {lock}"
            return self._cut(f"SELECT COUNT(*) FROM {self._keys_leg}", self._next, self._texts(keys), tail)
        texts = [self._is_key("tide_old", key) for key in keys]
        return self._cut(f"SELECT COUNT(*) FROM {place} tide_old WHERE ", " OR ", texts, f" {lock}")

    def _bury(self, keys: Sequence[Row], stamp: tuple[int, int]) -> Iterator[bytes]:
        """Delete the rows of these keys whose tombstone is greater."""
        dead = (f"tide_dead.{self._names[stamp[0]]}", f"tide_dead.{self._names[stamp[1]]}")
        greater = self._is_greater(dead, self._alive, stamp)
        same = " AND ".join(f"{self._alive}.{self._names[i]}=tide_dead.{self._names[i]}" for i in self.table.key)
        alive = f"{self._dead} tide_dead{{}} STRAIGHT_JOIN {self._alive}{_BY_KEY} ON {same} WHERE {greater}"
        if self.joins(keys):
            by_key = alive.format(f"{_BY_KEY} ON {self._join('tide_dead')}")
            tail = f") tide_new STRAIGHT_JOIN {by_key}"
            return self._cut(f"DELETE {self._alive} FROM {self._keys_leg}", self._next, self._texts(keys), tail)
        texts = [self._is_key("tide_dead", key) for key in keys]
        return self._cut(f"DELETE {self._alive} FROM {alive.format('')} AND (", " OR ", texts, ")")

    def _is_greater(self, one: tuple[str, str], other: str, stamp: tuple[int, int]) -> str:
        return f"({','.join(one)})>({','.join(f'{other}.{self._names[i]}' for i in stamp)})"

    @property
    def _keys_leg(self) -> str:
        return f"(SELECT {self._key_leg()} FROM {self._name} WHERE FALSE UNION ALL VALUES {self._row}"

    def _texts(self, keys: Sequence[Row]) -> list[str]:
        return self._rows(self._render_keys, keys, self.table.key)

    def _is_key(self, alias: str, key: Row) -> str:
        values = zip(self.table.key, key, strict=True)
        same = (f"{alias}.{self._names[i]}={self._one(i, value, compare=True)}" for i, value in values)
        return f"({' AND '.join(same)})"
