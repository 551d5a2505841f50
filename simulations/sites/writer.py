"""Local writers: transactions on a site's own rows.

Rows come in units, each with keys and values that no other has.  Who writes a unit *holds* it: another site takes it
over once all that was written on the way to it has come, so that no two write one row at the same time.
"""

from __future__ import annotations

from random import Random

from tidelock.engine.model.records import Row, TableName, Value
from tidelock.simulations.catalogue import NAMES, NUMBERS, STOCK
from tidelock.simulations.model import Violation
from tidelock.simulations.session import Session
from tidelock.simulations.sites.site import Site
from tidelock.simulations.sites.travels import UNIT

KEYS = 3  # of a unit, in each table
_SIZES = (1, 1, 2, 3, 6)
_LARGE = 0.05


class Writing:
    """A transaction of a local writer on some units; `values`: how many different ones a unique column has.  `counted`:
    rows of `stock` neither come nor go, and its numbers change as they may where sums are checked."""

    def __init__(
        self,
        site: Site,
        units: tuple[int, ...],
        number: int,
        chance: Random,
        values: int = len(NAMES),
        *,
        counted: bool = False,
    ) -> None:
        self._site = site
        self._units = units
        self._number = number
        self._names = NAMES[:values]
        self._chance = chance
        self._counted = counted
        self._session = site.database.begin(watched=True)

    def make(self) -> Session:
        """Does what chance says; returns the transaction, not committed."""
        chance = self._chance
        changes = chance.randint(15, 30) if chance.random() < _LARGE else chance.choice(_SIZES)
        names = [*self._site.database.tables]
        for _ in range(changes):
            self._change(chance.choice(names), chance.choice(self._units))
        return self._session

    def stocked(self) -> Session:
        """Inserts all rows of `stock` there will be; returns the transaction, not committed."""
        for unit in self._units:
            for key in range(unit * UNIT, unit * UNIT + KEYS):
                numbers = (str(self._chance.randrange(10)) for _ in NUMBERS)
                self._try(STOCK.name, None, (key, *numbers, "here", self._note()))
        return self._session

    def _change(self, name: TableName, unit: int) -> None:
        chance = self._chance
        rows = self._site_rows(name, unit)
        if self._counted and name == STOCK.name:
            if rows:
                self._count(chance.choice(rows))
            return
        wish = chance.random()
        if not rows or wish < 0.3:
            self._try(name, None, self._row(name, unit))
        elif wish < 0.45:
            self._try(name, chance.choice(rows), None)
        elif wish < 0.55:
            self._hand_over(name, unit, chance.choice(rows))
        elif wish < 0.65 and len(rows) > 1:
            self._swap(name, *chance.sample(rows, 2))
        else:
            old = chance.choice(rows)
            fresh = self._row(name, unit)
            changed = {chance.randrange(len(old)), len(old) - 1}
            self._try(name, old, tuple(fresh[at] if at in changed else old[at] for at in range(len(old))))

    def _count(self, old: Row) -> None:
        """Something is added to the row's count, or it has a new peak or low."""
        at, count, peak, low, version, place, _ = old
        step = self._chance.randint(1, 3)
        match self._chance.choice(("count", "count", "peak", "low", "place")):
            case "count":
                count = str(int(count) + self._chance.choice((step, -step)))
            case "peak":
                peak = str(int(peak) + step)
            case "low":
                low = str(int(low) - step)
            case _:
                place = self._chance.choice(self._names)
        version = str(max(self._number, int(version)))
        self._try(STOCK.name, old, (at, count, peak, low, version, place, self._note()))

    def _site_rows(self, name: TableName, unit: int) -> list[Row]:
        return [row for row in self._session.table(name).rows.values() if _is_of(row, unit)]

    def _hand_over(self, name: TableName, unit: int, old: Row) -> None:
        """Another row takes the values."""
        if self._try(name, old, None):
            self._try(name, None, (self._row(name, unit)[0], *old[1:-1], self._note()))

    def _swap(self, name: TableName, one: Row, other: Row) -> None:
        """Two rows trade all but their keys."""
        empty = (one[0], *(None for _ in one[1:]))
        for before, after in (one, empty), (other, (other[0], *one[1:])), (empty, (one[0], *other[1:])):
            if not self._try(name, before, after):
                return

    def _row(self, name: TableName, unit: int) -> Row:
        columns = self._session.table(name).spec.columns
        return tuple(self._value(column.name, unit) for column in columns)

    def _value(self, column: str, unit: int) -> Value:
        chance = self._chance
        if column in ("id", "order"):
            return unit * UNIT + chance.randrange(KEYS)
        if column == "note":
            return self._note()
        if column == "version":
            return str(self._number - chance.choice((0, 0, 5)))
        if column in NUMBERS:
            return chance.choice((None, "0", "1", "2", "5"))
        return chance.choice((None, *(f"{unit}{name}" for name in self._names)))

    def _note(self) -> str:
        return f"{self._site.name}{self._number}"

    def _try(self, name: TableName, old: Row | None, new: Row | None) -> bool:
        """Insert (`old` None), delete (`new` None) or update; False if a constraint refuses."""
        session = self._session
        try:
            if old is None:
                assert new is not None
                session.insert(name, new)
            elif new is None:
                session.delete(name, session.table(name).key(old))
            else:
                session.update(name, session.table(name).key(old), new)
        except Violation:
            return False
        return True


def _is_of(row: Row, unit: int) -> bool:
    return isinstance(row[0], int) and row[0] // UNIT == unit
