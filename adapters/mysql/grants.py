"""The rights of an account, read from its own SHOW GRANTS, active roles included."""

from __future__ import annotations

import re

from tidelock.adapters.mysql.catalogue import Server
from tidelock.engine.model.records import TableName

_GRANT = re.compile(r"GRANT (?P<rights>.+) ON (?:TABLE )?(?P<place>\S.*) TO ", re.DOTALL)
_PLACE = re.compile(r"(?P<schema>\*|`(?:[^`]|``)+`)\.(?P<table>\*|`(?:[^`]|``)+`)")
# MariaDB's word, and MySQL's.
_ALIASES = {"REPLICATION CLIENT": "BINLOG MONITOR", "REPLICATION REPLICA": "REPLICATION SLAVE"}


class Grants:
    """`account`: as GRANT statements name it, `'repl'@'%'`."""

    def __init__(self, account: str, lines: list[str]) -> None:
        self.account = account
        self._grants: list[tuple[frozenset[str], str, str]] = []
        for line in lines:
            found = _GRANT.match(line)
            place = _PLACE.fullmatch(found["place"]) if found else None
            if found and place:
                # A right on some columns only, `SELECT (a)`, is none on the table.
                rights = {r.strip().upper() for r in re.split(r",(?![^(]*\))", found["rights"])}
                known = frozenset(_ALIASES.get(r, r) for r in rights)
                self._grants.append((known, _bare(place["schema"]), _bare(place["table"])))

    def everywhere(self, right: str) -> bool:
        """Tell whether the account has a right on all there is."""
        return any(s == t == "*" and _holds(rights, right) for rights, s, t in self._grants)

    def on_schema(self, right: str, schema: str) -> bool:
        """Tell whether the account has a right on a whole schema."""
        return any(t == "*" and _matches(s, schema) and _holds(rights, right) for rights, s, t in self._grants)

    def on_table(self, right: str, table: TableName) -> bool:
        """Tell whether the account has a right on a table."""
        exact = any(s == table.schema and t == table.table and _holds(rights, right) for rights, s, t in self._grants)
        return exact or self.on_schema(right, table.schema)


def _bare(name: str) -> str:
    return name if name == "*" else name[1:-1].replace("``", "`")


def _holds(rights: frozenset[str], right: str) -> bool:
    wanted = _ALIASES.get(right, right)
    return wanted in rights or "ALL PRIVILEGES" in rights or (wanted == "BINLOG MONITOR" and "SUPER" in rights)


def _matches(pattern: str, schema: str) -> bool:
    """A database in a grant is a LIKE pattern."""
    if pattern == "*":
        return True
    parts = re.findall(r"\\.|%|_|[^\\%_]+", pattern)
    expression = "".join(".*" if p == "%" else "." if p == "_" else re.escape(p.removeprefix("\\")) for p in parts)
    return re.fullmatch(expression, schema, re.DOTALL) is not None


async def read_grants(server: Server) -> Grants:
    """Read the account's grants.  Raises SourceError."""
    ((account,),) = await server.ask("SELECT CURRENT_USER()")
    user, _, host = str(account).rpartition("@")
    lines = [str(line) for (line,) in await server.ask("SHOW GRANTS")]
    return Grants(f"'{user}'@'{host}'", lines)
