"""`tidelock bench sites`: sites that are all written to, under blows.

tidelock bench sites --networks mariadb-postgres --minutes 30     # a pair: the arbiter's kind, the spoke's
tidelock bench sites --networks star,ring --minutes 15
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from bench.sites.run import run
from bench.sites.topology import Topology, Unknown, named

FAILED: Final = 3
PAIRS: Final = "mariadb-postgres,postgres-mariadb,mysql-postgres,postgres-postgres,mysql-mysql,mariadb-mysql"


def command(
    networks: Annotated[str, typer.Option(help="star, ring, or pairs of kinds of servers, the arbiter first.")] = PAIRS,
    minutes: Annotated[float, typer.Option(min=0.1, help="For how long, each.")] = 30.0,
    rate: Annotated[float, typer.Option(min=1, help="Row changes a second at each site.")] = 500.0,
    seed: Annotated[int, typer.Option(help="Of the blows and the writers.")] = 1,
    keys: Annotated[int, typer.Option(min=10, help="Rows that all sites write to.")] = 5000,
    logs: Annotated[Path | None, typer.Option(help="An empty folder for the feeds' logs.")] = None,
) -> int:
    """Write at all sites while blows fall; exit code 3 if sites end unequal, or something is lost without a word."""
    code = 0
    for topology in _named(networks):
        folder = None if logs is None else logs / topology.name
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        result = run(topology, minutes, rate, seed, keys, folder)
        print(result, flush=True)
        code = FAILED if result.faults else code
    return code


def _named(networks: str) -> list[Topology]:
    try:
        return [named(name.strip()) for name in networks.split(",")]
    except Unknown as error:
        raise typer.BadParameter(str(error)) from None


if __name__ == "__main__":
    from bench.command import alone

    alone("sites")
