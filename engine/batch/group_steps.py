"""Blind steps by groups of columns: of a row that is there, only what its changes touch is written.

A change of the arbiter counts as sent on the groups that it touches (`engine.two_way.column_groups`), so what the spoke
has written to others is left as it is.  The steps are those of `blind_steps`, each in parts of rows that are touched in
the same groups.  A row that is not there is written whole, and so is one that a step deletes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidelock.engine.model.conflict_options import TableWords
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.steps import ChangeId, Step, UpsertRows
from tidelock.engine.two_way.column_groups import TouchedRows
from tidelock.engine.two_way.table_policies import policies_of

Words = Mapping[TableName, TableWords]
_Columns = tuple[int, ...]


def by_groups(steps: list[Step], changes: Sequence[Change], words: Words) -> list[Step]:
    """Returns the steps with those that write over rows in parts.  `changes`: of the batch, in the order of its lane.
    `words`: policies by table; tables without groups stay as they are."""
    bindings = dict.fromkeys([change.binding for change in changes])
    touched = {binding: rows for binding in bindings if (rows := _touched_rows(binding, words)) is not None}
    if not touched:
        return steps
    by_change = dict[ChangeId, frozenset[int]]()
    for change in changes:
        if (rows := touched.get(change.binding)) is not None:
            by_change[change.source, change.number, change.ordinal] = rows.add(change.before, change.after)
    return [part for step in steps for part in _parts(step, touched, by_change)]


def _touched_rows(binding: Binding, words: Words) -> TouchedRows | None:
    if binding.name not in words or not words[binding.name].groups:
        return None
    groups = tuple(group.columns for group in policies_of(words[binding.name], binding).groups)
    return TouchedRows(groups, (*binding.key, *binding.constrained_positions), binding.identity) if groups else None


def _parts(
    step: Step, touched: Mapping[Binding, TouchedRows], by_change: Mapping[ChangeId, frozenset[int]]
) -> Iterator[Step]:
    rows = touched.get(step.table)
    if rows is None or not isinstance(step, UpsertRows) or step.fresh or not step.blind:
        yield step
        return
    parts: dict[_Columns | None, list[int]] = {}
    for n, row in enumerate(step.rows):
        columns = rows.columns_of(by_change[step.displaces[n]]) if step.displaces else rows.columns(row)
        parts.setdefault(columns, []).append(n)
    for columns, numbers in parts.items():
        if columns != ():
            yield _part(step, numbers, columns)


def _part(step: UpsertRows, numbers: Sequence[int], columns: _Columns | None) -> UpsertRows:
    part: list[Row] = [step.rows[n] for n in numbers]
    displaces = tuple(step.displaces[n] for n in numbers) if step.displaces else ()
    return UpsertRows(step.table, part, fresh=False, blind=True, displaces=displaces, columns=columns or ())
