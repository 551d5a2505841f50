"""Protocol for what `check` and `init` ask of a target, whichever database it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from tidelock.adapters.bookkeeping.tables import TABLES, Lacking
from tidelock.adapters.config.url import Dialect, Endpoint
from tidelock.adapters.ports.definition import Definition
from tidelock.adapters.ports.finding import Finding, error, warning
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import TargetTable


class Details(msgspec.Struct, frozen=True):
    """The facts about a target table that the engine does not need.

    `checks`: (name, clause) of each check constraint.  `constraints`: names of unique constraints that are more than an
    index.  `rules`: ON UPDATE and ON DELETE of its foreign keys by name.  `collations`: of text columns (MySQL).
    """

    checks: tuple[tuple[str, str], ...] = ()
    triggers: tuple[str, ...] = ()
    constraints: frozenset[str] = frozenset()
    rules: dict[str, tuple[str, str]] = {}
    collations: dict[str, str] = {}
    findings: tuple[Finding, ...] = ()


ROW_RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")


class CannotRun(Exception):
    """The database cannot be used at all; `finding` says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


class Target(Protocol):
    """One open connection that only reads, but for `execute`."""

    dialect: Dialect
    mariadb: bool
    account: str

    async def tables(self, names: Sequence[TableName]) -> dict[TableName, TargetTable]:
        """Returns those of the tables that exist."""

    async def details(self, names: Sequence[TableName]) -> dict[TableName, Details]:
        """Returns details of those of the tables that exist."""

    async def definitions(self, names: Sequence[TableName]) -> dict[TableName, Definition]:
        """Returns what those of the tables that exist have besides columns and keys."""
        ...

    async def making(self, names: Sequence[TableName]) -> list[Finding]:
        """Returns what keeps the feed's user from making and filling these tables, which it does not see."""
        ...

    async def bookkeeping(self, schema: str, tables: tuple[str, ...]) -> list[Finding]:
        """Returns what keeps the feed's user from making or using these of tidelock's own tables."""
        ...

    async def lacking(self, schema: str, tables: tuple[str, ...] = TABLES) -> Lacking:
        """Returns what is missing of these of tidelock's own tables."""
        ...

    async def may_add(self, schema: str, lacking: Lacking) -> bool:
        """Returns whether the feed's user may add the missing columns."""
        ...

    async def durability(self) -> list[Finding]:
        """Returns whether a commit that the server has reported can be lost without this feed noticing."""
        ...

    async def schemas(self) -> set[str]:
        """Returns the schemas, or databases, of the target."""

    async def types(self, names: Sequence[TableName]) -> set[TableName]:
        """Returns those of these types that exist (PostgreSQL)."""
        ...

    async def checkpoint(self, schema: str, feed: str) -> Position | None:
        """Returns where the feed goes on from (`bookkeeping.checkpoints`); None before the first run."""
        ...

    async def execute(self, statement: str) -> None:
        """Executes a statement."""

    async def close(self) -> None:
        """Closes the connection."""


def only_for_copies(lacking: Finding) -> Finding:
    """Turns an error into a warning where the stream does without the right, and copies and repairs do not."""
    message = f"{lacking.message}: tables cannot be copied, nor rows repaired, since that makes tables there"
    return warning("target-copy-grant", message, lacking.hint)


def lacking_rights(account: str, rights: str, place: str, server: Endpoint) -> Finding:
    """Returns the finding that `account` lacks rights, with the statement that grants them."""
    return error(
        "target-grant", f"{account} lacks {rights} on {place} at {server}", f"GRANT {rights} ON {place} TO {account};"
    )
