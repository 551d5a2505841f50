"""Networks of sites that are run: which servers, which feeds between them, and who decides conflicts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bench.harness.servers import MariaDb, MySql, Postgres, Server

SERVERS: Final[dict[str, type[Server]]] = {"mariadb": MariaDb, "mysql": MySql, "postgres": Postgres}
PROBE: Final = "probe"
"""Table of the rows that lags are measured by."""
PERMIT: Final = {"lag": "5m", "after": "10s"}


class Unknown(ValueError):
    """Error of a network that nobody knows; the text says which there are."""


@dataclasses.dataclass(frozen=True)
class Topology:
    """`sites`: by name, the kind of server.  `edges`: directions as `a>b`.  `arbiter`: '' where stamps decide."""

    name: str
    sites: Mapping[str, str]
    edges: Sequence[str]
    arbiter: str = ""

    @property
    def conflicts(self) -> dict[str, Any]:
        """The feeds' part of that name."""
        if self.arbiter:
            return {"arbiter": self.arbiter, "default": "arrival"}
        return {"stamp": {"time": "tl_time", "site": "tl_site"}}

    def tables(self, schema: str) -> list[dict[str, Any]]:
        """The feeds' part of that name.  Sums add up where an arbiter decides."""
        if not self.arbiter:
            return [{"source": f"{schema}.account*"}]
        groups = [{"columns": ["amount"], "policy": "delta"}, {"columns": ["token"], "policy": "arrival"}]
        adding = {"groups": [{"columns": ["n"], "policy": "delta"}]}
        return [
            {"source": f"{schema}.account"},
            {"source": f"{schema}.total", "conflicts": {"groups": groups}},
            {"source": f"{schema}.{PROBE}", "conflicts": adding},
        ]


def named(name: str) -> Topology:
    """Returns `star`, `ring`, or the pair ARBITER-SPOKE of kinds of servers.  Raises Unknown."""
    if name == "star":
        spokes = {"eu": "mariadb", "us": "postgres", "asia": "postgres"}
        edges = [edge for spoke in spokes for edge in (f"hub>{spoke}", f"{spoke}>hub")]
        return Topology(name, {"hub": "mysql", **spokes}, edges, "hub")
    if name == "ring":
        return Topology(name, {"eu": "mariadb", "us": "postgres", "asia": "mysql"}, ["eu>us", "us>asia", "asia>eu"])
    kinds = name.split("-")
    if len(kinds) != 2 or not set(kinds) <= SERVERS.keys():
        raise Unknown(f"there is no {name}: take star, ring, or two of {', '.join(SERVERS)} as mariadb-postgres")
    return Topology(name, dict(zip(("eu", "us"), kinds, strict=True)), ["eu>us", "us>eu"], "eu")
