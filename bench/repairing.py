"""Planted differences of every kind, found by verify and mended by repair, while rows change: how long, and exact?

`python -m bench.repairing --rows 2500000 --count 560 --rate 2000` fills two tables of that many rows at both ends
(`bench.harness.planted`), plants differences at the target, and then, with the feed running and `rate` changes a second
at the source, runs the commands that an operator would: verify, repair, verify, and verify of what has changed since
the first.  A case is exact when the first verify finds what was planted and nothing else, the repair leaves nothing,
and the others find no difference.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from bench.harness.planted import Planted
from bench.harness.rig import Rig, Said, tidelock
from bench.harness.servers import MariaDb, MySql, Postgres, Server
from bench.harness.session import Flavor

SECONDS = 3600.0
DIFFERENT = 3
RESULTS = Path(__file__).parent / "results" / "repair.json"
SERVERS: dict[str, Callable[[], Server]] = {"mariadb": MariaDb, "mysql": MySql, "postgres": Postgres}
FLAVORS = {"postgresql": Flavor.POSTGRES, "mysql": Flavor.MYSQL, "mariadb": Flavor.MARIADB}


@dataclasses.dataclass(frozen=True)
class Case:
    """Seconds are of whole commands.  `found`: rows that the first verify found, of `planted`; `left`: that the last
    ones did.  `changed`: rows that `--since` looked at."""

    pair: str
    rows: int
    rate: float
    planted: int
    found: int
    left: int
    changed: int
    exact: bool
    verify_seconds: float
    repair_seconds: float
    again_seconds: float
    since_seconds: float


def prove(source: str, target: str, rows: int, count: int, rate: float) -> Case:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-repair-")))
        one, other = (stack.enter_context(SERVERS[name]()) for name in (source, target))
        rig = stack.enter_context(contextlib.closing(Rig(one, other, folder, "repair")))
        planted = Planted(rows, count)
        ours, theirs = FLAVORS[one.scheme], FLAVORS[other.scheme]
        rig.at_source(*planted.ddl(ours, ours), *planted.fill(ours))
        rig.at_target(*planted.ddl(theirs, ours), *planted.fill(theirs))
        rig.start_at = rig.here()
        rig.at_target(*planted.plant(theirs))
        with _written_on(rig, planted, rate):
            return _case(rig, planted, f"{source}-{target}", rate)


def _case(rig: Rig, planted: Planted, pair: str, rate: float) -> Case:
    report = rig.folder / "differences.json"
    verified, verify_seconds = _run("verify", str(rig.feed), "--json", "--report", str(report))
    found = {
        (table["table"].rpartition(".")[2], d["kind"], ",".join(map(str, d["key"].values())), column)
        for table in verified.json["tables"]
        for d in table["differences"]
        for column in (d["columns"] if d["kind"] == "different" else [""])
    }
    repaired, repair_seconds = _run("repair", str(rig.feed), "--from-report", str(report), "--yes", "--json")
    again, again_seconds = _run("verify", str(rig.feed), "--json")
    since, since_seconds = _run("verify", str(rig.feed), "--since", str(report), "--json")
    left = _total(again) + _total(since)
    return Case(
        pair=pair,
        rows=2 * planted.rows,
        rate=rate,
        planted=len(planted.expected()),
        found=_total(verified),
        left=left,
        changed=sum(table["source_rows"] for table in since.json["tables"]),
        exact=found == planted.expected() and repaired.code == 0 and not left,
        verify_seconds=round(verify_seconds, 1),
        repair_seconds=round(repair_seconds, 1),
        again_seconds=round(again_seconds, 1),
        since_seconds=round(since_seconds, 1),
    )


def _run(*words: str) -> tuple[Said, float]:
    """Raises RuntimeError with what it said if it could not be done."""
    begun = time.perf_counter()
    said = tidelock(*words, seconds=SECONDS)
    if said.code not in (0, DIFFERENT):
        raise RuntimeError(f"tidelock {words[0]} ended with {said.code}: {said.err or said.out}")
    return said, time.perf_counter() - begun


def _total(said: Said) -> int:
    return sum(table[kind] for table in said.json["tables"] for kind in ("missing", "extra", "different"))


@contextlib.contextmanager
def _written_on(rig: Rig, planted: Planted, rate: float) -> Iterator[None]:
    """Inside, the feed runs, and rows that are not planted change."""
    running, stop = rig.run(), threading.Event()
    writer = threading.Thread(target=planted.write, args=(rig.source.url(rig.schema), rate, stop))
    if rate:
        writer.start()
    try:
        yield
        running.check()
    finally:
        stop.set()
        if rate:
            writer.join()


def command(
    rows: Annotated[int, typer.Option(min=100, help="Of each of the two tables.")] = 2_500_000,
    count: Annotated[int, typer.Option(min=7, help="Differences in each table, about.")] = 560,
    rate: Annotated[float, typer.Option(min=0, help="Changes a second at the source.")] = 2000,
    pairs: Annotated[str, typer.Option(help="As source-target.")] = "mariadb-postgres,mysql-mysql",
    keep: Annotated[bool, typer.Option(help="Write bench/results/repair.json.")] = True,
) -> int:
    """Plant, verify, repair, verify; exit code 3 if a case is not exact."""
    cases = []
    for pair in pairs.split(","):
        source, _, target = pair.partition("-")
        cases.append(prove(source, target, rows, count, rate))
        print(cases[-1], flush=True)
    if keep:
        RESULTS.write_text(json.dumps([dataclasses.asdict(case) for case in cases], indent=2) + "\n")
    return 0 if all(case.exact for case in cases) else DIFFERENT


if __name__ == "__main__":
    app = typer.Typer(add_completion=False)
    app.command()(command)
    sys.exit(typer.main.get_command(app).main(standalone_mode=False))
