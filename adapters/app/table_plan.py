"""Plans the target's tables: schemas and types for those that are missing, the tables whole, their foreign keys.

Plain indexes and checks are made with their table; of a feed that copies rows they wait until those are there, and
`init --indexes` makes them, for tables too that were made by hand.  Unique and foreign keys are there from the start:
the lock table is made from them.  Foreign keys that close a cycle wait as well: no table of it could be copied first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelock.adapters.app.planned_statement import PlannedStatement
from tidelock.adapters.checks.columns import key_length
from tidelock.adapters.checks.source_inspection import InspectedSource
from tidelock.adapters.checks.source_view import names_at_target, replicated
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator.stamps import without_stamps
from tidelock.adapters.ports.definition import Definition
from tidelock.adapters.ports.target_inspection import CannotRun, Target
from tidelock.adapters.schema.computed import with_computed
from tidelock.adapters.schema.create_table import create_table, identifier
from tidelock.adapters.schema.dialects import from_postgres, long_keys, reworded, without_long_keys
from tidelock.adapters.schema.foreign_keys import Keys, foreign_keys, is_there, waiting
from tidelock.adapters.schema.source_table import SourceTable, UserType
from tidelock.adapters.schema.whole_table import Server, WholeTable, WholeTableMaker, serves
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import Equality, TargetTable


async def table_plan(feed: Feed, source: InspectedSource, target: Target, indexes: bool) -> list[PlannedStatement]:
    """Returns the statements for missing schemas, the types and tables in them, then the foreign keys of those tables.
    `indexes`: also plain indexes and checks that tables which are there lack.
    """
    view = source.view
    tables = without_stamps(feed, view.tables)
    target_of = {name: feed.target_name(name) for name in tables}
    there = await target.tables(list(target_of.values()))
    worded = {name: _worded(feed, table, source, target) for name, table in tables.items()}
    missing: dict[TableName, TableName] = {}
    for name, wanted in target_of.items():
        if wanted not in there and wanted not in missing.values():
            missing[name] = wanted
    planned = {**missing, **({n: t for n, t in target_of.items() if t in there} if indexes else {})}
    definitions = await source.definitions() if planned else {}
    whole = {
        name: _whole(feed, source, tables[name], worded[name], definitions.get(name, Definition()), target)
        for name in planned
    }
    lacking = await _lacking(planned, whole, target) if indexes else {}
    made = await _places(target, [worded[name] for name in missing], list(missing.values()))
    for name, wanted in missing.items():
        made += [
            PlannedStatement("target", sql, f"table {wanted} for {name}")
            for sql in create_table(
                worded[name],
                wanted,
                target.dialect,
                clauses=whole[name].clauses,
                comment=whole[name].comment,
                others=target_of.values(),
            )
        ]
        made += [PlannedStatement("target", sql, f"comments of {name}") for sql in whole[name].at_once]
    waits = feed.start == "copy" and not indexes
    compared = {target_of[name]: _compared(feed, source, table) for name, table in tables.items()}
    keys = foreign_keys(
        planned,
        worded,
        target_of.__getitem__,
        view.rules,
        target.dialect,
        lambda name: compared[target_of[name]],
    )
    made += _of_keys(keys, there, all_may=view.logs_cascades, copies=waits)
    for name in planned:
        made += _of_rows(name, lacking.get(name, whole[name]), waits)
    return made + [
        PlannedStatement("target", left.what, f"{left.table}: {left.why}", left_out=True)
        for name in planned
        for left in whole[name].left_out
    ] + [PlannedStatement("target", what, f"{name}: {why}", left_out=True) for name, what, why in keys.left_out]


def _of_keys(
    keys: Keys, there: Mapping[TableName, TargetTable], *, all_may: bool, copies: bool
) -> list[PlannedStatement]:
    """Returns the statements for the foreign keys that the target lacks.  `copies`: rows are to be copied first."""
    lacking = {
        name: [
            one
            for one in planned
            if one.key.child not in there or not is_there(one.key, there[one.key.child].foreign_keys)
        ]
        for name, planned in keys.planned.items()
    }
    late = waiting([one for planned in lacking.values() for one in planned], all_may=all_may) if copies else []
    made = []
    for name, planned in lacking.items():
        for one in planned:
            stopped = one.key.child in there
            why = f"foreign key of {name}" + (", while the feed does not run" if stopped else "")
            made.append(PlannedStatement("target", one.sql, why, later=one in late, stopped=stopped))
    return made


def _of_rows(name: TableName, whole: WholeTable, waits: bool) -> list[PlannedStatement]:
    """Returns the statements for plain indexes and checks; `waits`: for rows that are to be copied."""
    return [
        *(PlannedStatement("target", sql, f"index {i.name} of {name}", later=waits) for i, sql in whole.indexes),
        *(PlannedStatement("target", sql, f"check {check} of {name}", later=waits) for check, sql in whole.checks),
    ]


async def _lacking(
    planned: Mapping[TableName, TableName], whole: Mapping[TableName, WholeTable], target: Target
) -> dict[TableName, WholeTable]:
    """Returns what is planned without the indexes and checks that are there."""
    there = await target.definitions(list(planned.values()))
    made = {}
    for name, wanted in planned.items():
        has = there.get(wanted, Definition())
        checks = {check for check, _ in has.checks}
        made[name] = WholeTable(
            clauses=whole[name].clauses,
            comment=whole[name].comment,
            at_once=whole[name].at_once,
            indexes=tuple(pair for pair in whole[name].indexes if not any(serves(i, pair[0]) for i in has.indexes)),
            checks=tuple(pair for pair in whole[name].checks if pair[0] not in checks),
            left_out=whole[name].left_out,
        )
    return made


def _whole(
    feed: Feed, source: InspectedSource, table: SourceTable, made: SourceTable, definition: Definition, target: Target
) -> WholeTable:
    view = source.view
    servers = Server(view.dialect, view.mariadb), Server(target.dialect, target.mariadb)
    names, equalities = names_at_target(feed, table), source.equalities(table)
    wanted = feed.target_name(table.name)
    return WholeTableMaker(table, made, definition, wanted, servers, equalities, names).table()


async def _places(
    target: Target, tables: Sequence[SourceTable], wanted: Sequence[TableName]
) -> list[PlannedStatement]:
    """Returns the statements for schemas and types of tables."""
    types = await _types(target, tables)
    places = {name.schema for name in wanted} | {type_.schema for type_ in types}
    schemas = sorted(places - await target.schemas())
    create = f"CREATE {'SCHEMA' if target.dialect == 'postgres' else 'DATABASE'} IF NOT EXISTS"
    return [
        *(PlannedStatement("target", f"{create} {identifier(target.dialect, s)}", f"tables in {s}") for s in schemas),
        *(PlannedStatement("target", t.statement, f"type {t.schema}.{t.name}") for t in types),
    ]


def _compared(feed: Feed, source: InspectedSource, table: SourceTable) -> dict[str, Equality]:
    """Returns how the source compares the texts of a table, by the target's names of columns."""
    names = names_at_target(feed, table)
    return {names[name]: one for name, one in source.equalities(table).items() if name in names}


def _worded(feed: Feed, original: SourceTable, source: InspectedSource, target: Target) -> SourceTable:
    """Returns a table as the target's dialect can hold it.  Raises CannotRun where it makes no index for the key."""
    view, table = source.view, replicated(feed, original)
    if target.dialect == view.dialect:
        other = target.dialect == "mysql" and target.mariadb != view.mariadb
        return reworded(table, mariadb=target.mariadb) if other else table
    if target.dialect == "postgres":
        return table
    made = without_long_keys(from_postgres(table, mariadb=target.mariadb))
    if long := long_keys(made):
        raise CannotRun(key_length(table, long[0]))
    return with_computed(made, original, names_at_target(feed, original), source.equalities(original))


async def _types(target: Target, tables: Sequence[SourceTable]) -> list[UserType]:
    """Returns the types of these tables that the target lacks, each once, in the order to make them."""
    if target.dialect != "postgres":
        return []
    wanted = list(dict.fromkeys(type_ for table in tables for type_ in table.types))
    there = await target.types([TableName(type_.schema, type_.name) for type_ in wanted])
    return list({t.statement: t for t in wanted if TableName(t.schema, t.name) not in there}.values())
