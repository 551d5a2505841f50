"""A MySQL or MariaDB target as `check` and `init` look at it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

import pymysql

from tidelock.adapters.bookkeeping.checkpoints import least_checkpoint
from tidelock.adapters.bookkeeping.tables import TABLES, Lacking, columns_query, lacking, quote
from tidelock.adapters.config.url import Dialect, Endpoint
from tidelock.adapters.mysql import catalogue
from tidelock.adapters.mysql.catalogue import BlockingServer
from tidelock.adapters.mysql.connection import connect, reader_endpoint
from tidelock.adapters.mysql.definitions import read_definitions
from tidelock.adapters.mysql.grants import Grants, read_grants
from tidelock.adapters.mysql.schema import tables_of
from tidelock.adapters.ports.definition import Definition
from tidelock.adapters.ports.finding import Finding, error, warning
from tidelock.adapters.ports.source_errors import AccessDenied, SourceError, Unreachable
from tidelock.adapters.ports.target_inspection import ROW_RIGHTS, Details, lacking_rights, only_for_copies
from tidelock.adapters.schema.create_table import qualified
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import TargetTable

UNKNOWN_DATABASE = 1049
_MAKING = (*ROW_RIGHTS, "CREATE", "ALTER", "REFERENCES")
"""On the whole schema, for tables that are not there yet: made, filled, given foreign keys and further columns."""
_COPYING = ("SELECT", "INSERT", "DELETE", "CREATE", "DROP")
"""On the whole schema, as each chunk that is copied is a table there."""


class MySqlTarget:
    """One open connection that looks at the target."""

    dialect: Dialect = "mysql"

    def __init__(self, server: BlockingServer, grants: Grants, endpoint: Endpoint) -> None:
        self._server = server
        self.mariadb = server.is_mariadb
        self._grants = grants
        self._endpoint = endpoint
        self.account = grants.account

    @classmethod
    async def open(cls, endpoint: Endpoint) -> MySqlTarget:
        """Connect.  Raises SourceError, as everything here does."""
        place = reader_endpoint(endpoint)
        server = BlockingServer(await asyncio.to_thread(connect, place), place)
        return cls(server, await read_grants(server), endpoint)

    async def tables(self, names: Sequence[TableName]) -> dict[TableName, TargetTable]:
        """Read tables as the engine sees them."""
        return await tables_of(self._server, names)

    async def details(self, names: Sequence[TableName]) -> dict[TableName, Details]:
        """Read what the engine need not know of tables."""
        collations: dict[TableName, dict[str, str]] = defaultdict(dict)
        for column in await catalogue.columns(self._server, names):
            collations[column.table_name][column.name] = column.collation
        there = list(collations)
        if not there:
            return {}
        checks = await catalogue.checks(self._server, there)
        triggers = await catalogue.triggers(self._server, there)
        rules = await catalogue.rules(self._server, {n.schema for n in there})
        engines = await catalogue.engines(self._server, there)
        return {
            name: Details(
                checks=tuple(checks[name]),
                triggers=tuple(triggers[name]),
                rules={key: rule for (table, key), rule in rules.items() if table == name},
                collations={column: collation for column, collation in collations[name].items() if collation},
                findings=tuple(self._findings(name, engines.get(name, ""))),
            )
            for name in there
        }

    def _findings(self, name: TableName, engine: str) -> list[Finding]:
        findings = []
        rights = [r for r in ROW_RIGHTS if not self._grants.on_table(r, name)]
        if rights:
            findings.append(self._lacks(", ".join(rights), qualified("mysql", name)))
        if engine.lower() != "innodb":
            findings.append(
                error(
                    "target-engine",
                    f"{name} is a {engine} table, whose changes cannot be rolled back",
                    f"ALTER TABLE {qualified('mysql', name)} ENGINE=InnoDB;",
                )
            )
        return findings

    async def definitions(self, names: Sequence[TableName]) -> dict[TableName, Definition]:
        """Read what tables have besides columns and keys."""
        return await read_definitions(self._server, names)

    async def making(self, names: Sequence[TableName]) -> list[Finding]:
        """Find the rights that lack for making and filling tables, and names that the server would make others of."""
        schemas = dict.fromkeys(name.schema for name in names)
        rights = {s: [r for r in _MAKING if not self._grants.on_schema(r, s)] for s in schemas}
        lacking = [self._lacks(", ".join(of), f"{quote('mysql', s)}.*") for s, of in rights.items() if of]
        return [*lacking, *await self._folded(names)]

    async def _folded(self, names: Sequence[TableName]) -> list[Finding]:
        spelled = [name for name in names if str(name) != str(name).lower()]
        if not spelled or str((await self._server.ask("SELECT @@lower_case_table_names"))[0][0]) != "1":
            return []
        return [
            error(
                "target-folds",
                f"{self._endpoint} keeps names in lower case (lower_case_table_names=1), so no {name} is ever there",
                f"Give the table a rule of its own with `target: {str(name).lower()}`, before the rule with a pattern",
            )
            for name in spelled
        ]

    def _lacks(self, rights: str, place: str) -> Finding:
        return lacking_rights(self.account, rights, place, self._endpoint)

    async def bookkeeping(self, schema: str, tables: tuple[str, ...]) -> list[Finding]:
        """Find what keeps the account from these of tidelock's own tables."""
        absent = await self.lacking(schema, tables)
        needed = [*ROW_RIGHTS, *(["CREATE"] if absent.tables else []), *(["ALTER"] if absent.columns else [])]
        rights = [r for r in needed if not all(self._grants.on_table(r, TableName(schema, t)) for t in tables)]
        place = f"{quote('mysql', schema)}.*"
        findings = [self._lacks(", ".join(rights), place)] if rights else []
        copying = [r for r in _COPYING if r not in rights and not self._grants.on_schema(r, schema)]
        return [*findings, only_for_copies(self._lacks(", ".join(copying), place))] if copying else findings

    async def lacking(self, schema: str, tables: tuple[str, ...] = TABLES) -> Lacking:
        """Find what is missing of these of tidelock's own tables."""
        return lacking(await self._server.ask(columns_query("mysql", schema, tables)), tables)

    async def may_add(self, schema: str, lacking: Lacking) -> bool:
        """The server asks for all three."""
        rights = ("ALTER", "CREATE", "INSERT")
        return all(self._grants.on_table(r, TableName(schema, t)) for t in lacking.columns for r in rights)

    async def durability(self) -> list[Finding]:
        """Find settings with which a commit that was reported can be lost, or nothing can be written at all."""
        return [*await self._log_format(), *await self._flushing()]

    async def _log_format(self) -> list[Finding]:
        ((log, format_),) = await self._server.ask("SELECT @@GLOBAL.log_bin, @@GLOBAL.binlog_format")
        if not int(log) or str(format_).upper() != "STATEMENT":
            return []
        return [
            error(
                "target-binlog-format",
                f"{self._endpoint} has binlog_format=STATEMENT, under which it refuses what runs READ COMMITTED, as a "
                "feed does",
                "SET GLOBAL binlog_format = ROW;",
            )
        ]

    async def _flushing(self) -> list[Finding]:
        rows = await self._server.ask("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit")
        if int(rows[0][0]) == 1:
            return []
        return [
            warning(
                "target-durability",
                f"{self._endpoint} reports commits that are not on disk (innodb_flush_log_at_trx_commit={rows[0][0]}), "
                "and may lose some in a crash; the feed notices and applies them again",
                "SET GLOBAL innodb_flush_log_at_trx_commit = 1, if others read there what must not go away again",
            )
        ]

    async def schemas(self) -> set[str]:
        """Read the names of all schemas."""
        return {str(row[0]) for row in await self._server.ask("SHOW DATABASES")}

    async def types(self, names: Sequence[TableName]) -> set[TableName]:
        """Find none: users make no types here."""
        return set()

    async def checkpoint(self, schema: str, feed: str) -> Position | None:
        """Read the least checkpoint of a feed."""
        table = TableName(schema, "tidelock_checkpoint")
        if table.table in (await self.lacking(schema)).tables or not self._grants.on_table("SELECT", table):
            return None
        return least_checkpoint(
            await self._server.ask(f"SELECT grp, position FROM {qualified('mysql', table)} WHERE feed = %s", feed)
        )

    async def execute(self, statement: str) -> None:
        """Run a statement."""
        await self._server.ask(statement)

    async def close(self) -> None:
        """Close the connection."""
        self._server.close()


def unusable(endpoint: Endpoint, problem: SourceError) -> Finding:
    """Say why a target cannot be used at all."""
    cause = problem.__cause__
    if isinstance(cause, pymysql.MySQLError) and cause.args[0] == UNKNOWN_DATABASE:
        database = quote("mysql", endpoint.database)
        return error("target-database", f"{endpoint} has no such database", f"CREATE DATABASE {database};")
    if isinstance(problem, AccessDenied):
        return error(
            "target-denied",
            problem.message,
            f"Correct user and password in the feed's `target`, or ALTER USER '{endpoint.user}'@'%' IDENTIFIED BY '…';",
        )
    kind = "target-unreachable" if isinstance(problem, Unreachable) else "target-unusable"
    return error(kind, problem.message, problem.hint)
