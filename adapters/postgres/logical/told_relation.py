"""Reads a relation message beside the catalogue: the form, the shape and the replica identity that it tells.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.adapters.postgres.column_types import PostgresType, column_of
from tidelock.adapters.postgres.logical.column_numbers import numbers_of
from tidelock.adapters.postgres.logical.messages import Relation
from tidelock.adapters.postgres.logical.relation_catalogue import Identity, RelationCatalogue
from tidelock.adapters.postgres.logical.relation_changes import ComputedColumn, Form, FormColumn, spelled
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import ReplicaIdentity, Shape, TableName

_IDENTITIES: Final[dict[str, ReplicaIdentity]] = {"f": "full", "d": "key", "i": "key", "n": "nothing"}


def told_as(relation: Relation, form: Form) -> bool:
    """Tells whether a message has the columns of the form that a command's message told last: then it is that form,
    whatever the catalogue has by now."""
    if not form.told or form.name != TableName(relation.schema, relation.name):
        return False
    told = [(column.name, column.type, column.modifier) for column in relation.columns]
    return told == [(column.name, column.type, column.modifier) for column in form.columns]


def form_of(
    relation: Relation,
    name: TableName,
    facts: RelationCatalogue,
    types: Mapping[int, PostgresType],
    former: Form | None,
    file: int,
) -> tuple[Form, bool]:
    """Returns the form that a message tells, and whether the numbers of its columns are certain.  `file`: that of the
    rows before it.

    What only the catalogue says is of now, and the message may be older.  So what is different there must be told of as
    a change, or stay as it was: a column that is not there any more keeps its number, by which one made anew is known.
    """
    same = former if former is not None and former.oid == relation.oid else None
    names = [column.name for column in relation.columns]
    numbers = numbers_of(names, same, facts)
    columns = tuple(
        FormColumn(column.name, column.type, column.modifier, spelled(types, column.type, column.modifier), number)
        for column, number in zip(relation.columns, numbers.of_columns, strict=True)
    )
    if same is None:
        computed = tuple(ComputedColumn(*column) for column in facts.computed)
        return Form(relation.oid, name, columns, facts.primary_key, computed), False
    told = set(names)
    computed = tuple(column for column in same.computed if column.name not in told)
    key = _key(columns, facts, certain=numbers.certain) if facts.columns else same.primary_key
    if not numbers.certain:
        return Form(relation.oid, name, columns, key, computed), False
    file = facts.file if facts.ever == numbers.ever else file
    return Form(relation.oid, name, columns, key, computed, numbers.ever, same.facts, file=file), True


def shape_of(
    relation: Relation, name: TableName, facts: RelationCatalogue, types: Mapping[int, PostgresType]
) -> Shape:
    """Returns the shape of the rows that follow a message.  Raises UnsuitableLog where the catalogue has another key by
    now."""
    columns = tuple(column_of(column.name, types[column.type], column.modifier) for column in relation.columns)
    identity, key = _identity(relation, name, facts)
    names = {column.name for column in columns}
    if not names.issuperset(key):
        raise UnsuitableLog(
            f"the primary key of {name} has other columns now than the table had at this place of the log",
            "Its key was changed or renamed since: change the target's table alike (`tidelock check FEED` shows what "
            f"differs); then {RESYNC}",
        )
    return Shape(name, columns, key, identity)


def _identity(
    relation: Relation, name: TableName, facts: RelationCatalogue
) -> tuple[ReplicaIdentity, tuple[str, ...]]:
    """Returns what old rows tell, and the key.

    A partition's rows come as its table's.  What they tell is by the partition's identity, how it is marked (O or K) by
    the table's.  Marked K, a NULL may be a value or none, so it is taken for none; marked O, it would be taken for a
    value, so each partition must log whole rows.
    """
    own = _settled(Identity(relation.identity, tuple(column.name for column in relation.columns if column.is_key)))
    leaves = [_settled(identity) for identity in facts.leaves]
    identity = _IDENTITIES[own.letter]
    if identity == "full" and any(leaf.letter != "f" for leaf in leaves):
        raise UnsuitableLog(
            f"{name} has REPLICA IDENTITY FULL, and a partition of it has not",
            f"ALTER TABLE … REPLICA IDENTITY FULL at each partition; then {RESYNC}",
        )
    # Partitions are as the catalogue has them, which may be ahead and name the key anew.
    key = own.key if {*own.key} <= facts.columns.keys() else facts.primary_key
    if identity == "key" and any(_IDENTITIES[leaf.letter] == "key" and {*leaf.key} != {*key} for leaf in leaves):
        raise UnsuitableLog(
            f"{name} and its partitions have replica identities of different columns",
            f"ALTER TABLE … REPLICA IDENTITY FULL at each partition, then at the table; then {RESYNC}",
        )
    return identity, own.key if identity == "key" else facts.primary_key


def shows_gaps(shape: Shape, facts: RelationCatalogue) -> bool:
    """Tells whether an old row that has NULL in all columns but the key's is not whole: of a partitioned table that has
    whole rows, and another column that is never NULL.  Its partition logged the row under another identity."""
    if not facts.leaves or shape.identity != "full":
        return False
    others = (facts.columns.get(column.name) for column in shape.columns if column.name not in shape.primary_key)
    return any(one is not None and not one.is_nullable for one in others)


def _settled(identity: Identity) -> Identity:
    """DEFAULT without a primary key logs nothing."""
    return Identity("n") if not identity.key and identity.letter in "di" else identity


def _key(columns: Sequence[FormColumn], facts: RelationCatalogue, *, certain: bool) -> tuple[str, ...]:
    """Returns the primary key of now, by the names that its columns have in a message whose numbers are `certain`."""
    names = {column.number: column.name for column in columns} if certain else {}
    return tuple(names.get(facts.columns[name].number, name) for name in facts.primary_key)
