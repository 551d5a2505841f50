"""*toast*: rows with many long values, under updates that leave these alone.

A row has twelve short columns and twelve texts of 3,000 characters that do not compress, which PostgreSQL keeps out of
line.  It logs such a value of an update only where the update wrote it, or where the table logs whole rows (`REPLICA
IDENTITY FULL`); MySQL and MariaDB log all of them, before and after.  The rows are inserted first, in 50-row
transactions; all other changes are updates of short columns.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from bench.harness.session import literal
from bench.harness.workload.tables import Table
from bench.harness.workload.workload import LARGE_TRANSACTION_ROWS, Change, Kind, Transaction, Workload

ROWS: Final = 200
NUMBERS, AMOUNTS, LONG_TEXTS = 6, 3, 12
LONG_CHARACTERS: Final = 3_000
SAMPLES: Final = 37

DOCUMENT = Table(
    "document",
    (
        ("id", "bigint", False),
        *((f"number_{n}", "int", False) for n in range(NUMBERS)),
        *((f"amount_{n}", "decimal(12,2)", False) for n in range(AMOUNTS)),
        ("changed_at", "datetime(6)", False),
        *((f"long_{n}", "longtext", True) for n in range(LONG_TEXTS)),
        ("version", "bigint", False),
    ),
)


class Toast(Workload):
    """There is no model: the rows are inserted first and live for ever."""

    name = "toast"
    specs = (DOCUMENT,)
    filling = ROWS

    def __init__(self) -> None:
        drawn = random.Random(0)
        self._texts = [literal(drawn.randbytes(LONG_CHARACTERS // 2).hex()) for _ in range(SAMPLES)]
        self._inserted = 0
        super().__init__()

    def transactions(self, changes: int, seed: int) -> Iterator[Transaction]:
        """First the rows that are lacking, then as every workload."""
        lacking = min(changes, ROWS - self._inserted)
        for first in range(0, lacking, LARGE_TRANSACTION_ROWS):
            yield self.transaction(min(LARGE_TRANSACTION_ROWS, lacking - first))
        yield from super().transactions(changes - lacking, seed)

    def changes(self) -> Iterator[Change]:
        for id_ in range(1, ROWS + 1):
            self._inserted = id_
            yield Kind.INSERT, self._insert(id_)
        while True:
            yield Kind.UPDATE, self._update(1 + int(self._rng.random() * ROWS))

    def _insert(self, id_: int) -> str:
        values = [
            str(id_),
            *(str(id_ * 10 + n) for n in range(NUMBERS)),
            *(self.amount() for _ in range(AMOUNTS)),
            self.moment(),
            *("NULL" if n == id_ % 25 else self._texts[(id_ + n) % SAMPLES] for n in range(LONG_TEXTS)),
            str(self.next_version()),
        ]
        return f"INSERT INTO document VALUES ({','.join(values)})"

    def _update(self, id_: int) -> str:
        version = self.next_version()
        values = f"number_3={version},amount_1={self.amount()},changed_at={self.moment()},version={version}"
        return f"UPDATE document SET {values} WHERE id={id_}"
