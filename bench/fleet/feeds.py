"""The feeds of a fleet: each with tables of its own that are written to, and what its file ought to say just now."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from bench.harness.compare import Differences, Pair, compare
from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, MySql, Postgres, Server
from bench.harness.workload.churn import Churn
from bench.harness.workload.mix import Mix
from bench.harness.workload.several import Several

KINDS: Final[Mapping[str, type[Server]]] = {"mariadb": MariaDb, "mysql": MySql, "postgres": Postgres}
EXTRA: Final[Mapping[str, Sequence[str]]] = {
    "mariadb": ("--max-binlog-size=16M",),  # each start of a feed reads the file in which it stands
    "mysql": ("--max-binlog-size=16M",),
    "postgres": ("--max-connections=400",),
}
PAIRS: Final = (
    ("mariadb", "postgres"), ("postgres", "mariadb"), ("mysql", "postgres"), ("postgres", "mysql"),
    ("mariadb", "mysql"), ("mysql", "mariadb"), ("postgres", "postgres"),
)  # fmt: skip
"""Source and target of the feeds, in turn; each kind is one server, so a feed's log holds what other feeds write."""
CALM_EACH: Final = 10
STAYS: Final = "account"
GOES: Final = "member"
"""The tables of each feed; this one comes and goes."""
FILTERS: Final = ("", "balance >= 20000", "balance >= 50000")
LANES: Final = (1, 2, 3, 4)
RATES: Final = (40, 80, 150)
"""Rates of the throttle; all are more than a feed's load, so that it keeps up."""


class FleetFeed:
    """One feed of `number`.  `calm`: it is neither killed nor edited, so that its process lives long.  `path`: of its
    file in the folder, once it is put there.  `filters`: of the tables that its file takes now.  `narrowed`: one of
    them became narrower at some time."""

    def __init__(self, number: int, servers: Mapping[str, Server], folder: Path) -> None:
        source, target = PAIRS[number % len(PAIRS)]
        self.calm = number % CALM_EACH == 0
        self.path = Path()
        self.filters: dict[str, str] = {STAYS: "", GOES: ""}
        self.narrowed = False
        self.workload = Several(Mix(), Churn())
        self.rig = Rig(servers[source], servers[target], folder, f"f{number}", lanes=2, batch_rows=200)
        self.rig.make(self.workload)
        self.rig.start_at = self.rig.here()
        self._set_rules()
        self.rig.begin_here()

    @property
    def name(self) -> str:
        return self.rig.name

    def table(self, name: str) -> str:
        """Returns the source table's full name."""
        return f"{self.rig.schema}.{name}"

    def wanted(self) -> Path:
        """Returns a file that says what the feed's file is to say."""
        self._set_rules()
        return self.rig.feed

    def takes(self, name: str) -> bool:
        """Tells whether the file in the folder has a rule for the table."""
        rules = yaml.safe_load(self.path.read_text())["tables"]
        return any(rule["source"] == self.table(name) for rule in rules)

    def draw_options(self, rng: random.Random) -> str:
        """Draws other keys of the file; returns them in words."""
        rate = rng.choice((None, *RATES))
        drawn: dict[str, Any] = {
            "lanes": rng.choice(LANES),
            "batch_rows": rng.choice((50, 200)),
            "consistency": rng.choice(("row", "transaction")),
        }
        self.rig.options |= drawn
        self.rig.options.pop("throttle", None)
        if rate is not None:
            self.rig.options["throttle"] = {"max_rate": rate}
        return f"{', '.join(f'{key} {value}' for key, value in drawn.items())}, at most {rate or 'any'} rows/s"

    def differences(self) -> Differences:
        """Compares the rows that the feed takes."""
        pairs = [Pair(self.table(name), self.table(name), where=where) for name, where in self.filters.items()]
        return compare(self.rig.source_place, self.rig.target.url(), pairs)

    def _set_rules(self) -> None:
        self.rig.rules = [
            {"source": self.table(name), **({"where": where} if where else {})} for name, where in self.filters.items()
        ]
