"""The policies of a table as rules go by them: made of the feed's words, with the columns' places in a row."""

from __future__ import annotations

from collections.abc import Iterator

from tidelock.engine.model.conflict_options import TableWords
from tidelock.engine.model.records import Kind
from tidelock.engine.model.schema import Binding
from tidelock.engine.two_way.column_groups import groups_at
from tidelock.engine.two_way.conflicts import Conflict
from tidelock.engine.two_way.policies import BY_COLUMN, Group, Order, Policies, Policy, refused

_NUMBERS = (Kind.INT, Kind.DECIMAL)
_ORDERED = (*_NUMBERS, Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP)


def policies_of(words: TableWords, table: Binding) -> Policies:
    """Returns the policies.  Columns that `problems` would tell are passed over.

    Columns in no group are one of their own, of the table's default, where there are groups at all."""
    at = _places(table)
    types = {Conflict(kind): Policy(policy) for kind, policy in words.types.items()}
    default = Policy(words.default)
    policies = [*(Policy(group.policy) for group in words.groups), default]
    groups = groups_at((group.columns for group in words.groups), at, table.key)
    return Policies(default, types, tuple(Group(columns, policies[n]) for n, columns in enumerate(groups)))


def version_of(words: TableWords, table: Binding) -> int:
    """Returns the place of the column that `latest` compares, -1 where there is none."""
    return _places(table).get(words.version, -1)


def problems(words: TableWords, table: Binding) -> Iterator[str]:
    """Yields why the rows of a table cannot be decided about."""
    at = _places(table)
    if not table.key:
        yield "it has no key; give it one"
        return
    if table.partial:
        yield "the source logs no whole rows of it; run ALTER TABLE … REPLICA IDENTITY FULL on it at the source"
    named = [words.version] if words.version else []
    for name in (*named, *(name for group in words.groups for name in group.columns)):
        if name not in at:
            yield f"no row that is written has the column {name}"
        elif at[name] in table.key and name != words.version:
            yield f"{name} is a column of the key, and no group has those"
    if words.version in at and table.shape.columns[at[words.version]].kind not in _ORDERED:
        yield f"{words.version} is no number, date or time, whose order is the same everywhere"
    for group in words.groups:
        for name in group.columns:
            kind = table.shape.columns[at[name]].kind if name in at else None
            if group.policy == Policy.DELTA.value and kind is not None and kind not in _NUMBERS:
                yield f"`delta` adds whole and decimal numbers, and {name} is {kind}"
            if Policy(group.policy) in BY_COLUMN and kind is not None and kind not in _ORDERED:
                yield f"`{group.policy}` of {name}: the order of {kind} is not the same everywhere"
    indexes = [unique for unique in table.target.uniques if set(unique.columns) <= at.keys()]
    places = [tuple(at[name] for name in unique.columns) for unique in indexes]
    besides_the_key = tuple(columns for columns in places if set(columns) - set(table.key))
    yield from refused(policies_of(words, table), Order.ARBITER, besides_the_key)


def _places(table: Binding) -> dict[str, int]:
    """Returns where the columns that are written are in a row."""
    columns = zip(table.shape.columns, table.columns, strict=True)
    return {column.name: at for at, (column, written) in enumerate(columns) if written is not None}
