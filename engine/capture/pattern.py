"""Table patterns: `db.table`, where `*` stands for any text within a part and carries over to the other side."""

from __future__ import annotations

import re
from functools import lru_cache

from tidelock.engine.model.records import TableName


class PatternError(Exception):
    """Error in a pattern; `args[0]` says what is wrong with it."""


class Pattern:
    """Pattern of table names.  The first dot parts the database from the table.  Names compare exactly: servers differ
    in letter case."""

    __slots__ = ("schema", "table")

    def __init__(self, text: str) -> None:
        """Raises PatternError."""
        self.schema, dot, self.table = text.partition(".")
        if not (self.schema and dot and self.table):
            raise PatternError(f"{text!r} is not of the form db.table")

    @staticmethod
    @lru_cache(maxsize=1024)
    def of(text: str) -> Pattern:
        """Returns the pattern of this text.  Raises PatternError."""
        return Pattern(text)

    def matches(self, name: TableName) -> bool:
        """Does the pattern match this table?"""
        schema, table = _expression(self.schema), _expression(self.table)
        return schema.fullmatch(name.schema) is not None and table.fullmatch(name.table) is not None

    def meets(self, other: Pattern) -> bool:
        """Is there a name that both patterns match?"""
        return _meet(self.schema, other.schema) and _meet(self.table, other.table)

    def draws_on(self, schema: str) -> bool:
        """May it match a table of this database?"""
        return _expression(self.schema).fullmatch(schema) is not None

    def carry(self, name: TableName, target: Pattern) -> TableName:
        """Returns the target's name for `name`, which this pattern matches; `target.fits(self)` holds."""
        return TableName(_carry(self.schema, name.schema, target.schema), _carry(self.table, name.table, target.table))

    def bound_to(self, source: Pattern) -> bool:
        """Is each table of this target pattern made of one table of `source` alone?"""
        pairs = ((self.schema, source.schema), (self.table, source.table))
        return all(mine.count("*") == theirs.count("*") for mine, theirs in pairs)

    def fits(self, source: Pattern) -> bool:
        """Has each part of this target pattern no `*` (many tables to one), or as many as the source's?"""
        pairs = ((self.schema, source.schema), (self.table, source.table))
        return all(mine.count("*") in (0, theirs.count("*")) for mine, theirs in pairs)


@lru_cache(maxsize=1024)
def _expression(part: str) -> re.Pattern[str]:
    return re.compile("(.*)".join(re.escape(piece) for piece in part.split("*")), re.DOTALL)


def _carry(source: str, name: str, target: str) -> str:
    found = _expression(source).fullmatch(name)
    assert found is not None
    pieces = target.split("*")
    return pieces[0] + "".join(text + piece for text, piece in zip(found.groups(), pieces[1:], strict=False))


def _meet(one: str, other: str) -> bool:
    """Is there a text that both parts match?"""
    reached = {(0, 0)}
    frontier = [(0, 0)]
    while frontier:
        i, j = frontier.pop()
        mine, theirs = one[i : i + 1], other[j : j + 1]
        steps = []
        if mine == "*":
            steps += [(i + 1, j), *([(i, j + 1)] if theirs else ())]
        if theirs == "*":
            steps += [(i, j + 1), *([(i + 1, j)] if mine else ())]
        if mine and mine == theirs:
            steps.append((i + 1, j + 1))
        fresh = [step for step in steps if step not in reached]
        reached.update(fresh)
        frontier += fresh
    return (len(one), len(other)) in reached
