"""What a receipt covers: positions as (transaction, row ordinal), so that it means the same after a failover, a
re-read, or a change of the selected tables; and the fence that keeps covered rows from being applied again (design 6).

Bytes of a receipt: msgpack of {transaction source: [number delta, ordinal, number delta, ordinal, …]}, in ascending
(number, ordinal) order within a source, deltas from 0.  About three bytes a row.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from engine.effects import EffectId
from engine.events import Receipt
from engine.segments import Change

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(dict[str, list[int]])

NOTHING = _ENCODER.encode({})


def encode(changes: Iterable[Change]) -> bytes:
    """The receipt for these changes of one lane, in any order."""
    by_source: dict[str, list[tuple[int, int]]] = {}
    for change in changes:
        at = by_source.get(change.source)
        if at is None:
            at = by_source[change.source] = []
        at.append((change.number, change.ordinal))
    out: dict[str, list[int]] = {}
    for source, places in by_source.items():
        places.sort()
        flat: list[int] = []
        last = 0
        for number, ordinal in places:
            flat += (number - last, ordinal)
            last = number
        out[source] = flat
    return _ENCODER.encode(out)


def decode(covered: bytes) -> list[tuple[str, int, int]]:
    """(source, number, ordinal) of every row that the receipt covers."""
    out = []
    for source, flat in _DECODER.decode(covered).items():
        number = 0
        for delta, ordinal in zip(flat[::2], flat[1::2], strict=True):
            number += delta
            out.append((source, number, ordinal))
    return out


class Fence:
    """The receipts found at takeover: their rows are dropped as they come by again, once each.

    A receipt whose rows have all come by may be deleted when the checkpoint passes the last of them.
    """

    def __init__(self, receipts: Iterable[Receipt]) -> None:
        self._rows: dict[tuple[str, int, int], EffectId] = {}
        self._left: dict[EffectId, int] = {}
        for receipt in receipts:
            rows = decode(receipt.covered)
            self._rows.update(dict.fromkeys(rows, receipt.id))
            self._left[receipt.id] = len(rows)
        self.empty: list[EffectId] = [id_ for id_, left in self._left.items() if left == 0]

    def __len__(self) -> int:
        """How many covered rows have not come by yet."""
        return len(self._rows)

    def admit(self, changes: list[Change]) -> tuple[list[Change], list[EffectId]]:
        """The changes that are not covered, and the receipts whose last row was among those that are."""
        fresh: list[Change] = []
        spent: list[EffectId] = []
        for change in changes:
            id_ = self._rows.pop((change.source, change.number, change.ordinal), None)
            if id_ is None:
                fresh.append(change)
                continue
            self._left[id_] -= 1
            if self._left[id_] == 0:
                spent.append(id_)
        return fresh, spent

    def close(self) -> list[EffectId]:
        """The log is past every row that was covered at takeover: those that have not come by are below the checkpoint,
        so their receipts are spent.  Returns them."""
        spent = [id_ for id_, left in self._left.items() if left > 0]
        self._rows.clear()
        self._left.clear()
        return spent
