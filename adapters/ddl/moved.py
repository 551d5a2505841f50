"""Names of tables behind a statement, for what a feed keeps of them elsewhere: of those that are being copied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tidelock.adapters.ddl.lexer import NotPlain
from tidelock.adapters.ddl.operations import DropTable, Operation, RenameTable
from tidelock.adapters.ddl.rules import ALL, DdlRules
from tidelock.adapters.ddl.statement import operations
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind

Moves: TypeAlias = Mapping[TableName, TableName | None]
"""Names of now by the target's names of before; None: the source has no such table any more."""


def moved(ddl: Ddl, target_name: Callable[[TableName], TableName], rules: DdlRules = ALL) -> Moves:
    """Returns the tables that a statement drops or renames.  Their copy goes on under the new name, or not at all: also
    where the target keeps a table whose rows the source has not got under that name."""
    try:
        made = operations(ddl) if ddl.kind in (DdlKind.ALTERED, DdlKind.OTHER) and ddl.tables else ()
    except NotPlain:
        return {}
    return _moves(made, ddl.tables, target_name, follows=rules.policy.of("rename_table") in ("apply", "lenient"))


def _moves(
    made: Sequence[Operation],
    tables: Sequence[TableName],
    target_name: Callable[[TableName], TableName],
    *,
    follows: bool,
) -> Moves:
    def taken(name: TableName) -> TableName | None:
        folded = TableName(name.schema.lower(), name.table.lower())
        found = next((one for one in (name, folded) if one in tables), None)
        return target_name(found) if found is not None else None

    now: dict[TableName, TableName | None] = {}

    def give(name: TableName, to: TableName | None) -> None:
        first = next((one for one, last in now.items() if last == name), name)
        now[first] = to

    for one in made:
        match one:
            case DropTable() if (name := taken(one.table)) is not None:
                give(name, None)
            case RenameTable() if (name := taken(one.table)) is not None:
                to = taken(one.to)
                if to is not None or not follows:
                    give(name, to if follows else None)
                elif all(taken(other.to) != name for other in made if isinstance(other, RenameTable)):
                    give(name, None)  # else a shadow takes its place, as whose form it goes on
    return now
