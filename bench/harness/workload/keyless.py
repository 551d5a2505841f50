"""*keyless*: a table without any key, in which most rows have equal twins.

A replicator can only count such rows: an update or delete of one must change exactly one
of its twins.  The source must be MariaDB or MySQL (`LIMIT 1` picks one twin; which one
does not matter, they are equal).
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.harness.session import literal
from bench.harness.workload.tables import Table
from bench.harness.workload.workload import Change, Kind, Workload

READING = Table(
    "reading",
    (("sensor", "int", False), ("value", "decimal(8,2)", False), ("at", "datetime(6)", True),
     ("note", "varchar(40)", True)),
    primary_key=(),
)  # fmt: skip
SENSORS = 5
MOST_ROWS = 200  # each update and delete reads the table through: there is no index


class Keyless(Workload):
    """The model is the list of rows, twins included, as tuples of SQL literals."""

    name = "keyless"
    specs = (READING,)

    def __init__(self) -> None:
        self._rows: list[tuple[str, ...]] = []
        super().__init__()

    def changes(self) -> Iterator[Change]:
        while True:
            self.next_version()
            drawn = self._rng.random()
            if len(self._rows) < 10 or (drawn < 0.5 and len(self._rows) < MOST_ROWS):
                row = self._rng.choice(self._rows) if self._rows and drawn < 0.3 else self._new_row()
                self._rows.append(row)
                yield Kind.INSERT, f"INSERT INTO reading VALUES ({','.join(row)})"
            elif drawn < 0.75:
                index, new = int(self._rng.random() * len(self._rows)), self._new_row()
                old, self._rows[index] = self._rows[index], new
                assignments = ",".join(map("{}={}".format, READING.column_names, new))
                yield Kind.UPDATE, f"UPDATE reading SET {assignments} WHERE {_match(old)} LIMIT 1"
            else:
                old = self._rows.pop(int(self._rng.random() * len(self._rows)))
                yield Kind.DELETE, f"DELETE FROM reading WHERE {_match(old)} LIMIT 1"

    def _new_row(self) -> tuple[str, ...]:
        sensor, value = int(self._rng.random() * SENSORS), int(self._rng.random() * 4)
        note = literal(self._rng.choice((None, "", "cold", "warm")))
        return str(sensor), f"{value}.50", "NULL" if value == 3 else "'2024-03-01 10:00:00.25'", note


def _match(row: tuple[str, ...]) -> str:
    return " AND ".join(map("{} <=> {}".format, READING.column_names, row))
