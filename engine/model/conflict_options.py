"""The settings by which conflicts of two sites are decided, as options of an apply machine.

Policies and types are the words of a feed's YAML; `engine.two_way.table_policies` makes of them what rules go by, with
the columns' places in a row.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

PolicyWord: TypeAlias = Literal["stop", "arrival", "arbiter", "spoke", "latest", "delta", "max", "min", "delete wins"]
Direction: TypeAlias = Literal["none", "up", "down"]
"""Direction of a feed: `up`, from a spoke to its arbiter; `down`, from the arbiter to a spoke; `none`: conflicts are
not decided."""


class GroupWords(msgspec.Struct, frozen=True):
    """Columns, by their names at the target, that one policy is for."""

    columns: tuple[str, ...]
    policy: PolicyWord


class CommitClock(msgspec.Struct, frozen=True):
    """Names of the sites whose commits are compared; of equal times the greater name is later."""

    spoke: str
    arbiter: str


class TableWords(msgspec.Struct, frozen=True):
    """Policies of a table.  `types`: by type of conflict.  `version`: column that `latest` compares; '': none."""

    default: PolicyWord = "stop"
    types: dict[str, str] = {}
    groups: tuple[GroupWords, ...] = ()
    version: str = ""

    @property
    def by_time(self) -> bool:
        """Tells whether `latest` compares times of commits here."""
        return not self.version and "latest" in (self.default, *self.types.values())
