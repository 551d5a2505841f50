"""Mapping and filter: which tables and columns a feed takes, what they are called at the target, which rows belong.

An update that leaves the filter is a delete at the target, one that enters it an insert (design 9).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.capture.row_filter import Condition, Test, compile_filter, compile_partial_filter
from tidelock.engine.model.records import Row, RowChange, Shape, TableName


class Rule(msgspec.Struct, frozen=True):
    """Entry of the feed's `tables`.

    `source`, `target`: patterns (`engine.capture.pattern`).  `include` empty: all columns.  `rename`: source → target
    column.
    """

    source: str
    target: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    rename: dict[str, str] = {}
    where: Condition | None = None


class TableMapping:
    """Mapping of one table, compiled.  `plain`: rows pass untouched.  `source`: its name there."""

    __slots__ = ("_positions", "_test", "plain", "shape", "source")

    def __init__(self, rule: Rule, source: Shape, target: TableName) -> None:
        positions = tuple(
            i
            for i, c in enumerate(source.columns)
            if c.name not in rule.exclude and (not rule.include or c.name in rule.include)
        )
        self.source = source.name
        names = {c.name: rule.rename.get(c.name, c.name) for c in source.columns}
        columns = tuple(msgspec.structs.replace(c, name=names[c.name]) for c in (source.columns[i] for i in positions))
        self.shape = Shape(target, columns, tuple(names[n] for n in source.primary_key), source.identity)
        self._positions = None if len(positions) == len(source.columns) else positions
        made = compile_partial_filter if source.identity == "key" else compile_filter
        self._test: Test | None = made(rule.where, source.columns) if rule.where is not None else None
        self.plain = self._positions is None and self._test is None

    def apply(self, change: RowChange) -> RowChange | None:
        """Returns the change as the target should see it; None where it does not concern the target.  Raises Untold
        where the filter asks for a value that the log does not tell."""
        before, after = self.image(change.before), self.image(change.after)
        if before is None and after is None:
            return None
        return RowChange(change.table, before, after, change.ordinal)

    def verdict(self, change: RowChange) -> RowChange:
        """Returns a verdict as the target should see it: a row that does not belong there is deleted, as is one that
        does not stand."""
        after = self.image(change.after)
        row = change.before if change.after is None else change.after
        assert row is not None, "a change has an image"
        before = (row if self._positions is None else tuple(row[i] for i in self._positions)) if after is None else None
        return RowChange(change.table, before, after, change.ordinal)

    @property
    def kept(self) -> tuple[int, ...]:
        """Columns of the source that the target gets, by their place in a row, in order."""
        return tuple(range(len(self.shape.columns))) if self._positions is None else self._positions

    @property
    def filters(self) -> bool:
        """May some rows not belong to the target?"""
        return self._test is not None

    def image(self, row: Row | None) -> Row | None:
        """Returns a row as the target should see it; None where it does not belong there, or is none."""
        if row is None or (self._test is not None and not self._test(row)):
            return None
        return row if self._positions is None else tuple(row[i] for i in self._positions)


class Mapping:
    """Rules of a feed; the first that matches a table is its rule.  `own`: tidelock's bookkeeping, never taken."""

    def __init__(self, rules: Sequence[Rule], own: str = "tidelock") -> None:
        self._rules = tuple(rules)
        self._own = own

    def rule(self, table: TableName) -> Rule | None:
        """Returns the rule of a source table; None where the feed does not take it."""
        if table.schema == self._own:
            return None
        for rule in self._rules:
            if Pattern.of(rule.source).matches(table):
                return rule
        return None

    def selects(self, table: TableName) -> bool:
        """Does the feed take this source table?"""
        return self.rule(table) is not None

    def draws_on(self, database: str) -> bool:
        """May tables of this database of the source be taken?"""
        return database != self._own and any(Pattern.of(rule.source).draws_on(database) for rule in self._rules)

    def target(self, table: TableName) -> TableName:
        """Returns the target's name; a `*` in the target's pattern stands for what the source's name has there."""
        rule = self.rule(table)
        return Pattern.of(rule.source).carry(table, Pattern.of(rule.target)) if rule is not None else table

    def sources(self, target: TableName) -> list[tuple[Rule, TableName | None]]:
        """Returns the source's tables that may become this one: the rule, and the name; None where it may be any of
        several."""
        found: list[tuple[Rule, TableName | None]] = []
        for rule in self._rules:
            source, made = Pattern.of(rule.source), Pattern.of(rule.target)
            if not made.matches(target):
                continue
            name = made.carry(target, source) if made.bound_to(source) else None
            if name is None or self.rule(name) is rule:
                found.append((rule, name))
        return found

    def shared(self, table: TableName) -> bool:
        """May rows of other source tables be in this one's target table?"""
        return [name for _, name in self.sources(self.target(table))] != [table]

    def table(self, shape: Shape) -> TableMapping | None:
        """Returns the mapping of a source table; None where the feed does not take it."""
        rule = self.rule(shape.name)
        return TableMapping(rule, shape, self.target(shape.name)) if rule is not None else None
