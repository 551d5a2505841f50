"""*spread*: the mix of inserts, updates and deletes over any number of equal tables, evenly or with a few hot ones.

A transaction works on one table, as most do, so that the log has events of the same shape however many tables there
are: what is measured is what tables cost, not what small events cost.  `Spread(2000, hot=20)` gives 80 % of the
transactions to the first twenty tables and the rest to the others; without `hot` all tables are alike.
`payload_bytes` is the length of each row's text: hexadecimal digits, which no server compresses well.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from bench.harness.session import literal
from bench.harness.workload.pool import Pool
from bench.harness.workload.tables import Table
from bench.harness.workload.workload import Change, Kind, Transaction, Workload

HOT_SHARE: Final = 0.8
INSERTS: Final = 0.6
UPDATES: Final = 0.3
FEWEST_ROWS: Final = 4
PAYLOADS: Final = 97
PAYLOAD_BYTES: Final = 80


class Spread(Workload):
    """The model is which ids live in each table; ids are never used twice."""

    name = "spread"

    def __init__(self, tables: int, hot: int = 0, payload_bytes: int = PAYLOAD_BYTES) -> None:
        self.specs = tuple(_table(f"item_{number}", payload_bytes) for number in range(1, tables + 1))
        self._hot = hot
        self._live = [Pool() for _ in self.specs]
        self._last_id = 0
        drawn = random.Random(0)
        self._payloads = [literal(drawn.randbytes(payload_bytes).hex()[:payload_bytes]) for _ in range(PAYLOADS)]
        super().__init__()

    def changes(self) -> Iterator[Change]:
        while True:
            (sql,), (kind,) = self._grouped(1)
            yield kind, sql

    def transaction(self, size: int) -> Transaction:
        """In one table: inserts in one statement, updates row by row, deletes in one statement."""
        return Transaction(*self._grouped(size))

    def _grouped(self, size: int) -> tuple[list[str], list[Kind]]:
        at = self._draw_table()
        table, live = self.specs[at].name, self._live[at]
        kinds = self._kinds(size, live)
        new, gone = kinds.count(Kind.INSERT), kinds.count(Kind.DELETE)
        statements = [self._insert(table, live, new)] if new else []
        statements += [self._update(table, live) for _ in range(size - new - gone)]
        if gone:
            statements.append(self._delete(table, live, gone))
        return statements, kinds

    def _draw_table(self) -> int:
        drawn, count = self._rng.random(), len(self.specs)
        if not self._hot:
            return int(drawn * count)
        if drawn < HOT_SHARE:
            return int(drawn / HOT_SHARE * self._hot)
        return self._hot + int((drawn - HOT_SHARE) / (1.0 - HOT_SHARE) * (count - self._hot))

    def _kinds(self, size: int, live: Pool) -> list[Kind]:
        """No more deletes than there are rows to spare; an empty table is filled first."""
        kinds = []
        spare = len(live) - FEWEST_ROWS
        for _ in range(size):
            drawn = self._rng.random()
            if drawn < INSERTS or spare < 0:
                kinds.append(Kind.INSERT)
                spare += 1
            elif drawn < INSERTS + UPDATES or spare == 0:
                kinds.append(Kind.UPDATE)
            else:
                kinds.append(Kind.DELETE)
                spare -= 1
        return kinds

    def _insert(self, table: str, live: Pool, count: int) -> str:
        rows = []
        for _ in range(count):
            self._last_id += 1
            live.add(self._last_id)
            rows.append(f"({self._last_id},'code {self._last_id}',{self._values()})")
        return f"INSERT INTO {table} VALUES {','.join(rows)}"

    def _update(self, table: str, live: Pool) -> str:
        id_, version = live.draw(self._rng), self.next_version()
        return (
            f"UPDATE {table} SET amount={self.amount()},changed_at={self.moment()},"
            f"payload={self._payloads[version % PAYLOADS]} WHERE id={id_}"
        )

    def _delete(self, table: str, live: Pool, count: int) -> str:
        ids = live.sample(self._rng, count)
        for id_ in ids:
            live.remove(id_)
        return f"DELETE FROM {table} WHERE id IN ({','.join(map(str, ids))})"

    def _values(self) -> str:
        version = self.next_version()
        return f"{self.amount()},{self.moment()},{self._payloads[version % PAYLOADS]}"


def _table(name: str, payload_bytes: int) -> Table:
    return Table(
        name,
        (
            ("id", "bigint", False),
            ("code", "varchar(64)", False),
            ("amount", "decimal(12,2)", False),
            ("changed_at", "datetime(6)", False),
            ("payload", f"varchar({payload_bytes})", False),
        ),
        uniques=(("code",),),
    )
