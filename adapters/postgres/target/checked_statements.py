"""The statements of steps that look at the target's rows before they change them (`engine.batch.checked_steps`).

The comparison is part of the statement that writes: a row that is not as it is wanted is not matched, so nothing comes
between the look and the write, and the number of rows that were matched tells that one was not.  Then the statement
fails.  A step of a single row says in its error what was found, which is how the search for the bad row ends.

NULL equals NULL.  Before-images are literals that go through the input functions of the column's type, as what was
written did, and are rounded as an assignment rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelock.adapters.postgres.target import literals
from tidelock.adapters.postgres.target.compared_values import MARK, comparison, shown
from tidelock.adapters.postgres.target.copy_text import CopyCommand
from tidelock.adapters.postgres.target.replaced_rows import note_replaced
from tidelock.adapters.postgres.target.statements import TableStatements, parts
from tidelock.adapters.postgres.target.values import Unwritable, ZeroDates, base_type
from tidelock.adapters.row_image import images
from tidelock.adapters.target.compared_columns import compared, may_be_gone
from tidelock.engine.model.records import Row
from tidelock.engine.model.schema import Binding, signed
from tidelock.engine.protocol.steps import DeleteRows, Step, UpdateRows, UpsertRows

MOST_COLUMNS = 1600
"""PostgreSQL takes 1,664 columns of a row source."""
_CHANGING = "it changes at this moment"


class CheckedStatements(TableStatements):
    """The SQL of one `Binding` for steps with before-images, a version, or leave to replace rows."""

    def __init__(self, binding: Binding, zero_dates: ZeroDates) -> None:
        super().__init__(binding, zero_dates)
        self._compared = compared(binding, "postgres")
        self._may_be_gone = may_be_gone(binding)
        self._whole = [i for i in self._written if i not in binding.key]
        self._excluded = self._from_excluded(self._whole)
        self._apart = self._set_apart()

    def _set_apart(self) -> list[int]:
        """Returns unique columns that are set in a statement of their own, where they differ; empty: with all others.

        ON CONFLICT locks a row as if its key changed where a unique column is set, be it to what it is.  Then it waits
        for whoever has made a child of the row, and two lanes for each other.
        """
        told = [i for i in self._whole if i not in self._set]
        return told if self.binding.target.references and self._conflict and set(told) <= set(self._compared) else []

    def of(self, step: Step, careful: bool) -> Iterator[str | CopyCommand]:
        """Write a step.  `careful`: do not trust `UpsertRows.fresh`."""
        try:
            if step.version >= 0:
                yield from self._versioned(step, careful)
            elif isinstance(step, UpsertRows) and step.blind:
                blind = careful or not step.fresh
                yield from self._write_over(step.rows, step.columns) if blind else self._upsert(step.rows, False)
            elif isinstance(step, UpsertRows):
                yield from self._replace(step.rows) if step.replaces else ()
                yield from self._upsert(step.rows, careful=not step.absent and (careful or not step.fresh))
            elif isinstance(step, UpdateRows):
                yield from self._replace(step.rows) if step.replaces else ()
                yield from self._update_compared(step) if step.befores is not None else self._update(step)
            elif step.absent:
                yield from self._refuse_present(step.keys)
            else:
                yield from self._delete_compared(step)
        except Unwritable as error:
            raise Unwritable(f"{self.binding.name}: {error}") from None

    # ------------------------------------------------------------------ image

    def _refuse_present(self, keys: list[Row]) -> Iterator[str]:
        """Fail where a row is there with one of these keys."""
        for part in parts(keys, self._large_key):
            arrays = zip(self.binding.key, self._columns(part, self.binding.key), strict=True)
            source = self._source([("b", i, literals.array(self._names[i], texts)) for i, texts in arrays])
            found = f"SELECT FROM {self.table} AS t JOIN {source} ON {self._by_key('b')}"
            yield _checked(found, "count(*) = 0", "count(*) || ' rows are there that were not'")

    def _delete_compared(self, step: DeleteRows) -> Iterator[str]:
        assert step.befores is not None, "else there is nothing to check"
        for part in self._cut(step.befores):
            if len(part) == 1:
                found = f"DELETE FROM {self.table} AS t WHERE {self._is_as(part[0])} RETURNING 1"
                yield self._one_matched(found, part[0], may_be_gone=self._may_be_gone)
                continue
            source = self._source([("b", i, self._array(part, i)) for i in (*self.binding.key, *self._compared)])
            condition = " AND ".join([self._by_key("b"), *self._same({})])
            yield _all_matched(f"DELETE FROM {self.table} AS t USING {source} WHERE {condition} RETURNING 1", len(part))

    def _update_compared(self, step: UpdateRows) -> Iterator[str]:
        assert step.befores is not None, "else there is nothing to check"
        start = 0
        for rows in [[row] for row in step.rows] if step.moves else self._cut(step.rows):
            befores = step.befores[start : start + len(rows)]
            start += len(rows)
            if len(rows) == 1:
                yield self._update_one_compared(befores[0], rows[0], step.moves)
            else:
                yield self._update_all_compared(befores, rows)

    def _cut(self, rows: list[Row]) -> Iterator[list[Row]]:
        """Cut rows in pieces; single ones where their images have more columns than a row source may have."""
        if 2 * len(self._written) > MOST_COLUMNS:
            return ([row] for row in rows)
        return parts(rows, self._large)

    def _update_all_compared(self, befores: list[Row], rows: list[Row]) -> str:
        """Set-based, for rows whose key and unique columns stay."""
        new = {i: self._array(rows, i) for i in (*self.binding.key, *self._set)}
        old = {i: self._array(befores, i) for i in self._compared}
        kept = {i: "c" for i in old if new.get(i) == old[i]}  # sent once where it is the same before and after
        columns = [("c", i, text) for i, text in new.items()]
        source = self._source([*columns, *(("b", i, text) for i, text in old.items() if i not in kept)])
        condition = " AND ".join([self._by_key("c"), *self._same(kept)])
        sets = ", ".join(f"{self._quoted[i]} = {self._typed(i)}" for i in self._set)
        return _all_matched(
            f"UPDATE {self.table} AS t SET {sets} FROM {source} WHERE {condition} RETURNING 1"
            if sets
            else f"SELECT FROM {self.table} AS t JOIN {source} ON {condition} FOR UPDATE OF t",
            len(rows),
        )

    def _same(self, kept: dict[int, str]) -> list[str]:
        """Write the conditions that compared columns are as before; `kept`: columns of which `c` tells that too."""
        return [self._is_same(i, self._typed(i, kept.get(i, "b"))) for i in self._compared]

    def _is_same(self, at: int, new: str) -> str:
        return comparison(self.binding.shape.columns[at], self._targets[at].type, f"t.{self._quoted[at]}", new)

    def _update_one_compared(self, before: Row, row: Row, moves: bool) -> str:
        same_key = {i for i in self.binding.key if signed(before[i]) == signed(row[i])}
        sets = [i for i in self._written if i not in same_key] if moves else self._set
        pairs = zip(sets, self._row_literals(row, sets), strict=True)
        assignments = ", ".join(f"{self._quoted[i]} = {literal}" for i, literal in pairs)
        found = (
            f"UPDATE {self.table} AS t SET {assignments} WHERE {self._is_as(before)} RETURNING 1"
            if assignments
            else f"SELECT FROM {self.table} AS t WHERE {self._is_as(before)} FOR UPDATE"
        )
        return self._one_matched(found, before)

    def _is_as(self, before: Row) -> str:
        """Write the conditions that a single row is as before."""
        same = [self._is_same(i, self._compared_literal(before, i)) for i in self._compared]
        return " AND ".join([self.keyed(self.binding.key_of(before)), *same])

    def _compared_literal(self, row: Row, at: int) -> str:
        type = self._targets[at].type
        return f"{self._row_literals(row, [at])[0]}::{type if type.endswith('[]') else base_type(type)}"

    def _one_matched(self, found: str, before: Row, *, may_be_gone: bool = False) -> str:
        """Fail where `found` has no row, and say what there is instead; `may_be_gone`: but for no row at all."""
        words = ", ".join(
            f"CASE WHEN {self._is_same(i, literal)} THEN NULL ELSE "
            f"{shown(self._names[i], f't.{self._quoted[i]}', literal)} END"
            for i in self._compared
            for literal in [self._compared_literal(before, i)]
        )
        told = f"nullif(array_to_string(ARRAY[{words}]::text[], '; '), '')"
        there = f"coalesce({told}, '{_CHANGING}')"
        row = f"(SELECT {there} FROM {self.table} AS t WHERE {self.keyed(self.binding.key_of(before))})"
        passed = f"count(*) = 1 OR {row} IS NULL" if may_be_gone else "count(*) = 1"
        return _checked(found, passed, f"coalesce({row}, 'there is no row')")

    # ------------------------------------------------------------------ version

    def _versioned(self, step: Step, careful: bool) -> Iterator[str | CopyCommand]:
        version = step.version
        if isinstance(step, DeleteRows):
            assert step.befores is not None, "a delete has before-images"
            yield from self._delete_old(step.befores, version)
            return
        self._refuse_null([row for row in step.rows if row[version] is None], version)
        if step.replaces:
            yield from self._replace(step.rows)
        if isinstance(step, UpsertRows):
            careful = careful or not step.fresh
            yield from self._write_newer(step.rows, version) if careful else self._upsert(step.rows, careful=False)
        elif not step.moves:
            yield from self._write_newer(step.rows, version)
        else:
            assert step.befores is not None, "an update has before-images"
            for before, row in zip(step.befores, step.rows, strict=True):
                yield from self._move_newer(before, row, version)

    def _refuse_null(self, rows: Sequence[Row], version: int) -> None:
        if rows:
            raise Unwritable(f"column {self._names[version]}: NULL is no version (`verify: version`)")

    def _delete_old(self, befores: list[Row], version: int) -> Iterator[str]:
        """Delete the rows whose version is not above that of the before-image."""
        self._refuse_null([row for row in befores if row[version] is None], version)
        for part in parts(befores, self._large):
            columns = dict.fromkeys((*self.binding.key, version))
            source = self._source([("b", i, self._array(part, i)) for i in columns])
            older = f"t.{self._quoted[version]} <= {self._typed(version, 'b')}"
            yield f"DELETE FROM {self.table} AS t USING {source} WHERE {self._by_key('b')} AND {older}"

    def _write_newer(self, rows: list[Row], version: int) -> Iterator[str]:
        """Insert rows, and overwrite by key those whose version is below."""
        sets = ", ".join(f"{self._quoted[i]} = {self._typed(i)}" for i in self._whole)
        wanted = ", ".join(self._typed(i) for i in self._written)
        for part in parts(rows, self._large):
            source = self._source([("c", i, self._array(part, i)) for i in self._written])
            if self._conflict:
                newer = f"{self.table}.{self._quoted[version]} < excluded.{self._quoted[version]}"
                named = f"ON CONFLICT ({', '.join(self._key_names)}) DO UPDATE SET {self._excluded} WHERE {newer}"
                yield f"{self._insert}SELECT {wanted} FROM {source} {named}"
                continue
            newer = f"t.{self._quoted[version]} < {self._typed(version)}"
            yield f"UPDATE {self.table} AS t SET {sets} FROM {source} WHERE {self._by_key('c')} AND {newer}"
            there = f"SELECT FROM {self.table} AS t WHERE {self._by_key('c')}"
            yield f"{self._insert}SELECT {wanted} FROM {source} WHERE NOT EXISTS ({there})"

    def _write_over(self, rows: list[Row], columns: Sequence[int] = ()) -> Iterator[str]:
        """Insert rows, and overwrite by key those that are there, unique columns included; of `columns`, those alone.
        """
        set_ = [i for i in self._whole if not columns or i in columns]
        sets = ", ".join(f"{self._quoted[i]} = {self._typed(i)}" for i in set_)
        wanted = ", ".join(self._typed(i) for i in self._written)
        for part in parts(rows, self._large):
            source = self._source([("c", i, self._array(part, i)) for i in self._written])
            if apart := [i for i in self._apart if i in set_]:
                first = ", ".join(f"{self._quoted[i]} = {self._typed(i)}" for i in apart)
                same = " AND ".join(self._is_same(i, self._typed(i)) for i in apart)
                yield f"UPDATE {self.table} AS t SET {first} FROM {source} WHERE {self._by_key('c')} AND NOT ({same})"
            if self._conflict:
                rest = [i for i in set_ if i not in apart]
                action = f"UPDATE SET {self._from_excluded(rest)}" if rest else "NOTHING"
                named = f"ON CONFLICT ({', '.join(self._key_names)}) DO {action}"
                yield f"{self._insert}SELECT {wanted} FROM {source} {named}"
                continue
            if sets:
                yield f"UPDATE {self.table} AS t SET {sets} FROM {source} WHERE {self._by_key('c')}"
            there = f"SELECT FROM {self.table} AS t WHERE {self._by_key('c')}"
            yield f"{self._insert}SELECT {wanted} FROM {source} WHERE NOT EXISTS ({there})"

    def _from_excluded(self, columns: Sequence[int]) -> str:
        return ", ".join(f"{self._quoted[i]} = excluded.{self._quoted[i]}" for i in columns)

    def _move_newer(self, before: Row, row: Row, version: int) -> Iterator[str]:
        """Give a row another key or unique value, where both versions let it."""
        new = [("c", i, self._array([row], i)) for i in self._written]
        old = [("b", i, self._array([before], i)) for i in dict.fromkeys((*self.binding.key, version))]
        source = self._source([*new, *old])
        sets = ", ".join(f"{self._quoted[i]} = {self._typed(i)}" for i in self._written)
        newer = f"t.{self._quoted[version]} < {self._typed(version)}"
        if self.binding.key_of(before) != self.binding.key_of(row):
            taken = f"EXISTS (SELECT FROM {self.table} AS o WHERE {self._by_key('c', row='o')})"
            allowed = f"{self._by_key('b')} AND {newer} AND NOT {taken}"
            yield f"UPDATE {self.table} AS t SET {sets} FROM {source} WHERE {allowed}"
            yield from self._delete_old([before], version)
        yield from self._write_newer([row], version)

    # ------------------------------------------------------------------ replace

    def _replace(self, rows: list[Row]) -> Iterator[str]:
        """Delete the rows of other keys that hold a unique value of these."""
        at = {name: i for i, name in enumerate(self._names)}
        for unique in self.binding.target.uniques:
            positions = [at[name] for name in unique.columns]
            if sorted(positions) == sorted(self.binding.key):
                continue
            for part in parts(rows, self._large):
                needed = dict.fromkeys((*positions, *self.binding.key))
                source = self._source([("c", i, self._array(part, i)) for i in needed])
                held = " AND ".join(f"t.{self._quoted[i]} = {self._typed(i)}" for i in positions)
                gone = f"DELETE FROM {self.table} AS t USING {source} WHERE {held} AND NOT ({self._by_key('c')})"
                key = ", ".join(f"t.{self._quoted[i]}::text" for i in self.binding.key)
                yield note_replaced(f"{gone} RETURNING concat_ws(', ', {key}) AS k", str(self.binding.name))

    def held_by_others(self, row: Row, key: Row | None = None) -> Iterator[str]:
        """Yield, for each unique index, the condition of rows of other keys that hold the value of this one; `key`: the
        row's, before it moves."""
        at = {name: i for i, name in enumerate(self._names)}
        for unique in self.binding.target.uniques:
            positions = [at[name] for name in unique.columns]
            if sorted(positions) == sorted(self.binding.key) or any(row[i] is None for i in positions):
                continue
            held = " AND ".join(f"t.{self._quoted[i]} = {self._compared_literal(row, i)}" for i in positions)
            yield f"{held} AND NOT ({self.keyed(key or self.binding.key_of(row))})"

    # ------------------------------------------------------------------ words of SQL

    def _by_key(self, alias: str, row: str = "t") -> str:
        return " AND ".join(f"{row}.{self._quoted[i]} = {self._typed(i, alias)}" for i in self.binding.key)

    def _array(self, rows: list[Row], at: int) -> str:
        written = images.array(rows, at) if self._own_texts else None
        return written or literals.array(self._names[at], self._renderers[at]([row[at] for row in rows]))

    def _source(self, columns: Sequence[tuple[str, int, str]]) -> str:
        """Write `unnest(…) AS s(c0, b0, …)` of columns, each with its alias, its position and its array."""
        typed = ", ".join(f"{text}::{self._element(i)}[]" for _, i, text in columns)
        return f"unnest({typed}) AS s({', '.join(f'{alias}{i}' for alias, i, _ in columns)})"


def _all_matched(found: str, rows: int) -> str:
    """Fail where `found` has not so many rows."""
    return _checked(found, f"count(*) = {rows}", f"count(*) || ' of {rows} rows are'")


def _checked(found: str, passed: str, told: str) -> str:
    check = f"CASE WHEN {passed} THEN 1 ELSE CAST('{MARK}' || {told} AS int) END"
    return f"WITH found AS ({found}) SELECT {check} FROM found"
