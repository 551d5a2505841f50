"""Partitions of which PostgreSQL's log tells nothing, though it tells the other rows of their table.

A partition may be UNLOGGED, or a foreign table, where the table that it is a partition of is in the publication: no
message has its rows, and none says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.adapters.schema.create_table import qualified
from tidelock.engine.model.records import TableName

Rows: TypeAlias = Callable[[str, Sequence[Any]], Sequence[Sequence[Any]]]
"""Runs a query with `$1`, … and returns its rows."""
_SILENT: Final = """
SELECT t.schemaname::text, t.tablename::text, ln.nspname::text, l.relname::text, l.relkind::text
FROM pg_publication_tables t
JOIN pg_namespace n ON n.nspname = t.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename AND c.relkind = 'p'
CROSS JOIN LATERAL pg_partition_tree(c.oid) p
JOIN pg_class l ON l.oid = p.relid AND p.isleaf AND (l.relpersistence = 'u' OR l.relkind = 'f')
JOIN pg_namespace ln ON ln.oid = l.relnamespace
WHERE t.pubname = $1 ORDER BY 1, 2, 3"""


def require_told_partitions(ask: Rows, publication: str, wanted: Callable[[TableName], bool]) -> None:
    """Passes where the log has the rows of all partitions of wanted tables.  Raises UnsuitableLog, and what `ask`
    raises."""
    for schema, table, leaf_schema, leaf, kind in ask(_SILENT, (publication,)):
        root = TableName(str(schema), str(table))
        if wanted(root):
            what, hint = what_to_do(root, TableName(str(leaf_schema), str(leaf)), foreign=str(kind) == "f")
            raise UnsuitableLog(f"{what}, so the log has nothing of its rows", hint)


def what_to_do(root: TableName, leaf: TableName, *, foreign: bool) -> tuple[str, str]:
    """Returns what such a partition is, and what to do."""
    again = (
        "Then `tidelock run FEED`, which halts once more at a table that the feed had before and says what to do, and "
        f"`tidelock copy FEED --table {root}`: what was changed before is not in the log"
    )
    place, part = qualified("postgres", root), qualified("postgres", leaf)
    if foreign:
        what = f"{leaf}, a partition of {root}, is a foreign table"
        return what, f"ALTER TABLE {place} DETACH PARTITION {part}; or leave {root} out of `tables`. {again}"
    return f"{leaf}, a partition of {root}, is UNLOGGED", f"ALTER TABLE {part} SET LOGGED; {again}"
