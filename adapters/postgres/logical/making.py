"""Slot and publication of a feed that has no checkpoint yet, or is about to give its checkpoint up: made.

First the publication, then the slot, whose place then becomes the checkpoint; the forms that the tables have at that
place are read with it.  A slot that is there already was made by
a first run that ended before it stored a checkpoint: nothing was promised, so it is dropped and made anew.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.source import Beginning
from tidelock.adapters.ports.source_errors import AccessDenied, SourceError, UnsuitableLog
from tidelock.adapters.postgres.logical.earlier_reader import in_use, unused
from tidelock.adapters.postgres.logical.history import identify
from tidelock.adapters.postgres.logical.overview import suitable
from tidelock.adapters.postgres.logical.published_places import placed
from tidelock.adapters.postgres.logical.session import Session, asked, session
from tidelock.adapters.postgres.logical.slots import (
    PLUGIN,
    add_tables_sql,
    create_publication_sql,
    drop_slot,
    drop_slot_sql,
    find_publication,
    make_slot,
    qualified,
    require_publication,
    slot_of,
)
from tidelock.adapters.postgres.logical.table_forms import is_there, kept, read_forms
from tidelock.engine.model.records import TableName

_WITHOUT_IDENTITY: Final = (
    "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE (c.relreplident = 'n' OR c.relreplident = 'd' AND NOT EXISTS (SELECT 1 FROM pg_index i "
    "WHERE i.indrelid = c.oid AND i.indisprimary)) AND c.relkind IN ('r', 'p')"
)


def keep_log(place: Endpoint, tables: Sequence[TableName]) -> Beginning:
    """Has the server keep its log for the feed from now on; returns the place from which it does.  Raises
    SourceError."""
    with session(place, replication=True) as opened:
        suitable(opened)
        _publish(opened, slot_of(place), tables)
        _drop_unused(opened, slot_of(place))
        begins = identify(opened).place(make_slot(opened, slot_of(place)))
        ask = functools.partial(asked, opened)
        forms = placed(ask, slot_of(place), read_forms(ask, tables, told=is_there(ask, slot_of(place))))
        opened.run("COMMIT")
        return Beginning(begins, tuple(kept(form, begins) for form in forms))


def _publish(opened: Session, name: str, tables: Sequence[TableName]) -> None:
    found = find_publication(opened, name)
    lacking = sorted(set(tables) - found.tables) if found is not None else sorted(tables)
    _require_identity(opened, lacking)
    if found is None:
        _run(opened, create_publication_sql(name, tables))
    elif lacking:
        _run(opened, add_tables_sql(name, lacking).rstrip(";"))
    require_publication(opened, name, tables)


def _run(opened: Session, statement: str) -> None:
    try:
        opened.run(statement)
    except AccessDenied as error:
        raise AccessDenied(
            error.message, f"Let who owns these tables, and may create in the database, run: {statement};"
        ) from None


def _require_identity(opened: Session, tables: Sequence[TableName]) -> None:
    """Passes where publishing these tables hurts nobody: PostgreSQL refuses every UPDATE and DELETE of a published
    table that has no replica identity.  Raises UnsuitableLog."""
    without = {TableName(str(schema), str(table)) for schema, table in opened.rows(_WITHOUT_IDENTITY)}
    breaking = [name for name in tables if name in without]
    if breaking:
        statements = " ".join(f"ALTER TABLE {qualified(name)} REPLICA IDENTITY FULL;" for name in breaking)
        raise UnsuitableLog(
            f"{opened.place} would refuse every UPDATE and DELETE of {breaking[0]}, once it is published: it has no "
            "replica identity",
            f"{statements} Or leave it out of `tables`",
        )


def _drop_unused(opened: Session, name: str) -> None:
    slot, place = unused(opened, name), opened.place
    if slot is None:
        return
    if slot.plugin != PLUGIN or slot.database != place.database:
        raise SourceError(
            f"{place} has a slot {name} already, which is not ours: plugin {slot.plugin or 'none (physical)'}, "
            f"database {slot.database or 'none'}",
            f"Name the feed otherwise, or, if nobody needs the slot, {drop_slot_sql(name)}",
        )
    if slot.active_pid:
        raise in_use(opened, slot)
    drop_slot(opened, name)
