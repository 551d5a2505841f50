"""The source's rows as the target should see them, after each entry of the log: what a copier may read, and what the
target must hold of the chunks that are merged.

Rows are as the log spells them: without what the databases compute and what only the target has.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from zlib import crc32

from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.records import Column, Kind, Row, Shape, TableName
from tidelock.engine.model.schema_change import DdlKind
from tidelock.engine.protocol.events import Copied
from tidelock.simulations.history import ADDED, History
from tidelock.simulations.layout import Layout, Token, comparable, layout
from tidelock.simulations.log_entry import Entry, Place


class Mistake(AssertionError):
    """The engine did what it must never do."""


class Progress:
    """Progress of a table's copy at the target.  `begun`: entries of the log that came before it; `past`: changes among
    those that never took effect, because of a copy before this one.  `merged`: chunk → how many entries came before its
    merge, and are in it."""

    def __init__(self, split: ChunkSplit, begun: int, past: frozenset[Place] = frozenset()) -> None:
        self.split = split
        self.begun = begun
        self.past = past
        self.merged: dict[int, int] = {}

    def __copy__(self) -> Progress:
        twin = Progress(self.split, self.begun, self.past)
        twin.merged = self.merged.copy()
        return twin

    def lives(self, chunk: int, index: float) -> bool:
        """Tells whether the entry at `index` takes effect on rows of this chunk."""
        return self.split.keeps_target_rows or (chunk in self.merged and index >= self.merged[chunk])

    @property
    def done(self) -> bool:
        return len({*self.merged, *self.split.merged}) == self.split.chunks

    def told(self) -> Copied:
        return Copied(self.split, tuple(dict.fromkeys((*self.merged, *self.split.merged))))


class View:
    """`at[n]`: rows by table after the first n entries, for the tables that the plan copies.  `commits`: those n at
    which no transaction is open, so that a reader can see just these."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._layouts: dict[TableName, Layout] = {name: layout(history.tables[name]) for name in history.held}
        rows: dict[TableName, tuple[Row, ...]] = {name: tuple(of) for name, of in history.held.items()}
        self.at: list[dict[TableName, tuple[Row, ...]]] = [rows]
        self.commits = [0]
        for n, entry in enumerate(history.entries, 1):
            self.at.append(self._after(entry, self.at[-1]))
            if entry.commit or entry.ddl is not None:
                self.commits.append(n)

    def seen(self, entries: int) -> int:
        """The last commit at or before so many entries."""
        return self.commits[bisect_right(self.commits, entries) - 1]

    def names(self, table: TableName, row: Row) -> tuple[str, ...]:
        """The columns of a row: those that are logged, the ones added later last."""
        names = tuple(c.name for c in self._layouts[table].spec.columns if not c.generated and not c.default)
        return (*names, ADDED.name)[: len(row)]

    def shape(self, table: TableName, row: Row) -> Shape:
        """As the log describes such a row."""
        laid, names = self._layouts[table], self.names(table, row)
        columns = {c.name: c for c in laid.shape.columns} | {ADDED.name: Column(ADDED.name, Kind.TEXT)}
        return Shape(table, tuple(columns[name] for name in names), laid.spec.key)

    def token(self, table: TableName, key: Row) -> Token:
        """Returns the form in which the index knows a key."""
        laid = self._layouts[table]
        return tuple(comparable(v, laid.equality[c]) for v, c in zip(key, laid.spec.key, strict=True))

    def is_unkeyed(self, table: TableName, entries: int) -> bool:
        """Tells whether the table has no key at the source, after so many entries."""
        said = [e.keys for e in self._history.entries[:entries] if e.ddl and e.keys and e.ddl.tables == (table,)]
        return not (said[-1].key if said else self._layouts[table].spec.key)

    def having(self, table: TableName, keys: Iterable[Row], entries: int) -> list[Row]:
        """The rows with these keys."""
        wanted = {self.token(table, key) for key in keys}
        return [row for row in self.at[entries][table] if self._layouts[table].key(row) in wanted]

    def chunk(self, split: ChunkSplit, entries: int, number: int) -> list[Row]:
        return [row for row in self.at[entries][split.table] if self.chunk_of(split, row) == number]

    def chunk_of(self, split: ChunkSplit, row: Row) -> int:
        """The number of the row's chunk, by counting: apart from `chunk_ranges` on purpose, as a reader's SQL is."""
        if split.by is By.KEYS:
            own = self._layouts[split.table].key(row)
            return int(any(self.token(split.table, key) == own for key in split.keys))
        if not split.bounds:
            return 0
        names = self.names(split.table, row)
        values = [row[names.index(column)] for column in split.columns]
        if split.by is By.NUMBERS:
            return sum(bound <= tuple(values) for bound in split.bounds)
        text = "_".join(str(v) if isinstance(v, int) else v.encode().hex().upper() for v in values)
        return sum(bound <= (crc32(text.encode()),) for bound in split.bounds)

    def _after(self, entry: Entry, rows: dict[TableName, tuple[Row, ...]]) -> dict[TableName, tuple[Row, ...]]:
        for name, row in entry.swept:
            if name in rows:
                rows = rows | {name: _without(rows[name], row)}
        if entry.ddl is not None:
            if not entry.ddl.tables:
                return rows
            name, *_ = entry.ddl.tables
            if entry.ddl.kind is DdlKind.TRUNCATE:
                return rows | {emptied: () for emptied in entry.ddl.tables if emptied in rows}
            if name not in rows:
                return rows
            if entry.ddl.kind is DdlKind.ADD_COLUMN and entry.adds:
                return rows | {name: tuple((*row, None) for row in rows[name])}
            return rows
        if not entry.taken or entry.shape is None or entry.shape.name not in rows:
            return rows
        name = entry.shape.name
        kept = rows[name] if entry.before is None else _without(rows[name], entry.before)
        return rows | {name: (*kept, entry.after) if entry.after is not None else kept}


def _without(rows: tuple[Row, ...], gone: Row) -> tuple[Row, ...]:
    """One such row less; a cascade may have taken it already."""
    at = next((i for i, row in enumerate(rows) if row == gone), len(rows))
    return rows[:at] + rows[at + 1 :]
