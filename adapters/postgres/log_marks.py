"""Marks that feeds leave in the log of a PostgreSQL server: messages in the transactions that they write.

A message needs no publication and no right of its own, and stands in the log where it was written: the receipt's
before the rows of its batch.  Its prefix is `tidelock`; its content is JSON of `{"receipt": […]}` or
`{"checkpoint": […]}`, a row of the table of that name as `engine.capture.origin` reads it.  Empty, it marks nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tidelock.adapters.bookkeeping import verdicts
from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.log_batch import CHECKPOINT, RECEIPT
from tidelock.engine.model.origin import Origin, spelled
from tidelock.engine.model.records import Position, Row
from tidelock.engine.protocol.effects import EffectId

PREFIX: Final = "tidelock"
_KINDS: Final = {"receipt": RECEIPT, "checkpoint": CHECKPOINT}
_LENGTHS: Final = {RECEIPT: 9, CHECKPOINT: 5}
_CONTENT: Final = msgspec.json.Decoder(dict[str, list[Any]])


def receipt_row(
    feed: str, group: int, id: EffectId, origin: Origin, seen: Position | None
) -> tuple[str, str, str, str, str]:
    """Returns the last columns of a receipt (origin, path, marks, seen), and the message that goes with it."""
    told = "" if seen is None else msgspec.json.encode(seen).decode()
    columns = (origin.path[0], spelled(origin.path), spelled(origin.marks), told)
    return (*columns, _content("receipt", (feed, group, id.epoch, id.counter, "", *columns)))


def checkpoint(feed: str, group: int, position: str, site: str) -> str:
    """Returns the message that goes with a checkpoint; `position`: JSON, in the log of `site`."""
    return _content("checkpoint", (feed, group, position, "", site))


def read(content: bytes) -> tuple[int, Row] | None:
    """Reads a message with our prefix: its kind, and the row; None where it marks nothing.  Raises UnsuitableLog."""
    if not content:
        return None
    try:
        ((name, row),) = _CONTENT.decode(content).items()
        kind = _KINDS[name]
    except (msgspec.MsgspecError, KeyError, ValueError):
        raise _unknown(content) from None
    if len(row) < _LENGTHS[kind]:
        raise _unknown(content)
    return kind, tuple(row)


def read_verdict(content: bytes) -> Row:
    """Reads a message with the prefix of verdicts: the row of `tidelock_verdicts` that it stands for.  Raises
    UnsuitableLog."""
    try:
        return msgspec.structs.astuple(verdicts.read(content))
    except msgspec.MsgspecError:
        raise _unknown(content) from None


def _unknown(content: bytes) -> UnsuitableLog:
    return UnsuitableLog(
        f"a message of a feed in the log is not understood: {content[:80].decode(errors='replace')}",
        f"Run the version of Tidelock that wrote it, or a later one; if no feed did, {RESYNC}",
    )


def _content(name: str, row: Sequence[object]) -> str:
    return msgspec.json.encode({name: row}).decode()
