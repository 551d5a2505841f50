"""Where a chunk of a copied table waits for its merge: a table at the target, named by the attempt to read it.

It has the columns that the feed writes, with the target's types, and none of its keys.  It lies in the feed's
bookkeeping schema, as what is in the table's own schema may be anybody's.  One transaction fills it, so an attempt that
dies leaves nothing or the whole; only what its reader reports is worth anything (counter-example 6).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TypeAlias

import msgspec

from tidelock.adapters.config.url import Endpoint
from tidelock.engine.model.records import Shape, Value
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import RefusedRow

Columns: TypeAlias = list[list[Value]]
"""Rows by column, as `Staging.shape` orders them; all lists have one length."""


class Staging(msgspec.Struct, frozen=True):
    """`name`: of the table, in `schema`.  `shape`: what the rows look like (mapped, named as the target); `table`: what
    they are for.  `zero_dates`: as the feed says."""

    endpoint: Endpoint
    schema: str
    name: str
    shape: Shape
    table: TargetTable
    zero_dates: str = "park"


class Staged(msgspec.Struct, frozen=True):
    """`rows` are in the table; `refused`: those that the target's columns cannot hold."""

    rows: int
    refused: tuple[RefusedRow, ...] = ()


def staged_prefix(feed: str, group: int) -> str:
    """What the names of all that a feed's group stages begin with."""
    return f"staged_{blake2b(f'{feed}/{group}'.encode(), digest_size=6).hexdigest()}_"


def staged_name(feed: str, group: int, attempt: EffectId) -> str:
    return f"{staged_prefix(feed, group)}{attempt.epoch}_{attempt.counter}"
