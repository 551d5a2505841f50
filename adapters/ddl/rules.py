"""What a feed says of schema changes: its tables and columns by their names there, and its policy for each kind."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Final

import msgspec

from tidelock.adapters.config.feed import TableRule
from tidelock.adapters.config.schema_changes import FeedDdl
from tidelock.engine.model.records import TableName

log = logging.getLogger(__name__)


class NotFollowed(Exception):
    """The target does not follow an operation by itself; `args[0]` says why.  `hint`: what to do; '' for the usual."""

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.hint = hint


def _all(name: TableName) -> TableRule:
    return TableRule(source=f"{name.schema}.{name.table}")


def _logged(words: str) -> None:
    log.warning("%s", words)


class DdlRules(msgspec.Struct, frozen=True):
    """The feed's rules.  `select`: the rule of a source table; None where the feed does not take it.  `say`: tells
    people what the target goes without, though no row depends on it.  `mariadb`: the target is MariaDB, where its
    dialect is MySQL's."""

    policy: FeedDdl = FeedDdl()
    select: Callable[[TableName], TableRule | None] = _all
    say: Callable[[str], None] = _logged
    mariadb: bool = False

    def takes(self, table: TableName) -> bool:
        """Tells whether the feed takes a source table."""
        return self.select(table) is not None

    def admits(self, kind: str, what: str) -> bool:
        """Tells whether an operation of a kind is followed.  Raises NotFollowed where the feed is to halt at it."""
        policy = self.policy.of(kind)
        if policy == "halt":
            raise NotFollowed(f"the feed's `ddl` says `halt` for {kind} ({what})")
        return policy != "skip"

    def keeps(self, kind: str) -> bool:
        """Tells whether the target keeps what an operation of this kind drops."""
        return self.policy.of(kind) == "lenient"

    def column(self, table: TableName, name: str) -> str | None:
        """Returns the target's name of a source column; None where the feed leaves it out."""
        rule = self.select(table)
        if rule is None:
            return None
        columns = rule.columns
        if _in(name, columns.exclude) or (columns.include and not _in(name, columns.include)):
            return None
        return next((to for own, to in columns.rename.items() if own.lower() == name.lower()), name)

    def require_unnamed(self, table: TableName, *names: str) -> None:
        """Raises NotFollowed where the feed names one of the columns, so that it must be changed with the table."""
        rule = self.select(table)
        if rule is None:
            return
        groups = [name for group in rule.conflicts.groups for name in group.columns]
        columns = rule.columns
        listed = [*columns.include, *columns.rename, *columns.rename.values(), rule.version, *groups]
        for name in names:
            words = re.findall(r"\w+", rule.where)
            if _in(name, [*listed, *columns.exclude, rule.conflicts.version, *words]):
                raise NotFollowed(f"the feed names column {name} of {table}, so its `tables` must change with it")


ALL: Final = DdlRules()
"""Those of a feed that takes all tables, and applies all that can be."""


def _in(name: str, names: tuple[str, ...] | list[str]) -> bool:
    return name.lower() in {one.lower() for one in names}
