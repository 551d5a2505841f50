"""Locks that foreign keys need: parents and children in order, and tables that a cascade reaches (design 5).

A change requests
- for every foreign key of its table, the parent key that it refers to, in mode S;
- as a parent, each of its keys that some child refers to, in mode X, when it comes, goes or changes that key;
- as a parent whose change cascades at the target, the child tables, in mode X: the log need not show what goes;
- where no value tells which rows are tied (`untold_partners`), the table at the other end, in mode X.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelock.engine.model.index import Index
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Binding, Equality, ForeignKey, SchemaMismatch, TargetTable, equality_of
from tidelock.engine.parallel.keyspace import Keyspace
from tidelock.engine.parallel.lock_request import LockRequest, Mode, RequestKeys, S, X, changed


def foreign_key_requests(
    binding: Binding, space: Keyspace, tables: Mapping[TableName, TargetTable]
) -> list[RequestKeys]:
    """Returns what makes the requests: as a child, as a parent, as the start of a cascade.

    `tables`: all selected targets; a foreign key to a table outside of them takes no lock, nobody moves its rows.
    Raises SchemaMismatch where a foreign key uses a column that the log does not have.
    """
    table = binding.target
    requests: list[RequestKeys] = []
    for fk in table.foreign_keys:
        if fk.parent in tables and not _never_refers(binding, fk):
            refers = reference(binding, fk.columns, tables[fk.parent], fk.parent_columns, space)
            requests.append(key_requests(refers, mode=S))
    referenced = dict.fromkeys(fk.parent_columns for fk in table.references if fk.child in tables)
    requests += [key_requests(reference(binding, cs, table, cs, space), mode=X) for cs in referenced]
    if cascades_into := _cascade_targets(table, tables):
        requests.append(_cascade_requests(binding, [space.table_lock(name, X) for name in cascades_into]))
    return requests


def key_requests(index: Index, *, mode: Mode) -> RequestKeys:
    """Requests the index's values in this mode.  An update that leaves the columns alone requests none."""
    index_wide = index.index_wide()
    folded = index.folded

    def requests(before: Row | None, after: Row | None) -> list[LockRequest]:
        if before is not None and after is not None and not changed(index.positions, before, after):
            return []
        out: list[LockRequest] = []
        for row in (before, after):
            key = index.values(row) if row is not None else None
            if key is None:
                continue
            if key == index_wide:
                out.append((index_wide, X))
            else:
                out.append((key, mode))
                if folded:
                    out.append((index_wide, S))
        return out

    return requests


def reference(
    binding: Binding, columns: tuple[str, ...], parent: TargetTable, parent_columns: tuple[str, ...], space: Keyspace
) -> Index:
    """The parent key that `columns` of a row hold, compared as the parent's index compares it.  Raises SchemaMismatch
    where the log does not have one of them."""
    at = _places(binding, columns)
    theirs = {c.name: c for c in parent.columns}
    pairs = zip(columns, parent_columns, strict=True)
    return Index(
        space.number(parent.name, "reference", parent_columns),
        tuple(at[c] for c in columns),
        tuple(equality_of(binding.shape.columns[at[own]], theirs[c]) for own, c in pairs),
        False,
        tuple(binding.shape.columns[at[c]].kind for c in columns),
    )


def untold_partners(binding: Binding, tables: Mapping[TableName, TargetTable]) -> tuple[TableName, ...]:
    """Returns the tables at the other end of foreign keys of which the log does not tell which rows are tied.

    It does not tell the parent that a row leaves, nor the value that goes, where it lacks the before-image; and where
    the spelling of a value says nothing, whoever spells it otherwise would request another key.
    """
    table = binding.target
    own = {c.name: c for c in table.columns}
    logged = {c.name: c for c in binding.shape.columns}

    def untold(column: str) -> bool:
        return column in binding.unseen or own[column].equality is Equality.COARSE

    def coarse(fk: ForeignKey) -> bool:
        theirs = {c.name: c for c in tables[fk.parent].columns}
        pairs = zip(fk.columns, fk.parent_columns, strict=True)
        return any(c in logged and equality_of(logged[c], theirs[p]) is Equality.COARSE for c, p in pairs)

    parents = [
        fk.parent
        for fk in table.foreign_keys
        if fk.parent in tables and not _never_refers(binding, fk) and (any(map(untold, fk.columns)) or coarse(fk))
    ]
    children = [fk.child for fk in table.references if fk.child in tables and any(map(untold, fk.parent_columns))]
    return tuple(dict.fromkeys((*parents, *children)))


def is_cascaded(table: TargetTable, tables: Mapping[TableName, TargetTable]) -> bool:
    """Returns whether some parent's change may cascade into the table, or into one that it refers to.

    Told by its own foreign keys alone: there may be thousands of tables.
    """

    def touched(child: TargetTable) -> bool:
        return any(fk.cascades and fk.parent in tables for fk in child.foreign_keys)

    parents = (tables[fk.parent] for fk in table.foreign_keys if fk.parent in tables)
    return touched(table) or any(touched(parent) for parent in parents)


def _never_refers(binding: Binding, fk: ForeignKey) -> bool:
    """Returns whether the target leaves a column of this foreign key NULL in every row that we write."""
    logged = {c.name for c in binding.shape.columns}
    unlogged = [c for c in binding.target.columns if c.name in fk.columns and c.name not in logged]
    return any(not c.default and not c.generated for c in unlogged)


def _places(binding: Binding, columns: Iterable[str]) -> dict[str, int]:
    at = {c.name: i for i, c in enumerate(binding.shape.columns)}
    for column in columns:
        if column not in at:
            raise SchemaMismatch(
                f"a foreign key uses column {column} of {binding.name}, which the source does not log for "
                f"{binding.shape.name}; drop the foreign key at the target or take the column into the feed"
            )
    return at


def _cascade_targets(table: TargetTable, tables: Mapping[TableName, TargetTable]) -> list[TableName]:
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


def _cascade_requests(binding: Binding, children: list[LockRequest]) -> RequestKeys:
    referenced = sorted({c for fk in binding.target.references if fk.cascades for c in fk.parent_columns})
    at = _places(binding, referenced)
    positions = tuple(at[c] for c in referenced)

    def requests(before: Row | None, after: Row | None) -> list[LockRequest]:
        if before is None or (after is not None and not changed(positions, before, after)):
            return []
        return list(children)

    return requests
