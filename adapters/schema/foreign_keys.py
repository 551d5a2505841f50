"""Foreign keys of a target: which of the source's it gets, with which actions, and which of them wait for copied rows.

*Actions* stay as the source has them.  Where its log has not the rows that an action changes (MariaDB, MySQL to 8.4),
the target must change them itself.  Where it has them (PostgreSQL, MySQL 9), the action finds the same rows before
their changes come, and those then find them as they are to be.

*From the start*: changes are ordered by the keys that the target has when the feed starts.  So a key comes before the
rows, but for those without which no table of a cycle could be copied first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.schema.create_table import acting, foreign_key, qualified
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.engine.model.records import Kind, TableName
from tidelock.engine.model.schema import Equality, ForeignKey

_TEXTS = (Kind.TEXT, Kind.ENUM, Kind.SET)


class PlannedKey(msgspec.Struct, frozen=True):
    """A foreign key that the target gets: `key` in its names; `sql` adds it."""

    key: ForeignKey
    sql: str
    acts: bool


class Keys(msgspec.Struct, frozen=True):
    """`planned`: by the source's table; `left_out`: (table, key in words, reason)."""

    planned: Mapping[TableName, list[PlannedKey]]
    left_out: Sequence[tuple[TableName, str, str]]


def foreign_keys(
    names: Collection[TableName],
    tables: Mapping[TableName, SourceTable],
    target_name: Callable[[TableName], TableName],
    rules: Mapping[tuple[TableName, str], tuple[str, str]],
    dialect: Dialect,
    equalities: Callable[[TableName], Mapping[str, Equality]],
) -> Keys:
    """Returns the foreign keys of the tables `names`.  `tables`: all of the feed, under the target's column names.
    `rules`: ON UPDATE and ON DELETE of each key.  `equalities`: how the source compares the texts of a table."""
    planned: dict[TableName, list[PlannedKey]] = defaultdict(list)
    left_out = []
    for name in names:
        table = tables[name]
        for key in table.foreign_keys:
            actions = acting(rules.get((key.child, key.name), ("", "")))
            if reason := _not_held(key, table, tables, dialect, equalities, actions):
                words = f"FOREIGN KEY {key.name} ({', '.join(key.columns)}) REFERENCES {key.parent}"
                left_out.append((name, words, reason))
                continue
            child, parent = target_name(name), target_name(key.parent)
            words = foreign_key(dialect, key, parent, actions)
            sql = f"ALTER TABLE {qualified(dialect, child)} ADD {words}"
            made = msgspec.structs.replace(key, child=child, parent=parent)
            planned[name].append(PlannedKey(made, sql, bool(actions)))
    return Keys(planned, left_out)


def waiting(planned: Sequence[PlannedKey], *, all_may: bool) -> list[PlannedKey]:
    """Returns the keys that are to wait for copied rows, so that the others form no cycle.  `all_may`: also those that
    act on rows, as the log has what they change."""
    first = sorted(planned, key=lambda one: one.acts and not all_may, reverse=True)
    parents: dict[TableName, set[TableName]] = defaultdict(set)
    waits = []
    for one in first:
        child, parent = one.key.child, one.key.parent
        closes = child != parent and child in _reached(parent, parents)
        if closes and (all_may or not one.acts):
            waits.append(one)
        else:
            parents[child].add(parent)
    return waits


def is_there(key: ForeignKey, there: Sequence[ForeignKey]) -> bool:
    """Tells whether a table has this foreign key, under whatever name."""
    wanted = (sorted(zip(key.columns, key.parent_columns, strict=True)), key.parent)
    return any((sorted(zip(k.columns, k.parent_columns, strict=True)), k.parent) == wanted for k in there)


def _reached(table: TableName, parents: Mapping[TableName, set[TableName]]) -> set[TableName]:
    """Returns the table and all that it refers to, over any number of others."""
    found, frontier = {table}, [table]
    while frontier:
        for parent in parents.get(frontier.pop(), set()) - found:
            found.add(parent)
            frontier.append(parent)
    return found


def _not_held(
    key: ForeignKey,
    child: SourceTable,
    tables: Mapping[TableName, SourceTable],
    dialect: Dialect,
    equalities: Callable[[TableName], Mapping[str, Equality]],
    actions: tuple[tuple[str, str], ...],
) -> str:
    """Returns why the target cannot hold a key; '' where it can."""
    parent = tables.get(key.parent)
    if parent is None:
        return "the feed does not take the table that it refers to"
    if key.name in child.deferrable:
        return "the source checks it at COMMIT, and may break it until then"
    if dialect == "mysql":
        defaults = [event for event, rule in actions if rule == "SET DEFAULT"]
        return f"InnoDB has no ON {defaults[0]} SET DEFAULT" if defaults else ""
    if not any(set(u.columns) == set(key.parent_columns) and not u.opaque for u in parent.uniques):
        return "what it refers to is not unique there"
    folded = _folded(child, key.columns, equalities) or _folded(parent, key.parent_columns, equalities)
    return f"the source compares the texts of {folded} in another way than by their bytes" if folded else ""


def _folded(
    table: SourceTable, columns: Sequence[str], equalities: Callable[[TableName], Mapping[str, Equality]]
) -> str:
    """Returns a column whose texts may be equal at the source and differ at a target that compares bytes.  The log has
    a CHAR of MySQL without trailing spaces."""
    compared = equalities(table.name)
    for column in table.columns:
        if column.name not in columns or column.column.kind not in _TEXTS:
            continue
        equality = compared.get(column.name)
        own = bool(column.column.type)  # of PostgreSQL
        padded = equality is Equality.PADDED and column.type.startswith("char(") and not own
        known = own or column.column.kind is Kind.TEXT
        if not known or not (equality is Equality.EXACT or padded):
            return column.name
    return ""
