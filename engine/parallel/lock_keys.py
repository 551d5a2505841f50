"""Lock keys: the locks that a row change takes, the heart of being exact under several unique keys (design 5).

A change takes
- its key, before and after, exclusive: rows hop lanes, so the hash alone does not order them (counter-example 1);
- every other unique index's before- and after-value, exclusive, unless an update leaves it alone;
- for foreign keys, the parent's key and perhaps tables that a cascade reaches (`foreign_keys`);
- where a value's equality cannot be computed (opaque index, a column that is not logged, no key), or the log does not
  tell which value of a unique or foreign key an update or delete gives up (`Binding.unseen`; counter-example 30), the
  whole table, in mode X; and the table, in mode S, where a cascade of a parent's change, which the log does not show,
  may touch any of its rows, or where another source's rows for the same target table are such that they take it whole.

Keys are tuples that begin with a namespace number (`keyspace`); SQL NULL takes none.  Namespaces that are only ever
held exclusively (`exclusive`) are kept apart from those with readers (`requests`).  The first are known by their
digests and need one dictionary look-up a key; ordinary tables have no others.

The index-wide lock of an index that folds case (`case_folding`) has readers; the index's own keys have none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelock.engine.model.index import Index
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import Binding, TargetTable
from tidelock.engine.parallel.case_folding import index_wide_requests
from tidelock.engine.parallel.foreign_keys import foreign_key_requests, is_cascaded, untold_partners
from tidelock.engine.parallel.key_codegen import ExclusiveKeys, compile_exclusive
from tidelock.engine.parallel.keyspace import Keyspace
from tidelock.engine.parallel.lock_request import RequestKeys, S, X, joined


class RowKeys:
    """The compiled key functions of one binding.

    `exclusive(before, after)`: digests of keys in namespaces without readers.  `requests(before, after)`: a key and
    its mode, of the others; it is None where the table has none, so that the plain case costs nothing.
    `serial`: why the whole table is one key; '' where it is not.  `whole`: tables that its rows take whole, its own
    among them where it is serial.  `indexes`: what the `exclusive` keys are of.
    """

    __slots__ = ("exclusive", "indexes", "requests", "serial", "whole")

    def __init__(
        self,
        exclusive: ExclusiveKeys,
        requests: RequestKeys | None,
        serial: str,
        whole: tuple[TableName, ...] = (),
        indexes: Sequence[Index] = (),
    ) -> None:
        self.exclusive = exclusive
        self.indexes = indexes
        self.requests = requests
        self.serial = serial
        self.whole = whole


def serial_reason(table: TargetTable) -> str:
    """The reason why rows of `table` can only be applied one after another ('' where they can go in parallel)."""
    if not table.key:
        return "it has no primary key and no unique index over NOT NULL columns"
    for unique in table.uniques:
        if unique.opaque:
            return f"unique index {unique.name}: {unique.opaque}"
    return ""


def unseen_reason(binding: Binding) -> str:
    """The reason why rows of this shape can only be applied one after another, though other shapes of the table might
    not; '' where they can go in parallel."""
    if not binding.unseen:
        return ""
    return (
        f"the source does not log which value of {binding.unseen[0]} an updated or deleted row gives up; there, ALTER "
        "TABLE … REPLICA IDENTITY FULL makes it"
    )


def compile_keys(
    binding: Binding,
    space: Keyspace,
    tables: Mapping[TableName, TargetTable],
    *,
    table_shared: bool = False,
    alone: str = "",
) -> RowKeys:
    """Compiles the key functions of one binding.  `tables`: all selected targets.

    `table_shared`: somebody takes the table whole (`Keyspace.table_lock`): the merge of a chunk, where it is being
    copied, or rows that come under another shape, without a column of a unique index.
    `alone`: why its rows take the table whole, as rows of another shape spell the same keys otherwise.

    Raises SchemaMismatch where a foreign key cannot be locked: it uses a column that the log does not have.
    """
    table = binding.target
    serial = serial_reason(table) or _unlogged_unique(binding) or unseen_reason(binding) or alone
    partners = untold_partners(binding, tables)
    requests: list[RequestKeys] = []
    index_wide: list[RequestKeys] = []
    indexes: list[Index] = []
    if serial:
        whole = space.table_lock(table.name, X)
        requests.append(lambda _b, _a: [whole])
        exclusive: ExclusiveKeys = lambda _b, _a: []  # noqa: E731 - a def here would hide that it is a constant
    else:
        indexes = _indexes(binding, space)
        exclusive = compile_exclusive(indexes)
        index_wide = [index_wide_requests(index) for index in indexes if index.folded]
        requests += index_wide
        if table_shared or is_cascaded(table, tables):
            shared = space.table_lock(table.name, S)
            requests.append(lambda _b, _a: [shared])
    requests += foreign_key_requests(binding, space, tables)
    if partners:
        taken = [space.table_lock(name, X) for name in partners]
        requests.append(lambda _b, _a: taken)
    taken_whole = tuple(dict.fromkeys((table.name, *partners) if serial else partners))
    if requests == index_wide[:1]:  # it names no key twice
        return RowKeys(exclusive, index_wide[0] if index_wide else None, serial, taken_whole, indexes)
    return RowKeys(exclusive, joined(requests), serial, taken_whole, indexes)


def _unlogged_unique(binding: Binding) -> str:
    """The reason why a unique index cannot be locked by value: the target fills in a column of it."""
    logged = {c.name for c in binding.shape.columns}
    for unique in binding.target.uniques:
        for column in unique.columns:
            if column not in logged:
                return f"unique index {unique.name}: column {column} is not in the log"
    return ""


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
