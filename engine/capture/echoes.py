"""Echoes: rows of a spoke's own changes that the feed from its arbiter sends back to it (`engine.two_way.echo`).

The rule asks for the place of each row in the arbiter's log, for what the spoke had seen of that log, and for the
registers of the row.  The place is where a checkpoint must stand for the row to be applied: the end of its transaction;
of a transaction that comes in parts, the end of the part.  What the spoke had seen is in the receipt of its
transaction.  Registers go by the target's indexes, as they were when the reader began; a table that was not there then,
or has an index whose values the log does not tell, has every register: more goes back, never less.  Where columns are
in groups, a change has the registers of those groups that it writes at the target (`engine.two_way.column_groups`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from tidelock.engine.model import lineage
from tidelock.engine.model.index import Index
from tidelock.engine.model.log_batch import SourceTransaction
from tidelock.engine.model.records import Position, RowChange, Shape, TableName
from tidelock.engine.model.schema import Equality, TargetTable, equality_of
from tidelock.engine.two_way.column_groups import groups_at
from tidelock.engine.two_way.echo import EchoIndex, Passing, Sending, sending
from tidelock.engine.two_way.places import NOTHING, Place, place_in
from tidelock.engine.two_way.registers import Layout, Registers, referred, registers

LIMIT: Final = 200_000
"""Number of registers that are remembered."""
_REFERENCE: Final = ""
"""Begins the columns of a namespace of values that are referred to; no column has this name."""
NamedGroups: TypeAlias = tuple[tuple[str, ...], ...]
"""Columns of each group, by their names at the target."""
NO_GROUPS: Final[Mapping[TableName, NamedGroups]] = MappingProxyType({})


class Echoes:
    """The rule for one spoke, asked for each transaction of the arbiter's log in order."""

    def __init__(
        self,
        spoke: str,
        tables: Iterable[TargetTable],
        floor: Position,
        *,
        every: bool = False,
        limit: int = LIMIT,
        groups: Mapping[TableName, NamedGroups] = NO_GROUPS,
    ) -> None:
        """`tables`: the target's.  `floor`: the log's end when the reader began, or a later place.  `every`: all own
        changes go back.  `groups`: of columns that are written apart, by table; others are written whole."""
        self._spoke = spoke
        self._every = every
        self._groups = groups
        self._index = EchoIndex(limit, floor.order)
        self._tables = {table.name: table for table in tables}
        self._namespaces: dict[tuple[TableName, tuple[str, ...]], int] = {}
        self._layouts: dict[int, Layout | None] = {}
        self._log = _Log()

    def announce(self, shapes: Mapping[int, Shape]) -> None:
        """Learns how rows that are told by these numbers look at the target."""
        for number, shape in shapes.items():
            self._layouts[number] = self._layout(shape)

    def note_sent(self, source: SourceTransaction, rows: Iterable[RowChange]) -> None:
        """Notes rows of a transaction that goes to the spoke."""
        at = place_of(source)
        for row in rows:
            self._index.send(at, self._registers(row))

    def note_statement(self, source: SourceTransaction) -> None:
        """Notes a statement, which may concern every row: a TRUNCATE deletes what the spoke has just inserted."""
        self._index.send(place_of(source), None)

    def going_back(
        self, source: SourceTransaction, rows: Sequence[RowChange], told: Position | None, log: str
    ) -> list[RowChange]:
        """Returns those rows of a transaction of the spoke's own that go back to it, and notes them as sent.

        `told`: what its receipt says that the spoke had seen.  `log`: proof of the log that is read.
        """
        if self._every:
            self.note_sent(source, rows)
            return list(rows)
        at, seen = place_of(source), NOTHING if told is None else place_in(self._log.identity(log), told)
        path = (self._spoke,)
        return [
            row
            for row in rows
            if sending(self._index, self._spoke, Passing(at, path, seen, self._registers(row), self._refers(row)))
            is Sending.ECHO
        ]

    def _refers(self, row: RowChange) -> Registers | None:
        layout = self._layouts[row.table]
        return None if layout is None else referred(layout, row.before, row.after)

    def _registers(self, row: RowChange) -> Registers | None:
        layout = self._layouts[row.table]
        return None if layout is None else registers(layout, row.before, row.after)

    def note_verdicts(self, source: SourceTransaction, rows: Iterable[RowChange]) -> None:
        """Notes verdicts of a transaction, which all go to the spoke.  One that deletes tells no unique values of the
        spoke's row, so it may concern every change."""
        at = place_of(source)
        for row in rows:
            self._index.send(at, None if row.after is None else self._registers(row))

    def _layout(self, shape: Shape) -> Layout | None:
        table = self._tables.get(shape.name)
        if table is None or not table.key or any(unique.opaque for unique in table.uniques):
            return None
        at = {column.name: i for i, column in enumerate(shape.columns)}
        equalities = {
            column.name: equality_of(shape.columns[at[column.name]], column)
            for column in table.columns
            if column.name in at
        }
        keys = [table.key, *(unique.columns for unique in table.uniques if set(unique.columns) != set(table.key))]
        if any(name not in at for columns in keys for name in columns):
            return None
        key, *uniques = (self._index_over(table.name, columns, at, equalities) for columns in dict.fromkeys(keys))
        referenced = dict.fromkeys(one.parent_columns for one in table.references if one.child in self._tables)
        parents = [one for one in table.foreign_keys if one.parent in self._tables]
        if any(name not in at for names in (*referenced, *(one.columns for one in parents)) for name in names):
            return None
        return Layout(
            key,
            groups_at(self._groups.get(table.name, ()), at, key.positions),
            tuple(uniques),
            _tied(table, at),
            referenced=tuple(self._reference(shape, names, table, names) for names in referenced),
            parents=tuple(
                self._reference(shape, one.columns, self._tables[one.parent], one.parent_columns) for one in parents
            ),
        )

    def _reference(
        self, shape: Shape, columns: tuple[str, ...], parent: TargetTable, parent_columns: tuple[str, ...]
    ) -> Index:
        """Returns the values by which rows refer to those of a parent, compared as its index does."""
        number = self._namespaces.setdefault((parent.name, (_REFERENCE, *parent_columns)), len(self._namespaces))
        at = {column.name: i for i, column in enumerate(shape.columns)}
        theirs = {column.name: column for column in parent.columns}
        logged = [shape.columns[at[name]] for name in columns]
        equalities = tuple(equality_of(one, theirs[name]) for one, name in zip(logged, parent_columns, strict=True))
        kinds = tuple(column.kind for column in logged)
        return Index(number, tuple(at[name] for name in columns), equalities, is_key=False, kinds=kinds)

    def _index_over(
        self, table: TableName, columns: tuple[str, ...], at: Mapping[str, int], equalities: Mapping[str, Equality]
    ) -> Index:
        number = self._namespaces.setdefault((table, columns), len(self._namespaces))
        positions = tuple(at[name] for name in columns)
        return Index(number, positions, tuple(equalities[name] for name in columns), is_key=False)


class _Log:
    """Tells a log's identity from proofs of its places, which are mostly the one before."""

    def __init__(self) -> None:
        self._proof, self._identity = "", ""

    def identity(self, proof: str) -> str:
        if proof != self._proof:
            self._proof, self._identity = proof, lineage.server_of(proof)
        return self._identity


def _tied(table: TargetTable, at: Mapping[str, int]) -> tuple[int, ...]:
    """Returns the columns whose change makes a row leave and come back, or have another key."""
    unique = (unique.columns for unique in table.uniques)
    foreign = (foreign.columns for foreign in table.foreign_keys)
    names = dict.fromkeys(name for columns in (table.key, *unique, *foreign) for name in columns)
    return tuple(at[name] for name in names if name in at)


def place_of(source: SourceTransaction) -> Place:
    """Returns the place in the log that a checkpoint has reached once these rows of a transaction are applied."""
    taken = 0 if source.complete else source.first_ordinal + source.ordinals
    return Position(source.file, source.end, taken).order
