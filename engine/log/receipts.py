"""Receipts and the fence that they make: which rows an owner committed, so that the next one applies none again
(design 6).

A receipt names rows as (transaction, row ordinal), so that it means the same after a failover, a re-read, or a change
of the selected tables.  It is written in the transaction of its rows, so it is durable exactly when they are.

Bytes of a receipt: msgpack of {transaction source: [number delta, ordinal, number delta, ordinal, …]}, in ascending
(number, ordinal) order within a source, deltas from 0.  About three bytes a row.  A pair of 0 and -n stands for the n
ordinals that follow the one before it: a transaction of millions of rows, applied as it comes, takes a few bytes.

A number covers its rows in *one* log: in another, whose transactions bear the same numbers, other rows would be
dropped.  So a receipt also holds the place that the last window of its rows ends at, with its proof
(`engine.model.lineage`), and a reader asks for the furthest such places besides the one where it begins.  The place is
JSON of a `Position`, its bytes as numbers, under the name of no transaction source: an older version that finds it
takes it for rows that never come by, and keeps the receipt until its fence closes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

import msgspec

from tidelock.engine.model import lineage
from tidelock.engine.model.records import Position
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import Receipt

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(dict[str, list[int]])
_PLACE_ENCODER = msgspec.json.Encoder()
_PLACE_DECODER = msgspec.json.Decoder(Position)
_PLACE = ""  # in the place of a transaction source

NOTHING = _ENCODER.encode({})


def encode(rows: Iterable[tuple[str, int, int]], end: Position | None = None) -> bytes:
    """Returns the receipt for rows of one lane, each as (source, number, ordinal), in any order; `end`: of the last
    window that they are of."""
    out: dict[str, list[int]] = {}
    flat: list[int] = []
    of, last = "", 0
    for source, number, ordinal in sorted(rows):
        if source != of or not flat:
            of, last = source, 0
            flat = out[source] = []
        flat.append(number - last)
        flat.append(ordinal)
        last = number
    return _placed(out, end)


def _placed(out: dict[str, list[int]], end: Position | None) -> bytes:
    if end is not None and end.proof:
        out[_PLACE] = _spelled(end)
    return _ENCODER.encode(out)


def decode(covered: bytes) -> list[tuple[str, int, int]]:
    """Returns (source, number, ordinal) of every row that the receipt covers."""
    return [
        (source, number, ordinal)
        for source, number, first, last in stretches(covered)
        for ordinal in range(first, last + 1)
    ]


def stretches(covered: bytes) -> Iterator[tuple[str, int, int, int]]:
    """Yields (source, number, first ordinal, last ordinal) of what the receipt covers."""
    for source, flat in _DECODER.decode(covered).items():
        if source == _PLACE:
            continue
        number, first, last = 0, 0, -1
        for at in range(0, len(flat), 2):
            delta, ordinal = flat[at], flat[at + 1]
            if ordinal < 0:
                last -= ordinal
                continue
            if last >= first:
                yield source, number, first, last
            number += delta
            first = last = ordinal
        if last >= first:
            yield source, number, first, last


class ReceiptBuilder:
    """Builds the receipt of changes that are told piece by piece, each transaction's in log order."""

    def __init__(self) -> None:
        self._stretches: dict[tuple[str, int], array[int]] = {}  # first and last ordinal, by turns

    def add(self, changes: Iterable[Change]) -> None:
        """Cover these changes too."""
        found: array[int] | None = None
        source, number = "", -1
        for change in changes:
            if found is None or change.number != number or change.source != source:
                source, number = change.source, change.number
                found = self._stretches.setdefault((source, number), array("q"))
            if found and found[-1] + 1 == change.ordinal:
                found[-1] = change.ordinal
            else:
                found.extend((change.ordinal, change.ordinal))

    def encode(self, end: Position | None = None) -> bytes:
        """Returns the receipt of all changes so far; `end`: as in `encode`."""
        out: dict[str, list[int]] = {}
        numbers: dict[str, int] = {}
        for source, number in sorted(self._stretches):
            flat = out.setdefault(source, [])
            ends = self._stretches[source, number]
            for at in range(0, len(ends), 2):
                first, last = ends[at], ends[at + 1]
                flat += (number - numbers.get(source, 0), first)
                numbers[source] = number
                if last > first:
                    flat += (0, first - last)
        return _placed(out, end)


def end_of(covered: bytes) -> Position | None:
    """Returns where the last window of a receipt's rows ends, without the GTID set there; None: an older version
    wrote it, or it covers nothing.  Raises msgspec.MsgspecError."""
    spelled = _DECODER.decode(covered).get(_PLACE)
    return None if spelled is None else _PLACE_DECODER.decode(bytes(spelled))


def furthest(receipts: Iterable[Receipt], begin: Position) -> tuple[Position, ...]:
    """Returns places behind `begin` that a reader from there on must find in its log, for no row to be dropped in
    vain.

    One of each owner and server: what an owner reads is one log, and it asked for the receipts that it found.  Places
    compare at one server alone, unless nothing but file and offset names them; one of another may be before `begin`.
    """
    found: dict[tuple[int, str], Position] = {}
    here = lineage.server_of(begin.proof)
    for receipt in receipts:
        end = end_of(receipt.covered)
        if end is None:
            continue
        server = lineage.server_of(end.proof)
        known = found.get(key := (receipt.id.epoch, server))
        comparable = server == here or not begin.gtids
        behind = end.order > begin.order if comparable else True
        if behind and (known is None or end.order > known.order):
            found[key] = end
    return tuple(found.values())


def _spelled(end: Position) -> list[int]:
    """An even count of numbers: an older version takes them two by two."""
    text = _PLACE_ENCODER.encode(Position(end.file, end.offset, end.rows, "", end.proof))
    return list(text if len(text) % 2 == 0 else text + b" ")


class Fence:
    """Drops the rows of the receipts found at takeover as they come by again, once each.

    A receipt whose rows have all come by may be deleted when the checkpoint passes the last of them.  `empty`:
    receipts that cover no row.

    `blind`: rows are written over whatever is there, in the log's order, so they may be written again.  From the first
    row on that no receipt covers, all are: the feed from an arbiter may send another echo than the reader before it
    did, and what comes behind that in the log must be written behind it.  So are all from the first on that an older
    owner covered than one before it: an owner that wrote rows again has ended before it came to this one.
    """

    def __init__(self, receipts: Iterable[Receipt], *, blind: bool = False) -> None:
        self._blind = blind
        self._again = False  # covered rows are written again
        self._newest = 0  # epoch of those that have come by
        self._rows: dict[tuple[str, int, int], EffectId] = {}
        self._long: dict[tuple[str, int], list[_Stretch]] = {}
        self._left: dict[EffectId, int] = {}
        self._receipts = {receipt.id: receipt for receipt in receipts}
        for receipt in self._receipts.values():
            self._left[receipt.id] = 0
            for source, number, first, last in stretches(receipt.covered):
                self._left[receipt.id] += last - first + 1
                if last > first:
                    self._long.setdefault((source, number), []).append(_Stretch(first, last, receipt.id))
                else:
                    self._rows[source, number, first] = receipt.id
        for found in self._long.values():
            found.sort(key=_first)
        self._open = {transaction: len(found) for transaction, found in self._long.items()}
        self.empty: list[EffectId] = [id_ for id_, left in self._left.items() if left == 0]

    def __len__(self) -> int:
        """Number of covered rows that have not come by yet."""
        return len(self._rows) + sum(s.last - s.first + 1 for found in self._long.values() for s in found)

    def __bool__(self) -> bool:
        return bool(self._rows) or bool(self._long)

    def admit(self, changes: list[Change]) -> tuple[list[Change], list[EffectId]]:
        """Returns the changes that are not covered, and the receipts whose last row was among those that are."""
        fresh: list[Change] = []
        spent: list[EffectId] = []
        for change in changes:
            id_ = self._rows.pop((change.source, change.number, change.ordinal), None)
            if id_ is None and self._long:
                id_ = self._pass(change)
            if id_ is None:
                fresh.append(change)
                self._again = self._blind
                continue
            self._again = self._again or (self._blind and id_.epoch < self._newest)
            self._newest = max(self._newest, id_.epoch)
            if self._again:
                fresh.append(change)
            self._left[id_] -= 1
            if self._left[id_] == 0:
                spent.append(id_)
        return fresh, spent

    def furthest(self, begin: Position) -> tuple[Position, ...]:
        """Returns `furthest` of the receipts with rows that have not come by."""
        if not self:
            return ()
        return furthest((r for id_, r in self._receipts.items() if self._left[id_] > 0), begin)

    def _pass(self, change: Change) -> EffectId | None:
        """Returns the receipt that covers the change in a stretch.

        A transaction's changes come by in their order, so those before it in the stretch have come by, or are of
        tables that are selected no more.
        """
        transaction = change.source, change.number
        found = self._long.get(transaction)
        if found is None:
            return None
        stretch = found[bisect_right(found, change.ordinal, key=_first) - 1]
        if not stretch.first <= change.ordinal <= stretch.last:
            return None
        self._left[stretch.id] -= change.ordinal - stretch.first
        stretch.first = change.ordinal + 1
        if stretch.first > stretch.last:  # it stays in its place: there may be very many behind it
            self._open[transaction] -= 1
            if not self._open[transaction]:
                del self._long[transaction], self._open[transaction]
        return stretch.id

    def close(self) -> list[EffectId]:
        """Give up the rest: the log is past every row that was covered at takeover, so those that have not come by
        are below the checkpoint.  Returns their receipts, which are spent."""
        spent = [id_ for id_, left in self._left.items() if left > 0]
        self._rows.clear()
        self._long.clear()
        self._open.clear()
        self._left.clear()
        self._receipts.clear()
        return spent


class _Stretch(msgspec.Struct, eq=False):
    """Ordinals of one transaction that have not come by yet, and the receipt that covers them."""

    first: int
    last: int
    id: EffectId


def _first(stretch: _Stretch) -> int:
    return stretch.first
