"""A table whose rows are stamped (`engine.two_way.stamp`), and what it needs at a site: columns, tombstones, triggers.

The triggers stamp what applications write: not below the clock, above the row and the tombstone that are written over,
and above all tombstones that have been taken away (`local_stamp`).  They stand aside for feeds with stamps, whose rows
have their own.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tidelock.adapters.bookkeeping.tables import SITES, quote
from tidelock.adapters.config.url import Dialect
from tidelock.engine.model.records import TableName
from tidelock.engine.model.stamp_columns import StampColumns, tombstones_of

LONGEST_WAIT_US: Final = 5_000_000
"""A change from a clock that is ahead by more does not wait for the target's."""
POSTGRES: Final = ("tidelock_stamp", "tidelock_look", "tidelock_bury")
MYSQL: Final = ("tl_new", "tl_set", "tl_look", "tl_move", "tl_bury")
"""The names of the triggers; at MySQL and MariaDB behind the table's, as they are names of the whole database."""


class StampedTable(msgspec.Struct, frozen=True):
    """A table at one site.  `key`: the columns of its primary key.  `books`: schema of the site's bookkeeping."""

    name: TableName
    key: tuple[str, ...]
    columns: StampColumns
    site: str
    books: str

    @property
    def tombstones(self) -> TableName:
        """The table with its tombstones."""
        return tombstones_of(self.name)


class Trigger(msgspec.Struct, frozen=True):
    """A trigger.  `body`: as the server's catalogue shows it.  `statements`: make it, and put it in an older one's
    place."""

    name: str
    body: str
    statements: tuple[str, ...]


def is_stamping(table: TableName, trigger: str) -> bool:
    """Tells whether a trigger of the table has a name that those here have."""
    return trigger in POSTGRES or trigger.removeprefix(f"{table.table}_") in MYSQL


class Words:
    """The words that the SQL of both dialects is made of.  `rows`, `dead`: the quoted tables of rows and tombstones.
    `floor`: above the latest time of a tombstone that was taken away."""

    def __init__(self, table: StampedTable, dialect: Dialect) -> None:
        self._dialect: Dialect = dialect
        self.rows, self.dead = self.qualified(table.name), self.qualified(table.tombstones)
        self.time, self.stamped_at = self.quoted(table.columns.time), self.quoted(table.columns.site)
        self.keys = [self.quoted(name) for name in table.key]
        self.site = f"'{table.site}'"
        self.floor = f"(SELECT s.floor + 1 FROM {self.quoted(table.books)}.{SITES} s WHERE s.own = 1)"

    def quoted(self, name: str) -> str:
        return quote(self._dialect, name)

    def qualified(self, name: TableName) -> str:
        return f"{self.quoted(name.schema)}.{self.quoted(name.table)}"

    def listed(self, *more: str, of: str = "") -> str:
        """Write the key's columns `of` a row, and more behind them."""
        return ", ".join([*(f"{of}{key}" for key in self.keys), *more])

    def same(self, one: str, other: str, equal: str = "=") -> str:
        """Write the condition that the keys of two rows are one."""
        return " AND ".join(f"{one}.{key} {equal} {other}.{key}" for key in self.keys)
