"""Event triggers at a PostgreSQL source that write into its log what each command has made of tables.

One function for a feed, and three event triggers that call it.  `table_rewrite` notes which tables a command writes
anew, `sql_drop` tells tables and indexes that are gone, `ddl_command_end` the forms of the tables that were changed
(`form_messages`), in one transactional message a command.  So a change stands in the log where it was made.

A new table that the feed takes comes into the feed's publication in the same transaction, before a row of it is
written.  Without a primary key it gets REPLICA IDENTITY FULL, since PostgreSQL would refuse UPDATE and DELETE of it;
so does a partition of a table that has it.  Temporary and unlogged tables are not told: the log has no rows of them.

The function is its owner's, a superuser's (SECURITY DEFINER): who runs a command need not own the publication.  Its
settings are those that the reader of the log has.  It is ALWAYS enabled: a session that applies others' changes tells
its own commands too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from tidelock.adapters.postgres.column_types import OUTPUT_SETTINGS
from tidelock.adapters.postgres.form_messages import FORMS

VERSION: Final = 1
"""Version of the message; whoever finds another one does not read on."""
SCHEMA: Final = "tidelock_ddl"
_EVENTS: Final = {"_rewrite": "table_rewrite", "_drop": "sql_drop", "_end": "ddl_command_end"}
_CONVERTS: Final = 4
"""Reason why a table is written anew: a column's values are converted."""
_NAME_BYTES = 63 - max(map(len, _EVENTS))

FOUND: Final = """
SELECT e.evtname::text, e.evtenabled::text, p.prosrc, r.rolsuper::text
FROM pg_event_trigger e JOIN pg_proc p ON p.oid = e.evtfoid JOIN pg_roles r ON r.oid = p.proowner
JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1 AND p.proname = $2"""
"""Parameters: schema and name of the function.  One row an event trigger that calls it."""
ENABLED: Final = "A"
"""How an event trigger is enabled whose commands are told in every session."""
FUNCTIONS: Final = """
SELECT p.proname::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1"""


def whole(found: Sequence[Sequence[object]]) -> bool:
    """Tells whether rows of `FOUND` are those of event triggers that tell every command."""
    return len(found) == len(_EVENTS) and all(row[1] == ENABLED and row[3] == "true" for row in found)


class CommandTrigger(msgspec.Struct, frozen=True):
    """The event triggers of a feed.  `slot`: the name of its slot and publication; `patterns`: of its tables; `own`:
    the schema of its bookkeeping, which it never takes."""

    slot: str
    patterns: tuple[tuple[str, str], ...]
    own: str = ""

    @property
    def function(self) -> str:
        """The function's name, in `SCHEMA`."""
        return self.slot.encode()[:_NAME_BYTES].decode(errors="ignore")

    @property
    def names(self) -> tuple[str, ...]:
        """The event triggers' names."""
        return tuple(f"{self.function}{end}" for end in _EVENTS)

    @property
    def body(self) -> str:
        """The function's text."""
        return _BODY.format(
            prefix=_text(message_prefix(self.slot)),
            version=VERSION,
            forms=FORMS.replace("$1", "'[]'").replace("$2", "of_oids"),
            publication=_text(self.slot),
            converts=_CONVERTS,
            own=_text(self.own),
            wanted=" OR ".join(
                f"(n.nspname ~ {_text(_expression(schema))} AND c.relname ~ {_text(_expression(table))})"
                for schema, table in self.patterns
            ),
        )

    def made(self) -> list[str]:
        """Returns the statements that make it, or make it anew."""
        settings = {**OUTPUT_SETTINGS, "search_path": "pg_catalog, pg_temp", "standard_conforming_strings": "on"}
        settings.pop("client_encoding")
        bare = ("search_path", "datestyle")
        of = " ".join(f"SET {name} = {value if name in bare else _text(value)}" for name, value in settings.items())
        place, rights = f'{SCHEMA}."{self.function}"', "LANGUAGE plpgsql SECURITY DEFINER"
        ends = dict(zip(_EVENTS.values(), self.names, strict=True))
        return [
            f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}",
            *self._dropped(),
            f"CREATE OR REPLACE FUNCTION {place}() RETURNS event_trigger {rights} {of} AS $tide${self.body}$tide$",
            *(f'CREATE EVENT TRIGGER "{name}" ON {event} EXECUTE FUNCTION {place}()' for event, name in ends.items()),
            *(f'ALTER EVENT TRIGGER "{name}" ENABLE ALWAYS' for name in self.names),
        ]

    def removed(self, *, last: bool) -> list[str]:
        """Returns the statements that take it away.  `last`: no other feed has one in this database."""
        drop = [*self._dropped(), f'DROP FUNCTION IF EXISTS {SCHEMA}."{self.function}"()']
        return [*drop, f"DROP SCHEMA IF EXISTS {SCHEMA}"] if last else drop

    def _dropped(self) -> list[str]:
        return [f'DROP EVENT TRIGGER IF EXISTS "{name}"' for name in self.names]


def message_prefix(slot: str) -> str:
    """Returns the prefix of the messages of the feed that has this slot."""
    return f"tidelock.ddl.{slot}"


def _expression(part: str) -> str:
    """Returns a part of a pattern as a regular expression of PostgreSQL."""
    return "^" + ".*".join(re.sub(r"([^\w])", r"\\\1", piece) for piece in part.split("*")) + "$"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


# PG_CONTEXT has one line where the command is the client's own: a function or block that ran it has another one.
_BODY: Final = r"""
DECLARE
  of_oids json := '[]';
  of_new json := '[]';
  of_gone json := '[]';
  of_forms json;
  of_context text;
  of_place record;
BEGIN
  IF TG_EVENT = 'table_rewrite' THEN
    IF pg_event_trigger_table_rewrite_reason() & {converts} = 0 THEN
      RETURN;
    END IF;
    PERFORM set_config('tidelock.rewritten', concat_ws(',', nullif(current_setting('tidelock.rewritten', true), ''),
      coalesce(pg_partition_root(pg_event_trigger_table_rewrite_oid())::oid,
        pg_event_trigger_table_rewrite_oid())::bigint), true);
    RETURN;
  END IF;
  IF TG_EVENT = 'sql_drop' THEN
    SELECT coalesce(json_agg(json_build_array(o.objid::bigint, o.schema_name, o.object_name, o.object_type)
        ORDER BY o.object_type DESC, o.objid)
        FILTER (WHERE o.object_type = 'table' OR o.object_type = 'index' AND TG_TAG <> 'ALTER TABLE'), '[]'),
      coalesce(json_agg(DISTINCT o.objid::bigint::text)
        FILTER (WHERE o.object_type = 'table column' AND TG_TAG <> 'ALTER TABLE'), '[]')
      INTO of_gone, of_oids
      FROM pg_event_trigger_dropped_objects() o WHERE NOT o.is_temporary;
  ELSE
    SELECT coalesce(json_agg(DISTINCT coalesce(pg_partition_root(t.oid)::oid, t.oid)::bigint::text), '[]')
      INTO of_oids
      FROM pg_event_trigger_ddl_commands() o CROSS JOIN LATERAL (
        SELECT o.objid AS oid WHERE o.classid = 'pg_class'::regclass
        UNION SELECT i.indrelid FROM pg_index i WHERE o.classid = 'pg_class'::regclass AND i.indexrelid = o.objid
        UNION SELECT k.conrelid FROM pg_constraint k WHERE o.classid = 'pg_constraint'::regclass AND k.oid = o.objid
        UNION SELECT c.oid FROM pg_class c
          WHERE o.classid = 'pg_namespace'::regclass AND c.relnamespace = o.objid AND TG_TAG = 'ALTER SCHEMA'
      ) AS t JOIN pg_class c ON c.oid = t.oid AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p';
    SELECT coalesce(json_agg(json_build_array(o.objid::bigint, o.command_tag)), '[]') INTO of_new
      FROM pg_event_trigger_ddl_commands() o JOIN pg_class c ON c.oid = o.objid AND c.relpersistence = 'p'
      WHERE o.classid = 'pg_class'::regclass AND o.object_type = 'table'
        AND o.command_tag IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO');
  END IF;
  IF json_array_length(of_oids) + json_array_length(of_gone) = 0 THEN
    RETURN;
  END IF;
  GET DIAGNOSTICS of_context = PG_CONTEXT;
  SELECT coalesce(json_agg(json_build_array(is_published, form::json)), '[]') INTO of_forms
    FROM (
      SELECT f.form, EXISTS (
        SELECT FROM pg_publication_tables p WHERE p.pubname = {publication}
          AND p.schemaname = f.form::json -> 1 ->> 0 AND p.tablename = f.form::json -> 1 ->> 1
      ) AS is_published FROM ({forms}) AS f(form)
    ) AS forms;
  PERFORM pg_logical_emit_message(true, {prefix}, convert_to(json_build_object(
    'version', {version}, 'tag', TG_TAG,
    'plain', coalesce(strpos(of_context, E'\n') = 0 AND current_query() !~* 'using'
      AND current_query() !~ ';\s*[^\s;]', false),
    'created', of_new, 'dropped', of_gone, 'forms', of_forms,
    'rewritten', ('[' || coalesce(current_setting('tidelock.rewritten', true), '') || ']')::json
  )::text, 'UTF8'));
  IF TG_EVENT = 'sql_drop' THEN
    RETURN;
  END IF;
  PERFORM set_config('tidelock.rewritten', '', true);
  FOR of_place IN
    SELECT c.oid, format('%I.%I', n.nspname, c.relname) AS name,
      c.relreplident = 'd' AND NOT EXISTS (
        SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND i.indimmediate
      ) OR c.relreplident = 'n' AS bare,
      EXISTS (SELECT FROM json_array_elements(of_new) one WHERE (one ->> 0)::oid = c.oid) AS new
    FROM json_array_elements_text(of_oids) one JOIN pg_class c ON c.oid = one::oid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE NOT c.relispartition AND c.relpersistence = 'p' AND n.nspname <> {own} AND ({wanted}) AND NOT EXISTS (
      SELECT FROM pg_publication_tables p
      WHERE p.pubname = {publication} AND p.schemaname = n.nspname AND p.tablename = c.relname
    ) AND EXISTS (SELECT FROM pg_publication p WHERE p.pubname = {publication} AND NOT p.puballtables)
  LOOP
    IF of_place.new OR NOT of_place.bare THEN
      EXECUTE format('ALTER PUBLICATION %I ADD TABLE %s', {publication}, of_place.name);
    END IF;
    IF of_place.bare AND of_place.new THEN
      EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', of_place.name);
    END IF;
  END LOOP;
  FOR of_place IN
    SELECT format('%I.%I', n.nspname, l.relname) AS name
    FROM json_array_elements_text(of_oids) one JOIN pg_class c ON c.oid = one::oid
    JOIN pg_publication_rel p ON p.prrelid = c.oid JOIN pg_publication q ON q.oid = p.prpubid
    CROSS JOIN LATERAL pg_partition_tree(c.oid) t JOIN pg_class l ON l.oid = t.relid
    JOIN pg_namespace n ON n.oid = l.relnamespace
    WHERE q.pubname = {publication} AND c.relreplident = 'f' AND l.relreplident <> 'f' AND t.isleaf
  LOOP
    EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', of_place.name);
  END LOOP;
END
"""
