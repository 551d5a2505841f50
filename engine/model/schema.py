"""Tables of the target, and how a log row is bound to one.

The lock table guards the *target's* constraints, so unique and foreign keys are read from the target's catalogue,
never from the source: a unique index that only the source has cannot clash at the target.  `Equality` says when two
values are the same to the target's index; a key may be coarser than that, never finer (design 5, "Fail closed").
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from operator import itemgetter

import msgspec

from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import Column, Kind, Row, Shape, TableName, Value


class Equality(enum.StrEnum):
    """Way in which the target's index compares a column.

    EXACT: canonical values are equal exactly when the index says so (numbers, bytes, dates, `_bin` without padding,
    PostgreSQL's deterministic collations).
    PADDED: as EXACT once trailing spaces are taken off (`_bin` collations with PAD SPACE, PostgreSQL `char(n)`).
    FOLDED: case-insensitive without padding; printable ASCII folds exactly, all else is one value.
    FOLDED_PADDED: the same with PAD SPACE.
    NUMBER: texts of numbers, whatever their scale: `1.0` is `1.00`.
    COARSE: the spelling says nothing (intervals, documents, arrays, ranges): all values are one.
    """

    EXACT = "exact"
    NUMBER = "number"
    COARSE = "coarse"
    PADDED = "padded"
    FOLDED = "folded"
    FOLDED_PADDED = "folded_padded"


class TargetColumn(msgspec.Struct, frozen=True, array_like=True):
    """Column of a target table.

    `type`: as the target spells it in DDL (`character varying(64)`, `bigint unsigned`), lower case.
    `generated`: the target computes it, so it is never written.
    `equality`: how an index over the column compares it.
    `collation`: of a text at MySQL and MariaDB, as they name it; '' where it is not known.
    `automatic`: AUTO_INCREMENT of MySQL and MariaDB.
    """

    name: str
    type: str
    nullable: bool = True
    generated: bool = False
    default: bool = False
    equality: Equality = Equality.EXACT
    collation: str = ""
    automatic: bool = False


class UniqueKey(msgspec.Struct, frozen=True, array_like=True):
    """Unique index.  `opaque`: why its equality cannot be computed from a log row (prefix, expression, partial, …); ''
    if it can."""

    name: str
    columns: tuple[str, ...]
    opaque: str = ""


class SecondaryIndex(msgspec.Struct, frozen=True, array_like=True):
    """Index that is not unique.  `parts`: what it lists, in lower case: columns, each with its prefix (`b(4)`) and
    order (`c desc`), or an expression as the server spells it."""

    name: str
    parts: tuple[str, ...] = ()


class ForeignKey(msgspec.Struct, frozen=True, array_like=True):
    """Foreign key: `child.columns` refer to `parent.parent_columns`.  `cascades`: ON DELETE/UPDATE does more than
    refuse."""

    name: str
    child: TableName
    columns: tuple[str, ...]
    parent: TableName
    parent_columns: tuple[str, ...]
    cascades: bool = False


class TargetTable(msgspec.Struct, frozen=True, array_like=True):
    """One table as the target's catalogue tells it.

    `key`: columns that identify a row: the primary key, else a unique index over NOT NULL columns, else empty
    (then the whole row is the key and the table is one lane).
    `uniques`: every unique index, the primary key included.
    `foreign_keys`: those of this table; `references`: those of other tables that point here (self-references in both).
    `plain_indexes`: those that are not unique; `checks`: names of CHECKs; `primary`: that of PostgreSQL's primary key,
    '' for none.  They are only read where a statement is to change the table.
    """

    name: TableName
    columns: tuple[TargetColumn, ...]
    key: tuple[str, ...]
    uniques: tuple[UniqueKey, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    references: tuple[ForeignKey, ...] = ()
    plain_indexes: tuple[SecondaryIndex, ...] = ()
    checks: tuple[str, ...] = ()
    primary: str | None = None


_IN_OWN_WORDS = frozenset((Kind.OTHER, Kind.JSON))
_FLOATS = frozenset((Kind.FLOAT, Kind.DOUBLE))
_TEXTS = ("text", "varchar", "character", "char", "tinytext", "mediumtext", "longtext")
_NUMBERS = ("numeric", "decimal")


def equality_of(column: Column, target: TargetColumn) -> Equality:
    """Returns how the target's index compares the values of a logged column.

    It is the target column's own equality, where equal values have one spelling.  A value that comes in its source's
    own words may have several, of which only a column of text tells equal from different.
    """
    texts = target.type.startswith(_TEXTS) and not target.type.endswith("]")
    if target.equality is not Equality.EXACT or column.kind not in _IN_OWN_WORDS or texts:
        return target.equality
    return Equality.NUMBER if target.type.startswith(_NUMBERS) and not target.type.endswith("]") else Equality.COARSE


class SchemaMismatch(Exception):
    """Error of a log row that cannot be bound to the target's table; `args[0]` says what to do."""


class Binding:
    """Binding of a `Shape` of the log to its `TargetTable`.  Sinks keep their statements by it, compared by identity.

    `columns[i]`: the target's column for value `i` of a row (None: a generated column, not written).
    `key`: positions of the key columns in a row; empty where the whole row is the key.
    `key_of(row)`: the values that identify a row at the target (the whole row where there is no key);
    `identity(row)`: the same, a single value without its tuple, and each as `signed` tells it.
    `floats`: positions of floating point numbers that belong to any key.
    `unique_positions`: positions that belong to any unique index.
    `foreign_positions`: positions that belong to any foreign key of this table.
    `constrained_positions`: both, without the key's.  `moves(before, after)`: does a column of them differ?
    `has_unlogged_unique_column`: some unique index holds what the log does not tell, so no change is known to leave
    it alone.
    `has_target_only_columns`: the target has columns that the log does not.
    `fk_free`: no foreign key of its own, and none refers to it.
    `plain`: it has a key, the log tells all its columns, and no foreign key refers to it.
    `partial`: images may hold `UNKNOWN`, though never in the key.  `unseen`: columns of unique or foreign keys, or that
    are referred to, of which an update or delete may free a value that the log does not tell then.
    `target`: the table, whose columns have the equality that values of this shape have there (`equality_of`).
    """

    __slots__ = (
        "columns",
        "constrained_positions",
        "fk_free",
        "floats",
        "foreign_positions",
        "has_target_only_columns",
        "has_unlogged_unique_column",
        "identity",
        "key",
        "key_of",
        "moves",
        "number",
        "partial",
        "plain",
        "shape",
        "target",
        "unique_positions",
        "unseen",
    )

    def __init__(self, number: int, shape: Shape, target: TargetTable) -> None:
        """Raises SchemaMismatch when a logged column or a key column is missing on the other side."""
        by_name = {c.name: c for c in target.columns}
        missing = [c.name for c in shape.columns if c.name not in by_name]
        if missing:
            raise SchemaMismatch(
                f"{target.name} has no column {', '.join(missing)} that the source logs for {shape.name}; "
                "add it at the target or exclude it in the feed (tables: columns: exclude)"
            )
        at = {c.name: i for i, c in enumerate(shape.columns)}
        unlogged = [c for c in target.key if c not in at]
        if unlogged:
            raise SchemaMismatch(f"key column {', '.join(unlogged)} of {target.name} is not in the log of {shape.name}")
        self.partial = shape.identity == "key"
        if self.partial and not (target.key and set(target.key) <= set(shape.primary_key)):
            raise SchemaMismatch(_unidentified(shape, target))
        self.number = number
        self.shape = shape
        self.target = _compared(shape, target)
        columns = (by_name[c.name] for c in shape.columns)
        self.columns: tuple[TargetColumn | None, ...] = tuple(None if c.generated else c for c in columns)
        self.key = tuple(at[c] for c in target.key)
        self.key_of = _keyer(self.key)
        keyed = indexed_columns(target)
        self.floats = frozenset(i for i, c in enumerate(shape.columns) if c.kind in _FLOATS and c.name in keyed)
        self.identity: Callable[[Row], Value] = itemgetter(*self.key) if self.key else self.key_of
        if not self.floats.isdisjoint(self.key):
            self.identity = lambda row: tuple([signed(value) for value in self.key_of(row)])
        names = {c for u in target.uniques for c in u.columns}
        self.has_unlogged_unique_column = any(c not in at for c in names)
        self.unique_positions = tuple(i for i, c in enumerate(shape.columns) if c.name in names)
        names = {c for f in target.foreign_keys for c in f.columns}
        self.foreign_positions = tuple(i for i, c in enumerate(shape.columns) if c.name in names)
        self.constrained_positions = tuple(sorted({*self.unique_positions, *self.foreign_positions} - set(self.key)))
        self.moves = _mover(self.constrained_positions, self.floats)
        self.has_target_only_columns = any(c.name not in at and not c.generated for c in target.columns)
        self.fk_free = not (target.foreign_keys or target.references)
        self.unseen = _unseen(shape, target) if self.partial else ()
        self.plain = bool(self.key) and not (
            self.has_unlogged_unique_column
            or self.has_target_only_columns
            or target.references
            or self.unseen
        )

    @property
    def name(self) -> TableName:
        """Name of the target's table."""
        return self.target.name


def _compared(shape: Shape, target: TargetTable) -> TargetTable:
    """Returns the table with the equality that values of this shape have in the columns of its indexes."""
    logged = {c.name: c for c in shape.columns}
    indexed = indexed_columns(target)
    equalities = {
        c.name: equality_of(logged[c.name], c) for c in target.columns if c.name in logged and c.name in indexed
    }
    if all(equalities.get(c.name, c.equality) is c.equality for c in target.columns):
        return target
    columns = (msgspec.structs.replace(c, equality=equalities.get(c.name, c.equality)) for c in target.columns)
    return msgspec.structs.replace(target, columns=tuple(columns))


def indexed_columns(table: TargetTable) -> frozenset[str]:
    """Returns the columns of unique and foreign keys, and those that are referred to."""
    keys = (u.columns for u in table.uniques)
    foreign = (f.columns for f in table.foreign_keys)
    referred = (f.parent_columns for f in table.references)
    return frozenset(name for columns in (table.key, *keys, *foreign, *referred) for name in columns)


def _unseen(shape: Shape, target: TargetTable) -> tuple[str, ...]:
    indexed = indexed_columns(target)
    return tuple(c.name for c in target.columns if c.name in indexed and c.name not in shape.primary_key)


def _unidentified(shape: Shape, target: TargetTable) -> str:
    told = ", ".join(shape.primary_key) or "no column"
    key = f"its key is {', '.join(target.key)}" if target.key else "it has no key"
    return (
        f"of a row of {shape.name} that is updated or deleted the source logs {told} alone, and at the target {key}; "
        "run ALTER TABLE … REPLICA IDENTITY FULL on it at the source, and as the log has older rows as they are, "
        f"{RESYNC}; or, if the source has never logged it otherwise, give the target's table that key"
    )


def _keyer(key: tuple[int, ...]) -> Callable[[Row], Row]:
    if not key:
        return lambda row: row
    if len(key) == 1:
        (position,) = key
        return lambda row: (row[position],)
    return itemgetter(*key)


def signed(value: Value) -> Value:
    """Returns the value; of the zero that has a sign its text, as that is equal to the other zero and not the same."""
    return "-0" if value == 0 and type(value) is float and math.copysign(1.0, value) < 0 else value


def _mover(positions: tuple[int, ...], floats: frozenset[int]) -> Callable[[Row, Row], bool]:
    if not positions:
        return lambda before, after: False
    if not floats.isdisjoint(positions):
        return lambda before, after: any(signed(before[p]) != signed(after[p]) for p in positions)
    if len(positions) == 1:
        p = positions[0]
        return lambda before, after: bool(before[p] != after[p])
    return lambda before, after: any(before[p] != after[p] for p in positions)
