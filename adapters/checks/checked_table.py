"""A source table beside its target table, with all that their comparison asks of either server."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ports.target_inspection import Details
from tidelock.adapters.schema.create_table import identifier, qualified
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.engine.model.schema import Equality, TargetTable


class CheckedTable(msgspec.Struct, frozen=True):
    """A source table, as it is replicated (`projected`), and its target.

    `source_dialect`: in which the source is told what to do.  `equalities`: of the source's text columns.  `checks`:
    clauses of the source's check constraints.  `rules`: as in Details, of the source.  `logged`: the source logs what
    its cascades do.  `names`: of the source's columns, those that they have at the target.
    `mariadb`: the target is.
    """

    source: SourceTable
    source_dialect: Dialect
    target: TargetTable
    details: Details
    dialect: Dialect
    equalities: Mapping[str, Equality]
    checks: tuple[str, ...]
    rules: Mapping[str, tuple[str, str]]
    logged: bool
    names: Mapping[str, str] = {}
    mariadb: bool = False

    @property
    def place(self) -> str:
        """The target table's qualified and quoted name."""
        return qualified(self.dialect, self.target.name)

    @property
    def crosses(self) -> bool:
        """Tells whether a PostgreSQL source has a MySQL or MariaDB target."""
        return self.source_dialect == "postgres" and self.dialect == "mysql"

    def quoted(self, name: str) -> str:
        """Returns `name` quoted for the target."""
        return identifier(self.dialect, name)
