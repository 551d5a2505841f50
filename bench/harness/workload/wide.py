"""*wide*: a table of 100 columns with about 4 kB in each row, as reports and legacy systems have.

60 % inserts, 30 % updates of three columns, 10 % deletes.  The log holds the whole row before and after an update, so
that bytes, not rows, are what a replicator works on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from bench.harness.session import literal
from bench.harness.workload.pool import Pool
from bench.harness.workload.tables import Table
from bench.harness.workload.workload import Change, Kind, Workload

NUMBERS, AMOUNTS, MOMENTS, TEXTS = 20, 10, 8, 60
TEXT_BYTES = 60
SAMPLES = 97
FEWEST_ROWS = 20

REPORT = Table(
    "report",
    (
        ("id", "bigint", False),
        *((f"number_{n}", "int", True) for n in range(NUMBERS)),
        *((f"amount_{n}", "decimal(12,2)", True) for n in range(AMOUNTS)),
        *((f"moment_{n}", "datetime(6)", True) for n in range(MOMENTS)),
        *((f"text_{n}", "varchar(100)", True) for n in range(TEXTS)),
        ("version", "bigint", False),
    ),
)


class Wide(Workload):
    """The model is which rows live, and the version of each."""

    name = "wide"
    specs = (REPORT,)

    def __init__(self) -> None:
        self._live = Pool()
        self._versions: dict[int, int] = {}
        self._ids = itertools.count(1)
        self._bodies = [_body(sample) for sample in range(SAMPLES)]
        super().__init__()

    def changes(self) -> Iterator[Change]:
        while True:
            drawn = self._rng.random()
            if drawn < 0.6 or len(self._live) < FEWEST_ROWS:
                yield self._insert()
            elif drawn < 0.9:
                yield self._update()
            else:
                yield self._delete()

    def _insert(self) -> Change:
        id_, version = next(self._ids), self.next_version()
        self._live.add(id_)
        self._versions[id_] = version
        return Kind.INSERT, f"INSERT INTO report VALUES ({id_},{self._bodies[version % SAMPLES]},{version})"

    def _update(self) -> Change:
        id_, version = self._live.draw(self._rng), self.next_version()
        self._versions[id_] = version
        values = f"number_3={version},amount_4={self.amount()},moment_5={self.moment()},version={version}"
        return Kind.UPDATE, f"UPDATE report SET {values} WHERE id={id_}"

    def _delete(self) -> Change:
        self.next_version()
        id_ = self._live.draw(self._rng)
        self._live.remove(id_)
        self.deleted.append(("report", id_, self._versions.pop(id_)))
        return Kind.DELETE, f"DELETE FROM report WHERE id={id_}"


def _body(sample: int) -> str:
    """The values of all columns but the first and the last; some are NULL."""
    values = [
        *(str(sample * 1000 + n) for n in range(NUMBERS)),
        *(f"{sample}{n}.25" for n in range(AMOUNTS)),
        *(f"'2024-03-{n + 1:02} 10:00:00.{sample:06}'" for n in range(MOMENTS)),
        *(literal(f"text {n} of sample {sample:03} ".ljust(TEXT_BYTES, "x")) for n in range(TEXTS)),
    ]
    return ",".join("NULL" if n % 25 == sample % 25 else value for n, value in enumerate(values))
