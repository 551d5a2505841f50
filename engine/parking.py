"""Rows set aside: a change that the target refuses is parked with its error, and so is every later change of that row
until the operator says retry or skip; all other rows go on (design 7)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from engine.effects import ParkedRow
from engine.events import ParkedKey
from engine.records import Row, Shape, TableName
from engine.schema import Binding
from engine.segments import Change

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(tuple[Shape, Row | None, Row | None])

Place = tuple[str, int, int]


def encode_change(shape: Shape, before: Row | None, after: Row | None) -> bytes:
    return _ENCODER.encode((shape, before, after))


def decode_change(change: bytes) -> tuple[Shape, Row | None, Row | None]:
    return _DECODER.decode(change)


class ParkingLot:
    """Keys of parked rows, by table, with the places in the log of the changes parked for each."""

    def __init__(self) -> None:
        self._keys: dict[tuple[TableName, Row], set[Place]] = {}
        self._places: dict[Place, list[tuple[TableName, Row]]] = {}

    def __len__(self) -> int:
        """How many changes are parked."""
        return len(self._places)

    def load(self, parked: Iterable[ParkedKey], key_of: dict[TableName, tuple[str, ...]]) -> None:
        """Parked rows found at takeover; `key_of`: key columns by target table."""
        for row in parked:
            shape, before, after = decode_change(row.change)
            columns = key_of.get(row.table, ())
            at = {c.name: i for i, c in enumerate(shape.columns)}
            keys = [
                tuple(image[at[c]] for c in columns) if columns else image
                for image in (before, after)
                if image is not None
            ]
            self._add((row.source, row.number, row.ordinal), [(row.table, key) for key in keys])

    def holds(self, change: Change) -> bool:
        """Is an earlier change of this row parked?"""
        return any(key in self._keys for key in _keys(change))

    def park(self, change: Change, error: str) -> ParkedRow:
        keys = _keys(change)
        self._add((change.source, change.number, change.ordinal), keys)
        name = change.binding.name
        return ParkedRow(
            change.source, change.number, change.ordinal, name.schema, name.table,
            _spell(change.binding, keys[-1][1]), error,
            encode_change(change.binding.shape, change.before, change.after),
        )  # fmt: skip

    def release(self, places: Iterable[Place]) -> None:
        for place in places:
            for key in self._places.pop(place, ()):
                holders = self._keys.get(key)
                if holders is not None:
                    holders.discard(place)
                    if not holders:
                        del self._keys[key]

    def _add(self, place: Place, keys: list[tuple[TableName, Row]]) -> None:
        self._places[place] = keys
        for key in keys:
            self._keys.setdefault(key, set()).add(place)


def _keys(change: Change) -> list[tuple[TableName, Row]]:
    binding = change.binding
    rows = [row for row in (change.before, change.after) if row is not None]
    return [(binding.name, key) for key in dict.fromkeys(binding.key_of(row) for row in rows)]


def _spell(binding: Binding, key: Row) -> str:
    """`id=5`, for people; long values cut."""
    names = [binding.shape.columns[i].name for i in binding.key] or [c.name for c in binding.shape.columns]
    return ", ".join(f"{n}={str(v)[:60]}" for n, v in zip(names, key, strict=True))[:500]
