"""Log of a source for a table whose replica identity is its key (PostgreSQL's REPLICA IDENTITY DEFAULT).

The history has whole images, which the oracle replays; the reader hands over these.
"""

from __future__ import annotations

import functools

import msgspec

from tidelock.engine.model.records import UNKNOWN, Row, Shape, Value
from tidelock.simulations import catalogue
from tidelock.simulations.plan import Plan


def logged(plan: Plan, shape: Shape, before: Row | None, after: Row | None) -> tuple[Shape, Row | None, Row | None]:
    """The shape and the images of a change as the plan's source logs them.

    Before: the key alone.  After: all but the long values that an update left as they were.  Of a table that is copied
    a row that changes its key is told whole: one that comes from a chunk to be read yet to one that is merged could not
    be made (docs/decisions/2026-11-25-partial-rows.md).
    """
    if shape.name.table not in plan.keyed:
        return shape, before, after
    key = [c.name in shape.primary_key for c in shape.columns]
    if before is not None and after is not None:
        moved = any(own and old != new for own, old, new in zip(key, before, after, strict=True))
        if not (moved and _copied(plan, shape)):
            pairs = zip(key, before, after, strict=True)
            after = tuple(UNKNOWN if not own and old == new and _long(new) else new for own, old, new in pairs)
    if before is not None:
        before = tuple(value if own else UNKNOWN for own, value in zip(key, before, strict=True))
    return _keyed(shape), before, after


def _copied(plan: Plan, shape: Shape) -> bool:
    families = plan.copy.families if plan.copy is not None else ()
    return any(table.name == shape.name for family in families for table in catalogue.BY_NAME[family])


@functools.lru_cache(maxsize=256)
def _keyed(shape: Shape) -> Shape:
    return msgspec.structs.replace(shape, identity="key")


def _long(value: Value) -> bool:
    """Tells whether it is stored apart from its row.  About half of all texts are."""
    return isinstance(value, str) and sum(map(ord, value)) % 2 == 1
