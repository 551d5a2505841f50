"""The merge of a staged chunk as SQL (`engine.protocol.effects.MergeChunk`).

First the staging table becomes the chunk: without the rows that the stream has touched, with their last images.  Then
*one* statement puts it in place, because PostgreSQL looks at foreign keys when a statement ends, and rows of a chunk
may refer to each other.

Rows that are read again (`gone`) may be there, and others may refer to them.  So they are changed where they stand.
Where that meets a unique value that another of them still holds, all are deleted first, and then inserted.

Keys of the stream are compared with those of tables by the server, so by the target's equality, folding collations and
`citext` included.  What the column of a key is at the source nobody says here: the values and the target's type do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from tidelock.adapters.postgres.target.copy_text import CopyCommand
from tidelock.adapters.postgres.target.literals import array
from tidelock.adapters.postgres.target.statements import TableStatements, identifier, qualified
from tidelock.adapters.postgres.target.values import Unwritable, ZeroDates, base_type, renderer
from tidelock.engine.model.records import Column, Kind, Row, TableName
from tidelock.engine.model.schema import Binding, TargetColumn, TargetTable
from tidelock.engine.protocol.effects import MergeChunk
from tidelock.engine.protocol.steps import DeleteRows, UpdateRows, UpsertRows

CLASHES = frozenset(("23505", "23P01", "23503"))
"""SQLSTATEs of what `in_place` cannot do and `anew` may: a unique value that moves between rows, a reference."""

UNINDEXED_ROWS = 8
MOST_INDEXED = 8
_PLAIN = frozenset((
    "smallint", "integer", "bigint", "numeric", "boolean", "date", "uuid", "timestamp without time zone",
    "timestamp with time zone", "time without time zone", "double precision", "real",
))  # fmt: skip
_TEXTS = frozenset(("text", "character varying"))

_TIMES = {
    "date": Kind.DATE,
    "timestamp without time zone": Kind.DATETIME,
    "timestamp with time zone": Kind.DATETIME,
    "time without time zone": Kind.TIME,
}


class ChunkMergeSql:
    """`columns`: those of the staging table."""

    def __init__(
        self, effect: MergeChunk, staged: TableName, columns: Sequence[TargetColumn], zero_dates: ZeroDates
    ) -> None:
        self._effect = effect
        self._zero_dates = zero_dates
        self._staging = TargetTable(staged, tuple(columns), effect.key)
        self._types = {column.name: column.type for column in columns}
        self._staged, self._target = qualified(staged), qualified(effect.split.table)
        self._names = [identifier(column.name) for column in columns]
        self.rows = f"SELECT count(*) FROM {self._staged}"

    def prepare(self) -> Iterator[str | CopyCommand]:
        """The staging table becomes the chunk.  Raises Unwritable."""
        lengthless = [name for name in self._effect.key if _has_any_length(self._types[name])]
        if lengthless and (self._effect.without or self._effect.gone):
            raise Unwritable(f"column {lengthless[0]}: only the source knows how long a key's bits are; make it bit(n)")
        yield "SET LOCAL enable_hashjoin = on"  # whole tables are joined, not rows looked up
        for keys in self._keys(self._effect.without):
            yield f"DELETE FROM {self._staged} AS t USING {keys} WHERE {self._same('k')}"
        for step in self._effect.steps:
            binding = Binding(step.table.number, step.table.shape, self._written(step.table))
            statements = TableStatements(binding, self._zero_dates)
            if isinstance(step, DeleteRows):
                if len(step.keys) > UNINDEXED_ROWS:
                    yield from self._indexed()
                yield from statements.of(DeleteRows(binding, step.keys), careful=False)
            elif isinstance(step, UpdateRows):
                yield from statements.of(UpdateRows(binding, step.keys, step.rows, moves=False), careful=False)
            else:
                yield from statements.of(UpsertRows(binding, step.rows, fresh=True), careful=False)

    def _indexed(self) -> Iterator[str]:
        """Give rows without a key an index for the time of the merge, as each that is gone is looked up."""
        known = [(identifier(name), base_type(type_)) for name, type_ in self._types.items()]
        plain = [name for name, base in known if base in _PLAIN][:MOST_INDEXED]
        if plain:
            yield f"CREATE INDEX ON {self._staged} ({', '.join(plain)})"
        for name in [name for name, base in known if base in _TEXTS][:1]:
            yield f"CREATE INDEX ON {self._staged} USING hash ({name})"
        yield f"ANALYZE {self._staged}"

    def _written(self, binding: Binding) -> TargetTable:
        """The staging table, with those columns of the target that it lacks because they are not written."""
        lacking = (column for column in binding.target.columns if column.generated and column.name not in self._types)
        return replace(self._staging, columns=(*self._staging.columns, *lacking))

    def insert(self, only: str = "true") -> str:
        """Insert all staged rows; a row that is there is an error, or stays where the target's rows are kept.

        `only`: those for which this condition on `s` holds; here and below.
        """
        ending = " ON CONFLICT DO NOTHING" if self._effect.split.keep else ""
        return f"{self._insertion(only)}{ending}"

    def _insertion(self, condition: str) -> str:
        names = ", ".join(self._names)
        return (
            f"INSERT INTO {self._target} ({names}) OVERRIDING SYSTEM VALUE SELECT {names} FROM {self._staged} AS s "
            f"WHERE {condition}"
        )

    def in_place(self, only: str = "true") -> Iterator[str]:
        """Change rows that are read again, each where it stands."""
        yield from self._vanished() if only == "true" else ()
        there = f"SELECT FROM {self._target} AS t WHERE {self._same('s')}"
        assignments = ", ".join(f"{name} = s.{name}" for name in self._names)
        yield (
            f"UPDATE {self._target} AS t SET {assignments} FROM {self._staged} AS s WHERE {self._same('s')} AND {only}"
        )
        yield self._insertion(f"NOT EXISTS ({there}) AND {only}")

    def _vanished(self) -> Iterator[str]:
        """Delete rows that do not come back."""
        staged = f"SELECT FROM {self._staged} AS s WHERE {self._same('s')}"
        for keys in self._keys(self._effect.gone):
            yield f"DELETE FROM {self._target} AS t USING {keys} WHERE {self._same('k')} AND NOT EXISTS ({staged})"

    def anew(self, only: str = "true") -> Iterator[str]:
        """Delete and insert the same rows."""
        for keys in self._keys(self._effect.gone) if only == "true" else ():
            yield f"DELETE FROM {self._target} AS t USING {keys} WHERE {self._same('k')}"
        yield f"DELETE FROM {self._target} AS t USING {self._staged} AS s WHERE {self._same('s')} AND {only}"
        yield self._insertion(only)

    def _same(self, other: str) -> str:
        return " AND ".join(f"t.{identifier(name)} = {other}.{identifier(name)}" for name in self._effect.key)

    def _keys(self, keys: list[Row]) -> Iterator[str]:
        """Relations `k` of these keys.  A key that the target cannot hold is in no table of its."""
        try:
            if keys:
                yield self._relation(keys)
        except Unwritable:
            half = len(keys) // 2
            if half:
                yield from self._keys(keys[:half])
                yield from self._keys(keys[half:])

    def _relation(self, keys: list[Row]) -> str:
        arrays = []
        for name, values in zip(self._effect.key, zip(*keys, strict=True), strict=True):
            type_ = self._types[name]
            texts = renderer(_column(name, type_, values), type_, "dead_letter")(values)
            arrays.append(f"{array(name, texts)}::{base_type(type_)}[]")
        return f"unnest({', '.join(arrays)}) AS k({', '.join(map(identifier, self._effect.key))})"


def _column(name: str, type: str, values: Row) -> Column:
    """A column of the source that has such values, for a target's column of this type."""
    base = base_type(type)
    if base in _TIMES:
        return Column(name, _TIMES[base])
    if any(isinstance(value, str) for value in values):
        return Column(name, Kind.TEXT)
    if any(isinstance(value, bytes) for value in values):
        return Column(name, Kind.BINARY)
    return Column(name, Kind.BIT if base == "bit varying" else Kind.INT)


def _has_any_length(type: str) -> bool:
    return "varying" in type and base_type(type) == "bit varying"
