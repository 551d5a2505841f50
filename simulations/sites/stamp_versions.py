"""Versions of rows with stamps: what was written where, and what each site must never show.

- A feed writes no version that no local writer has made: each goes on with its own stamp (history 22).  Tombstones of
  time 0, which a writer takes back at once, stay at its site.
- No two versions of a row have one stamp, nor has a row that of its tombstone.  But for one that its own transaction
  stamps again: at PostgreSQL, an insert that found a tombstone only when it was done.
- At no site does a row become older: what stands is above each version and below no tombstone that was ever there.
  So none comes back from the dead, and a row goes by its tombstone alone.
- In the end each site has of each row what has the greatest stamp of all that were ever written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.stamp_columns import holds_tombstones, rows_of
from tidelock.engine.two_way.stamp import Stamp
from tidelock.simulations.layout import Token
from tidelock.simulations.ledger import Mistake
from tidelock.simulations.model import Database, Table
from tidelock.simulations.session import Wrote

RowKey = tuple[TableName, Token]
NEVER = Stamp(-1, "")


class Versions:
    """Record of all versions."""

    def __init__(self, sites: Iterable[str]) -> None:
        self._made: dict[tuple[RowKey, Stamp], Row | None] = {}
        self._passing: set[tuple[RowKey, Row | None]] = set()
        self._last: dict[RowKey, Stamp] = {}
        self._alive: dict[str, dict[RowKey, Stamp]] = {site: {} for site in sites}
        self._dead: dict[str, dict[RowKey, Stamp]] = {site: {} for site in sites}

    def committed(self, site: str, database: Database, wrote: Sequence[Wrote], *, feeds: bool) -> None:
        """A transaction has committed at the site; `feeds`: of a feed, not of a local writer."""
        touched: dict[RowKey, None] = {}
        for at, (name, before, after) in enumerate(wrote):
            for row in (before, after):
                if row is not None:
                    table = database.tables[name]
                    touched[rows_of(name) if holds_tombstones(name) else name, table.key(row)] = None
            if after is not None:
                again = not feeds and any(old == after for of, old, _ in wrote[at + 1 :] if of == name)
                self._writes(site, database.tables[name], after, feeds=feeds, again=again)
        for name, key in touched:
            self._stands(site, database, name, key)

    def _writes(self, site: str, table: Table, row: Row, *, feeds: bool, again: bool) -> None:
        """`again`: the same transaction writes it again."""
        dead, stamp = holds_tombstones(table.spec.name), _stamp(row)
        if dead and not stamp.time:
            if feeds:
                raise Mistake(f"a feed leaves {row} at {site}, which was there for a moment only")
            return
        name = rows_of(table.spec.name) if dead else table.spec.name
        of, version = (name, table.key(row)), None if dead else row
        known = self._made.get((of, stamp), NEVER)
        if again and known is not NEVER:
            self._passing.add((of, row))
        if (of, row) in self._passing:
            return
        if feeds and known is NEVER:
            raise Mistake(f"a feed writes {row} at {site}, and nobody has made it with that stamp")
        if (feeds and known != version) or (not feeds and known is not NEVER):
            raise Mistake(f"{site} writes {version} of {of}, and {stamp} is that of {known}")
        self._made[of, stamp] = version
        self._last[of] = max(self._last.get(of, NEVER), stamp)
        here = (self._dead if dead else self._alive)[site]
        here[of] = max(here.get(of, NEVER), stamp)

    def _stands(self, site: str, database: Database, name: TableName, key: Token) -> None:
        of = name, key
        row = database.tables[name].rows.get(key)
        if (of, row) in self._passing:
            return
        alive, dead = self._alive[site].get(of, NEVER), self._dead[site].get(of, NEVER)
        if row is not None and _stamp(row) < alive:
            raise Mistake(f"{site} has {row} of {name}, and had {self._made[of, alive]}")
        if row is not None and _stamp(row) <= dead:
            raise Mistake(f"{site} has {row} of {name}, which was deleted there at {dead}")
        if row is None and alive > dead:
            raise Mistake(f"{site} has lost {self._made[of, alive]} of {name}; its last tombstone is of {dead}")

    # ------------------------------------------------------------------ tombstones go

    def purged(self, site: str, name: TableName, key: Token, stamp: Stamp, coming: Iterable[Stamp]) -> None:
        """A tombstone is taken away.  `coming`: stamps of this row's changes that feeds have yet to bring."""
        for other in self._alive:
            known = max(self._alive[other].get((name, key), NEVER), self._dead[other].get((name, key), NEVER))
            if known < stamp:
                raise Mistake(f"{site} forgets that {key} of {name} was deleted at {stamp}, and {other} has {known}")
        for one in coming:
            if one < stamp:
                raise Mistake(f"{site} forgets that {key} of {name} was deleted at {stamp}, and {one} is to come")

    # ------------------------------------------------------------------ the end

    def compare(self, databases: Mapping[str, Database], *, tombstones: bool) -> None:
        """All is quiet: each site has what was written last.  `tombstones`: none was taken away."""
        for (name, key), stamp in self._last.items():
            wanted = self._made[(name, key), stamp]
            for site, database in databases.items():
                row = database.tables[name].rows.get(key)
                if row != wanted:
                    raise Mistake(f"{site} has {row} under {key} of {name}, and {wanted} of {stamp} was the last")
        if tombstones:
            _same_tombstones(databases)


def _same_tombstones(databases: Mapping[str, Database]) -> None:
    (first, one), *others = databases.items()
    for name in one.tables:
        for site, other in others if holds_tombstones(name) else ():
            if one.tables[name].rows != other.tables[name].rows:
                raise Mistake(f"{name}: {first} has {one.tables[name].rows}, {site} has {other.tables[name].rows}")


def _stamp(row: Row) -> Stamp:
    return Stamp(*row[-2:])

