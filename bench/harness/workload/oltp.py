"""*oltp*: what the sysbench tool's write-only test does to its four tables.

A row has an indexed number, 120 characters and 60 more.  A transaction changes one table each time: an update of the
indexed column, an update of another one, and a row that is deleted and inserted again under its key, four changes in
all.  The rows that this needs are inserted first, in 50-row transactions.
(The shape of the load is sysbench's `oltp_write_only`, by A. Kopytov; no line of it is here.)
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.harness.session import literal
from bench.harness.workload.tables import Table
from bench.harness.workload.workload import LARGE_TRANSACTION_ROWS, Change, Kind, Transaction, Workload

TABLES = 4
ROWS = 500
TRANSACTION_CHANGES = 4


class Oltp(Workload):
    """The model is the version of each row; no row stays away."""

    name = "oltp"
    specs = tuple(
        Table(
            f"sbtest{number}",
            (("id", "int", False), ("k", "int", False), ("c", "char(120)", False), ("pad", "char(60)", False),
             ("version", "bigint", False)),
            indexes=(("k",),),
        )
        for number in range(1, TABLES + 1)
    )  # fmt: skip

    def __init__(self) -> None:
        self._versions: dict[tuple[str, int], int] = {}
        super().__init__()

    def transactions(self, changes: int, seed: int) -> Iterator[Transaction]:
        self.seed(seed)
        while changes > 0:
            filling = TABLES * ROWS - len(self._versions)
            size = min(changes, min(filling, LARGE_TRANSACTION_ROWS) or TRANSACTION_CHANGES)
            yield self.transaction(size)
            changes -= size

    def changes(self) -> Iterator[Change]:
        for id_ in range(1, ROWS + 1):
            for table in self.tables:
                yield self._insert(table, id_)
        while True:
            table = self.tables[int(self._rng.random() * TABLES)]
            yield self._update(table, f"k={self._number()}")
            yield self._update(table, f"c={self._digits(11)}")
            id_ = self._row()
            self.next_version()
            self.deleted.append((table, id_, self._versions[table, id_]))
            yield Kind.DELETE, f"DELETE FROM {table} WHERE id={id_}"
            yield self._insert(table, id_)

    def _row(self) -> int:
        return 1 + int(self._rng.random() * ROWS)

    def _number(self) -> int:
        return int(self._rng.random() * 1_000_000)

    def _digits(self, groups: int) -> str:
        """Groups of digits as sysbench writes them."""
        return literal("-".join(f"{int(self._rng.random() * 10**10):010}" for _ in range(groups)))

    def _insert(self, table: str, id_: int) -> Change:
        version = self._versions[table, id_] = self.next_version()
        values = f"{id_},{self._number()},{self._digits(11)},{self._digits(5)},{version}"
        return Kind.INSERT, f"INSERT INTO {table} VALUES ({values})"

    def _update(self, table: str, assignment: str) -> Change:
        id_ = self._row()
        version = self._versions[table, id_] = self.next_version()
        return Kind.UPDATE, f"UPDATE {table} SET {assignment},version={version} WHERE id={id_}"
