"""One run: feeds under one `serve`, writers at their sources, and for minutes acts, kills and requests at random.

In the end all is let run again; then the rows of all feeds are equal, none is set aside, `serve` ends in order and
leaves nothing behind, and what it holds has not grown.
"""

from __future__ import annotations

import contextlib
import random
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.fleet.acts import Acts, Failed, Kills
from bench.fleet.asker import Asker
from bench.fleet.feeds import EXTRA, GOES, KINDS, PAIRS, STAYS, FleetFeed
from bench.fleet.held import NAMES, Watch
from bench.fleet.result import Act, Result, unasked, without_names
from bench.fleet.serving import Serving
from bench.fleet.violations import unexplained
from bench.fleet.writer import Writer
from bench.harness.compare import NotComparable
from bench.harness.forking import interpreters, use_fork_server
from bench.harness.rig import until
from bench.harness.served import Served
from bench.outcome import Outcome

NAME: Final = "fleet"
BEGIN_SECONDS: Final = 900.0
END_SECONDS: Final = 600.0
FIRST_PART: Final = 1 / 3
"""`serve` itself is killed in such a part of the run, so that its last life is long."""
SERVE_KILLS: Final = 3
LONGEST_PAUSE_SECONDS: Final = 4.0
COMMANDS: Final = 1.0
CURVE_POINTS: Final = 300


def run(feeds: int, minutes: float, seed: int, rate: float, kill_seconds: float, place: Path | None = None,
        folder: Path | None = None) -> Result:  # fmt: skip
    """`rate`: row changes a second for each feed.  `kill_seconds`: one feed is killed each.  `place`: keeps what
    `serve` has said.  `folder`: where the result is written; None: it is not.

    Raises AssertionError where the feeds do not begin.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(use_fork_server())
        place = place or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-fleet-")))
        kinds = {kind for pair in PAIRS[:feeds] for kind in pair}
        servers = {kind: stack.enter_context(KINDS[kind](list(EXTRA[kind]))) for kind in sorted(kinds)}
        outcome = Outcome(NAME, servers)
        served = Served(place)
        made = [FleetFeed(number, servers, place) for number in range(feeds)]
        for feed in made:
            stack.callback(feed.rig.close)
            feed.path = served.put(feed.rig.feed)
        fleet = Fleet(Serving(served), made, random.Random(seed))
        fleet.serving_starts()
        stack.callback(fleet.end)
        fleet.begin()
        result = fleet.hour(minutes, seed, rate, kill_seconds)
        if folder is not None:
            shown = result.shown(fleet.curves)
            outcome.write({"result": result, "met": not result.faults, "shown": shown}, folder)
        return result


class Fleet:
    """The feeds of one run, and their `serve`."""

    def __init__(self, serving: Serving, feeds: Sequence[FleetFeed], rng: random.Random) -> None:
        self._serving, self._feeds, self._rng = serving, feeds, rng
        self._acts: list[Act] = []
        self.curves: dict[str, list[tuple[float, float]]] = {}

    def serving_starts(self) -> None:
        """Starts `serve` as users do: it has loaded what it needs, and no more."""
        with interpreters():
            self._serving.start()

    def begin(self) -> None:
        """Waits until all feeds run."""
        api = self._serving.served.api

        def all_run() -> bool:
            return all(api(feed.name).goes_on() for feed in self._feeds)

        try:
            until(all_run, "feeds that run", BEGIN_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._serving.served.said()[-4000:]}") from None

    def end(self) -> None:
        """Ends `serve`, if it still runs."""
        process = self._serving.served.process
        if process is not None and process.running:
            process.kill()

    # ------------------------------------------------------------------ the hour

    def hour(self, minutes: float, seed: int, rate: float, kill_seconds: float) -> Result:
        """Runs, and judges."""
        names = {feed.name: feed.calm for feed in self._feeds}
        writers = [Writer(some, rate, seed * 1000 + n) for n, some in enumerate(self._by_source())]
        asker = Asker(self._serving, names, [STAYS, GOES], seed, rate=2.0)
        kills = Kills(self._serving, self._feeds, random.Random(f"{seed} kills"), kill_seconds)
        acts = Acts(self._serving, self._rng)
        with Watch(self._serving) as watch:
            begun = time.monotonic()
            for thread in (*writers, asker):
                thread.start()
            with kills:
                self._strike(acts, begun, minutes)
            asker.stop()
            for writer in writers:
                writer.stop()
            equal = self._rests()
            watched = time.monotonic() - begun
        self.curves = {name: _curve(watch, name) for name in NAMES}
        told = self._serving.served.api().ask("/feeds")[1] or {"feeds": []}
        stopping = time.monotonic()
        code = self._serving.stop()
        stopped = round(time.monotonic() - stopping, 1)
        said, violations = self._serving.served.said(), self._violations()
        return Result(
            feeds=len(self._feeds),
            minutes=round(watched / 60, 1),
            rate=rate,
            seed=seed,
            changes=sum(writer.changes for writer in writers),
            acts=self._acts,
            kills={**kills.made, "serve": self._serving.killed},
            starts=sum(one["starts"] for one in told["feeds"]),
            statuses={str(status): count for status, count in sorted(asker.statuses.items())},
            verified=acts.verified,
            rows=sum(feed.differences().matched for feed in self._feeds) if equal is not None else 0,
            differences=self._differences(),
            parked=sum(feed.rig.parked() for feed in self._feeds),
            unique_violations=sum(count for count, _ in violations),
            violating=[without_names(line) for _, lines in violations for line in lines],
            ends=unasked(said),
            equal=equal,
            stopped=stopped,
            code=code,
            left=[f"{child.name} {child.feed} {child.pid}" for child in self._serving.left()],
            memory=watch.memory,
            held=watch.held,
            wrong=[
                *acts.wrong,
                *asker.wrong,
                *(one for one in (asker.failure, *(writer.failure for writer in writers)) if one),
                *(["a traceback is in the output of serve"] if "Traceback" in said else []),
            ],
        )

    def _by_source(self) -> list[list[FleetFeed]]:
        sources = {id(feed.rig.source): feed.rig.source for feed in self._feeds}
        return [[feed for feed in self._feeds if feed.rig.source is source] for source in sources.values()]

    def _strike(self, acts: Acts, begun: float, minutes: float) -> None:
        """Until the time is over, or Ctrl-C: one act after the other, in shuffled decks; `serve` is killed in the first
        part."""
        with _interrupted() as told:
            self._strike_until(told, acts, begun, minutes)

    def _strike_until(self, told: threading.Event, acts: Acts, begun: float, minutes: float) -> None:
        busy = [feed for feed in self._feeds if not feed.calm]
        deck: list[str] = []
        dues = [begun + minutes * 60 * FIRST_PART * (n + 1) / SERVE_KILLS for n in range(SERVE_KILLS)]
        while time.monotonic() < begun + minutes * 60 and not told.is_set():
            if dues and time.monotonic() >= dues[0]:
                del dues[0]
                self._serving.kill()
                self.serving_starts()
            if said := self._serving.look():
                acts.wrong.append(f"at {time.monotonic() - begun:.0f} s serve ended by itself: {said}")
            deck = deck or self._rng.sample(acts.kinds, len(acts.kinds))
            kind, feed, at = deck.pop(), self._rng.choice(busy), time.monotonic()
            try:
                what, failed = acts.do(kind, feed), False
            except Failed as error:
                what, failed = str(error), True
            took = round(time.monotonic() - at, 1)
            self._acts.append(Act(round(at - begun, 1), kind, feed.name, what, took, failed))
            print(self._acts[-1], flush=True)
            time.sleep(self._rng.uniform(0.2, LONGEST_PAUSE_SECONDS))

    def _rests(self) -> float | None:
        """Lets all feeds run; returns seconds until the rows of all are equal; None: they do not become so."""
        begun = time.monotonic()
        waiting = list(self._feeds)
        while time.monotonic() < begun + END_SECONDS:
            for feed in waiting:
                api = self._serving.served.api(feed.name)
                if not api.goes_on():
                    api.ask(f"/feeds/{feed.name}/resume", {})
                    api.ask(f"/feeds/{feed.name}/start", {})
            waiting = [feed for feed in waiting if not _equal(feed)]
            if not waiting:
                return round(time.monotonic() - begun, 1)
            time.sleep(COMMANDS)
        return None

    def _differences(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for feed in self._feeds:
            try:
                differences = feed.differences()
            except NotComparable as error:
                found[feed.name] = str(error)
                continue
            if differences.total:
                found[feed.name] = str(differences)
        return found

    def _violations(self) -> list[tuple[int, list[str]]]:
        """Returns what nothing explains, of each target."""
        found = list[tuple[int, list[str]]]()
        for rig in {id(feed.rig.target): feed.rig for feed in reversed(self._feeds)}.values():  # the first counts all
            narrowed = {feed.rig.schema for feed in self._feeds if feed.narrowed and feed.rig.target is rig.target}
            if count := rig.unique_violations():
                found.append(unexplained(count, rig.target.failed_on_unique_keys(), narrowed))
        return found


@contextlib.contextmanager
def _interrupted() -> Iterator[threading.Event]:
    """Gives what Ctrl-C sets inside the block, so that an act is done before the run ends early."""
    told = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: told.set())
    try:
        yield told
    finally:
        signal.signal(signal.SIGINT, before)


def _equal(feed: FleetFeed) -> bool:
    try:
        return feed.differences().total == 0
    except NotComparable:
        return False


def _curve(watch: Watch, name: str) -> list[tuple[float, float]]:
    """(minutes, MB) of a name, of the largest of its processes, thinned by keeping the largest of neighbours."""
    most: dict[int, float] = {}
    samples = [one for one in watch.samples if one.name == name]
    step = max(samples[-1].at / CURVE_POINTS, 1.0) if samples else 1.0
    for one in samples:
        place = int(one.at / step)
        most[place] = max(most.get(place, 0.0), one.resident_bytes / 1e6)
    return [(round(place * step / 60, 2), round(mb, 1)) for place, mb in sorted(most.items())]
