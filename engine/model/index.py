"""Unique indexes of the target over the columns of a row, and the lock keys that a row's values make.

A lock key is as coarse as the index's own equality or coarser, never finer (design 5, "Fail closed").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Final, TypeAlias

from tidelock.engine.model.records import UNKNOWN, Kind, Row, Value
from tidelock.engine.model.schema import Equality

Key: TypeAlias = tuple[Value, ...]  # the number of a namespace, then values
Digest: TypeAlias = int  # of a key: equal keys have equal ones, so it is a coarser key; the same in this process only

WHOLE_INDEX: Final[Key] = ("*", "*")
"""What follows the namespace in the key that stands for all keys of an index."""
digest: Final[Callable[[Key], Digest]] = hash
"""Digest by which the lock table knows an exclusive key: 64 bits.  Two keys that share one are ordered without need."""


class Index:
    """Index of the target over columns of a row.

    `positions`: of the columns in a row; `equalities`: how the target compares each.  `namespace`: the number that its
    keys begin with.  `is_key`: it is the table's key.
    `kinds`: those of the columns, where values of columns of different scale must compare (foreign keys); else empty.
    """

    __slots__ = ("equalities", "is_key", "kinds", "namespace", "positions")

    def __init__(
        self,
        namespace: int,
        positions: tuple[int, ...],
        equalities: tuple[Equality, ...],
        is_key: bool,
        kinds: tuple[Kind, ...] = (),
    ) -> None:
        self.namespace = namespace
        self.positions = positions
        self.equalities = equalities
        self.is_key = is_key
        self.kinds = kinds

    @property
    def folded(self) -> bool:
        """Tells whether the target compares some column in a way that takes several values for one."""
        return any(e in _SEVERAL for e in self.equalities)

    def values(self, row: Row) -> Key | None:
        """Returns the normalised values of a row; None where one is NULL or not told; the index-wide key where a value
        cannot be folded exactly."""
        out: list[Value] = [self.namespace]
        for position, equality in zip(self.positions, self.equalities, strict=True):
            value = row[position]
            if value is None or value is UNKNOWN:
                return None
            folded = normalise(value, equality)
            if folded is None:
                return (self.namespace, *WHOLE_INDEX)
            out.append(folded)
        if self.kinds:
            out[1:] = [unscaled(value, kind) for value, kind in zip(out[1:], self.kinds, strict=True)]
        return tuple(out)

    def index_wide(self) -> Key:
        """Returns the key that stands for all keys of this index."""
        return (self.namespace, *WHOLE_INDEX)


def normalise(value: Value, equality: Equality) -> Value:
    """Returns the value as the index compares it; None where that cannot be said exactly."""
    match equality:
        case Equality.EXACT:
            return value
        case Equality.PADDED:
            return value.rstrip(" ") if isinstance(value, str) else value
        case _:
            return FOLDS[equality](value)


def folded_key(key: Row, equalities: tuple[Equality, ...]) -> Row | None:
    """Returns the key as the index compares it, so that equal ones are equal; None where that cannot be said exactly.
    """
    if not any(equality is not Equality.EXACT for equality in equalities):
        return key
    values = tuple(normalise(value, equality) for value, equality in zip(key, equalities, strict=True))
    return None if None in values else values


def folded(value: Value) -> Value:
    """Returns the text in lower case; None where it does not fold exactly, and for NULL."""
    if not isinstance(value, str):
        return value if isinstance(value, int) else None
    if not (value.isascii() and value.isprintable()):
        return None
    return value.lower()


def folded_padded(value: Value) -> Value:
    """Returns `folded` without trailing spaces."""
    return folded(value.rstrip(" ") if isinstance(value, str) else value)


def number(value: Value) -> Value:
    """Returns the number that a text spells; the text itself where it spells none that is finite."""
    try:
        spelled = Decimal(value)
    except (InvalidOperation, TypeError, ValueError):
        return value
    return spelled if spelled.is_finite() else value


def coarse(value: Value) -> Value:
    """Returns None: no spelling tells which values are equal."""
    return None


FOLDS: Final[Mapping[Equality, Callable[[Value], Value]]] = {
    Equality.FOLDED: folded,
    Equality.FOLDED_PADDED: folded_padded,
    Equality.NUMBER: number,
    Equality.COARSE: coarse,
}
_SEVERAL: Final = (Equality.FOLDED, Equality.FOLDED_PADDED, Equality.COARSE)


def unscaled(value: Value, kind: Kind) -> Value:
    """Returns the value free of its column's scale: `1.50` is `1.5`, and the DECIMAL 5 is the INT 5."""
    match kind:
        case Kind.DECIMAL:
            return number(value)
        case Kind.DATETIME | Kind.TIMESTAMP | Kind.TIME if "." in value:
            return value.rstrip("0").rstrip(".")
        case _:
            return value
