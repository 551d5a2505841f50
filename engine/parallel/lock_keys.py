"""Which locks a row change takes: the heart of being exact under several unique keys (design 5).

A change takes
- its key, before and after, exclusive: rows hop lanes, so the hash alone does not order them (counter-example 1);
- every other unique index's before- and after-value, exclusive, unless an update leaves it alone;
- for every foreign key of its table, the parent key it refers to, shared; and as a parent, each of its keys that some
  child refers to, exclusive, when it is inserted, deleted or its key changes;
- where a value's equality cannot be computed (opaque index, a column that is not logged, no key), the whole table,
  exclusive; and the table, shared, where some cascade of a parent's change, which the log does not show, may
  touch any of its rows, or where another source's rows for the same target table are such that they take it whole.

Keys are tuples that begin with a namespace number, so equal values of different columns are different keys, and SQL
NULL takes none.  Namespaces that are only ever held exclusively (`exclusive`) are kept apart from those with readers
(`moded`): the first are known by their digests and need one dict look-up a key; ordinary tables have no others.

Case-insensitive indexes: printable ASCII folds exactly, so such a value takes its own key exclusive and its index's
star key shared; any other value takes the star key exclusive (slow, never wrong).  Only the star has readers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TypeAlias

from tidelock.engine.model.index import FOLDS, Digest, Index, Key, digest
from tidelock.engine.model.index import normalise as normalise  # callers know it by this module
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Binding, Equality, ForeignKey, SchemaMismatch, TargetTable

Moded: TypeAlias = tuple[Key, bool]  # (key, exclusive?)
ExclusiveKeys: TypeAlias = Callable[[Row | None, Row | None], list[Digest]]
ModedKeys: TypeAlias = Callable[[Row | None, Row | None], list[Moded]]


class Keyspace:
    """Numbers for namespaces, the same for every shape of a table: (table, 'key' | index columns | 'table')."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[TableName, str, tuple[str, ...]], int] = {}

    def number(self, table: TableName, what: str, columns: tuple[str, ...] = ()) -> int:
        return self._numbers.setdefault((table, what, columns), len(self._numbers))


class RowKeys:
    """The compiled key functions of one binding.

    `exclusive(before, after)`: digests of keys in namespaces without readers.  `moded(before, after)`: (key,
    exclusive?) of the others; it is None where the table has none, so that the plain case costs nothing.
    `serial`: why the whole table is one key; '' where it is not.
    """

    __slots__ = ("exclusive", "moded", "serial")

    def __init__(self, exclusive: ExclusiveKeys, moded: ModedKeys | None, serial: str) -> None:
        self.exclusive = exclusive
        self.moded = moded
        self.serial = serial


def serial_reason(table: TargetTable) -> str:
    """Why rows of `table` can only be applied one after another ('' where they can go in parallel)."""
    if not table.key:
        return "it has no primary key and no unique index over NOT NULL columns"
    for unique in table.uniques:
        if unique.opaque:
            return f"unique index {unique.name}: {unique.opaque}"
    return ""


def compile_keys(
    binding: Binding, space: Keyspace, tables: dict[TableName, TargetTable], *, copied: bool = False
) -> RowKeys:
    """`tables`: all selected targets; a foreign key to a table outside of them takes no lock, nobody moves its rows.
    `copied`: somebody takes the table whole (`whole_table`): the merge of a chunk, where it is being copied, or rows
    that come under another shape, without a column of a unique index.

    Raises SchemaMismatch where a foreign key cannot be locked: it uses a column that the log does not have.
    """
    table = binding.target
    serial = serial_reason(table) or _unlogged_unique(binding)
    cascades_into = _cascade_targets(table, tables)
    cascaded = _cascaded(table, tables)
    moded: list[ModedKeys] = []
    stars: list[ModedKeys] = []
    if serial:
        whole = (space.number(table.name, "table"),)
        moded.append(lambda _b, _a: [(whole, True)])
        exclusive: ExclusiveKeys = lambda _b, _a: []  # noqa: E731 - a def here would hide that it is a constant
    else:
        indexes = _indexes(binding, space)
        exclusive = _compile_exclusive(indexes)
        stars = [_star_keys(i) for i in indexes if i.folded]
        moded += stars
        if cascaded or copied:
            shared = (space.number(table.name, "table"),)
            moded.append(lambda _b, _a: [(shared, False)])
    for fk in table.foreign_keys:
        if fk.parent in tables and not _never_refers(binding, fk):
            refers = reference(binding, fk.columns, tables[fk.parent], fk.parent_columns, space)
            moded.append(_moded_keys(refers, exclusive=False))
    referenced = dict.fromkeys(fk.parent_columns for fk in table.references if fk.child in tables)
    moded += [_moded_keys(reference(binding, cs, table, cs, space), exclusive=True) for cs in referenced]
    if cascades_into:
        moded.append(_cascade_keys(binding, [(space.number(name, "table"),) for name in cascades_into]))
    if moded == stars[:1]:  # it names no key twice
        return RowKeys(exclusive, stars[0] if stars else None, serial)
    return RowKeys(exclusive, _join(moded), serial)


def whole_table(table: TableName, space: Keyspace) -> Moded:
    """The key of one who wants a table for itself."""
    return (space.number(table, "table"),), True


def _unlogged_unique(binding: Binding) -> str:
    """Why a unique index cannot be locked by value: the target fills in a column of it."""
    logged = {c.name for c in binding.shape.columns}
    for unique in binding.target.uniques:
        for column in unique.columns:
            if column not in logged:
                return f"unique index {unique.name}: column {column} is not in the log"
    return ""


def _never_refers(binding: Binding, fk: ForeignKey) -> bool:
    """Does the target leave a column of this foreign key NULL in every row that we write?"""
    logged = {c.name for c in binding.shape.columns}
    unlogged = [c for c in binding.target.columns if c.name in fk.columns and c.name not in logged]
    return any(not c.default and not c.generated for c in unlogged)


def _indexes(binding: Binding, space: Keyspace) -> list[Index]:
    """The key first, then every other unique index."""
    table = binding.target
    at = {c.name: i for i, c in enumerate(binding.shape.columns)}
    equality = {c.name: c.equality for c in table.columns}
    sets = [table.key] + [u.columns for u in table.uniques if set(u.columns) != set(table.key)]
    return [
        Index(
            space.number(table.name, "unique", columns),
            tuple(at[c] for c in columns),
            tuple(equality[c] for c in columns),
            n == 0,
        )
        for n, columns in enumerate(dict.fromkeys(sets))
    ]


def _compile_exclusive(indexes: list[Index]) -> ExclusiveKeys:
    looks = tuple((index.positions, index.equalities, index.is_key) for index in indexes)
    return _maker(looks)(*(index.namespace for index in indexes))


@functools.lru_cache(maxsize=1024)
def _maker(looks: tuple[tuple[tuple[int, ...], tuple[Equality, ...], bool], ...]) -> Callable[..., ExclusiveKeys]:
    """What makes, from their namespaces, one function for all indexes that look so: three dict keys a row are most of
    what planning costs.  Tables whose indexes look alike share what Python learns about the code as it runs.

    The generated text for `key id, unique email` reads
        def keys(b, a):
            if b is None: load a's columns; out = []; [append each non-NULL key of a]; return out
            if a is None: the same of b
            load both; moved = a0 != b0
            out = [digest((n0, b0))];  if moved: out.append(digest((n0, a0)))
            if moved or a1 != b1: append b's and a's
    with the namespaces as `n0`, `n1`, … and a row's columns as `a0`, `a1`, …, since taking one out of an image costs.
    A value that does not fold exactly takes no key of its own: its index's star covers it (`_star_keys`).
    """
    indexes = [Index(n, *look) for n, look in enumerate(looks)]
    lines = ["def keys(b, a):"]
    used = sorted({p for index in indexes for p in index.positions})

    def load(row: str, indent: str) -> list[str]:
        return [f"{indent}{row}{p} = {row}[{p}]" for p in used]

    def term(index: Index, row: str) -> tuple[str, list[str]]:
        parts, conditions = [], []
        for position, equality in zip(index.positions, index.equalities, strict=True):
            value = f"{row}{position}"
            if equality in FOLDS:
                conditions.append(f"(f{position} := {equality.value}({value})) is not None")
                parts.append(f"f{position}")
                continue
            if not index.is_key:
                conditions.append(f"{value} is not None")
            parts.append(f"pad({value})" if equality is Equality.PADDED else value)
        return f"digest((n{index.namespace}, {', '.join(parts)}))", conditions

    def append(index: Index, row: str, indent: str) -> list[str]:
        key, conditions = term(index, row)
        if not conditions:
            return [f"{indent}out.append({key})"]
        return [f"{indent}if {' and '.join(conditions)}: out.append({key})"]

    for row, other in (("a", "b"), ("b", "a")):
        lines += [f"    if {other} is None:", *load(row, "        "), "        out = []"]
        for index in indexes:
            lines += append(index, row, "        ")
        lines.append("        return out")
    lines += [*load("b", "    "), *load("a", "    "), "    out = []"]
    key = next((i for i in indexes if i.is_key), None)
    lines.append("    moved = " + (" or ".join(f"a{p} != b{p}" for p in key.positions) if key else "False"))
    for index in indexes:
        if index.is_key:
            lines += [*append(index, "b", "    "), "    if moved:", *append(index, "a", "        ")]
        else:
            changed = " or ".join(["moved", *(f"a{p} != b{p}" for p in index.positions)])
            lines += [f"    if {changed}:", *append(index, "b", "        "), *append(index, "a", "        ")]
    lines.append("    return out")
    scope: dict[str, object] = {equality.value: fold for equality, fold in FOLDS.items()}
    scope["digest"] = digest
    scope["pad"] = lambda v: v.rstrip(" ") if isinstance(v, str) else v
    names = ", ".join(f"n{index.namespace}" for index in indexes)
    text = "\n ".join(lines)
    exec(f"def make({names}):\n {text}\n return keys", scope)
    return scope["make"]  # type: ignore[return-value]


def _changed(positions: Iterable[int], before: Row, after: Row) -> bool:
    for p in positions:  # noqa: SIM110 - a generator a change is dear
        if before[p] != after[p]:
            return True
    return False


def _star_keys(index: Index) -> ModedKeys:
    """The star of an index that folds case: exclusive for a value that does not fold exactly, else shared.

    The answers are few and always the same lists, so that a window need not look into each (`dispatch`).
    """
    star = index.star()
    none: list[Moded] = []
    shared: list[Moded] = [(star, False)]
    whole: list[Moded] = [(star, True)]
    columns = [(p, FOLDS.get(e)) for p, e in zip(index.positions, index.equalities, strict=True)]

    def held(row: Row | None) -> list[Moded]:
        if row is None:
            return none
        answer = shared
        for position, fold in columns:
            value = row[position]
            if value is None:
                return none
            if fold is not None and fold(value) is None:
                answer = whole
        return answer

    def keys(before: Row | None, after: Row | None) -> list[Moded]:
        if before is None or after is None:
            return held(before) or held(after)
        if not index.is_key and not _changed(index.positions, before, after):
            return none
        one, other = held(before), held(after)
        return one if one is whole or not other else other

    return keys


def _moded_keys(index: Index, *, exclusive: bool) -> ModedKeys:
    """Keys of one index with readers.  An update that leaves the columns alone takes none."""
    star = index.star()
    folded = index.folded

    def keys(before: Row | None, after: Row | None) -> list[Moded]:
        if before is not None and after is not None and not _changed(index.positions, before, after):
            return []
        out: list[Moded] = []
        for row in (before, after):
            values = index.values(row) if row is not None else None
            if values is None:
                continue
            if values == star:
                out.append((star, True))
            else:
                out.append((values, exclusive))
                if folded:
                    out.append((star, False))
        return out

    return keys


def reference(
    binding: Binding, columns: tuple[str, ...], parent: TargetTable, parent_columns: tuple[str, ...], space: Keyspace
) -> Index:
    """The parent key that `columns` of a row hold, compared as the parent's index compares it."""
    at = _places(binding, columns)
    equality = {c.name: c.equality for c in parent.columns}
    return Index(
        space.number(parent.name, "reference", parent_columns),
        tuple(at[c] for c in columns),
        tuple(equality[c] for c in parent_columns),
        False,
        tuple(binding.shape.columns[at[c]].kind for c in columns),
    )


def _places(binding: Binding, columns: Iterable[str]) -> dict[str, int]:
    at = {c.name: i for i, c in enumerate(binding.shape.columns)}
    for column in columns:
        if column not in at:
            raise SchemaMismatch(
                f"a foreign key uses column {column} of {binding.name}, which the source does not log for "
                f"{binding.shape.name}; drop the foreign key at the target or take the column into the feed"
            )
    return at


def _cascade_targets(table: TargetTable, tables: dict[TableName, TargetTable]) -> list[TableName]:
    """Tables whose rows a delete or key change in `table` may touch at the target without the log saying so, and those
    that refer to such tables: their rows must have let go before."""
    touched: dict[TableName, None] = {}
    frontier = [table.name]
    while frontier:
        parent = tables.get(frontier.pop())
        for fk in parent.references if parent else ():
            if fk.cascades and fk.child in tables and fk.child not in touched:
                touched[fk.child] = None
                frontier.append(fk.child)
    referring = [fk.child for name in touched for fk in tables[name].references if fk.child in tables]
    return list(dict.fromkeys([*touched, *referring]))


def _cascaded(table: TargetTable, tables: dict[TableName, TargetTable]) -> bool:
    """Is the table a cascade target of any?  Asked of its own foreign keys: there may be thousands of tables."""

    def touched(child: TargetTable) -> bool:
        return any(fk.cascades and fk.parent in tables for fk in child.foreign_keys)

    parents = (tables[fk.parent] for fk in table.foreign_keys if fk.parent in tables)
    return touched(table) or any(touched(parent) for parent in parents)


def _cascade_keys(binding: Binding, children: list[tuple[int]]) -> ModedKeys:
    referenced = sorted({c for fk in binding.target.references if fk.cascades for c in fk.parent_columns})
    at = _places(binding, referenced)
    positions = tuple(at[c] for c in referenced)

    def keys(before: Row | None, after: Row | None) -> list[Moded]:
        if before is None or (after is not None and not _changed(positions, before, after)):
            return []
        return [(child, True) for child in children]

    return keys


def _join(parts: list[ModedKeys]) -> ModedKeys:
    """All moded keys of a change, each key once, exclusive if any part wants it so."""

    def keys(before: Row | None, after: Row | None) -> list[Moded]:
        merged: dict[Key, bool] = {}
        for part in parts:
            for key, exclusive in part(before, after):
                merged[key] = exclusive or merged.get(key, False)
        return list(merged.items())

    return keys
