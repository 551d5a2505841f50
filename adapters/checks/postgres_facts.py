"""Facts of a PostgreSQL source, read from its catalogue in a few queries: server, role, slot, publication, tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.postgres.catalogue import Server
from tidelock.adapters.postgres.ddl_trigger import FOUND, FUNCTIONS, SCHEMA, CommandTrigger
from tidelock.adapters.postgres.schema import TableRow
from tidelock.engine.model.records import TableName

OLDEST: Final = 140000

# A setting that a version does not have is absent; times are in milliseconds or minutes, so they are asked in seconds.
_SERVER: Final = """
SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('wal_level'),
    current_setting('max_replication_slots')::int, (SELECT count(*) FROM pg_replication_slots)::int,
    current_setting('max_wal_senders')::int, (SELECT count(*) FROM pg_stat_get_wal_senders())::int,
    (SELECT setting::bigint FROM pg_settings WHERE name = 'max_slot_wal_keep_size'),
    coalesce((
        SELECT extract(epoch FROM current_setting(name)::interval)::bigint FROM pg_settings
        WHERE name = 'idle_replication_slot_timeout' AND setting <> '0'
    ), 0),
    (SELECT count(*) FROM pg_largeobject_metadata)::int,
    ARRAY(SELECT c.collname::text FROM pg_collation c WHERE NOT c.collisdeterministic)"""
_ROLE: Final = """
SELECT rolname::text, rolreplication OR rolsuper, rolsuper, rolbypassrls OR rolsuper,
    has_database_privilege(current_database(), 'CREATE'), current_database()::text
FROM pg_roles WHERE rolname = current_user"""
_SLOT: Final = """
SELECT s.slot_name::text, coalesce(s.plugin::text, ''), coalesce(s.database::text, ''), s.temporary,
    coalesce(s.active_pid, 0), coalesce(a.application_name, ''), coalesce(a.client_addr::text, 'its own machine'),
    coalesce(s.wal_status, ''), s.restart_lsn IS NULL,
    coalesce(s.confirmed_flush_lsn - '0/0'::pg_lsn, 0)::numeric::text, coalesce(s.confirmed_flush_lsn::text, '')
FROM pg_replication_slots s LEFT JOIN pg_stat_activity a ON a.pid = s.active_pid WHERE s.slot_name = $1"""
_PUBLICATION: Final = """
SELECT pubname::text, puballtables, pubinsert AND pubupdate AND pubdelete AND pubtruncate,
    pubupdate OR pubdelete, pubviaroot, pg_has_role(pubowner, 'USAGE'), pg_get_userbyid(pubowner)::text
FROM pg_publication WHERE pubname = $1"""
_PUBLISHED: Final = "SELECT schemaname::text, tablename::text FROM pg_publication_tables WHERE pubname = $1"
# What leaves rows or columns out came with version 15.
_CUT: Final = """
SELECT n.nspname::text, c.relname::text
FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid JOIN pg_class c ON c.oid = r.prrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE p.pubname = $1 AND (to_jsonb(r) ->> 'prqual' IS NOT NULL OR to_jsonb(r) ->> 'prattrs' IS NOT NULL)"""
# PostgreSQL refuses an UPDATE or DELETE of these as long as any publication has it.
_BREAKING: Final = """
SELECT DISTINCT n.nspname::text, c.relname::text
FROM pg_publication_tables t JOIN pg_publication p ON p.pubname = t.pubname AND (p.pubupdate OR p.pubdelete)
JOIN pg_namespace n ON n.nspname = t.schemaname JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
LEFT JOIN LATERAL (SELECT relid FROM pg_partition_tree(c.oid) WHERE isleaf AND relid <> c.oid) AS leaf ON true
JOIN pg_class l ON l.oid = coalesce(leaf.relid, c.oid)
WHERE p.pubname = $1 AND l.relreplident <> 'f' AND NOT EXISTS (
    SELECT FROM pg_index i WHERE i.indrelid = l.oid AND i.indisvalid AND i.indimmediate
    AND CASE l.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END
) ORDER BY 1, 2"""
_SEQUENCES: Final = "SELECT schemaname::text, sequencename::text FROM pg_sequences ORDER BY 1, 2"


class ServerFacts(msgspec.Struct, frozen=True):
    """Settings and counts.

    `keep_megabytes`: max_slot_wal_keep_size, -1 without a limit.  `idle_seconds`: after which an idle slot is given up,
    0 for never.  `folding`: collations that take different texts as equal.
    """

    version: int
    recovering: bool
    wal_level: str
    most_slots: int
    slots: int
    most_senders: int
    senders: int
    keep_megabytes: int
    idle_seconds: int
    large_objects: int
    folding: tuple[str, ...]


class Role(msgspec.Struct, frozen=True):
    """The feed's user at the source.  `creates`: in the database, which a publication takes."""

    name: str
    replicates: bool
    superuser: bool
    sees_all_rows: bool
    creates: bool
    database: str


class SlotFacts(msgspec.Struct, frozen=True):
    """The feed's slot.  `confirmed`: the place up to which it is confirmed, as a number and as PostgreSQL spells it."""

    name: str
    plugin: str
    database: str
    temporary: bool
    active_pid: int
    application: str
    client: str
    wal_status: str
    invalid: bool
    confirmed: int
    confirmed_lsn: str


class PublicationFacts(msgspec.Struct, frozen=True):
    """The feed's publication.

    `whole`: it publishes inserts, updates, deletes and truncates.  `changes`: it publishes updates or deletes.
    `tables`: published.  `cut`: those with a row filter or a column list.  `breaking`: those that refuse UPDATE and
    DELETE because of it.
    """

    name: str
    all_tables: bool
    whole: bool
    changes: bool
    via_root: bool
    owned: bool
    owner: str
    tables: frozenset[TableName]
    cut: frozenset[TableName]
    breaking: tuple[TableName, ...]


class SourceFacts(msgspec.Struct, frozen=True):
    """Everything but the columns of tables.  `tables`: all of the database.  `trigger`: the feed's event triggers, as
    `ddl_trigger.FOUND` reads them; `functions`: those of all feeds that have some."""

    server: ServerFacts
    role: Role
    slot: SlotFacts | None
    publication: PublicationFacts | None
    tables: tuple[TableRow, ...]
    sequences: tuple[TableName, ...]
    trigger: tuple[tuple[str, str, str, str], ...] = ()
    functions: tuple[str, ...] = ()

    @property
    def folding(self) -> tuple[str, ...]:
        """Collations that take different texts as equal."""
        return self.server.folding


async def read_facts(feed: Feed, server: Server, tables: Sequence[TableRow]) -> SourceFacts:
    """Read what `check` and `init` want to know.  Raises what the driver raises."""
    name = slot_name(feed.name)
    ((*numbers, folding),) = await server.ask(_SERVER)
    (role,) = await server.ask(_ROLE)
    slots = [_slot(row) for row in await server.ask(_SLOT, name)]
    return SourceFacts(
        server=ServerFacts(*(*numbers, tuple(folding))),
        role=Role(*role),
        slot=slots[0] if slots else None,
        publication=await _publication(server, name),
        tables=tuple(tables),
        sequences=tuple(TableName(*row) for row in await server.ask(_SEQUENCES)),
        trigger=tuple([(*row,) for row in await server.ask(FOUND, SCHEMA, CommandTrigger(name, ()).function)]),
        functions=tuple([str(row[0]) for row in await server.ask(FUNCTIONS, SCHEMA)]),
    )


def _slot(row: tuple[Any, ...]) -> SlotFacts:
    *others, confirmed, spelled = row
    return SlotFacts(*(*others, int(confirmed), spelled))


async def _publication(server: Server, name: str) -> PublicationFacts | None:
    found = await server.ask(_PUBLICATION, name)
    if not found:
        return None
    tables, cut, breaking = [
        [TableName(*row) for row in await server.ask(sql, name)] for sql in (_PUBLISHED, _CUT, _BREAKING)
    ]
    return PublicationFacts(*(*found[0], frozenset(tables), frozenset(cut), tuple(breaking)))
