"""A PostgreSQL target as `check` and `init` look at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg

from tidelock.adapters.bookkeeping.checkpoints import least_checkpoint
from tidelock.adapters.bookkeeping.tables import TABLES, Lacking, columns_query, lacking, quote
from tidelock.adapters.config.url import Dialect, Endpoint
from tidelock.adapters.ports.definition import Definition
from tidelock.adapters.ports.finding import Finding, error
from tidelock.adapters.ports.target_inspection import ROW_RIGHTS, Details, lacking_rights, only_for_copies
from tidelock.adapters.postgres.catalogue import AsyncServer, read_tables
from tidelock.adapters.postgres.definitions import read_definitions
from tidelock.adapters.postgres.schema import RULES
from tidelock.adapters.postgres.target.session import SessionSettings
from tidelock.adapters.schema.create_table import qualified
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import TargetTable

_DETAILS = """
SELECT n.nspname::text, c.relname::text, c.relpersistence = 'u', row_security_active(c.oid),
    ARRAY(SELECT r FROM unnest($3::text[]) AS r WHERE NOT has_table_privilege(c.oid, r)),
    NOT has_schema_privilege(n.oid, 'USAGE'),
    ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attidentity = 'a'),
    ARRAY(SELECT k.conname::text FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c' ORDER BY 1),
    ARRAY(
        SELECT pg_get_constraintdef(k.oid) FROM pg_constraint k
        WHERE k.conrelid = c.oid AND k.contype = 'c' ORDER BY k.conname
    ),
    ARRAY(
        SELECT t.tgname::text FROM pg_trigger t
        WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') ORDER BY 1
    ),
    ARRAY(SELECT k.conname::text FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype IN ('p', 'u', 'x')),
    ARRAY(
        SELECT ARRAY[k.conname::text, k.confupdtype::text, k.confdeltype::text]
        FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'f'
    ),
    ARRAY(
        SELECT r.rulename::text FROM pg_rewrite r
        WHERE r.ev_class = c.oid AND r.ev_type IN ('2', '3', '4') AND r.ev_enabled IN ('O', 'A') ORDER BY 1
    )
FROM unnest($1::text[], $2::text[]) AS w(schema, name)
JOIN pg_namespace n ON n.nspname = w.schema
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name AND c.relkind IN ('r', 'p')
"""
_MAKING = """
SELECT wanted, n.oid IS NOT NULL, has_schema_privilege(n.oid, 'USAGE'), has_schema_privilege(n.oid, 'CREATE'),
    has_database_privilege(current_database(), 'CREATE')
FROM unnest($1::text[]) AS wanted LEFT JOIN pg_namespace n ON n.nspname = wanted"""
_MISSING_RIGHTS = """
SELECT place, string_agg(r, ', ' ORDER BY n)
FROM unnest($2::text[]) AS place, unnest($1::text[]) WITH ORDINALITY AS u(r, n)
WHERE NOT has_table_privilege(place, r) GROUP BY place ORDER BY place"""
_TYPES = """
SELECT n.nspname::text, t.typname::text FROM unnest($1::text[], $2::text[]) AS w(schema, name)
JOIN pg_namespace n ON n.nspname = w.schema JOIN pg_type t ON t.typnamespace = n.oid AND t.typname = w.name"""


class PostgresTarget:
    """One open connection that looks at the target."""

    dialect: Dialect = "postgres"
    mariadb = False

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record], endpoint: Endpoint) -> None:
        self._connection = connection
        self._endpoint = endpoint
        self.account = quote("postgres", endpoint.user)

    @classmethod
    async def open(cls, endpoint: Endpoint) -> PostgresTarget:
        """Connect.  Raises one of SERVER_ERRORS, as everything here does."""
        return cls(await SessionSettings(endpoint, "tidelock check", True, 10).connect(), endpoint)

    async def tables(self, names: Sequence[TableName]) -> dict[TableName, TargetTable]:
        """Read tables as the engine sees them."""
        return await read_tables(self._connection, names)

    async def details(self, names: Sequence[TableName]) -> dict[TableName, Details]:
        """Read what the engine need not know of tables."""
        wanted = [n.schema for n in names], [n.table for n in names]
        rows = await self._connection.fetch(_DETAILS, *wanted, list(ROW_RIGHTS))
        return {TableName(row[0], row[1]): self._detail(row) for row in rows}

    async def definitions(self, names: Sequence[TableName]) -> dict[TableName, Definition]:
        """Read what tables have besides columns and keys."""
        return await read_definitions(AsyncServer(self._connection), names)

    def _detail(self, row: Any) -> Details:
        name = TableName(row[0], row[1])
        place, findings = qualified("postgres", name), list[Finding]()
        _, _, unlogged, hidden, rights, no_schema, always, checks, clauses, triggers, constraints, rules, rewrites = row
        if no_schema:
            findings.append(self._lacks("USAGE", f"SCHEMA {quote('postgres', name.schema)}"))
        if rights:
            findings.append(self._lacks(", ".join(rights), place))
        if unlogged:
            findings.append(
                error(
                    "target-unlogged",
                    f"{name} is UNLOGGED: a crash empties it and keeps the record of what was applied",
                    f"ALTER TABLE {place} SET LOGGED;",
                )
            )
        if hidden:
            findings.append(
                error(
                    "target-row-security",
                    f"row security hides rows of {name} from {self.account}",
                    f"ALTER ROLE {self.account} BYPASSRLS;",
                )
            )
        findings += [
            error(
                "target-rule",
                f"the rule {rule} of {name} has something else done in place of what is replicated",
                f"ALTER TABLE {place} DISABLE RULE {quote('postgres', rule)};",
            )
            for rule in rewrites
        ]
        findings += [
            error(
                "column-identity",
                f"{name}.{column} is GENERATED ALWAYS AS IDENTITY, so the source's values are refused",
                f"ALTER TABLE {place} ALTER COLUMN {quote('postgres', column)} SET GENERATED BY DEFAULT;",
            )
            for column in always
        ]
        return Details(
            checks=tuple(zip(checks, clauses, strict=True)),
            triggers=tuple(triggers),
            constraints=frozenset(constraints),
            rules={n: (RULES[update], RULES[delete]) for n, update, delete in rules},
            findings=tuple(findings),
        )

    async def making(self, names: Sequence[TableName]) -> list[Finding]:
        """Find the rights that lack for making and filling tables."""
        findings = []
        rows = await self._connection.fetch(_MAKING, list(dict.fromkeys(name.schema for name in names)))
        for schema, there, usage, create, database in rows:
            rights = [right for right, may in (("USAGE", usage), ("CREATE", create)) if not may]
            if there and rights:
                findings.append(self._lacks(", ".join(rights), f"SCHEMA {quote('postgres', schema)}"))
            elif not there and not database:
                findings.append(self._lacks("CREATE", f"DATABASE {quote('postgres', self._endpoint.database)}"))
        return list(dict.fromkeys(findings))

    def _lacks(self, rights: str, place: str) -> Finding:
        return lacking_rights(self.account, rights, place, self._endpoint)

    async def bookkeeping(self, schema: str, tables: tuple[str, ...]) -> list[Finding]:
        """Find what keeps the account from these of tidelock's own tables."""
        quoted = quote("postgres", schema)
        there = await self._connection.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = $1", schema)
        if not there:
            may = await self._connection.fetchval("SELECT has_database_privilege(current_database(), 'CREATE')")
            database = quote("postgres", self._endpoint.database)
            return [] if may else [self._lacks("CREATE", f"DATABASE {database}")]
        absent = (await self.lacking(schema, tables)).tables
        present = [table for table in tables if table not in absent]
        usage, create = await self._connection.fetchrow(
            "SELECT has_schema_privilege($1, 'USAGE'), has_schema_privilege($1, 'CREATE')", schema
        )
        findings = [] if usage else [self._lacks("USAGE", f"SCHEMA {quoted}")]
        if not create:
            wanting = self._lacks("CREATE", f"SCHEMA {quoted}")
            findings.append(wanting if absent else only_for_copies(wanting))
        places = [f"{quoted}.{table}" for table in present]
        missing = await self._connection.fetch(_MISSING_RIGHTS, list(ROW_RIGHTS), places if usage else [])
        return findings + [self._lacks(rights, place) for place, rights in missing]

    async def lacking(self, schema: str, tables: tuple[str, ...] = TABLES) -> Lacking:
        """Find what is missing of these of tidelock's own tables."""
        return lacking(await self._connection.fetch(columns_query("postgres", schema, tables)), tables)

    async def may_add(self, schema: str, lacking: Lacking) -> bool:
        """Tell whether the account may add the missing columns."""
        owned = (
            "SELECT coalesce(bool_and(pg_has_role(c.relowner, 'USAGE')), true) FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = ANY($2::text[])"
        )
        return bool(await self._connection.fetchval(owned, schema, list(lacking.columns)))

    async def durability(self) -> list[Finding]:
        """Find nothing: what a crash loses is noticed (`adapters.postgres.target.commit_audit`)."""
        return []

    async def schemas(self) -> set[str]:
        """Read the names of all schemas."""
        return {row[0] for row in await self._connection.fetch("SELECT nspname::text FROM pg_namespace")}

    async def types(self, names: Sequence[TableName]) -> set[TableName]:
        """Read which of these types exist."""
        rows = await self._connection.fetch(_TYPES, [n.schema for n in names], [n.table for n in names])
        return {TableName(*row) for row in rows}

    async def checkpoint(self, schema: str, feed: str) -> Position | None:
        """Read the least checkpoint of a feed."""
        place = f"{quote('postgres', schema)}.tidelock_checkpoint"
        readable = "SELECT to_regclass($1) IS NOT NULL AND has_table_privilege(to_regclass($1), 'SELECT')"
        try:
            if not await self._connection.fetchval(readable, place):
                return None
        except asyncpg.InsufficientPrivilegeError:
            return None
        stored = await self._connection.fetch(f"SELECT grp, position FROM {place} WHERE feed = $1", feed)
        return least_checkpoint(stored)

    async def execute(self, statement: str) -> None:
        """Run a statement."""
        await self._connection.execute(statement)

    async def close(self) -> None:
        """Close the connection."""
        self._connection.terminate()


def unusable(endpoint: Endpoint, problem: BaseException) -> Finding:
    """Say why a target cannot be used at all."""
    user, database = quote("postgres", endpoint.user), quote("postgres", endpoint.database)
    match problem:
        case asyncpg.InvalidAuthorizationSpecificationError():
            return error(
                "target-denied",
                f"{endpoint} refused us: {problem}",
                f"Correct user and password in the feed's `target`, or ALTER ROLE {user} LOGIN PASSWORD '…';",
            )
        case asyncpg.InvalidCatalogNameError():
            return error("target-database", f"{endpoint} has no such database", f"CREATE DATABASE {database};")
        case asyncpg.InsufficientPrivilegeError():
            return error(
                "target-denied", f"{endpoint} refused us: {problem}", f"GRANT CONNECT ON DATABASE {database} TO {user};"
            )
        case asyncpg.PostgresError():
            hint = "See the server's log"
            return error("target-unusable", f"{endpoint} answered: {problem} ({problem.sqlstate})", hint)
    reason = "no answer" if isinstance(problem, TimeoutError) else str(problem) or type(problem).__name__
    return error(
        "target-unreachable",
        f"{endpoint} cannot be reached: {reason}",
        "Check that the server runs, and host, port and TLS of the feed's `target`",
    )
