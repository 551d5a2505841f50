"""`tidelock demo`: a busy shop is copied while it works and replicated live, through two SIGKILLs; both sides compared.

Private MariaDB and PostgreSQL servers come up, either of which may be the source (`--source`), and the shop holds
hundreds of thousands of rows already.  `tidelock init` and `tidelock run` are started as a user would start them: the
rows are copied while customers order and coupons change hands for half a minute.  The replicator gets SIGKILL in the
middle of the copy and once more while changes flow, and is started again; at the end every row of both databases is
compared.  Exit code 0 only if not one differs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.demo_pace import Pace
from bench.demo_servers import SCHEMA, WAYS, Source, Way, furnish, source_url
from bench.demo_two_way import TwoWays
from bench.demo_two_way import demo as play_two_ways
from bench.demo_two_way import table as two_way_table
from bench.harness.compare import Differences, compare
from bench.harness.servers import Server, ServerFailed, ServerMissing
from bench.harness.servers.place import free_port
from bench.harness.tidelock import Feed, Process, TidelockFailed, metrics, sample
from bench.harness.workload.shop import Shop
from bench.harness.workload.workload import Counts
from bench.screen import LiveScreen, PlainScreen, Screen
from tidelock.adapters.cli.termination import terminated
from tidelock.adapters.ports.slot_state import size
from tidelock.adapters.runtime.table_copy import TableCopy

SEED = 20
LANES = 8
MOST_TWO_WAY_RATE = 40
CHUNK_ROWS = 10_000
COPY_KILL_AT = 0.3
KILL_AT = 0.8
LONGEST = 10
MOST_OPEN_SECONDS = 90.0
POLL_SECONDS = 0.25
INIT_SECONDS = 120.0
CATCH_UP_SECONDS = 180.0
OK, REFUSED, DIFFERENT = 0, 1, 3


@dataclasses.dataclass
class Outcome:
    """Figures that the table at the end shows.

    `lock_waits`: of all replicators while the shop was open.  `held_back`: bytes of its log that a source with a slot
    kept for the feed, as the replicators saw it.  `waited`: seconds that the shop has waited for its feed.
    """

    counts: Counts
    lock_waits: int
    restarts: int
    copied: int
    seconds: float
    unique_violations: int
    held_back: int
    waited: float
    differences: Differences


class Replicator:
    """`tidelock run` processes, one after the other, and the sum of their counters."""

    def __init__(self, feed: Feed, folder: Path) -> None:
        self._path = str(feed.write(folder))
        self._address = feed.http
        self._output = folder / "tidelock.log"
        self.copies: tuple[TableCopy, ...] = ()
        self.held_back = 0
        self.lag: float | None = None
        self._process: Process | None = None
        self._earlier = {"tidelock_rows_total": 0.0, "tidelock_lock_waits_total": 0.0}
        self._now: dict[str, float] = {}
        self.starts = 0

    def init(self) -> None:
        """Bookkeeping and target tables.  Raises TidelockFailed."""
        self._ended_well(["init", "--apply", self._path], INIT_SECONDS)

    def start(self) -> None:
        self.starts += 1
        self._process = Process(["run", self._path], self._output)

    def kill(self) -> None:
        self._end(Process.kill)

    def stop(self) -> None:
        """In order; does nothing when it does not run."""
        self._end(Process.stop)

    def finish(self) -> None:
        """Apply all that is left, and end.  Raises TidelockFailed."""
        self._ended_well(["run", self._path, "--until-caught-up"], CATCH_UP_SECONDS)

    def check(self) -> None:
        if self._process:
            self._process.check()

    def look(self) -> None:
        """Read the counters of the process that runs, how far it and its copies are, and what its slot holds back."""
        self._now = metrics(self._address) or self._now
        seen = sample(self._address)
        self.lag = seen.lag_seconds if seen is not None else None
        if seen is not None:
            self.copies = seen.copies or self.copies
            self.held_back = max(self.held_back, (seen.slot.retained_bytes if seen.slot is not None else 0) or 0)

    @property
    def copied(self) -> float:
        """The share of the chunks that is merged."""
        merged, chunks = (sum(getattr(copy, name) for copy in self.copies) for name in ("merged", "chunks"))
        return merged / chunks if chunks else 0.0

    def total(self, name: str) -> int:
        return int(self._earlier[name] + self._now.get(name, 0.0))

    def _end(self, how: Callable[[Process], None]) -> None:
        if self._process is None:
            return
        self.look()
        self._earlier = {name: self.total(name) for name in self._earlier}
        self._now = {}
        process, self._process = self._process, None
        how(process)

    def _ended_well(self, arguments: list[str], seconds: float) -> None:
        process = Process(arguments, self._output)
        try:
            process.wait(seconds)
        except BaseException:
            process.kill()
            raise


def _play(
    source: Server, target: Server, replicator: Replicator, changes: int, rate: int, screen: Screen
) -> Outcome:
    """The shop works, the replicator dies and comes back, the rest is applied, the sides are compared."""
    shop, begun = Shop(), time.monotonic()
    held = furnish(source, shop)
    screen.say(f"The shop holds {held:,} rows already: {', '.join(shop.tables)}.")
    replicator.init()
    replicator.start()
    screen.say(f"It is open, about {rate:,} row changes a second, while its rows are copied; "
        f"{LANES} lanes (connections to the target) apply them.")
    counts, waited = _work(shop, source, replicator, changes, rate, screen)
    screen.say("The shop is closed; applying what is left.")
    replicator.stop()
    replicator.finish()
    seconds = time.monotonic() - begun
    screen.say("Comparing both sides row by row.")
    differences = compare(source_url(source), target, [f"{SCHEMA}.{table}" for table in shop.tables])
    return Outcome(
        counts=counts,
        lock_waits=replicator.total("tidelock_lock_waits_total"),
        restarts=replicator.starts - 1,
        copied=held,
        seconds=seconds,
        unique_violations=target.unique_violations(),
        held_back=replicator.held_back,
        waited=waited,
        differences=differences,
    )


def _work(
    shop: Shop, source: Server, replicator: Replicator, changes: int, rate: int, screen: Screen
) -> tuple[Counts, float]:
    """Run the workload in a thread; kill the replicator in the middle of the copy, and once more behind it, before the
    shop's last changes.  It closes when that is done and `changes` are made, or it was open for long.  Returns too for
    how many seconds it has waited for its feed.  Raises what either of them raised."""
    stop, made, result = threading.Event(), [0], []
    failures: list[BaseException] = []
    pace, closing = Pace(stop, screen.say), time.monotonic() + MOST_OPEN_SECONDS

    def progress(done: int) -> None:
        made[0] = done

    def shop_work() -> None:
        try:
            result.append(shop.run(source.url(SCHEMA), changes * LONGEST, SEED, rate, stop, progress, hold=pace.hold))
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=shop_work, name="shop")
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            replicator.look()
            replicator.check()
            pace.look(replicator.lag, replicator.starts < 3 and made[0] >= changes * KILL_AT)
            late = time.monotonic() > closing
            screen.update(made[0], replicator.total("tidelock_rows_total"), replicator.copies)
            if replicator.starts == 1 and replicator.copied >= COPY_KILL_AT:
                replicator.kill()
                screen.say("SIGKILL to the replicator, in the middle of the copy; starting it again.")
                replicator.start()
            if replicator.starts == 2 and replicator.copied == 1.0 and (late or made[0] >= changes * KILL_AT):
                replicator.kill()
                screen.say("All is copied.  SIGKILL to the replicator, in the middle of its work; starting it again.")
                replicator.start()
            if replicator.starts == 3 and (late or made[0] >= changes):
                stop.set()
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]
    return result[0], pace.waited


def _table(outcome: Outcome, way: Way) -> Table:
    table = Table(title=f"tidelock demo: {way}", show_header=False, title_justify="left")
    counts, differences = outcome.counts, outcome.differences
    rows = [
        ("rows changed", f"{counts.changes:,} in {counts.transactions:,} transactions"),
        ("", f"{counts.inserts:,} inserts, {counts.updates:,} updates, {counts.deletes:,} deletes"),
        ("rows copied", f"{outcome.copied:,} while they changed"),
        ("changes/s", f"{counts.changes / outcome.seconds:,.0f} from start to the last row, copy and kills included"),
        ("lock waits", f"{outcome.lock_waits:,}"),
        ("restarts", f"{outcome.restarts} (after SIGKILL)"),
        ("rows compared", f"{differences.matched + differences.missing + differences.different:,}"),
        ("differences", f"{differences.total}"),
        ("unique violations", f"{outcome.unique_violations} in the target's log"),
    ]
    if outcome.waited >= 1.0:
        rows.append(("the shop waited", f"{outcome.waited:.0f} s for its feed"))
    if outcome.held_back:
        rows.append(("log held back", f"at most {size(outcome.held_back)}, by the feed's slot"))
    for name, value in rows:
        table.add_row(name, value)
    return table


def command(
    seconds: Annotated[int, typer.Option(min=4, help="How long the shop is open, but for its waits.")] = 25,
    rate: Annotated[int, typer.Option(min=1, help="Row changes a second.")] = 2000,
    source: Annotated[Source, typer.Option(help="Which server is the source; the other one is the target.")] = (
        Source.MARIADB
    ),
    two_way: Annotated[
        bool, typer.Option("--two-way", help="Two shops that both write, a cut, a conflict, the equal end.")
    ] = False,
) -> int:
    """Copy and replicate a busy shop between two databases, kill the replicator on the way, and compare every row."""
    outcome: Outcome | TwoWays
    try:
        with terminated():
            outcome = _two_way(rate) if two_way else _demo(seconds * rate, rate, WAYS[source])
    except KeyboardInterrupt:
        print("demo: stopped; its servers and files are gone", file=sys.stderr)
        return 130
    except (ServerMissing, ServerFailed, TidelockFailed) as error:
        hint = "\n`make demo` installs the servers first." if isinstance(error, ServerMissing) else ""
        print(f"demo: {error}{hint}", file=sys.stderr)
        return REFUSED
    Console().print(two_way_table(outcome) if isinstance(outcome, TwoWays) else _table(outcome, WAYS[source]))
    if outcome.differences.total:
        print(outcome.differences, file=sys.stderr)
    return DIFFERENT if outcome.differences.total else OK


def _two_way(rate: int) -> TwoWays:
    screen = PlainScreen("MariaDB", "PostgreSQL", "{:,} row changes committed at eu, {:,} at us")
    return play_two_ways(min(rate, MOST_TWO_WAY_RATE), screen)


def _demo(changes: int, rate: int, way: Way) -> Outcome:
    names = way.source_name, way.target_name
    screen: Screen = LiveScreen(changes, *names) if sys.stdout.isatty() else PlainScreen(*names)
    with contextlib.ExitStack() as stack:
        stack.callback(screen.close)
        screen.say(f"Starting a private {way.source_name} and a private {way.target_name} server.")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-demo-")))
        source, target = stack.enter_context(way.source()), stack.enter_context(way.target())
        feed = Feed(
            "demo",
            source_url(source),
            target.url(),
            SCHEMA,
            start="copy",
            lanes=LANES,
            http=f"127.0.0.1:{free_port()}",
            options={"copy": {"chunk_rows": CHUNK_ROWS}},
        )
        replicator = Replicator(feed, folder)
        stack.callback(replicator.kill)
        return _play(source, target, replicator, changes, rate, screen)
