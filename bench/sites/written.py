"""Tables that applications write at the sites, and at each site a ledger of all that was committed there.

The ledger is in a schema that no feed takes.  Each row of it is committed with the change that it tells of, so it knows
what was committed however a connection ended.  A change of `account` carries a token, and tells which it has
overwritten: that is what the writer had seen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from bench.harness.network import Network, Node
from bench.harness.servers import Postgres
from bench.sites.topology import PROBE

TOTALS: Final = 40
"""Rows of `total`, which are never deleted."""
ACCOUNT: Final = "id int PRIMARY KEY, {email}, token varchar(40) NOT NULL, n int NOT NULL"


@dataclasses.dataclass(frozen=True)
class Written:
    """`token`: '' of a delete.  `before`: the token that it has overwritten; '' for none."""

    token: str
    before: str


def ledger_of(node: Node) -> str:
    return f"{node.schema}_ledger"


def make_tables(network: Network, *, unique: bool) -> None:
    """Makes the tables at each site, with the same totals.  `unique`: a second unique key takes part."""
    account = ACCOUNT.format(email="email varchar(40) UNIQUE" if unique else "email varchar(40)")
    totals = ", ".join(f"({key}, 0, 'none')" for key in range(TOTALS))
    for node in network.nodes.values():
        ledger = ledger_of(node)
        node.send(f"CREATE {'SCHEMA' if node.database else 'DATABASE'} {ledger}")
        node.send(
            f"CREATE TABLE account ({account})",
            "CREATE TABLE total (id int PRIMARY KEY, amount bigint NOT NULL, token varchar(40) NOT NULL)",
            f"INSERT INTO total VALUES {totals}",
            f"CREATE TABLE {PROBE} (id int PRIMARY KEY, n int NOT NULL)",
            f"CREATE TABLE {ledger}.written "
            "(token varchar(40) NOT NULL, before_it varchar(40) NOT NULL, amount int NOT NULL)",
            f"CREATE TABLE {ledger}.came_back (path varchar(1000))",
        )
        if isinstance(node.server, Postgres):
            node.send(*(f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in ("account", "total", PROBE)))


def watch_paths(network: Network) -> None:
    """Keeps each receipt that brings a site a change which has been there, in `came_back` of its ledger."""
    for node in network.nodes.values():
        receipts, kept = f"{network.books}.tidelock_progress", f"{ledger_of(node)}.came_back"
        been = f"concat(' ', NEW.path, ' ') LIKE '% {node.site} %'"
        if node.database:
            node.send(
                f"CREATE FUNCTION {ledger_of(node)}.look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                f"IF {been} THEN INSERT INTO {kept} VALUES (NEW.path); END IF; RETURN NULL; END $$",
                f"CREATE TRIGGER look AFTER INSERT ON {receipts} "
                f"FOR EACH ROW EXECUTE FUNCTION {ledger_of(node)}.look()",
            )
        else:
            node.send(
                f"CREATE TRIGGER {network.books}.look AFTER INSERT ON {receipts} FOR EACH ROW "
                f"INSERT INTO {kept} SELECT NEW.path FROM dual WHERE {been}"
            )


def came_back(network: Network) -> list[str]:
    """Paths by which changes came to where they had been."""
    told = (node.rows(f"SELECT path FROM {ledger_of(node)}.came_back") for node in network.nodes.values())
    return [str(path) for rows in told for (path,) in rows]


def accounts(node: Node) -> list[tuple[str, ...]]:
    told = "SELECT CONCAT(id, ''), email, token, CONCAT(n, '') FROM account ORDER BY id"
    return [tuple(map(str, row)) for row in node.rows(told)]


def totals(node: Node) -> list[tuple[str, ...]]:
    told = "SELECT CONCAT(id, ''), CONCAT(amount, ''), token FROM total ORDER BY id"
    return [tuple(map(str, row)) for row in node.rows(told)]


def all_written(network: Network) -> Iterator[Written]:
    """Changes of `account` that were committed at any site."""
    for node in network.nodes.values():
        told = f"SELECT token, before_it FROM {ledger_of(node)}.written WHERE amount = 0"
        yield from (Written(str(token), str(before)) for token, before in node.rows(told))


def added(network: Network) -> int:
    """All that was added to totals, at all sites."""
    total = "SELECT CONCAT(COALESCE(SUM(amount), 0), '') FROM"
    return sum(int(node.rows(f"{total} {ledger_of(node)}.written")[0][0]) for node in network.nodes.values())
