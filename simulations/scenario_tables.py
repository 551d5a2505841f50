"""The tables of a scenario, declared where they are used, so that a transcript can be read alone.

    table member id* nick!~ note           marks behind a name: `*` key, `!` unique by itself, `~` letter case does not
                                           count, `_` trailing spaces do not, `=` the target computes it (not logged)
    unique seat hall place                 a unique index over both columns
    unique page path: its first 10 bytes   one whose equality cannot be computed from a row, and why
    refers order.client to client.code     a foreign key; `cascading` behind it: its parent's change touches children
    tables account seat                    those of `simulations.catalogue`, by name

A table declared again has changed: the next `ddl applied` or `take over` tells the machine so, and the log its shape.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from tidelock.engine.model.records import Column, Kind, Shape, TableName
from tidelock.engine.model.schema import Equality, ForeignKey, TargetColumn, TargetTable, UniqueKey
from tidelock.simulations import catalogue

WORDS = ("table", "unique", "refers", "tables")
_COLUMN = re.compile(r"(\w+?)([*!~_=]*)")
_EQUALITIES = {
    (False, False): Equality.EXACT,
    (False, True): Equality.PADDED,
    (True, False): Equality.FOLDED,
    (True, True): Equality.FOLDED_PADDED,
}


class Tables:
    """Tables declared so far.  `names`: tables in the order in which they were first named: the log numbers
    them so."""

    def __init__(self) -> None:
        self._specs: dict[str, TargetTable] = {}

    @property
    def names(self) -> list[str]:
        return list(self._specs)

    def declare(self, word: str, rest: str) -> None:
        """Raises KeyError for a table that is not known, ValueError for a line that cannot be read."""
        match word:
            case "tables":
                known = {t.name.table: t for family in (*catalogue.FAMILIES, catalogue.CASCADING) for t in family}
                self._specs = {name: known[name] for name in rest.split()}
            case "table":
                name, *columns = rest.split()
                self._specs[name] = _table(name, columns)
            case "unique":
                head, _, reason = rest.partition(": ")
                name, *columns = head.split()
                index = UniqueKey("_".join(columns), tuple(columns), reason)
                spec = self._specs[name]
                self._specs[name] = replace(spec, uniques=(*spec.uniques, index))
            case _:
                child, _to, parent, *more = rest.split()
                self._refer(tuple(child.split(".")), tuple(parent.split(".")), cascades=more == ["cascading"])

    def _refer(self, child: tuple[str, ...], parent: tuple[str, ...], *, cascades: bool) -> None:
        (name, column), (parent_name, parent_column) = child, parent
        key = ForeignKey(
            f"{name}_{column}", _name(name), (column,), _name(parent_name), (parent_column,), cascades=cascades
        )
        spec = self._specs[name]
        self._specs[name] = replace(spec, foreign_keys=(*spec.foreign_keys, key))

    def target(self) -> dict[TableName, TargetTable]:
        """As the target's catalogue tells them now."""
        return catalogue.linked(*self._specs.values())

    def shape(self, name: str) -> Shape:
        """As the source logs it now."""
        spec = self._specs[name]
        logged = (c.name for c in spec.columns if not c.generated)
        return Shape(spec.name, tuple(Column(c, Kind.INT if c == "id" else Kind.TEXT) for c in logged), spec.key)


def _name(table: str) -> TableName:
    return TableName("shop", table)


def _table(name: str, columns: list[str]) -> TargetTable:
    specs: list[TargetColumn] = []
    key: list[str] = []
    uniques: list[UniqueKey] = []
    for text in columns:
        found = _COLUMN.fullmatch(text)
        if found is None:
            raise ValueError(f"not a column: {text}")
        column, marks = found.groups()
        equality = _EQUALITIES["~" in marks, "_" in marks]
        specs.append(TargetColumn(column, "", "*" not in marks, generated="=" in marks, equality=equality))
        if "*" in marks:
            key.append(column)
        if "!" in marks:
            uniques.append(UniqueKey(column, (column,)))
    primary = [UniqueKey("primary", tuple(key))] if key else []
    return TargetTable(_name(name), tuple(specs), tuple(key), (*primary, *uniques))
