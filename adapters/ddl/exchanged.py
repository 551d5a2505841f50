"""Changes that the exchange of a table and its shadow makes: the clauses that have altered the shadow.

They are followed where the rows that the tool has copied are certain to be those that the table had.  The tools copy
with INSERT IGNORE and by the names of columns.  So a row that breaks a new unique index is left out, a value that a new
type does not hold is another one, and a column that is named anew may be copied or not: of that the log of the table
says nothing, and the feed halts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tidelock.adapters.ddl.kept_shadows import Shadow
from tidelock.adapters.ddl.operations import (
    OPTIONAL,
    AddColumn,
    AddComputed,
    AlterTable,
    ChangeColumn,
    Clause,
    ConvertTexts,
    DropColumn,
    DropIndex,
    DropPrimaryKey,
    NotCarried,
    RenameColumn,
    RenameIndex,
    RenameTable,
)
from tidelock.adapters.ddl.rules import DdlRules, NotFollowed
from tidelock.adapters.ddl.shadows import arrivals
from tidelock.adapters.ddl.statement import operations
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.model.schema_change import Ddl

_KEEPING: Final = (AddColumn, DropColumn, DropPrimaryKey, DropIndex, RenameIndex, *OPTIONAL)
"""Clauses under which a copy of rows by INSERT IGNORE is what ALTER TABLE makes of them."""


def exchanges(
    renames: Sequence[RenameTable], taken: Callable[[TableName], TableName | None]
) -> dict[TableName, TableName]:
    """Returns the tables of the feed that another table takes the place of, each with that one's name; none where the
    statement renames tables of the feed in any other way too.  `taken`: as the log's rows name a table of the feed."""
    arrived = arrivals(renames)
    came = {table: was for name, was in arrived.items() if (table := taken(name)) is not None}
    left = {table for was in arrived.values() if (table := taken(was)) is not None}
    others = all(taken(was) is None for was in came.values())
    return came if others and left == set(came) else {}


def altered_by_exchange(
    table: TableName, shadow: TableName, shadows: Mapping[TableName, Shadow], target: TargetTable, rules: DdlRules
) -> AlterTable:
    """Returns what `shadow` differs by from `table`, whose place it takes.  Raises NotFollowed."""
    known = shadows.get(shadow)
    if known is None:
        raise _unknown(table, f"of {shadow}, which takes its place, the feed has not seen how it was made")
    if known.of != table:
        raise _unknown(table, f"{shadow}, which takes its place, was made in the form of {known.of}")
    if known.doubt:
        raise _unknown(table, f"of {shadow}, which takes its place, it is not certain what it is: {known.doubt}")
    _require_own_uniques(table, known, target, rules)
    alter = AlterTable(table, clauses_of(known))
    _require_once(table, alter.clauses)
    for clause in alter.clauses:
        _require_kept(table, clause, target, rules)
    return alter


def clauses_of(shadow: Shadow) -> tuple[Clause, ...]:
    """Returns all clauses that have altered a shadow."""
    found = [one for schema, statement in shadow.altered for one in operations(Ddl(schema, statement, "", 0))]
    return tuple(clause for one in found if isinstance(one, AlterTable) for clause in one.clauses)


def _require_own_uniques(table: TableName, shadow: Shadow, target: TargetTable, rules: DdlRules) -> None:
    there = {tuple(sorted(name.lower() for name in unique.columns)) for unique in target.uniques}
    for unique in shadow.uniques:
        names = [rules.column(table, name) for name in unique]
        if tuple(sorted(name.lower() for name in names if name is not None)) not in there or None in names:
            raise _uncertain(
                table, f"{shadow.table} was made with a unique index over {', '.join(unique)}, which the target has not"
            )


def _require_once(table: TableName, clauses: Sequence[Clause]) -> None:
    names: set[str] = set()
    for clause in clauses:
        match clause:
            case AddColumn():
                name = clause.new.column.name
            case DropColumn():
                name = clause.name
            case _:
                continue
        if name.lower() in names:
            raise _uncertain(table, f"column {name} goes and comes, and the tool may have copied its values or not")
        names.add(name.lower())


def _require_kept(table: TableName, clause: Clause, target: TargetTable, rules: DdlRules) -> None:
    match clause:
        case NotCarried():
            raise _uncertain(table, f"{clause.what}: {clause.why}")
        case AddComputed():
            raise _uncertain(table, f"column {clause.column.name} is computed")
        case ChangeColumn() | ConvertTexts():
            raise _uncertain(table, "a column is defined anew, and INSERT IGNORE makes of a value what fits")
        case RenameColumn():
            raise _uncertain(table, f"column {clause.name} is named {clause.to}, and the tool may have left its values")
        case AddColumn() if clause.new.present:
            raise _uncertain(table, f"column {clause.new.column.name} has the time at which each row was copied")
        case DropColumn():
            own = rules.column(table, clause.name) or clause.name
            for unique in target.uniques:
                if len(unique.columns) > 1 and own.lower() in {name.lower() for name in unique.columns}:
                    raise _uncertain(
                        table,
                        f"column {clause.name} goes, which is one of several of unique index {unique.name}: rows that "
                        "are alike without it have been left out",
                    )
        case _ if not isinstance(clause, _KEEPING):
            raise _uncertain(table, "a unique index is new, and rows that break it have been left out")


def _uncertain(table: TableName, why: str) -> NotFollowed:
    return NotFollowed(f"behind this exchange {table} may have other rows than before ({why})", _anew(table))


def _unknown(table: TableName, why: str) -> NotFollowed:
    return NotFollowed(f"what {table} is behind this statement is not known ({why})", _anew(table))


def _anew(table: TableName) -> str:
    return (
        f"Everything before it is applied. Give the target's table of {table} the form that the source's has now, then "
        "`tidelock ddl done FEED`, then `tidelock run FEED`, and beside it `tidelock copy FEED --table "
        f"{table} --yes`, which copies its rows anew"
    )
