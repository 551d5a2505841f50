"""The copier of one owner: reads chunks at the modelled source and stages them, as Spark does beside a real feed.

The source runs ahead of what its readers see: `Source.written` entries are in its log, `Source.visible` of them can be
seen by a reader (semi-sync, group commit delay: counter-example 5).  A chunk is read in parts, at different moments; a
table without a key at once, in a view whose place in the log is told by GTIDs of either kind of server.
Most rows that the target would refuse cannot be staged either.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from zlib import crc32

from msgspec.structs import replace

from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.model.snapshot import Snapshot
from tidelock.engine.protocol.effects import EffectId, ReadChunk
from tidelock.engine.protocol.events import ApplyEvent, ChunkFailed, ChunkStaged, RefusedRow
from tidelock.simulations import catalogue
from tidelock.simulations.faults import Faults
from tidelock.simulations.history import History
from tidelock.simulations.model import Refusal
from tidelock.simulations.view import View

PARTS = 3
MOST_BOUNDS = 4
REFUSED_EARLY = 0.9
REFUSED = "cannot be staged"


class Source:
    """The part of the history that has happened, and the part of that which can be seen."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.written = 0
        self.visible = 0

    def go_on(self, chance: Random) -> None:
        """Log readers have read no more than is written."""
        ahead = int(chance.random() * 12) if chance.random() < 0.3 else 0
        self.written = min(max(self.written, self._history.told) + ahead, len(self._history.entries))
        if chance.random() < 0.4:
            self.visible += int(chance.random() * (self.written - self.visible + 1))

    def settle(self) -> None:
        """Everything is written and can be seen."""
        self.written = self.visible = len(self._history.entries)


class _Reading:
    def __init__(self, effect: ReadChunk) -> None:
        self.effect = effect
        self.part = -1  # not begun
        self.rows: list[Row] = []
        self.view: Snapshot | None = None


class Copier:
    def __init__(
        self,
        source: Source,
        history: History,
        view: View,
        staged: dict[EffectId, list[Row]],
        refuses: Refusal,
        faults: Faults,
    ) -> None:
        self._source = source
        self._history = history
        self._view = view
        self._staged = staged
        self._refuses = refuses
        self._faults = faults
        self._readings: list[_Reading] = []

    def read(self, effect: ReadChunk) -> None:
        self._readings.append(_Reading(effect))

    def drop(self, attempt: EffectId) -> None:
        self._readings = [reading for reading in self._readings if reading.effect.id != attempt]
        self._staged.pop(attempt, None)

    def go_on(self, chance: Random, post: Callable[[ApplyEvent], None], *, calm: bool) -> None:
        """One of the readings does its next part."""
        if not self._readings:
            return
        reading = self._readings[int(chance.random() * len(self._readings))]
        if not calm and chance.random() < 0.02:
            self._readings.remove(reading)
            self._faults.seen("copy: a chunk could not be read")
            post(ChunkFailed(reading.effect.id))
        elif reading.part < 0:
            if self._may_begin(reading.effect):
                reading.part = 0
            else:
                self._faults.seen("copy: a reader waits for what the stream has taken")
        elif reading.part < PARTS:
            self._read(reading)
        else:
            self._finish(reading, chance, post)

    def _may_begin(self, effect: ReadChunk) -> bool:
        """A server can be asked whether whole transactions are visible, not parts of one."""
        after = replace(effect.after, rows=0)
        return self._view.seen(self._source.visible) >= self._history.index(after)

    def _read(self, reading: _Reading) -> None:
        effect, seen = reading.effect, self._view.seen(self._source.visible)
        rows = self._view.chunk(effect.split, seen, effect.chunk)
        if not effect.split.bounds and self._view.is_unkeyed(effect.split.table, seen):
            reading.rows, reading.part = rows, PARTS
            reading.view = self._snapshot(seen)
            return
        reading.rows += [row for row in rows if crc32(repr(row[0]).encode()) % PARTS == reading.part]
        reading.part += 1

    def _snapshot(self, seen: int) -> Snapshot:
        place, done = self._history.place(seen), [e for e in self._history.entries[:seen] if e.commit]
        if self._history.plan.seed % 2:
            return Snapshot(place, taken=tuple((entry.source, entry.number, entry.number) for entry in done))
        return Snapshot(place, ends=tuple((entry.source, entry.number) for entry in done[-1:]))

    def _finish(self, reading: _Reading, chance: Random, post: Callable[[ApplyEvent], None]) -> None:
        id_, high = reading.effect.id, self._history.place(self._source.written)
        name = reading.effect.split.table
        self._readings.remove(reading)
        known = [row for row in dict.fromkeys(reading.rows) if self._refuses(name, row)]
        known = [row for row in known if chance.random() < REFUSED_EARLY]
        bad = [row for row in reading.rows if row in known]
        self._staged[id_] = rows = [row for row in reading.rows if row not in known]
        refused = tuple(RefusedRow(self._view.shape(name, row), row, REFUSED) for row in bad)
        if reading.view is not None:
            self._faults.seen("copy: a table without a key was read in one view")
        shape = self._view.shape(name, rows[0]) if rows else None
        post(ChunkStaged(id_, high, len(rows), refused, reading.view, shape))


def split(spec: TargetTable, chance: Random) -> ChunkSplit:
    """Some split of the table: one chunk where it must be."""
    refers_to_itself = any(fk.parent == spec.name for fk in spec.foreign_keys)
    if not spec.key or refers_to_itself or chance.random() < 0.1:
        return ChunkSplit(spec.name)
    count = chance.randint(1, MOST_BOUNDS)
    if spec.key == ("id",) and chance.random() < 0.8:
        bounds = tuple((n,) for n in sorted(chance.sample(range(1, 6), count)))
        return ChunkSplit(spec.name, By.NUMBERS, spec.key, bounds)
    return ChunkSplit(spec.name, By.BUCKET, spec.key, tuple(((n << 32) // (count + 1),) for n in range(1, count + 1)))


def splits(
    families: tuple[str, ...], tables: dict[TableName, TargetTable], chance: Random, keep: tuple[str, ...] = ()
) -> tuple[ChunkSplit, ...]:
    """Splits of all tables of the families that are there, in no order that matters.  `keep`: families whose rows at
    the target stay."""
    specs = [tables[t.name] for family in families for t in catalogue.BY_NAME[family] if t.name in tables]
    kept = [t.name for family in keep for t in catalogue.BY_NAME[family]]
    chance.shuffle(specs)
    return tuple(replace(split(spec, chance), keep=spec.name in kept) for spec in specs)
