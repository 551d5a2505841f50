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
from tidelock.adapters.postgres.target.values import Unwritable, ZeroDates
from tidelock.adapters.row_image import images
from tidelock.adapters.target.compared_columns import compared, may_be_gone
from tidelock.engine.model.records import Row
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import DeleteRows, Step, UpdateRows, UpsertRows


class CheckedStatements(TableStatements):
    """The SQL of one `Binding` for steps with before-images, a version, or leave to replace rows."""

    def __init__(self, binding: Binding, zero_dates: ZeroDates) -> None:
        super().__init__(binding, zero_dates)
        self._compared = compared(binding, "postgres")
        self._may_be_gone = may_be_gone(binding)
        self._whole = [i for i in self._written if i not in binding.key]
        self._excluded = ", ".join(f"{self._quoted[i]} = excluded.{self._quoted[i]}" for i in self._whole)

    def of(self, step: Step, careful: bool) -> Iterator[str | CopyCommand]:
        """Write a step.  `careful`: do not trust `UpsertRows.fresh`."""
        try:
            if step.version >= 0:
                yield from self._versioned(step, careful)
            elif isinstance(step, UpsertRows):
                yield from self._replace(step.rows) if step.replaces else ()
                yield from self._upsert(step.rows, careful=not step.absent and (careful or not step.fresh))
            elif isinstance(step, UpdateRows):
                yield from self._replace(step.rows) if step.replaces else ()
                yield from self._update_compared(step) if step.befores is not None else self._update(step)
            else:
                yield from self._delete_compared(step)
        except Unwritable as error:
            raise Unwritable(f"{self.binding.name}: {error}") from None

    # ------------------------------------------------------------------ image

    def _delete_compared(self, step: DeleteRows) -> Iterator[str]:
        assert step.befores is not None, "else there is nothing to check"
        for part in parts(step.befores, self._large):
            source = self._source([("b", i, self._array(part, i)) for i in (*self.binding.key, *self._compared)])
            same = self._same({})
            found = f"DELETE FROM {self.table} AS t USING {source} WHERE {self._by_key('b')}{same} RETURNING 1"
            yield self._all_matched(found, part, source, "b", same)

    def _update_compared(self, step: UpdateRows) -> Iterator[str]:
        assert step.befores is not None, "else there is nothing to check"
        pairs = list(zip(step.befores, step.rows, strict=True))
        groups = [[pair] for pair in pairs] if step.moves else _cut_like(pairs, self._large)
        for group in groups:
            yield self._update_part([before for before, _ in group], [after for _, after in group], step.moves)

    def _update_part(self, befores: list[Row], rows: list[Row], moves: bool) -> str:
        new = {i: self._array(rows, i) for i in self._written}
        old = {i: self._array(befores, i) for i in (*self.binding.key, *self._compared)}
        kept = {i: "c" for i in old if new.get(i) == old[i]}  # sent once where it is the same before and after
        columns = [("c", i, text) for i, text in new.items()]
        source = self._source([*columns, *(("b", i, text) for i, text in old.items() if i not in kept)])
        sets = [i for i in (self._written if moves else self._set) if i not in self.binding.key or i not in kept]
        same, key = self._same(kept), self._by_key("b", kept)
        change = f"SET {', '.join(f'{self._quoted[i]} = {self._typed(i)}' for i in sets)} FROM {source}"
        found = (
            f"UPDATE {self.table} AS t {change} WHERE {key}{same} RETURNING 1"
            if sets
            else f"SELECT FROM {self.table} AS t JOIN {source} ON {key}{same} FOR UPDATE OF t"
        )
        return self._all_matched(found, befores, source, "b", same, kept)

    def _same(self, kept: dict[int, str]) -> str:
        """Write the conditions that compared columns are as before; `kept`: columns of which `c` tells that too."""
        return "".join(f" AND {self._is_same(i, kept.get(i, 'b'))}" for i in self._compared)

    def _is_same(self, at: int, alias: str) -> str:
        column, target = self.binding.shape.columns[at], self._targets[at]
        return comparison(column, target.type, f"t.{self._quoted[at]}", self._typed(at, alias))

    def _all_matched(
        self, found: str, befores: Sequence[Row], source: str, alias: str, same: str, kept: dict[int, str] | None = None
    ) -> str:
        """Fail where `found` has not a row for each of `befores`; of a single one, say how it differs."""
        kept = kept or {}
        told, passed = f"count(*) || ' of {len(befores)} rows are'", f"count(*) = {len(befores)}"
        if len(befores) == 1:
            words = ", ".join(
                f"CASE WHEN {self._is_same(i, kept.get(i, alias))} THEN NULL ELSE "
                f"{shown(self._names[i], f't.{self._quoted[i]}', f's.{kept.get(i, alias)}{i}')} END"
                for i in self._compared
            )
            there = f"concat_ws('; ', {words})" if words else "'it changes at this moment'"
            row = f"(SELECT {there} FROM {self.table} AS t JOIN {source} ON {self._by_key(alias, kept)})"
            told = f"coalesce({row}, 'there is no row')"
            if self._may_be_gone and found.startswith("DELETE"):
                passed += f" OR {row} IS NULL"
        check = f"CASE WHEN {passed} THEN 1 ELSE CAST('{MARK}' || {told} AS int) END"
        return f"WITH found AS ({found}) SELECT {check} FROM found"

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

    # ------------------------------------------------------------------ words of SQL

    def _by_key(self, alias: str, kept: dict[int, str] | None = None, row: str = "t") -> str:
        kept = kept or {}
        return " AND ".join(f"{row}.{self._quoted[i]} = {self._typed(i, kept.get(i, alias))}" for i in self.binding.key)

    def _array(self, rows: list[Row], at: int) -> str:
        written = images.array(rows, at) if self._own_texts else None
        return written or literals.array(self._names[at], self._renderers[at]([row[at] for row in rows]))

    def _source(self, columns: Sequence[tuple[str, int, str]]) -> str:
        """Write `unnest(…) AS s(c0, b0, …)` of columns, each with its alias, its position and its array."""
        typed = ", ".join(f"{text}::{self._element(i)}[]" for _, i, text in columns)
        return f"unnest({typed}) AS s({', '.join(f'{alias}{i}' for alias, i, _ in columns)})"


def _cut_like(pairs: list[tuple[Row, Row]], large: Sequence[int]) -> Iterator[list[tuple[Row, Row]]]:
    start = 0
    for part in parts([after for _, after in pairs], large):
        yield pairs[start : start + len(part)]
        start += len(part)
