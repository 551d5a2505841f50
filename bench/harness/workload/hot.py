"""*hot*: ten accounts take all updates, as a few counters of a shop do.

A replicator that sends rows to lanes by their key has work for ten lanes at most, and one that writes every change has
one row version for each of them.  Whoever merges the changes of a batch writes ten rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.harness.session import literal
from bench.harness.workload.mix import ACCOUNT, PAYLOADS
from bench.harness.workload.workload import Change, Kind, Workload

HOT_ROWS = 10


class Hot(Workload):
    """There is no model: the ten rows are inserted first and live for ever."""

    name = "hot"
    specs = (ACCOUNT,)

    def changes(self) -> Iterator[Change]:
        for id_ in range(1, HOT_ROWS + 1):
            version = self.next_version()
            row = f"{id_},'user{id_}@example.com',{self.amount()},{self.moment()},NULL,{version}"
            yield Kind.INSERT, f"INSERT INTO account VALUES ({row})"
        while True:
            id_, version = 1 + int(self._rng.random() * HOT_ROWS), self.next_version()
            payload = literal(f"payload {version} " + "x" * (version % PAYLOADS % 150))
            values = f"balance={self.amount()},updated_at={self.moment()},payload={payload},version={version}"
            yield Kind.UPDATE, f"UPDATE account SET {values} WHERE id={id_}"
