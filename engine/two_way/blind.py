"""Blind apply: the last image of a row decides, whatever the site holds and whatever came before.

A feed that applies one site's log alone may believe the log: an insert finds no row, and a row that was inserted and
deleted again needs nothing.  Where the site is written to as well, neither holds: it may have a row of its own under
that key.  So a last image is written over what is there, and none deletes, also where the batch began with none
(history 11; Alibaba's Otter says I + D = D).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from tidelock.engine.model.records import Row

Images: TypeAlias = tuple[Row | None, Row | None]  # before, after


def last_images(changes: Iterable[Images], key: tuple[int, ...]) -> dict[Row, Row | None]:
    """Returns the last image of each row that the changes touch, by its key; None: the row is to be deleted.

    `key`: positions of the key's columns, whose values are equal where the index says so.
    """
    last: dict[Row, Row | None] = {}
    for before, after in changes:
        if before is not None:
            _set(last, before, key, None)
        if after is not None:
            _set(last, after, key, after)
    return last


def _set(last: dict[Row, Row | None], row: Row, key: tuple[int, ...], image: Row | None) -> None:
    values = tuple(row[at] for at in key)
    last.pop(values, None)  # rows stay in order of their last change
    last[values] = image
