"""Names and describes the table at the target where a chunk of a copied table waits for its merge.

It has the columns that the feed writes, with the target's types, and none of the target's keys.  It lies in the feed's
bookkeeping schema, because the table's own schema may be anybody's.  One transaction fills it, so an attempt that dies
leaves nothing or everything; only what its reader reports counts (counter-example 6).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, TypeAlias

import msgspec

from tidelock.adapters.config.url import Endpoint
from tidelock.engine.model.records import Shape, TableName, Value
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import RefusedRow

LEFT: Final = "left"
"""The `mode` in `tidelock_wanted` of rows that a repair left as they are; JSON of their keys and reasons beside it."""

HELD: Final = {"copy": "heldcopy", "keep": "heldkeep"}
"""The `mode` in `tidelock_wanted` of copies that wait for a run whose file names their table as asked for."""

HELD_MODES: Final = ", ".join(f"'{mode}'" for mode in HELD.values())
NOT_ASKED: Final = f"'refused', '{LEFT}', {HELD_MODES}"
"""The modes, as a list in SQL, of what no run is to carry out."""

Columns: TypeAlias = list[list[Value]]
"""Rows by column, as `Staging.shape` orders them; all lists have one length."""


class Staging(msgspec.Struct, frozen=True):
    """A staging table.

    `name`: of the table, in `schema`.  `shape`: of the rows (mapped, named as at the target).  `table`: the target
    table.  `zero_dates`: as the feed says.
    """

    endpoint: Endpoint
    schema: str
    name: str
    shape: Shape
    table: TargetTable
    zero_dates: str = "dead_letter"


class Staged(msgspec.Struct, frozen=True):
    """The result of a read: `rows` are in the table; `refused`: those that the target's columns cannot hold."""

    rows: int
    refused: tuple[RefusedRow, ...] = ()


def holds_rows(table: TableName) -> str:
    """Words the refusal of a copy into a table that must be empty."""
    return (
        f"{table} holds rows already, which a first copy would have to take away: empty it; or set `copy: {{existing: "
        "replace}` in the feed, or `keep`"
    )


def staged_prefix(feed: str, group: int) -> str:
    """Returns the beginning of the names of all staging tables of a feed's group."""
    return f"staged_{blake2b(f'{feed}/{group}'.encode(), digest_size=6).hexdigest()}_"


def epoch_of(name: str) -> int:
    """Returns the epoch of the owner whose attempt a staging table is of."""
    return int(name.split("_")[-2])


def staged_name(feed: str, group: int, attempt: EffectId) -> str:
    """Returns the name of an attempt's staging table."""
    return f"{staged_prefix(feed, group)}{attempt.epoch}_{attempt.counter}"
