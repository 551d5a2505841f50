"""Protocol for what `check` and `init` ask of a source, whichever server it is."""

from __future__ import annotations

from typing import Protocol

import msgspec

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ports.definition import Definition
from tidelock.adapters.ports.finding import Finding
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import Equality


class SourceView(msgspec.Struct, frozen=True):
    """Facts about the tables of a source that a feed selects.

    `tables`: complete.  `rules`: ON UPDATE and ON DELETE of their foreign keys.  `checks`: (name, clause) of their
    check constraints.  `logs_cascades`: the log holds the rows that a cascade changes.  `tells_visibility`: a copy can
    tell when what is in the log can be read.
    """

    dialect: Dialect
    mariadb: bool
    tables: dict[TableName, SourceTable]
    rules: dict[tuple[TableName, str], tuple[str, str]]
    checks: dict[TableName, list[tuple[str, str]]]
    logs_cascades: bool
    tells_visibility: bool = True


class Preparation(msgspec.Struct, frozen=True):
    """A statement that the source needs before a feed's first run.

    `administrator`: the feed's own user may not run it, or it changes what others see, so `--apply` leaves it out.
    `by_start`: what stores the place to begin at runs it, or the first run.
    """

    sql: str
    why: str
    administrator: bool
    by_start: bool = False


class InspectedSource(Protocol):
    """A source that is open, and was looked at.  Everything raises SourceError."""

    @property
    def view(self) -> SourceView:
        """The feed's tables."""
        ...

    async def findings(self, stored: Position | None) -> list[Finding]:
        """Lists what is wrong at the source.  `stored`: the target's checkpoint."""
        ...

    async def preparations(self, stored: Position | None) -> list[Preparation]:
        """Lists the statements that the source lacks, in the order to run them.  Raises CannotRun where a rule is
        wrong."""
        ...

    async def removals(self) -> list[Preparation]:
        """Lists the statements that undo what `init` or a first run has made at the source.  Raises CannotRun."""
        ...

    async def tellers(self, *, wanted: bool) -> list[Preparation]:
        """Lists the statements that make, or drop, what tells schema changes in a log that has no statements.  Raises
        CannotRun."""
        ...

    async def definitions(self) -> dict[TableName, Definition]:
        """Returns what the feed's tables have besides columns and keys."""
        ...

    def equalities(self, table: SourceTable) -> dict[str, Equality]:
        """Returns how the source compares the text columns of a table."""
        ...

    async def execute(self, statement: str) -> None:
        """Executes a statement."""
        ...
