"""The statements of steps, by their tables: what a step of a batch is in PostgreSQL's SQL.

Each statement is complete text, so that a whole batch goes in one packet and costs one round trip (`session`).  Plain
inserts are COPY, be it of one row: there is nothing to plan (docs/decisions/2026-11-22-scripts.md has the figures).  Of
rows that may be there already, up to `FEW_ROWS` are a VALUES list, more are one array literal a column, read by
`unnest`.  COPY to a temporary table and a merge from there lost: no faster than arrays, and every commit empties every
temporary table of the session.

- literals take their type from the column they are assigned to or compared with, so no value is cut or rounded by an
  explicit cast; arrays are cast to the base type and then assigned, which checks lengths;
- columns that are arrays or composites themselves, which `unnest` would flatten, travel as text, as do all of a type
  that only PostgreSQL has.

Rows may hold `UNKNOWN`, for a value that stays as it is: they are updated by key, those with the same known columns
together, and where fewer rows are there than were named the statement fails (`is_missing`).

`ON CONFLICT` names the key and sets no unique column: a unique value held by a row of another key stays an error, and
no lock stronger than needed is taken.  Where the key's index cannot be named so (DEFERRABLE, partial), or where the
target has columns that the log does not (the row proposed for insertion would have to satisfy their NOT NULL), rows
are updated first and those that were not there inserted, in one statement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import assert_never

import asyncpg

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.postgres.target import literals
from tidelock.adapters.postgres.target.copy_text import CopyCommand, lines
from tidelock.adapters.postgres.target.equal_rows import counted, equal
from tidelock.adapters.postgres.target.values import Unwritable, ZeroDates, base_type, is_own_text, renderer, unchanged
from tidelock.adapters.row_image import images
from tidelock.engine.model.records import UNKNOWN, Kind, Row, TableName, Value
from tidelock.engine.model.schema import Binding, TargetColumn
from tidelock.engine.protocol.steps import DeleteRows, Step, UpdateRows, UpsertRows

FEW_ROWS = 8
STATEMENT_ROWS = 5_000
STATEMENT_CHARACTERS = 32 << 20
SHORT_VALUE = 1_000
_UNBOUNDED = frozenset((Kind.TEXT, Kind.BINARY, Kind.JSON, Kind.GEOMETRY, Kind.VECTOR, Kind.OTHER))


_MISSING = "tidelock: rows not there: "


def is_missing(error: BaseException) -> bool:
    """Tell whether a row that can only be updated was not there."""
    return isinstance(error, asyncpg.InvalidTextRepresentationError) and f'"{_MISSING}' in str(error)


def identifier(name: str) -> str:
    """Quote a name."""
    return quote("postgres", name)


def qualified(name: TableName) -> str:
    """Quote a table's name with its schema."""
    return f"{identifier(name.schema)}.{identifier(name.table)}"


class StepStatements:
    """The SQL of any steps, each by the statements of its table.  `of` raises Unwritable.

    `checked`: makes those of steps that look at the target's rows first (`Step.checks`), where such may come.
    """

    def __init__(
        self, zero_dates: ZeroDates, checked: Callable[[Binding, ZeroDates], TableStatements] | None = None
    ) -> None:
        self._zero_dates = zero_dates
        self._make_checked = checked
        self._tables: dict[Binding, TableStatements] = {}
        self._checked: dict[Binding, TableStatements] = {}

    def of(self, steps: Sequence[Step], careful: bool) -> Iterator[str | CopyCommand]:
        """Write steps.  `careful`: rows are upserted that `UpsertRows.fresh` says are not there."""
        for step in steps:
            table = self._tables.get(step.table)
            if table is None:
                table = self._tables[step.table] = TableStatements(step.table, self._zero_dates)
            if step.checks:
                table = self._checked_table(step.table)
            yield from table.of(step, careful)

    def _checked_table(self, binding: Binding) -> TableStatements:
        assert self._make_checked is not None, "such steps come in batches alone"
        table = self._checked.get(binding)
        if table is None:
            table = self._checked[binding] = self._make_checked(binding, self._zero_dates)
        return table

    def forget_tables(self) -> None:
        """Forget the tables as they were: a statement has changed them, or another owner may have."""
        self._tables.clear()
        self._checked.clear()


class TableStatements:
    """The SQL of one `Binding`.  Methods yield statements, in order; all raise Unwritable with the table's name."""

    def __init__(self, binding: Binding, zero_dates: ZeroDates) -> None:
        by_name = {c.name: c for c in binding.target.columns}
        unique = set(binding.unique_positions)
        self.binding = binding
        self.table = qualified(binding.name)
        self._targets: list[TargetColumn] = [by_name[c.name] for c in binding.shape.columns]
        self._names = [c.name for c in binding.shape.columns]
        self._floats = [i for i, c in enumerate(binding.shape.columns) if c.kind in (Kind.FLOAT, Kind.DOUBLE)]
        self._quoted = [identifier(name) for name in self._names]
        self._renderers = [
            renderer(c, t.type, zero_dates) for c, t in zip(binding.shape.columns, self._targets, strict=True)
        ]
        self._own_texts = all(is_own_text(c, t.type) for c, t in zip(binding.shape.columns, self._targets, strict=True))
        self._written = [i for i, c in enumerate(binding.columns) if c is not None]
        self._set = [i for i in self._written if i not in unique and i not in binding.key]
        self._key_names = [self._quoted[i] for i in binding.key]
        self._large = [
            i for i, c in enumerate(binding.shape.columns) if c.kind in _UNBOUNDED and not 0 < c.length <= SHORT_VALUE
        ]
        # An array of arrays is one array, and a literal beside a composite a row of no type: such keys are unnested.
        self._is_odd_key = any(binding.shape.columns[i].kind is Kind.OTHER for i in binding.key)
        self._large_key = [at for at, i in enumerate(binding.key) if i in self._large]
        columns = ", ".join(self._quoted[i] for i in self._written)
        self._insert = f"INSERT INTO {self.table} ({columns}) OVERRIDING SYSTEM VALUE "
        self._copy = f"COPY {self.table} ({columns}) FROM STDIN"
        self._conflict = self._on_conflict()

    def _on_conflict(self) -> str:
        """Write the clause; '' where ON CONFLICT cannot do it."""
        key = sorted(self.binding.target.key)
        named = any(sorted(u.columns) == key and not u.opaque for u in self.binding.target.uniques)
        if not key or not named or self.binding.has_target_only_columns:
            return ""
        assignments = ", ".join(f"{self._quoted[i]} = excluded.{self._quoted[i]}" for i in self._set)
        action = f"UPDATE SET {assignments}" if assignments else "NOTHING"
        return f" ON CONFLICT ({', '.join(self._key_names)}) DO {action}"

    def of(self, step: Step, careful: bool) -> Iterator[str | CopyCommand]:
        """Write a step.  `careful`: do not trust `UpsertRows.fresh`."""
        try:
            match step:
                case DeleteRows():
                    yield from self._delete(step.keys)
                case UpsertRows():
                    yield from self._upsert(step.rows, careful or not step.fresh)
                case UpdateRows():
                    yield from self._update(step)
                case _:
                    assert_never(step)
        except Unwritable as error:
            raise Unwritable(f"{self.binding.name}: {error}") from None

    def _delete(self, keys: list[Row]) -> Iterator[str]:
        if not self.binding.key:
            for row, copies in counted(keys, self._floats):
                yield f"DELETE FROM {self.table} AS t USING {self._equal_rows(row, copies)} AS d WHERE {_SAME_ROW}"
        elif len(self.binding.key) == 1 and not self._is_odd_key:
            at = self.binding.key[0]
            for part in parts(keys, self._large_key):
                values = self._renderers[at]([key[0] for key in part])
                condition = (
                    f"= {literals.elements(self._names[at], values)[0]}"
                    if len(part) == 1
                    else f"= ANY ({literals.array(self._names[at], values)})"
                )
                yield f"DELETE FROM {self.table} WHERE {self._quoted[at]} {condition}"
        else:
            yield from self._delete_wide(keys)

    def _delete_wide(self, keys: list[Row]) -> Iterator[str]:
        names = ", ".join(self._key_names)
        for part in parts(keys, self._large_key):
            columns = self._columns(part, self.binding.key)
            if len(part) <= FEW_ROWS and not self._is_odd_key:
                rows = literals.tuples([self._names[i] for i in self.binding.key], columns)
                yield f"DELETE FROM {self.table} WHERE ({names}) IN ({rows})"
            else:
                same = " AND ".join(f"t.{self._quoted[i]} = {self._typed(i)}" for i in self.binding.key)
                yield f"DELETE FROM {self.table} AS t USING {self._unnest(columns, self.binding.key)} WHERE {same}"

    def _upsert(self, rows: list[Row], careful: bool) -> Iterator[str | CopyCommand]:
        binding = self.binding
        if careful and binding.key and not self._conflict:
            yield from self._update_or_insert(rows)
            return
        for part in parts(rows, self._large):
            if not careful or not binding.key:
                yield CopyCommand(self._copy, self._lines(part))
            elif len(part) <= FEW_ROWS:
                yield f"{self._insert}VALUES {self._values(part)}{self._conflict}"
            else:
                wanted = ", ".join(self._typed(i) for i in self._written)
                yield f"{self._insert}SELECT {wanted} FROM {self._unnest_rows(part)}{self._conflict}"

    def _values(self, rows: list[Row]) -> str:
        written = images.values(rows, self._written) if self._own_texts else None
        return written or literals.tuples([self._names[i] for i in self._written], self._written_columns(rows))

    def _lines(self, rows: list[Row]) -> bytes:
        written = images.copy_lines(rows, self._written) if self._own_texts else None
        return written or lines([self._names[i] for i in self._written], self._written_columns(rows))

    def _update(self, step: UpdateRows) -> Iterator[str | CopyCommand]:
        if step.moves or not self.binding.key:
            for key, row in zip(step.keys, step.rows, strict=True):
                yield self._update_one_partly(key, row) if UNKNOWN in row else self._update_one(key, row)
        elif self.binding.partial:
            yield from self._update_partly(step.rows)
        else:
            yield from self._upsert(step.rows, careful=True)

    def _update_partly(self, rows: list[Row]) -> Iterator[str | CopyCommand]:
        """Set-based, for rows whose key and unique columns stay, and that may hold UNKNOWN."""
        if whole := [row for row in rows if UNKNOWN not in row]:
            yield from self._upsert(whole, careful=True)
        by_known = defaultdict[tuple[int, ...], list[Row]](list)
        for row in rows:
            if UNKNOWN in row:
                by_known[tuple([i for i in self._set if row[i] is not UNKNOWN])].append(row)
        key = self.binding.key
        same = " AND ".join(f"t.{self._quoted[i]} = {self._typed(i)}" for i in key)
        for known, alike in by_known.items():
            positions = (*key, *known)
            sets = ", ".join(f"{self._quoted[i]} = {self._typed(i)}" for i in known)
            for part in parts(alike, [i for i in self._large if i in positions]):
                values = [[row[i] for i in positions] for row in part]
                source = self._unnest(self._columns(values, positions), positions)
                found = (
                    f"UPDATE {self.table} AS t SET {sets} FROM {source} WHERE {same} RETURNING 1"
                    if known
                    else f"SELECT FROM {self.table} AS t JOIN {source} ON {same} FOR UPDATE OF t"
                )
                yield _all_there(found, len(part))

    def _update_one_partly(self, key: Row, row: Row) -> str:
        known = [i for i in self._written if row[i] is not UNKNOWN]
        pairs = zip(known, self._row_literals(row, known), strict=True)
        assignments = ", ".join(f"{self._quoted[i]} = {v}" for i, v in pairs)
        return _all_there(f"UPDATE {self.table} SET {assignments} WHERE {self.keyed(key)} RETURNING 1", 1)

    def keyed(self, key: Row) -> str:
        """Write the condition that finds the row with this key."""
        wanted = self._columns([key], self.binding.key)
        return " AND ".join(
            f"{self._quoted[i]} = {literals.elements(self._names[i], v)[0]}{self._cast(i)}"
            for i, v in zip(self.binding.key, wanted, strict=True)
        )

    def _cast(self, at: int) -> str:
        """The cast that makes a literal of a composite comparable, which is a row of no type as it stands."""
        return f"::{base_type(self._targets[at].type)}" if self.binding.shape.columns[at].kind is Kind.OTHER else ""

    def _update_or_insert(self, rows: list[Row]) -> Iterator[str]:
        """Set-based, for rows whose key and unique columns stay."""
        key = [f"t.{self._quoted[i]} = k.c{i}" for i in self.binding.key]
        typed = ", ".join(f"{self._typed(i)} AS c{i}" for i in self._written)
        wanted = ", ".join(f"c{i}" for i in self._written)
        # With nothing to set, a row that is there is only found.
        change = (
            f"UPDATE {self.table} AS t SET {', '.join(f'{self._quoted[i]} = k.c{i}' for i in self._set)} "
            f"FROM k WHERE {' AND '.join(key)} RETURNING k.n"
            if self._set
            else f"SELECT k.n FROM k JOIN {self.table} AS t ON {' AND '.join(key)}"
        )
        for part in parts(rows, self._large):
            source = self._unnest_rows(part, "WITH ORDINALITY", "n")
            yield (
                f"WITH k AS MATERIALIZED (SELECT n, {typed} FROM {source}), found AS ({change}) "
                f"{self._insert}SELECT {wanted} FROM k WHERE n NOT IN (SELECT n FROM found)"
            )

    def _update_one(self, key: Row, row: Row) -> str:
        values = self._row_literals(row, self._written)
        assignments = ", ".join(f"{self._quoted[i]} = {v}" for i, v in zip(self._written, values, strict=True))
        if self.binding.key:
            change = f"UPDATE {self.table} SET {assignments} WHERE {self.keyed(key)} RETURNING 1"
        else:
            change = (
                f"UPDATE {self.table} AS t SET {assignments} FROM {self._equal_rows(key, 1)} AS d "
                f"WHERE {_SAME_ROW} RETURNING 1"
            )
        return f"WITH found AS ({change}) {self._insert}SELECT {', '.join(values)} WHERE NOT EXISTS (SELECT FROM found)"

    def _equal_rows(self, row: Row, copies: int) -> str:
        """The places of at most `copies` rows equal to `row`.  `=` where there is a value, so that an index serves."""
        conditions = [
            equal(self.binding.shape.columns[i], self._targets[i].type, self._quoted[i], literal)
            for i, literal in zip(self._written, self._row_literals(row, self._written), strict=True)
        ]
        return (
            f"(SELECT tableoid AS o, ctid AS c FROM {self.table} WHERE {' AND '.join(conditions)} "
            f"LIMIT {copies} FOR UPDATE)"
        )

    def _row_literals(self, row: Row, positions: Sequence[int]) -> list[str]:
        return [literals.elements(self._names[i], self._renderers[i]((row[i],)))[0] for i in positions]

    def _writable(self, row: Row) -> Row:
        return row if len(self._written) == len(row) else tuple(row[i] for i in self._written)

    def _columns(self, rows: Sequence[Sequence[Value]], positions: Sequence[int]) -> list[Sequence[str | None]]:
        """Write values as texts.

        `rows` hold the values of `positions` only; the answer has their texts, a column each.
        """
        columns: Iterator[tuple[Value, ...]] = zip(*rows, strict=True)
        rendered = zip([self._renderers[i] for i in positions], columns, strict=True)
        return [values if render is unchanged else render(values) for render, values in rendered]

    def _written_columns(self, rows: Sequence[Row]) -> list[Sequence[str | None]]:
        return self._columns([self._writable(row) for row in rows], self._written)

    def _unnest_rows(self, rows: list[Row], ordinality: str = "", number: str = "") -> str:
        arrays = [images.array(rows, i) for i in self._written] if self._own_texts else [None]
        if None in arrays:
            return self._unnest(self._written_columns(rows), self._written, ordinality, number)
        return self._unnested(arrays, self._written, ordinality, number)

    def _unnest(
        self, columns: Sequence[Sequence[str | None]], positions: Sequence[int], ordinality: str = "", number: str = ""
    ) -> str:
        arrays = [literals.array(self._names[i], values) for i, values in zip(positions, columns, strict=True)]
        return self._unnested(arrays, positions, ordinality, number)

    def _unnested(self, arrays: Sequence[str | None], positions: Sequence[int], ordinality: str, number: str) -> str:
        """Write `unnest('{…}'::bigint[], …) AS s(c0, …)`; see `_typed` for its columns' use."""
        typed = ", ".join(f"{text}::{self._element(i)}[]" for i, text in zip(positions, arrays, strict=True))
        names = ", ".join([f"c{i}" for i in positions] + ([number] if number else []))
        return f"unnest({typed}) {ordinality} AS s({names})"

    def _element(self, at: int) -> str:
        return "text" if self._is_text_in_array(at) else base_type(self._targets[at].type)

    def _typed(self, at: int, alias: str = "c") -> str:
        type = self._targets[at].type
        if not self._is_text_in_array(at):
            return f"s.{alias}{at}"
        return f"s.{alias}{at}::{type if type.endswith('[]') else base_type(type)}"

    def _is_text_in_array(self, at: int) -> bool:
        return self._targets[at].type.endswith("[]") or self.binding.shape.columns[at].kind is Kind.OTHER


def _all_there(found: str, wanted: int) -> str:
    """Fail where `found` has not so many rows: a number is read from a text that is none, which the error repeats."""
    return (
        f"WITH found AS ({found}) "
        f"SELECT CASE count(*) WHEN {wanted} THEN 1 ELSE CAST('{_MISSING}' || count(*) AS int) END FROM found"
    )


_SAME_ROW = "t.tableoid = d.o AND t.ctid = d.c"


def parts(rows: list[Row], large: Sequence[int]) -> Iterator[list[Row]]:
    """Cut `rows` in pieces that the server takes well: bounded in rows and, by the columns `large`, in characters."""
    start = 0
    for at in _cuts(rows, large) if large else range(STATEMENT_ROWS, len(rows), STATEMENT_ROWS):
        yield rows[start:at]
        start = at
    if start < len(rows):
        yield rows[start:]


def _cuts(rows: list[Row], large: Sequence[int]) -> Iterator[int]:
    start = size = 0
    lengths = images.sizes(rows) or [sum(len(row[i] or "") for i in large) for row in rows]
    for at, length in enumerate(lengths):
        if at > start and (size + length > STATEMENT_CHARACTERS or at - start == STATEMENT_ROWS):
            yield at
            start, size = at, 0
        size += length
