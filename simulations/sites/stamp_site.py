"""A site whose rows have stamps: its clock, its floor, and what its triggers do.

Whoever writes at the site has a session in `open` until it commits, so that others wait for what it has locked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.stamp_columns import StampColumns, tombstones_of
from tidelock.engine.two_way.stamp import Stamp, local_stamp
from tidelock.simulations.layout import Token
from tidelock.simulations.log_entry import Entry, Marks
from tidelock.simulations.model import Database
from tidelock.simulations.plan import Plan
from tidelock.simulations.session import Session, Wrote
from tidelock.simulations.sites.site import Site
from tidelock.simulations.sites.stamp_plan import Dialect
from tidelock.simulations.sites.stamp_session import StampedSession
from tidelock.simulations.sites.stamp_versions import Versions

COLUMNS = StampColumns()
Opened = Callable[[], list[Session]]


class StampedSite(Site):
    """`now`: what a right clock shows; `skew`: by how much this one is wrong.  `floor`: the latest time of a tombstone
    that was taken away here.  `versions`: who checks what is committed."""

    def __init__(
        self, name: str, plan: Plan, versions: Versions, dialect: Dialect, grain: int, *, logs_unchanged: bool
    ) -> None:
        super().__init__(name, plan, logs_unchanged=logs_unchanged)
        self.versions = versions
        self.dialect = dialect
        self.now = self.skew = self.floor = 0
        self.wrote: Callable[[Sequence[Entry]], None] = lambda added: None  # who is told of what goes
        self._grain = grain
        self._opened: list[Opened] = []

    @property
    def clock(self) -> int:
        """Time that the clock shows, in microseconds."""
        return max((self.now + self.skew) // self._grain * self._grain, 1)

    def knows(self, opened: Opened) -> None:
        """From now on `opened` tells sessions that hold locks here."""
        self._opened.append(opened)

    def others(self, session: Session) -> list[Session]:
        """Returns the other transactions that hold locks."""
        return [other for opened in self._opened for other in opened() if other is not session]

    def is_locked(self, session: Session) -> bool:
        return any(session.conflicts(other) for other in self.others(session))

    def begin(self) -> StampedSession:
        return StampedSession(self.database)

    def stamp(self, over: Stamp | None) -> Stamp:
        """Returns the stamp of a write over what had that one."""
        return local_stamp(self.clock, self.name, over, self.floor)

    def note_purged(self, session: Session) -> None:
        """Commits what takes tombstones away."""
        self.wrote(super().commit(session))

    def commit(
        self, session: Session, marks: Marks = (), verdicts: Sequence[Wrote] = (), feed: str = ""
    ) -> list[Entry]:
        added = super().commit(session, marks, verdicts, feed)
        self.versions.committed(self.name, self.database, session.wrote, feeds=bool(marks))
        return added


def stamp_of(database: Database | Session, name: TableName, key: Token) -> Stamp | None:
    """Returns the stamp of a row, or of a tombstone; None where there is none."""
    table = database.tables[name] if isinstance(database, Database) else database.table(name)
    row = table.rows.get(key)
    return None if row is None else Stamp(row[table.at[COLUMNS.time]], row[table.at[COLUMNS.site]])


def tombstone_of(database: Database | Session, name: TableName, key: Token) -> Stamp | None:
    """Returns the stamp of the tombstone of a row of the table; None where there is none."""
    return stamp_of(database, tombstones_of(name), key)


def stamped(row: Row, stamp: Stamp) -> Row:
    """Returns a row, or a tombstone, with this stamp."""
    return (*row[:-2], *stamp)
