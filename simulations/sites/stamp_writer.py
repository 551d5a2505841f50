"""Local writers of rows with stamps: transactions that take their time, whose rows the site's triggers stamp.

A stamp is taken before a row is inserted, and the insert may wait for another transaction meanwhile.  So the triggers
look for a tombstone once more behind it: PostgreSQL stamps the row again, MySQL refuses the insert.  At REPEATABLE READ
a stamp goes by what stood when the transaction began; there PostgreSQL puts a tombstone of time 0 in the place of the
one that it would not see.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tidelock.engine.model.records import TableName
from tidelock.engine.model.stamp_columns import holds_tombstones, tombstones_of
from tidelock.engine.two_way.stamp import Stamp
from tidelock.simulations.layout import Token
from tidelock.simulations.log_entry import Entry
from tidelock.simulations.model import Database
from tidelock.simulations.session import Session
from tidelock.simulations.sites.stamp_session import NONE, Record, Records, Statement
from tidelock.simulations.sites.stamp_site import StampedSite, stamp_of, stamped, tombstone_of
from tidelock.simulations.sites.stamp_statements import look

PATIENCE = 60  # turns that a transaction may take
_SIZES = (1, 1, 1, 2, 3, 6)
_LARGE = 0.04
_NAMES = ("x", "y")


class Refused(Exception):
    """The transaction is to be run again: it is rolled back."""


class StampedWriter:
    """A transaction.  `amid`: it has taken a stamp, and not written by it.  `added`: what the log has of it."""

    def __init__(self, site: StampedSite, number: int, chance: Random, keys: int, *, repeatable: bool) -> None:
        self.site = site
        self.amid = False
        self.turns = 0
        self.added: list[Entry] = []
        self._number, self._chance, self._keys = number, chance, keys
        self._session = site.begin()
        self._began: Database | None = site.database.copy() if repeatable else None
        self._doing = self._do()

    @property
    def sees_old(self) -> bool:
        """Tells whether it goes by what stood when it began."""
        return self._began is not None

    def locking(self) -> list[Session]:
        """Returns the transactions that hold locks: this one."""
        return [self._session]

    def go_on(self) -> str:
        """Goes on until it waits; tells how it has ended, '' if it has not."""
        self.turns += 1
        if self.turns > PATIENCE:
            return "rolled back, as it waited too long"
        try:
            next(self._doing)
        except StopIteration:
            self.added = self.site.commit(self._session)
            return "committed"
        except Refused as why:
            return str(why)
        return ""

    def _do(self) -> Iterator[None]:
        chance = self._chance
        changes = chance.randint(12, 25) if chance.random() < _LARGE else chance.choice(_SIZES)
        names = [name for name in self.site.database.tables if not holds_tombstones(name)]
        for number in range(changes):
            name, key, other = chance.choice(names), (chance.randrange(self._keys),), (chance.randrange(self._keys),)
            note = f"{self.site.name}{self._number}.{number}"
            wish = chance.random()
            self._session.refresh()
            there = key in self._session.table(name).rows
            if not there:
                yield from self._insert(name, key, note)
            elif wish < 0.35:
                yield from self._delete(name, key)
            elif wish < 0.5 and other != key:
                yield from self._move(name, key, other, note)
            else:
                yield from self._update(name, key, note)
            self.amid = False
            if chance.random() < 0.3:
                yield

    # ------------------------------------------------------------------ statements, as their triggers make them

    def _insert(self, name: TableName, key: Token, note: str) -> Iterator[None]:
        stamp = self.site.stamp(self._dead(name, key))
        self.amid = True
        if self._chance.random() < 0.3:
            yield
        yield from self._lock((name, key))
        if key not in self._session.table(name).rows:
            self._session.insert(name, (*key, self._chance.choice(_NAMES), note, *stamp))
            yield from self._look_again(name, key)

    def _update(self, name: TableName, key: Token, note: str) -> Iterator[None]:
        yield from self._lock((name, key))
        row = self._session.table(name).rows.get(key)
        if row is not None:
            self._is_as_it_was(name, key)
            stamp = self.site.stamp(stamp_of(self._session, name, key))
            self._session.update(name, key, stamped((*key, self._chance.choice(_NAMES), note, 0, ""), stamp))

    def _delete(self, name: TableName, key: Token) -> Iterator[None]:
        yield from self._lock((name, key))
        over = stamp_of(self._session, name, key)
        if over is not None:
            self._is_as_it_was(name, key)
            self._session.delete(name, key)
            yield from self._bury(name, key, over)

    def _move(self, name: TableName, key: Token, other: Token, note: str) -> Iterator[None]:
        yield from self._lock((name, key))
        over = stamp_of(self._session, name, key)
        if over is None:
            return
        self._is_as_it_was(name, key)
        stamp = self.site.stamp(_later(over, self._dead(name, other)))
        self.amid = True
        yield from self._lock((name, other))
        if other in self._session.table(name).rows:
            return
        self._session.update(name, key, (*other, self._chance.choice(_NAMES), note, *stamp))
        yield from self._bury(name, key, over)
        yield from self._look_again(name, other)

    def _bury(self, name: TableName, key: Token, over: Stamp) -> Iterator[None]:
        """A tombstone is left of what stood there."""
        dead = tombstones_of(name)
        stamp = self.site.stamp(over)
        yield from self._lock((dead, key))
        there = stamp_of(self._session, dead, key)
        if there is None or stamp > there:
            self._session.put(dead, key, (*key, *stamp))

    def _look_again(self, name: TableName, key: Token) -> Iterator[None]:
        """The row is there: is a tombstone now that its stamp did not know of?"""
        dead = tombstones_of(name)
        if self._chance.random() < 0.3:
            yield
        yield from self._lock(shares=frozenset({(dead, key)}))
        if self._began is not None and self.site.dialect == "postgres":
            self._take_its_place(dead, key)
            tombstone = self._dead(name, key)
        else:
            tombstone = stamp_of(self._session, dead, key)
        row = stamp_of(self._session, name, key)
        assert row is not None
        if tombstone is None or tombstone.time < row.time:
            return
        if self.site.dialect == "mysql":
            raise Refused("rolled back, as a tombstone came meanwhile")
        kept = self._session.table(name).rows[key]
        self._session.update(name, key, stamped(kept, self.site.stamp(max(row, tombstone))))

    # ------------------------------------------------------------------ what it sees

    def _lock(self, *locks: Record, shares: Records = NONE) -> Iterator[None]:
        statement = Statement(look, frozenset(locks), shares)
        while self._session.waits(statement, self.site.others(self._session)):
            yield
        self._session.do(statement)

    def _dead(self, name: TableName, key: Token) -> Stamp | None:
        """Returns the tombstone that the stamp goes by: its own, or what its view shows."""
        if self._began is None or self._session.has_written(tombstones_of(name), key):
            return tombstone_of(self._session, name, key)
        return tombstone_of(self._began, name, key)

    def _is_as_it_was(self, name: TableName, key: Token) -> None:
        """Raises Refused where PostgreSQL cannot serialise."""
        if self._began is None or self.site.dialect == "mysql":
            return
        if self.site.database.tables[name].rows.get(key) != self._began.tables[name].rows.get(key):
            raise Refused("rolled back, as a row is newer than its view")

    def _take_its_place(self, dead: TableName, key: Token) -> None:
        """Raises Refused where a tombstone is there that it cannot see."""
        assert self._began is not None
        if key in self._session.table(dead).rows:
            if self.site.database.tables[dead].rows.get(key) != self._began.tables[dead].rows.get(key):
                raise Refused("rolled back, as a tombstone is newer than its view")
            return
        self._session.insert(dead, (*key, 0, ""))
        self._session.delete(dead, key)


def _later(one: Stamp | None, other: Stamp | None) -> Stamp | None:
    return max((stamp for stamp in (one, other) if stamp is not None), default=None)
