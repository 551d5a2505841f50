"""The SQL of tables, of which each table's is made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, Generic, ParamSpec, TypeVar

from tidelock.engine.model.schema import Binding

Given = ParamSpec("Given")
Statements = TypeVar("Statements")


class StatementsByTable(Generic[Given, Statements]):
    """The statements of each table, made by `make` of the table and what is given with it."""

    def __init__(self, make: Callable[Concatenate[Binding, Given], Statements]) -> None:
        self._make = make
        self._made: dict[Binding, Statements] = {}

    def of(self, table: Binding, *given: Given.args, **named: Given.kwargs) -> Statements:
        """Return the table's statements.  What is given is the same for as long as the tables are not forgotten."""
        statements = self._made.get(table)
        if statements is None:
            statements = self._made[table] = self._make(table, *given, **named)
        return statements

    def forget(self) -> None:
        """Forget the tables as they were."""
        self._made.clear()
