"""Looks through a refused batch: is each row that it writes as the log says that it was before the batch?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from tidelock.adapters.target.compared_columns import may_be_gone
from tidelock.engine.batch.conflict_cut import Suspect
from tidelock.engine.model.records import Row
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.steps import DeleteRows, Step, UpdateRows, UpsertRows

Query = TypeVar("Query", covariant=True)


class LookStatements(Protocol[Query]):
    """Queries for the indexes of rows in a list."""

    def as_before(self, befores: list[Row]) -> Iterable[Query]:
        """Queries for the rows that are as before."""
        ...

    def there(self, keys: list[Row]) -> Iterable[Query]:
        """Queries for the keys that are there."""
        ...

    def held(self, rows: list[Row]) -> Iterable[Query]:
        """Queries for the rows of which a row of another key holds a unique value."""
        ...


class Looks:
    """Looks at the rows of one table, each row once.

    `befores`: rows as they should be.  `absent`: keys that should not be there.  `wanted`: rows whose unique values no
    row of another key should have.
    """

    def __init__(self) -> None:
        self.befores: list[Row] = []
        self.absent: list[Row] = []
        self.wanted: list[Row] = []
        self._written: set[Row] = set()

    def _take(self, key: Row, before: Row | None) -> None:
        """Takes a row, unless an earlier step has written it."""
        if key in self._written:
            return
        self._written.add(key)
        if before is None:
            self.absent.append(key)
        else:
            self.befores.append(before)

    def add(self, step: Step) -> None:
        """Adds the rows of a step."""
        key_of = step.table.key_of
        match step:
            case UpsertRows():
                for row in step.rows:
                    self._take(key_of(row), None)
                self.wanted += step.rows
            case DeleteRows(absent=True):
                for key in step.keys:
                    self._take(key, None)
            case DeleteRows() | UpdateRows():
                for before in step.befores or ():
                    self._take(key_of(before), before)
                if isinstance(step, UpdateRows) and step.moves:
                    for row in step.rows:
                        self._take(key_of(row), None)
                    self.wanted += step.rows


def looks_of(steps: Sequence[Step]) -> dict[Binding, Looks]:
    """Returns what to look at, by table."""
    looks: dict[Binding, Looks] = {}
    for step in steps:
        if step.table.key:
            looks.setdefault(step.table, Looks()).add(step)
    return looks


async def suspects(
    steps: Sequence[Step],
    statements_of: Callable[[Binding], LookStatements[Query]],
    ask: Callable[[Iterable[Query]], Awaitable[set[int]]],
) -> list[Suspect]:
    """Returns the rows in conflict of a batch's steps; `ask` asks the target."""
    found: list[Suspect] = []
    for table, looks in looks_of(steps).items():
        found += [(table.name, key) for key in await _in_conflict(table, looks, statements_of(table), ask)]
    return found


async def _in_conflict(
    table: Binding,
    looks: Looks,
    statements: LookStatements[Query],
    ask: Callable[[Iterable[Query]], Awaitable[set[int]]],
) -> list[Row]:
    found: list[Row] = []
    if looks.befores:
        keys = [table.key_of(row) for row in looks.befores]
        fitting = await ask(statements.as_before(looks.befores))
        if may_be_gone(table):
            fitting |= set(range(len(keys))) - await ask(statements.there(keys))
        found += [key for n, key in enumerate(keys) if n not in fitting]
    if looks.absent:
        there = await ask(statements.there(looks.absent))
        found += [key for n, key in enumerate(looks.absent) if n in there]
    if looks.wanted:
        held = await ask(statements.held(looks.wanted))
        found += [table.key_of(row) for n, row in enumerate(looks.wanted) if n in held]
    return found
