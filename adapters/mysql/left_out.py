"""Finds what a server leaves out of its log without a word, or has there beside the rows of a table.

- `binlog_do_db` and `binlog_ignore_db` leave out whole databases.
- A replica without `log_replica_updates` (MariaDB: `log_slave_updates`, off by default) leaves out all that it applies
  for its own source: its log has what is written at itself alone.
- Of a system-versioned table of MariaDB former versions of rows are in the log as rows of the same key, and a row that
  is deleted is one that is updated.

It is asked before a feed begins, by `check`, and by each reader of the log before it reads: a server may have been
restarted with other settings.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import pymysql
from pymysql.constants import ER

from tidelock.adapters.mysql.connection import Address, rows
from tidelock.adapters.mysql.schema import VERSIONED, versioned
from tidelock.adapters.ports.source_errors import AccessDenied, UnsuitableLog
from tidelock.engine.model.errors import RESYNC, UNLOGGED
from tidelock.engine.model.records import TableName

Ask: TypeAlias = Callable[..., Sequence[Sequence[Any]]]
"""Asks with SQL and its arguments."""
_MISSED: Final = f"{UNLOGGED}: {RESYNC}"
_NO_REPLICA: Final = {
    True: "STOP ALL SLAVES; RESET SLAVE ALL; and GRANT SLAVE MONITOR ON *.* to the feed's user, who may not ask else",
    False: "STOP REPLICA; RESET REPLICA ALL",
}


def left_out(
    ask: Ask, place: object, databases: Iterable[str], wanted: Callable[[TableName], bool], *, mariadb: bool
) -> Iterator[tuple[str, UnsuitableLog]]:
    """Yields what keeps the log at `place` from being that of the tables that are `wanted`, in these databases, with
    the kind that `check` calls it by.  Raises what `ask` raises."""
    databases = sorted(set(databases))
    if mariadb:
        yield from _versioned(ask, databases, wanted)
    for status in ask("SHOW MASTER STATUS" if mariadb else "SHOW BINARY LOG STATUS"):
        yield from _databases(status, place, databases)
    setting = "log_slave_updates" if mariadb else "log_replica_updates"
    found = ask(f"SHOW GLOBAL VARIABLES LIKE '{setting}'")
    if found and str(found[0][1]).upper() == "OFF" and (received := _receives(ask, mariadb=mariadb)):
        yield (
            "source-replica-log",
            UnsuitableLog(
                f"{place} {received} with {setting}=OFF: what it gets from its own source is not in its log",
                f"Set {setting}=ON in its configuration and restart it, or name its source in `source`; if it is no "
                f"replica any more: {_NO_REPLICA[mariadb]}. {_MISSED}",
            ),
        )


def require_logged(
    connection: pymysql.Connection[Any],
    place: Address,
    databases: Iterable[str],
    wanted: Callable[[TableName], bool],
    *,
    mariadb: bool,
) -> None:
    """Passes where the log is that of the tables that are `wanted`.  Raises UnsuitableLog, and what PyMySQL raises."""
    for _, problem in left_out(functools.partial(rows, connection), place, databases, wanted, mariadb=mariadb):
        raise problem


def _versioned(
    ask: Ask, databases: Sequence[str], wanted: Callable[[TableName], bool]
) -> Iterator[tuple[str, UnsuitableLog]]:
    if not databases:
        return
    found = ask(
        f"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = '{VERSIONED}' "
        f"AND TABLE_SCHEMA IN ({', '.join(['%s'] * len(databases))}) ORDER BY 1, 2",  # others' tables stay unopened
        *databases,
    )
    for name in (TableName(str(schema), str(table)) for schema, table in found):
        if wanted(name):
            yield "table-versioned", versioned(name)


def _databases(
    status: Sequence[Any], place: object, databases: Sequence[str]
) -> Iterator[tuple[str, UnsuitableLog]]:
    logged, ignored = ({name for name in str(words or "").split(",") if name} for words in status[2:4])
    for setting, lacking in (
        ("binlog_do_db", [name for name in databases if logged and name not in logged]),
        ("binlog_ignore_db", [name for name in databases if not logged and name in ignored]),
    ):
        if lacking:
            yield (
                "source-log-databases",
                UnsuitableLog(
                    f"{place} does not log the database {lacking[0]}, as its {setting} says",
                    f"Take {setting} out of its configuration and restart it. {_MISSED}",
                ),
            )


def _receives(ask: Ask, *, mariadb: bool) -> str:
    """Tells how a server has a source of its own; '' where it has none.  MariaDB may keep that from us, but not what it
    has applied."""
    if not mariadb:
        return "is a replica" if ask("SHOW REPLICA STATUS") else ""
    try:
        return "is a replica" if ask("SHOW ALL SLAVES STATUS") else ""
    except (pymysql.MySQLError, AccessDenied) as error:
        if isinstance(error, pymysql.MySQLError) and error.args[0] != ER.SPECIFIC_ACCESS_DENIED_ERROR:
            raise
    return "is or was a replica" if ask("SELECT @@GLOBAL.gtid_slave_pos")[0][0] else ""
