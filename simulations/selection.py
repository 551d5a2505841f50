"""What the feed takes of the source's tables: the rules of its mapping, and the same told naively for the checkers.

`lead` is filtered, `badge` loses a column, `card` has one more at the target, all else passes as it is.
"""

from __future__ import annotations

import functools

import msgspec

from engine.filter import Compare, Not
from engine.mapping import Mapping, Rule
from engine.records import Row, Shape, TableName
from engine.schema import TargetColumn, TargetTable
from simulations.catalogue import BADGE, CARD, LEAD, OWN

SECRET = "secret"
REGION = "eu"

MAPPING = Mapping(
    (
        Rule("shop.lead", "shop.lead", where=Not(Compare("region", "<>", REGION))),
        Rule("shop.badge", "shop.badge", exclude=(SECRET,)),
        Rule("shop.*", "shop.*"),
    )
)


def at_source(target: TargetTable) -> TargetTable:
    """The source's table behind this one of the target."""
    if target.name == BADGE.name:
        return msgspec.structs.replace(target, columns=(*target.columns, TargetColumn(SECRET, "")))
    if target.name == CARD.name:
        columns = tuple(c for c in target.columns if c.name != OWN)
        return msgspec.structs.replace(target, columns=columns)
    return target


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
