"""Parked rows: a change that the target refuses is set aside with its error, and so is every later change of that row
until the operator says retry or skip; all other rows go on (design 7).

Rows are the same if the target's key says so: under a case-insensitive collation 'a' and 'A' are one row, and a key
that cannot be folded exactly may be any row of its table.  Without a key the whole row says it, so one that was parked
under other columns may be any row too.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec

from tidelock.engine.model.index import folded_key
from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import Row, Shape, TableName, read_extension
from tidelock.engine.model.schema import Binding, Equality, TargetTable
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import ParkedKey
from tidelock.engine.protocol.steps import ParkedRow

_ENCODER = msgspec.msgpack.Encoder(enc_hook=tuple)  # a row may be anything that behaves as a tuple

Place = tuple[str, int, int]
_Key = tuple[TableName, Row | None]  # None: may be any row of the table

BLOCKED = "an earlier change of this row failed"


class ParkedChange(msgspec.Struct, frozen=True, array_like=True):
    """The content of `ParkedRow.change`.

    `order`: (epoch, batch, n) of its parking.  `untried`: set aside with a bad row, and to be tried by itself, once by
    each owner (`engine.copy.chunk_merge`).  `orphan`: a row that it refers to was not there (`engine.batch.orphans`).
    `origin`: the sites where it had been; None: it began at the source.

    Changes that must follow each other are parked in that order, which their places in the log do not tell where
    transactions come from several sources (a failover, a ring).
    """

    shape: Shape
    before: Row | None
    after: Row | None
    order: tuple[int, int, int] = (0, 0, 0)
    untried: bool = False
    orphan: bool = False
    origin: Origin | None = None


_DECODER = msgspec.msgpack.Decoder(ParkedChange, ext_hook=read_extension)


def decode_change(change: bytes) -> ParkedChange:
    """Decodes `ParkedRow.change`."""
    return _DECODER.decode(change)


class ParkedRows:
    """Keys of parked rows, by table, with the places in the log of the changes parked for each."""

    def __init__(self) -> None:
        self._keys: dict[_Key, set[Place]] = {}
        self._places: dict[Place, list[_Key]] = {}
        self._parked: dict[TableName, int] = {}

    def __len__(self) -> int:
        """Number of parked changes."""
        return len(self._places)

    def __contains__(self, place: Place) -> bool:
        return place in self._places

    def of(self, table: TableName) -> list[Place]:
        """The changes that are parked for the table."""
        return [place for place, keys in self._places.items() if keys[0][0] == table]

    def of_rows(self, table: TargetTable, keys: Iterable[Row]) -> list[Place] | None:
        """The changes that are parked for the rows with these keys; None where they cannot be told from those of other
        rows, or concern other rows too."""
        if table.name not in self._parked:
            return []
        equalities = _equalities(table, table.key)
        own = {(table.name, folded_key(key, equalities)) for key in keys}
        if (table.name, None) in own or (table.name, None) in self._keys:
            return None
        places = [place for place, known in self._places.items() if any(key in own for key in known)]
        return places if all(key in own for place in places for key in self._places[place]) else None

    def of_same_rows(self, places: Iterable[Place]) -> list[Place]:
        """Adds all other changes of the same rows; returns them in the order they were parked."""
        own = dict.fromkeys(places)
        frontier = list(own)
        while frontier:
            for key in self._places.get(frontier.pop(), ()):
                fresh = [place for place in self._keys[key] if place not in own]
                own |= dict.fromkeys(fresh)
                frontier += fresh
        return [place for place in self._places if place in own] if own else []

    def follows(self, places: Sequence[Place]) -> bool:
        """Returns whether one of these parked changes comes after another of its row that stays parked."""
        own = frozenset(places)
        standing = ParkedRows()
        for place, keys in self._places.items():  # in the order they were parked
            if place not in own:
                standing._add(place, keys)
            elif standing._meets(keys):
                return True
        return False

    def load(self, parked: Iterable[ParkedKey], tables: Mapping[TableName, TargetTable]) -> None:
        """Adds the parked rows that a takeover found."""
        for known, row in sorted(
            ((decode_change(row.change), row) for row in parked), key=lambda entry: entry[0].order
        ):
            at = {c.name: i for i, c in enumerate(known.shape.columns)}
            table = tables.get(row.table)
            columns = table.key if table is not None else ()
            images = [image for image in (known.before, known.after) if image is not None]
            keys: list[_Key] = [(row.table, None)]  # its key has changed since: it may be any row
            if table is not None and all(c in at for c in columns or _written(table)):
                equalities = _equalities(table, columns)
                values = [tuple(image[at[c]] for c in columns) if columns else image for image in images]
                keys = [(row.table, folded_key(key, equalities)) for key in values]
            self._add((row.source, row.number, row.ordinal), keys)

    def widen(self, table: TableName) -> None:
        """Makes each parked change of the table stand for any row: it has no key, and its columns have changed."""
        for place in self.of(table):
            self.release([place])
            self._add(place, [(table, None)])

    def sift(
        self, changes: Sequence[Change], bad: Mapping[Change, str]
    ) -> tuple[list[Change], list[tuple[Change, str]]]:
        """Parts these changes, in log order, into what can run, and what is to be parked and why: the `bad` ones with
        their error, and whatever comes after a parked change of its row."""
        run: list[Change] = []
        parked: list[tuple[Change, str]] = []
        ahead = ParkedRows()
        for change in changes:
            error = bad.get(change)
            if error is None and (self.holds(change) or (parked and ahead.holds(change))):
                error = BLOCKED
            if error is None:
                run.append(change)
            else:
                parked.append((change, error))
                ahead.park(change)
        return run, parked

    def holds(self, change: Change) -> bool:
        """Returns whether an earlier change of this row is parked."""
        return change.binding.name in self._parked and self._meets(_keys(change))

    def _meets(self, keys: Iterable[_Key]) -> bool:
        return any(
            key in self._keys or (key[0], None) in self._keys or (key[1] is None and key[0] in self._parked)
            for key in keys
        )

    def park(self, change: Change) -> None:
        """Adds a change that is parked at the target."""
        self._add((change.source, change.number, change.ordinal), _keys(change))

    def release(self, places: Iterable[Place]) -> None:
        """Takes out changes that are parked no more; the others are passed over."""
        for place in places:
            for key in self._places.pop(place, ()):
                self._keys[key].discard(place)
                if not self._keys[key]:
                    del self._keys[key]
                self._parked[key[0]] -= 1
                if not self._parked[key[0]]:
                    del self._parked[key[0]]

    def _add(self, place: Place, keys: list[_Key]) -> None:
        if place in self._places:
            return
        self._places[place] = keys = list(dict.fromkeys(keys))
        for key in keys:
            self._keys.setdefault(key, set()).add(place)
            self._parked[key[0]] = self._parked.get(key[0], 0) + 1


def parked_row(
    change: Change,
    error: str,
    id_: EffectId,
    n: int,
    *,
    untried: bool = False,
    orphan: bool = False,
    origin: Origin | None = None,
) -> ParkedRow:
    """The `n`th change that the batch `id_` parks."""
    name, order = change.binding.name, (id_.epoch, id_.counter, n)
    held = ParkedChange(change.binding.shape, change.before, change.after, order, untried, orphan, origin)
    return ParkedRow(
        change.source,
        change.number,
        change.ordinal,
        name.schema,
        name.table,
        key_for_people(change.binding, change.before if change.after is None else change.after),
        error,
        _ENCODER.encode(held),
    )


def rows_to_park(
    parked: Sequence[tuple[Change, str]], id_: EffectId, orphans: Container[Change], origin: Origin | None = None
) -> tuple[ParkedRow, ...]:
    """The rows that the batch or piece `id_` parks, with their errors; `origin`: theirs."""
    return tuple(
        parked_row(change, error, id_, n, orphan=change in orphans, origin=origin)
        for n, (change, error) in enumerate(parked)
    )


def _keys(change: Change) -> list[_Key]:
    binding = change.binding
    equalities = _equalities(binding.target, binding.target.key)
    rows = (row for row in (change.before, change.after) if row is not None)
    return [(binding.name, folded_key(binding.key_of(row), equalities)) for row in rows]


def _written(table: TargetTable) -> list[str]:
    """The columns of a whole row."""
    return [c.name for c in table.columns if not c.generated]


def _equalities(table: TargetTable, columns: tuple[str, ...]) -> tuple[Equality, ...]:
    """The equality of each key column; empty where the whole row is the key, which is compared as it is."""
    equality = {c.name: c.equality for c in table.columns}
    return tuple(equality[c] for c in columns)


def key_for_people(binding: Binding, row: Row | None) -> str:
    """Spells a row's key as `id=5`; long values are cut."""
    assert row is not None, "a change has an image"
    names = [binding.shape.columns[i].name for i in binding.key] or [c.name for c in binding.shape.columns]
    return ", ".join(f"{n}={str(v)[:60]}" for n, v in zip(names, binding.key_of(row), strict=True))[:500]
