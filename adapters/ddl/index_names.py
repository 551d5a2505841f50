"""Names of indexes at PostgreSQL, which follow those of their tables.

An index of the source is named `TABLE_INDEX` there, as names are of a whole schema.  Where the table gets another name,
or another table is made in its form, the index must be found under the table's name later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelock.adapters.schema.create_table import NAME_BYTES, identifier, qualified
from tidelock.adapters.schema.type_map import quoted
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetTable


def index_names(table: TargetTable) -> list[str]:
    """Returns the names of all indexes of a table."""
    return [*(unique.name for unique in table.uniques), *(one.name for one in table.plain_indexes)]


class IndexNames:
    """Names of indexes while one statement renames their tables.  `tables`: the target's, before it."""

    def __init__(self, tables: Mapping[TableName, TargetTable]) -> None:
        self._names = {
            name: index_names(table) for name, table in tables.items()
        }

    def renamed(self, one: TableName, to: TableName) -> list[str]:
        """Returns what renames the indexes of a table that has got the name `to`."""
        made, now = [], []
        for name in self._names.pop(one, []):
            other = _following(name, one.table, to.table)
            now.append(other)
            if other != name:
                index = f"{identifier('postgres', to.schema)}.{identifier('postgres', name)}"
                made.append(f"ALTER INDEX {index} RENAME TO {identifier('postgres', other)}")
        self._names[to] = now
        return made


def taken_names(tables: Mapping[TableName, TargetTable]) -> set[TableName]:
    """Returns the names of tables and of their indexes, which have one namespace at PostgreSQL."""
    indexes = {TableName(name.schema, one) for name, table in tables.items() for one in index_names(table)}
    return indexes | tables.keys()


def _following(name: str, table: str, to: str) -> str:
    """Returns an index's name behind its table's; the same where it does not begin with it, or would be cut."""
    other = f"{to}{name.removeprefix(table)}"
    return other if name.startswith(f"{table}_") and len(other.encode()) <= NAME_BYTES else name


def named_like(place: TableName, like: TableName) -> str:
    """Returns what names the indexes of a table that was just made `LIKE` another one after those of that one: the
    server chose their names, made the primary key first, and numbered the columns without those that were dropped."""
    return _NAMED_LIKE.format(
        made=quoted(qualified("postgres", place)),
        like=quoted(qualified("postgres", like)),
        head=quoted(f"{like.table}_"),
        name=f"{quoted(f'{place.table}_')} || substr(model.name, {len(like.table) + 2})",
        bytes=NAME_BYTES,
    )


_NAMED_LIKE: Final = """DO $names$
DECLARE one record;
BEGIN
    FOR one IN
        WITH indexes AS (
            SELECT *, row_number() OVER (PARTITION BY indrelid, form ORDER BY oid) AS number
            FROM (
                SELECT i.indrelid, c.oid, c.relname AS name, concat_ws(
                    '|', i.indisprimary, i.indisunique, pg_get_expr(i.indpred, i.indrelid),
                    ARRAY(SELECT pg_get_indexdef(c.oid, n, true) FROM generate_series(1, i.indnatts::int) AS n)
                ) AS form
                FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                WHERE i.indrelid IN ({made}::regclass, {like}::regclass)
            ) AS formed
        )
        SELECT made.oid::regclass AS made, {name} AS name
        FROM indexes made JOIN indexes model USING (form, number)
        WHERE made.indrelid = {made}::regclass AND model.indrelid = {like}::regclass
            AND starts_with(model.name, {head}) AND made.name <> {name} AND octet_length({name}) <= {bytes}
    LOOP
        EXECUTE format('ALTER INDEX %s RENAME TO %I', one.made, one.name);
    END LOOP;
END $names$"""
