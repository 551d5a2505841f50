"""What a source logs of a table whose replica identity is its key (PostgreSQL's REPLICA IDENTITY DEFAULT).

The history has whole images, which the oracle replays; the reader hands over these.
"""

from __future__ import annotations

import functools

import msgspec

from tidelock.engine.model.records import UNKNOWN, Row, Shape, Value


@functools.lru_cache(maxsize=256)
def keyed(shape: Shape) -> Shape:
    """The shape of such a table."""
    return msgspec.structs.replace(shape, identity="key")


def logged(shape: Shape, before: Row | None, after: Row | None) -> tuple[Row | None, Row | None]:
    """The images of a change as such a source logs them.

    Before: the key alone.  After: all but the long values that an update left as they were.
    """
    key = [c.name in shape.primary_key for c in shape.columns]
    if before is not None and after is not None:
        pairs = zip(key, before, after, strict=True)
        after = tuple(UNKNOWN if not own and old == new and _long(new) else new for own, old, new in pairs)
    if before is not None:
        before = tuple(value if own else UNKNOWN for own, value in zip(key, before, strict=True))
    return before, after


def _long(value: Value) -> bool:
    """Is it stored apart from its row?  About half of all texts are."""
    return isinstance(value, str) and sum(map(ord, value)) % 2 == 1
