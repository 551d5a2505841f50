"""An application at one site: transactions of a few rows of keys that all sites write to, at a steady rate."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from typing import Final

import asyncpg
import pymysql

from bench.harness.network import Node
from bench.harness.session import Session
from bench.sites.written import TOTALS, ledger_of

MOST_ROWS: Final = 8
HOT: Final = 10
"""Keys that one in HOT_SHARE changes is of."""
HOT_SHARE: Final = 50
AWAY_SECONDS: Final = 0.2
EMAILS: Final = 10
"""Unique values, for each key; the fewer, the more sites want one."""
REFUSED: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a session that lost its server in the middle of an answer
    pymysql.MySQLError,
    OSError,
    TimeoutError,
)


class Writer(threading.Thread):
    """`rate`: row changes a second.  `keys`: how many keys there are.  `sums`: totals are added to as well.

    `changes`: rows of transactions whose COMMIT was answered.  `refused`: transactions that the server refused: a
    unique value of another row, a deadlock, its end.  `failure`: what ended it, but for `stop`.
    """

    def __init__(self, node: Node, rate: float, seed: int, keys: int, *, sums: bool) -> None:
        super().__init__(name=f"writer at {node.site}", daemon=True)
        self.changes = 0
        self.refused = 0
        self.failure = ""
        self._node, self._rate, self._keys, self._sums = node, rate, keys, sums
        self._rng = random.Random(f"{seed} {node.site}")
        self._ended = threading.Event()
        self._session: Session | None = None
        self._made = 0

    def stop(self) -> None:
        self._ended.set()
        self.join()
        if self._session is not None:
            self._leave()

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self.failure = f"{self.name} ended: {error!r}"
            raise

    def _work(self) -> None:
        begun, owed = time.monotonic(), 0.0
        while not self._ended.is_set():
            rows = self._rng.randint(1, MOST_ROWS)
            try:
                self._write(rows)
                self.changes += rows
            except REFUSED:
                self.refused += 1
                self._recover()
            owed += rows / self._rate
            early = begun + owed - time.monotonic()
            if early > 0:
                self._ended.wait(early)
            else:  # what was missed while the server was away is not made up for
                begun -= early

    def _write(self, rows: int) -> None:
        if self._session is None:
            self._session = self._node.connect()
        session, keys = self._session, sorted({self._key() for _ in range(rows)})
        session.send("BEGIN")
        listed = ", ".join(map(str, keys))
        locked = f"SELECT CONCAT(id, ''), token FROM account WHERE id IN ({listed}) ORDER BY id FOR UPDATE"
        found = {int(key): str(token) for key, token in session.rows(locked)}
        statements = [statement for key in keys for statement in self._change(key, found.get(key, ""))]
        if self._sums and self._rng.random() < 0.2:
            statements += self._addition()
        session.send("; ".join([*statements, "COMMIT"]))

    def _key(self) -> int:
        return self._rng.randrange(HOT) if self._rng.randrange(HOT_SHARE) == 0 else self._rng.randrange(self._keys)

    def _change(self, key: int, before: str) -> list[str]:
        """Returns a change of the row, and its entry in the ledger.  `before`: the token that the row has."""
        self._made += 1
        token, rng = f"{self._node.site}-{self._made}", self._rng
        email = f"m{rng.randrange(EMAILS * self._keys)}"
        if not before:
            change = f"INSERT INTO account (id, email, token, n) VALUES ({key}, '{email}', '{token}', {self._made})"
        elif rng.random() < 0.1:
            change, token = f"DELETE FROM account WHERE id = {key}", ""
        else:
            moved = f", email = '{email}'" if rng.random() < 0.2 else ""
            change = f"UPDATE account SET token = '{token}', n = {self._made}{moved} WHERE id = {key}"
        return [change, f"INSERT INTO {ledger_of(self._node)}.written VALUES ('{token}', '{before}', 0)"]

    def _addition(self) -> list[str]:
        key, amount = self._rng.randrange(TOTALS), self._rng.randint(1, 9)
        token = f"{self._node.site}-{self._made}"
        return [
            f"UPDATE total SET amount = amount + {amount}, token = '{token}' WHERE id = {key}",
            f"INSERT INTO {ledger_of(self._node)}.written VALUES ('{token}', '', {amount})",
        ]

    def _recover(self) -> None:
        try:
            if self._session is not None:
                self._session.send("ROLLBACK")
        except REFUSED:
            self._leave()
            self._ended.wait(AWAY_SECONDS)

    def _leave(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(Exception):
                session.close()
