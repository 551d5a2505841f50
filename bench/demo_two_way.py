"""`tidelock demo --two-way`: two shops on two continents write to their own databases, and both hold the same rows.

A private MariaDB (`eu`) and a private PostgreSQL (`us`) come up.  `tidelock pair init` makes `us` equal to `eu` and
opens both; `tidelock pair run` replicates both ways.  Then the line to `us` is cut: both shops go on selling, both
feeds hold, and each side changes one price.  The line is whole again; the shops close; every row of both databases is
compared.  Exit code 0 only if not one differs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from rich.table import Table

from bench.demo_servers import SCHEMA, furnish, source_url
from bench.harness.compare import Differences, compare
from bench.harness.link import Link
from bench.harness.servers import MariaDb, Postgres, Server
from bench.harness.session import connect
from bench.harness.tidelock import Process
from bench.harness.workload.shop import Shop
from bench.harness.workload.workload import Counts
from bench.screen import Screen
from tidelock.adapters.process import private_files

PAIR = "demo"
FIRST_OF_US = 1_000_000
ORDERS = 4_000
SEED = 21
MOST_CHANGES = 10_000_000
OPEN_SECONDS, CUT_SECONDS = 5.0, 6.0
INIT_SECONDS = 60.0
QUIET_SECONDS = 60.0
LOOK_SECONDS = 0.5
PRICES = {"eu": "11.11", "us": "22.22"}


@dataclasses.dataclass
class TwoWays:
    """Figures that the table at the end shows.  `waited`: seconds from the end of the cut until all rows were equal.
    `price`: of the product that both sides changed.  `conflicts`: writes that lost, kept at the arbiter."""

    counts: dict[str, Counts]
    held: int
    waited: float
    price: str
    conflicts: int
    differences: Differences


class Pair:
    """The pair's file, and the process that runs its feeds."""

    def __init__(self, folder: Path, eu: Server, us: Server, line: Link) -> None:
        self._path = folder / "demo.yaml"
        self._output = folder / "tidelock.log"
        self._process: Process | None = None
        through = source_url(us).replace(f"@{us.host}:{us.port}", f"@{line.address}")
        words = {
            "pair": PAIR,
            "sites": {"eu": source_url(eu), "us": through},
            "conflicts": {"arbiter": "eu", "default": "arbiter"},
            "permit": {"lag": "5m", "after": "3s"},
            "tables": [{"source": f"{SCHEMA}.*"}],
        }
        private_files.write(self._path, yaml.safe_dump(words, sort_keys=False).encode())

    def init(self) -> None:
        """Raises TidelockFailed."""
        process = Process(["pair", "init", str(self._path), "--from", "eu", "--apply"], self._output)
        try:
            process.wait(INIT_SECONDS)
        except BaseException:
            process.kill()
            raise

    def start(self) -> None:
        self._process = Process(["pair", "run", str(self._path)], self._output)

    def check(self) -> None:
        """Raises TidelockFailed where it has ended."""
        if self._process is not None:
            self._process.check()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.stop()

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()


class Work:
    """A shop that is open, in a thread of its own."""

    def __init__(self, shop: Shop, url: str, rate: int, seed: int) -> None:
        self.made = 0
        self._end = threading.Event()
        self._result: list[Counts] = []
        self._failures: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(shop, url, rate, seed), name="shop")
        self._thread.start()

    def _run(self, shop: Shop, url: str, rate: int, seed: int) -> None:
        try:
            self._result.append(shop.run(url, MOST_CHANGES, seed, rate, self._end, self._note))
        except BaseException as error:
            self._failures.append(error)

    def _note(self, made: int) -> None:
        self.made = made

    def close(self) -> Counts:
        """Raises what the shop raised."""
        self._end.set()
        self._thread.join()
        if self._failures:
            raise self._failures[0]
        return self._result[0]


def demo(rate: int, screen: Screen) -> TwoWays:
    """Plays it.  Raises ServerMissing, ServerFailed, TidelockFailed."""
    screen.say("Starting a private MariaDB server, the site eu, and a private PostgreSQL server, the site us.")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-demo-")))
        eu, us = stack.enter_context(MariaDb()), stack.enter_context(Postgres())
        line = stack.enter_context(Link(us.host, us.port))
        shops = {"eu": Shop(), "us": Shop(FIRST_OF_US)}
        held = furnish(eu, shops["eu"], ORDERS)
        us.execute(f"CREATE DATABASE {SCHEMA}")
        us.execute(f"ALTER DATABASE {SCHEMA} SET search_path = {SCHEMA}")
        pair = Pair(folder, eu, us, line)
        stack.callback(pair.kill)
        screen.say(f"eu holds {held:,} rows. `tidelock pair init`: us gets them, both are compared and opened.")
        pair.init()
        pair.start()
        servers = {"eu": eu, "us": us}
        with _open(servers, shops, rate) as work:
            screen.say(f"Both shops are open, about {rate:,} row changes a second each; `tidelock pair run`.")
            _watch(OPEN_SECONDS, pair, work, screen)
            screen.say("The line to us is cut. Both shops go on selling; both feeds hold.")
            line.part()
            _watch(CUT_SECONDS / 2, pair, work, screen)
            for site, price in PRICES.items():
                _send(servers[site], f"UPDATE products SET price = {price} WHERE id = 1")
            screen.say(f"Both sides set the price of product 1: {PRICES['eu']} at eu, {PRICES['us']} at us.")
            _watch(CUT_SECONDS / 2, pair, work, screen)
            line.mend()
            mended = time.monotonic()
            screen.say("The line is whole again; the feeds go on by themselves.")
            _watch(OPEN_SECONDS, pair, work, screen)
            counts = {site: one.close() for site, one in work.items()}
        screen.say("The shops are closed; applying what is left, and comparing both sides row by row.")
        differences = _equal(eu, us, pair, shops["eu"])
        waited = time.monotonic() - mended
        pair.stop()
        return TwoWays(
            counts=counts,
            held=held,
            waited=waited,
            price=str(_rows(us, "SELECT price FROM products WHERE id = 1")[0][0]),
            conflicts=int(_rows(eu, "SELECT COUNT(*) FROM tidelock.tidelock_conflicts")[0][0]),
            differences=differences,
        )


@contextlib.contextmanager
def _open(servers: dict[str, Server], shops: dict[str, Shop], rate: int) -> Iterator[dict[str, Work]]:
    work = {
        site: Work(shop, servers[site].url(SCHEMA), rate, SEED + number)
        for number, (site, shop) in enumerate(shops.items())
    }
    try:
        yield work
    finally:
        for one in work.values():
            with contextlib.suppress(Exception):
                one.close()


def _watch(seconds: float, pair: Pair, work: dict[str, Work], screen: Screen) -> None:
    """Shows how far the shops are, for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(LOOK_SECONDS)
        pair.check()
        screen.update(work["eu"].made, work["us"].made, ())


def _equal(eu: Server, us: Server, pair: Pair, shop: Shop) -> Differences:
    """Compares until nothing differs, or it lasts too long."""
    end = time.monotonic() + QUIET_SECONDS
    while True:
        pair.check()
        found = compare(source_url(eu), source_url(us), [f"{SCHEMA}.{table}" for table in shop.tables])
        if not found.total or time.monotonic() > end:
            return found
        time.sleep(LOOK_SECONDS)


def _send(server: Server, statement: str) -> None:
    with contextlib.closing(connect(server.url(SCHEMA))) as session:
        session.send(statement)


def _rows(server: Server, query: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(connect(server.url(SCHEMA))) as session:
        return session.rows(query)


def table(outcome: TwoWays) -> Table:
    """Returns what is shown at the end."""
    shown = Table(title="tidelock demo: MariaDB ⇄ PostgreSQL", show_header=False, title_justify="left")
    for site, counts in outcome.counts.items():
        shown.add_row(f"changes at {site}", f"{counts.changes:,} in {counts.transactions:,} transactions")
    differences = outcome.differences
    rows = [
        ("rows copied", f"{outcome.held:,} from eu to us at the beginning"),
        ("cut off", f"{CUT_SECONDS:.0f} s, while both shops went on"),
        ("equal again", f"{outcome.waited:.0f} s after the cut, the shops' last {OPEN_SECONDS:.0f} s among them"),
        ("price of product 1", f"{outcome.price} at both sites: eu is the arbiter"),
        ("writes that lost", f"{outcome.conflicts}, kept in tidelock_conflicts at eu"),
        ("rows compared", f"{differences.matched + differences.missing + differences.different:,}"),
        ("differences", f"{differences.total}"),
    ]
    for name, value in rows:
        shown.add_row(name, value)
    return shown
