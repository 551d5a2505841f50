"""Statements that a feed between sites runs at PostgreSQL, with what the feed that goes back must find.

The form of the table is told before and behind (`postgres.form_messages`), and the table is locked before the first,
so that nobody changes it in between.  A new table logs whole rows and comes into the publication of the sister, by the
name that `tidelock init` gives it: no row of the table is written before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.postgres import form_messages
from tidelock.adapters.postgres.target.literals import text
from tidelock.adapters.postgres.target.statements import identifier, qualified
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind


def told(ddl: Ddl, target: Callable[[TableName], TableName], statements: Sequence[str], sister: str) -> list[str]:
    """Returns the `statements` that `ddl` becomes, with those around them if it came by sites.  `target`: a table's
    name there.  `sister`: the feed that goes back, if any."""
    if not (ddl.path and statements) or ddl.kind is DdlKind.TRUNCATE:  # which becomes rows of a marked transaction
        return [*statements]
    table = target(ddl.tables[0])
    behind = form_messages.tell(table, ddl.path, text)
    if ddl.kind is DdlKind.CREATE_TABLE:
        return [*statements, *(_published(table, sister) if sister else ()), behind]
    lock = f"LOCK TABLE {qualified(table)} IN ACCESS EXCLUSIVE MODE"
    return [lock, form_messages.tell(table, (), text), *statements, behind]


def _published(table: TableName, sister: str) -> list[str]:
    name, place = slot_name(sister), qualified(table)
    lacks = (
        f"SELECT FROM pg_publication p WHERE pubname = {text(name)} AND NOT puballtables AND NOT EXISTS "
        f"(SELECT FROM pg_publication_rel WHERE prpubid = p.oid AND prrelid = {text(place)}::regclass)"
    )
    add = f"ALTER PUBLICATION {identifier(name)} ADD TABLE {place}"
    return [
        f"ALTER TABLE {place} REPLICA IDENTITY FULL",
        f"DO {text(f'BEGIN IF EXISTS ({lacks}) THEN {add}; END IF; END')}",
    ]
