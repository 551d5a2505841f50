"""Comparisons of rows of one table by the modelled database: functions made once a table, as a server has indexes.

Unique keys compare as the index does (`Equality`, prefix indexes); NULL equals nothing.  Apart from the engine's own
`keys` and `index` on purpose: it is what they are checked against.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable
from decimal import Decimal

from tidelock.engine.model.records import Row, Value
from tidelock.engine.model.schema import Equality, TargetTable
from tidelock.simulations.catalogue import shape

Token = tuple[Value, ...]
Reads = Callable[[Row], Token | None]

PREFIX = 1  # characters that a prefix index compares
DEFAULT = "default"
COMPUTED_FROM = "title"


@functools.lru_cache(maxsize=4096)
def comparable(value: Value, equality: Equality) -> Value:
    """The value as the index compares it (an accent- and case-insensitive collation where it is folded)."""
    if not isinstance(value, str) or equality is Equality.EXACT:
        return value
    if equality in (Equality.PADDED, Equality.FOLDED_PADDED):
        value = value.rstrip(" ")
    if equality is Equality.PADDED:
        return value
    return "".join(c for c in unicodedata.normalize("NFKD", value) if not unicodedata.combining(c)).casefold()


class Layout:
    """`shape`: as the log describes the table.  `key(row)`: comparable values of the key (the empty tuple where there
    is none).  `uniques`: (name, values of a row or None where one is NULL) of every unique index but the key.
    `at`: where a column stands.  `filled`: places of columns that are never NULL."""

    def __init__(self, spec: TargetTable) -> None:
        self.spec = spec
        self.shape = shape(spec)
        self.at = {column.name: i for i, column in enumerate(spec.columns)}
        self.equality = {column.name: column.equality for column in spec.columns}
        self._numeric = frozenset(column.name for column in spec.columns if column.type.startswith("numeric"))
        self.key = self._never_null(spec.key)
        others = [u for u in spec.uniques if u.columns != spec.key or u.opaque]
        self.uniques: tuple[tuple[str, Reads], ...] = tuple(
            (u.name, self.reads(u.columns, PREFIX if u.opaque else None)) for u in others
        )
        self.parents = tuple((fk, self.reads(fk.columns)) for fk in spec.foreign_keys)
        self.children = tuple((fk, self.reads(fk.parent_columns)) for fk in spec.references)
        # Where the values of columns that others refer to are looked up: the key (-1) or the number of a unique index.
        self.lookup = {spec.key: -1} | {u.columns: n for n, u in enumerate(others) if not u.opaque}
        self.defaults: Row = tuple(DEFAULT if c.default else None for c in spec.columns)
        self._computed = tuple((self.at[c.name], self.at[COMPUTED_FROM]) for c in spec.columns if c.generated)
        self.filled = tuple(i for i, column in enumerate(spec.columns) if not column.nullable)
        self.unique_places = frozenset(self.at[c] for u in spec.uniques for c in u.columns)

    def complete(self, row: Row) -> Row:
        """With the values that the database computes: lower case of `COMPUTED_FROM`."""
        if not self._computed:
            return row
        out = list(row)
        for place, origin in self._computed:
            out[place] = out[origin].lower() if isinstance(out[origin], str) else None
        return tuple(out)

    def logged(self, row: Row | None) -> Row | None:
        """Without them: no log holds what a virtual column is."""
        if row is None or not self._computed:
            return row
        computed = [place for place, _ in self._computed]
        return tuple(value for place, value in enumerate(row) if place not in computed)

    def reads(self, columns: tuple[str, ...], prefix: int | None = None) -> Reads:
        if self._numeric.intersection(columns):
            return self._reads_number(self.at[columns[0]])
        places = tuple((self.at[c], self.equality[c]) for c in columns)
        if len(places) == 1 and prefix is None:
            place, equality = places[0]
            if equality is Equality.EXACT:
                return lambda row: None if row[place] is None else (row[place],)
            return lambda row: None if row[place] is None else (comparable(row[place], equality),)

        def read(row: Row) -> Token | None:
            out = []
            for place, equality in places:
                value = row[place]
                if value is None:
                    return None
                out.append(comparable(value, equality)[:prefix] if prefix else comparable(value, equality))
            return tuple(out)

        return read

    @staticmethod
    def _reads_number(place: int) -> Reads:
        """1.0 is 1.00, whatever the scale of its column."""
        return lambda row: None if row[place] is None else (Decimal(row[place]),)

    def _never_null(self, columns: tuple[str, ...]) -> Callable[[Row], Token]:
        read = self.reads(columns)
        return lambda row: read(row) or ()


@functools.lru_cache(maxsize=1024)
def layout(spec: TargetTable) -> Layout:
    return Layout(spec)

