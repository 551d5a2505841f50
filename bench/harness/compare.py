"""Compare tables of two databases row by row, by value, whatever server each side is.

Both sides are read once, in the order of the key, and merged; tables without a key are
compared as multisets.  A value has one canonical form per *class* (number, time, text, …),
chosen from the source's column type, so that `1.50` equals `1.5`, a TIME equals an
interval, and two JSON documents are equal when their members are.

Nothing must be written to either side meanwhile: each table is read at its own moment.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, TypeAlias

from bench.harness.columns import Column, Form, catalogue, form, order_key, selected
from bench.harness.session import Endpoint, Record, Session, connection

FIRST_EXAMPLES = 10

Key: TypeAlias = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Pair:
    """A source table and where its rows should be, as `database.table` or `schema.table`.

    `columns`: source column → target column, empty for all by their own names.  `where`: SQL that selects source rows.
    """

    source: str
    target: str
    columns: tuple[tuple[str, str], ...] = ()
    where: str = ""


@dataclasses.dataclass(frozen=True)
class Example:
    """One row that differs: values by column, None where the row is not there."""

    key: Key
    source: Record | None
    target: Record | None


@dataclasses.dataclass
class TableDifferences:
    """`missing`: rows only at the source; `extra`: only at the target; `different`: same key, other values."""

    table: str
    matched: int = 0
    missing: int = 0
    extra: int = 0
    different: int = 0
    examples: list[Example] = dataclasses.field(default_factory=list)

    @property
    def total(self) -> int:
        return self.missing + self.extra + self.different

    def __str__(self) -> str:
        counts = f"{self.matched} equal, {self.missing} missing, {self.extra} extra, {self.different} different"
        line = f"{self.table}: {counts}"
        return "\n".join([line, *(f"  {e.key}: source {e.source}, target {e.target}" for e in self.examples)])


@dataclasses.dataclass
class Differences:
    """Differences of all tables compared."""

    tables: list[TableDifferences]

    @property
    def matched(self) -> int:
        return sum(table.matched for table in self.tables)

    @property
    def missing(self) -> int:
        return sum(table.missing for table in self.tables)

    @property
    def extra(self) -> int:
        return sum(table.extra for table in self.tables)

    @property
    def different(self) -> int:
        return sum(table.different for table in self.tables)

    @property
    def total(self) -> int:
        return self.missing + self.extra + self.different

    def __str__(self) -> str:
        return "\n".join(map(str, self.tables))


class NotComparable(ValueError):
    """A table or column that one side does not have; the text names it."""


def compare(source: Endpoint, target: Endpoint, tables: Sequence[str | Pair]) -> Differences:
    """Compare `tables`; a plain name stands for the same name on both sides.  Raises NotComparable."""
    source_session, close_source = connection(source)
    try:
        target_session, close_target = connection(target)
        try:
            return Differences([_compare(source_session, target_session, _pair(table)) for table in tables])
        finally:
            close_target()
    finally:
        close_source()


def _pair(table: str | Pair) -> Pair:
    return table if isinstance(table, Pair) else Pair(table, table)


def _compare(source: Session, target: Session, pair: Pair) -> TableDifferences:
    ours, key = catalogue(source, pair.source)
    theirs, _ = catalogue(target, pair.target)
    if not ours or not theirs:
        raise NotComparable(f"table {pair.source if not ours else pair.target} is not there or cannot be seen")
    names = pair.columns or tuple((name, name) for name in ours)
    for name, other in names:
        if name not in ours or other not in theirs:
            raise NotComparable(f"column {name} of {pair.source} has no partner {other} in {pair.target}")
    key = [name for name, _ in names if name in key] if set(key) <= {name for name, _ in names} else []
    # Key columns first, so that a row's key is its first columns.
    names = (*(n for n in names if n[0] in key), *(n for n in names if n[0] not in key))
    columns = [(ours[name], theirs[other]) for name, other in names]
    forms = [form(one, two) for one, two in columns]
    differences = TableDifferences(pair.target)
    with (  # a read that fails leaves no cursor of the other side open
        closing(_read(source, pair.source, [one for one, _ in columns], forms, len(key), pair.where)) as left,
        closing(_read(target, pair.target, [two for _, two in columns], forms, len(key), "")) as right,
    ):
        if key:
            _merge(left, right, len(key), [order_key(form_) for form_ in forms[: len(key)]], differences)
        else:
            _count(left, right, differences)
    return differences


def _read(
    session: Session, table: str, columns: list[Column], forms: list[Form], key_columns: int, where: str
) -> Generator[Record, None, None]:
    """The rows in canonical values, ordered by their first `key_columns` columns."""
    sql, readers = selected(session.flavor, table, columns, forms, key_columns, where)
    for row in session.stream(sql):
        yield tuple(
            None if value is None else reader(value) if reader else value
            for reader, value in zip(readers, row, strict=True)
        )


def _merge(
    left: Iterator[Record],
    right: Iterator[Record],
    key_columns: int,
    orders: list[Callable[[Any], Any]],
    differences: TableDifferences,
) -> None:
    def place(row: Record) -> Key:
        return tuple(order(value) for order, value in zip(orders, row, strict=False))

    ours, theirs = next(left, None), next(right, None)
    while ours is not None or theirs is not None:
        if ours == theirs:
            differences.matched += 1
            ours, theirs = next(left, None), next(right, None)
        elif theirs is None or (ours is not None and place(ours) < place(theirs)):
            assert ours is not None
            differences.missing += 1
            _note(differences, Example(ours[:key_columns], ours, None))
            ours = next(left, None)
        elif ours is None or place(theirs) < place(ours):
            differences.extra += 1
            _note(differences, Example(theirs[:key_columns], None, theirs))
            theirs = next(right, None)
        else:
            differences.different += 1
            _note(differences, Example(ours[:key_columns], ours, theirs))
            ours, theirs = next(left, None), next(right, None)


def _count(left: Iterator[Record], right: Iterator[Record], differences: TableDifferences) -> None:
    """Both sides are read in step, and equal rows cancel out, so that memory holds what differs so far."""
    balance: collections.Counter[Record] = collections.Counter()
    rows = 0
    for ours, theirs in itertools.zip_longest(left, right):
        for row, one in ((ours, 1), (theirs, -1)):
            if row is None:
                continue
            rows += one > 0
            balance[row] += one
            if not balance[row]:
                del balance[row]
    for row, count in balance.items():
        if count > 0:
            differences.missing += count
            _note(differences, Example((), row, None))
        else:
            differences.extra -= count
            _note(differences, Example((), None, row))
    differences.matched = rows - differences.missing


def _note(differences: TableDifferences, example: Example) -> None:
    if len(differences.examples) < FIRST_EXAMPLES:
        differences.examples.append(example)
