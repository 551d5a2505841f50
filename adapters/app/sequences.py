"""`tidelock sequences`: brings the target's sequences to where the source's are, for the end of a move.

A log has rows and no sequences: the target's would give numbers that its rows have already, once applications write
there.  For each column of a replicated table whose numbers the source gives, the number that comes next there is
compared with the one that comes next at the target, which is set where it is behind.  Nothing is ever set back, so it
can be run again at any time.  The last time is when nobody writes at the source any more: a number that is given after
the look is not in it, while numbers that sessions there keep for themselves (CACHE) are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.source_errors import AccessDenied
from tidelock.adapters.schema.type_map import quoted
from tidelock.adapters.wiring.session import TargetSession, session
from tidelock.adapters.wiring.source_tables import MySqlTables, SourceTables, tables_at
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.model.records import TableName

_OWNED = """
SELECT n.nspname::text, c.relname::text, a.attname::text, sn.nspname::text, s.relname::text, q.seqincrement,
    has_sequence_privilege(s.oid, 'SELECT')
FROM pg_depend d
JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S' JOIN pg_namespace sn ON sn.oid = s.relnamespace
JOIN pg_sequence q ON q.seqrelid = s.oid
JOIN pg_class c ON c.oid = d.refobjid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid
WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
ORDER BY 1, 2, 3"""
_COUNTED = """
SELECT t.TABLE_SCHEMA, t.TABLE_NAME, c.COLUMN_NAME, COALESCE(t.AUTO_INCREMENT, 1)
FROM information_schema.TABLES t JOIN information_schema.COLUMNS c
    ON c.TABLE_SCHEMA = t.TABLE_SCHEMA AND c.TABLE_NAME = t.TABLE_NAME AND c.EXTRA LIKE '%%auto_increment%%'
WHERE t.TABLE_SCHEMA = %s AND t.TABLE_NAME = %s"""
_SERIAL = """
SELECT sn.nspname::text, s.relname::text, q.seqincrement
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND d.refobjsubid = a.attnum
    AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S' JOIN pg_namespace sn ON sn.oid = s.relnamespace
JOIN pg_sequence q ON q.seqrelid = s.oid
WHERE n.nspname = %s AND c.relname = %s AND a.attname = %s"""
_NONE = "the target gives no numbers here: give the column a sequence there, or have applications bring them"
_NEXT = "CASE WHEN is_called THEN last_value + ({}) ELSE last_value END"


class Counter(msgspec.Struct, frozen=True):
    """A column whose numbers a server gives.  `coming`: the number that comes next.  `down`: numbers fall."""

    table: TableName
    column: str
    coming: int
    down: bool = False


class SequenceState(msgspec.Struct, frozen=True):
    """A column's next number at both ends.

    `target`: None where the target gives no numbers for the column, as `why` says.  `sql`: sets the target's; '' where
    that is not behind.
    """

    table: str
    column: str
    source: int
    target: int | None
    sql: str = ""
    why: str = ""


async def sequences(feed: Feed, only: Sequence[str], apply: bool) -> list[SequenceState]:
    """Compares, and with `apply` sets what is behind.  `only`: source tables, all if empty.

    Raises SourceError, TargetError.
    """
    if feed.target_url.scheme not in ("postgresql", "mysql", "mariadb"):
        raise TargetError(f"{feed.target_url} gives no numbers for rows", "Sequences are of databases")
    async with tables_at(feed.source_url) as source:
        counters = await _counters(feed, source, only)
    async with session(feed.target_url) as target:
        states = [await _state(feed, target, counter) for counter in counters]
        for state in states:
            if apply and state.sql:
                await target.fetch(state.sql)
    return states


async def _counters(feed: Feed, source: SourceTables, only: Sequence[str]) -> list[Counter]:
    patterns = [Pattern.of(text) for text in only]

    def wanted(name: TableName) -> bool:
        chosen = not patterns or any(pattern.matches(name) for pattern in patterns)
        return chosen and name.schema != feed.schema and feed.select(name) is not None

    tables = await source.shapes(wanted)
    if isinstance(source, MySqlTables):
        found = await _of_mysql(source, list(tables))
    else:
        found = await _of_postgres(feed, source, tables.keys())
    return [counter for counter in found if _is_written(feed, counter)]


def _is_written(feed: Feed, counter: Counter) -> bool:
    rule = feed.select(counter.table)
    assert rule is not None, "only selected tables are asked for"
    columns = rule.columns
    return counter.column not in columns.exclude and (not columns.include or counter.column in columns.include)


async def _of_postgres(feed: Feed, source: SourceTables, tables: Collection[TableName]) -> list[Counter]:
    counters = []
    for schema, table, column, of, name, step, readable in await source.ask(_OWNED):
        if TableName(schema, table) not in tables:
            continue
        place = f"{quote('postgres', of)}.{quote('postgres', name)}"
        if not readable:
            raise AccessDenied(
                f"{feed.source_url.user} may not read the sequence {of}.{name} of {schema}.{table} at the source",
                f"At the source: GRANT SELECT ON SEQUENCE {place} TO {quote('postgres', feed.source_url.user)};",
            )
        ((coming,),) = await source.ask(f"SELECT {_NEXT.format(step)} FROM {place}")
        counters.append(Counter(TableName(schema, table), column, int(coming), int(step) < 0))
    return counters


async def _of_mysql(source: MySqlTables, tables: Sequence[TableName]) -> list[Counter]:
    await _fresh(source)
    found = [row for name in tables for row in await source.ask(_COUNTED, name.schema, name.table)]
    return [Counter(TableName(schema, table), column, int(coming)) for schema, table, column, coming in found]


async def _fresh(source: MySqlTables) -> None:
    """MySQL answers with figures of a day ago otherwise."""
    if not source.server.is_mariadb:
        await source.ask("SET SESSION information_schema_stats_expiry = 0")


# ---------------------------------------------------------------------- the target


async def _state(feed: Feed, target: TargetSession, counter: Counter) -> SequenceState:
    rule = feed.select(counter.table)
    assert rule is not None, "only selected tables are asked for"
    column = rule.columns.rename.get(counter.column, counter.column)
    name = feed.target_name(counter.table)
    compared = await (_at_postgres if target.dialect == "postgres" else _at_mysql)(target, name, column, counter)
    if compared is None:
        return SequenceState(str(name), column, counter.coming, None, why=_NONE)
    coming, sql = compared
    return SequenceState(str(name), column, counter.coming, coming, sql)


async def _at_postgres(
    target: TargetSession, name: TableName, column: str, counter: Counter
) -> tuple[int, str] | None:
    found = await target.fetch(_SERIAL, name.schema, name.table, column)
    if not found:
        return None
    schema, sequence, step = found[0]
    place = f"{quote('postgres', schema)}.{quote('postgres', sequence)}"
    coming = _NEXT.format(step)
    ((there,),) = await target.fetch(f"SELECT {coming} FROM {place}")
    if (int(step) < 0) != counter.down:
        raise TargetError(
            f"{name}.{column}: the numbers of {counter.table} go up and those of the target's sequence "
            f"{schema}.{sequence} go down, or the other way round",
            "Give both sequences steps of one sign",
        )
    behind = int(there) > counter.coming if counter.down else int(there) < counter.coming
    # The statement looks again: it sets nothing back that has gone on meanwhile.
    still = f"{coming} {'>' if counter.down else '<'} {counter.coming}"
    sql = f"SELECT setval({quoted(place)}, {counter.coming}, false) FROM {place} WHERE {still}"
    return int(there), sql if behind else ""


async def _at_mysql(target: TargetSession, name: TableName, column: str, counter: Counter) -> tuple[int, str] | None:
    if "mariadb" not in str((await target.fetch("SELECT VERSION()"))[0][0]).lower():
        await target.execute("SET SESSION information_schema_stats_expiry = 0")
    for _, _, found, coming in await target.fetch(_COUNTED, name.schema, name.table):
        if str(found) == column:
            place = f"{quote('mysql', name.schema)}.{quote('mysql', name.table)}"
            behind = int(coming) < counter.coming
            return int(coming), f"ALTER TABLE {place} AUTO_INCREMENT = {counter.coming}" if behind else ""
    return None
