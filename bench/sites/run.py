"""One run: applications write at all sites while blows fall; then it is quiet, and all is counted.

In the end all sites hold equal rows; sums have all that was added; each change stands, was overwritten by a writer who
had seen it, or is told as lost; no change came to a site where it had been; and the feeds send nothing more.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.harness.network import Direction, Network
from bench.harness.rig import until
from bench.harness.servers import Server
from bench.outcome import Outcome
from bench.sites.blows import CUT, Blows, deck
from bench.sites.intents import conflicts, lost_tokens, unaccounted
from bench.sites.kept import Kept
from bench.sites.lags import Prober
from bench.sites.result import Blow, Result
from bench.sites.tied import tied
from bench.sites.topology import PERMIT, SERVERS, Topology
from bench.sites.writer import Writer
from bench.sites.written import accounts, added, all_written, came_back, totals, watch_paths

LONG_CUT_SECONDS: Final = 120.0
MOST_OF_RUN: Final = 15
"""The long cut lasts no more than such a part of the run."""
FLOW_SECONDS: Final = 180.0
REST_SECONDS: Final = 300.0
IDLE_SECONDS: Final = 20.0
LONGEST_PAUSE_SECONDS: Final = 8.0
POLL_SECONDS: Final = 0.1


def run(topology: Topology, minutes: float, rate: float, seed: int, keys: int, folder: Path | None = None) -> Result:
    """`rate`: row changes a second at each site.  `folder`: keeps the feeds' logs.  Raises AssertionError where the
    feeds do not begin."""
    with contextlib.ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-sites-")))
        servers = {site: stack.enter_context(_server(kind)) for site, kind in topology.sites.items()}
        outcome = Outcome(f"sites-{topology.name}", servers)
        network = stack.enter_context(tied(topology, place, servers))
        kept = stack.enter_context(Kept(network.feeds.values()))
        until(lambda: all(feed.begun for feed in network.feeds.values()), "feeds that have begun", FLOW_SECONDS)
        watch_paths(network)
        sums = bool(topology.arbiter)
        writers = [Writer(node, rate, seed, keys, sums=sums) for node in network.nodes.values()]
        for writer in writers:
            stack.callback(writer.stop)
            writer.start()
        probers = _probers(topology, network)
        for prober in probers:
            stack.callback(prober.stop)
            prober.start()
        rng = random.Random(seed)
        acts = Blows(network, kept, rng, min(LONG_CUT_SECONDS, minutes * 60 / MOST_OF_RUN))
        blows = _strike(acts, network, rng, minutes)
        for writer in writers:
            writer.stop()
        for prober in probers:
            prober.stop()
        rested = _rests(network)
        result = _counted(topology, network, minutes, rate, seed, writers, probers, kept, blows, rested)
        kept.stop()
        outcome.write({"result": result}, place)
        return result


@contextlib.contextmanager
def _server(kind: str) -> Iterator[Server]:
    with SERVERS[kind]() as server:
        yield server


def _probers(topology: Topology, network: Network) -> list[Prober]:
    """One for each spoke of the arbiter that has one."""
    hub = topology.arbiter
    downs = [feed for feed in network.feeds.values() if feed.source.site == hub]
    return [Prober(network[hub], down.target, down, number) for number, down in enumerate(downs, 1)]


def _strike(blows: Blows, network: Network, rng: random.Random, minutes: float) -> list[Blow]:
    """Until the time is over; the long cut is in the middle.  After each blow rows must flow on each edge again."""
    begun, struck = time.monotonic(), list[Blow]()
    cut_at, kinds = begun + minutes * 30, deck(rng)
    cut = False
    while time.monotonic() < begun + minutes * 60:
        kind = CUT if not cut and time.monotonic() >= cut_at else next(kinds)
        cut = cut or kind == CUT
        at = time.monotonic()
        what = blows.strike(kind)
        over = time.monotonic()
        struck.append(Blow(round(at - begun, 1), kind, what, round(over - at, 1), _flowing(network, over)))
        print(struck[-1], flush=True)
        time.sleep(rng.uniform(0.5, LONGEST_PAUSE_SECONDS))
    return struck


def _flowing(network: Network, since: float) -> dict[str, float | None]:
    """Returns by edge the seconds from `since` until its feed has stored a new checkpoint; None: too long.

    All edges are looked at in turns: one that takes long leaves the others their time."""
    before = {edge: _checkpoint(feed) for edge, feed in network.feeds.items()}
    found: dict[str, float | None] = dict.fromkeys(before)
    while None in found.values() and time.monotonic() < since + FLOW_SECONDS:
        for edge in [edge for edge, seconds in found.items() if seconds is None]:
            now = _checkpoint(network.feeds[edge])
            if before[edge] and now and now != before[edge]:
                found[edge] = round(time.monotonic() - since, 1)
            before[edge] = before[edge] or now
        time.sleep(POLL_SECONDS)
    return found


def _checkpoint(feed: Direction) -> str:
    told = f"SELECT position FROM {feed.books}.tidelock_checkpoint WHERE feed = '{feed.name}'"
    with contextlib.suppress(Exception):
        rows = feed.target.rows(told)
        return str(rows[0][0]) if rows else ""
    return ""


def _rests(network: Network) -> float | None:
    """Returns seconds until all sites are equal and no feed has anything left to do; None: they do not come to rest."""
    begun = time.monotonic()
    while time.monotonic() < begun + REST_SECONDS:
        if all(network.receipts(feed) == 0 for feed in network.feeds.values()) and _equal(network):
            return round(time.monotonic() - begun, 1)
        time.sleep(POLL_SECONDS)
    return None


def _equal(network: Network) -> bool:
    return _differences(network) == 0


def _differences(network: Network) -> int:
    """Rows that are not the same at each site."""
    first, *others = ([*accounts(node), *totals(node)] for node in network.nodes.values())
    return sum(len(set(first) ^ set(other)) for other in others)


def _busy(network: Network) -> int:
    """Batches that feeds apply while nobody writes."""
    seen: set[tuple[object, ...]] = set()
    end = time.monotonic() + IDLE_SECONDS
    batch = f"SELECT feed, CONCAT(epoch, ''), CONCAT(batch, '') FROM {network.books}.tidelock_progress"
    while time.monotonic() < end:
        for feed in network.feeds.values():
            seen.update(feed.target.rows(f"{batch} WHERE feed = '{feed.name}'"))
        time.sleep(POLL_SECONDS)
    return len(seen)


def _counted(
    topology: Topology,
    network: Network,
    minutes: float,
    rate: float,
    seed: int,
    writers: list[Writer],
    probers: list[Prober],
    kept: Kept,
    blows: list[Blow],
    rested: float | None,
) -> Result:
    written = list(all_written(network))
    standing = {row[2] for node in network.nodes.values() for row in accounts(node)}
    lost = lost_tokens(network)
    sums = [sum(int(row[1]) for row in totals(node)) for node in network.nodes.values()]
    return Result(
        network=topology.name,
        minutes=minutes,
        rate=rate,
        seed=seed,
        changes={writer.name.rpartition(" ")[2]: writer.changes for writer in writers},
        refused=sum(writer.refused for writer in writers),
        conflicts=conflicts(network),
        lost=len(lost),
        unaccounted=unaccounted(written, standing, lost) if topology.arbiter else [],
        sums=[added(network), *sums] if topology.arbiter else [],
        came_back=came_back(network),
        differences=_differences(network),
        rested=rested,
        busy=_busy(network),
        starts=kept.starts,
        unasked=list(kept.unasked),
        lags=[lag for prober in probers for lag in prober.lags],
        broken=sum(prober.broken for prober in probers),
        permit=PERMIT if topology.arbiter else {},
        failures=[writer.failure for writer in writers if writer.failure],
        blows=blows,
    )
