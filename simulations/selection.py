"""Selection of the source's tables: the rules of its mapping, and the same told naively for the checkers.

`lead` is filtered, `badge` loses a column, `card` has one more at the target, `pool` is two tables at the source, all
else passes as it is.

The modelled source holds both tables of `pool` as one, so that no two of their rows clash at the target; the log tells
rows of the one (`narrow`) without the column that it does not have.
"""

from __future__ import annotations

import functools

import msgspec

from tidelock.engine.capture.mapping import Mapping, Rule
from tidelock.engine.capture.row_filter import Compare, Not
from tidelock.engine.model.records import Row, Shape, TableName
from tidelock.engine.model.schema import TargetColumn, TargetTable
from tidelock.simulations.catalogue import BADGE, CARD, LEAD, OWN, POOL, TIER

SECRET = "secret"
REGION = "eu"

RULES = (
    Rule("shop.lead", "shop.lead", where=Not(Compare("region", "<>", REGION))),
    Rule("shop.badge", "shop.badge", exclude=(SECRET,)),
    Rule("shop.pool*", "shop.pool"),
    Rule("shop.*", "shop.*"),
)
MAPPING = Mapping(RULES)


def at_source(target: TargetTable) -> TargetTable:
    """The source's table behind this one of the target."""
    if target.name == BADGE.name:
        return msgspec.structs.replace(target, columns=(*target.columns, TargetColumn(SECRET, "")))
    if target.name == CARD.name:
        columns = tuple(c for c in target.columns if c.name != OWN)
        return msgspec.structs.replace(target, columns=columns)
    return target


def narrow(name: TableName, row: Row | None, default: str) -> bool:
    """Tells whether this is a row of the table without `tier`, where the target then has its `default`."""
    return name == POOL.name and row is not None and row[1] == default and row[0] % 2 == 0


def without_tier(shape: Shape) -> Shape:
    return msgspec.structs.replace(shape, columns=tuple(c for c in shape.columns if c.name != TIER))


@functools.lru_cache(maxsize=256)
def named_at_source(shape: Shape) -> Shape:
    """As the log names the table; elsewhere it has the target's name."""
    if shape.name == POOL.name and all(column.name != TIER for column in shape.columns):
        return msgspec.structs.replace(shape, name=TableName(POOL.name.schema, f"{POOL.name.table}_narrow"))
    return shape


def selected(name: TableName, row: Row | None) -> Row | None:
    """The row of the source as the target should see it; None where it does not concern the target."""
    if row is None:
        return None
    if name == LEAD.name and row[1] != REGION:
        return None
    if name == BADGE.name:
        return (*row[:3], *row[4:])
    return row


@functools.lru_cache(maxsize=256)
def selected_shape(shape: Shape) -> Shape:
    """The columns of `selected` rows."""
    return msgspec.structs.replace(shape, columns=tuple(c for c in shape.columns if c.name != SECRET))
