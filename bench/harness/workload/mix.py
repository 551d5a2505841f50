"""*mix*: 60 % inserts, 30 % updates, 10 % deletes of one account table, no unique value ever moves.

The plain case that every replication tool is measured with.  `Mix(peers=True)` leaves the
version column out: that is the table of the recorded peer figures.  `Mix(table="…")` names
the table, so that several may work side by side.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from bench.harness.session import literal
from bench.harness.workload.pool import Pool
from bench.harness.workload.tables import Table
from bench.harness.workload.workload import Change, Kind, Transaction, Workload

ACCOUNT = Table(
    "account",
    (
        ("id", "bigint", False),
        ("email", "varchar(64)", False),
        ("balance", "decimal(12,2)", False),
        ("updated_at", "datetime(6)", False),
        ("payload", "varchar(200)", True),
        ("version", "bigint", False),
    ),
    uniques=(("email",),),
)
PAYLOADS = 997
INSERTS, UPDATES = 0.6, 0.3


def without_version(table: Table) -> Table:
    return dataclasses.replace(table, columns=tuple(column for column in table.columns if column[0] != "version"))


class Mix(Workload):
    """The model is only which ids live and which version each has."""

    name = "mix"

    def __init__(self, *, peers: bool = False, table: str = ACCOUNT.name) -> None:
        account = dataclasses.replace(ACCOUNT, name=table)
        self.specs = (without_version(account) if peers else account,)
        self._table = table
        self._versioned = not peers
        self._live = Pool()
        self._versions: dict[int, int] = {}
        self._ids = itertools.count(1)
        self._payloads = [literal(f"payload {number:04} " + "x" * (number % 150)) for number in range(PAYLOADS)]
        super().__init__()

    def changes(self) -> Iterator[Change]:
        while True:
            match self._kind():
                case Kind.INSERT:
                    yield Kind.INSERT, self._insert([self._new_row()])
                case Kind.UPDATE:
                    yield Kind.UPDATE, self._update()
                case Kind.DELETE:
                    yield Kind.DELETE, self._delete([self._drop_row()])

    def transaction(self, size: int) -> Transaction:
        """A larger transaction inserts in one statement, updates row by row, and deletes in one statement."""
        if size == 1:
            return super().transaction(1)
        kinds = [self._kind() for _ in range(size)]
        inserts, deletes = kinds.count(Kind.INSERT), kinds.count(Kind.DELETE)
        statements = [self._insert([self._new_row() for _ in range(inserts)])] if inserts else []
        statements += [self._update() for _ in range(size - inserts - deletes)]
        if deletes:
            statements.append(self._delete([self._drop_row() for _ in range(deletes)]))
        return Transaction(statements, kinds)

    def _kind(self) -> Kind:
        drawn = self._rng.random()
        if drawn < INSERTS or len(self._live) < 100:
            return Kind.INSERT
        return Kind.UPDATE if drawn < INSERTS + UPDATES else Kind.DELETE

    def _new_row(self) -> str:
        id_, version = next(self._ids), self.next_version()
        self._live.add(id_)
        self._versions[id_] = version
        payload = self._payloads[version % PAYLOADS]
        tail = f",{version}" if self._versioned else ""
        return f"({id_},'user{id_}@example.com',{self.amount()},{self.moment()},{payload}{tail})"

    def _drop_row(self) -> int:
        id_ = self._live.draw(self._rng)
        self._live.remove(id_)
        self.deleted.append((self._table, id_, self._versions.pop(id_)))
        return id_

    def _insert(self, rows: list[str]) -> str:
        return f"INSERT INTO {self._table} VALUES {','.join(rows)}"

    def _update(self) -> str:
        id_, version = self._live.draw(self._rng), self.next_version()
        self._versions[id_] = version
        payload = self._payloads[version % PAYLOADS]
        tail = f",version={version}" if self._versioned else ""
        return (
            f"UPDATE {self._table} SET balance={self.amount()},updated_at={self.moment()},payload={payload}{tail}"
            f" WHERE id={id_}"
        )

    def _delete(self, ids: list[int]) -> str:
        return f"DELETE FROM {self._table} WHERE id IN ({','.join(map(str, ids))})"
