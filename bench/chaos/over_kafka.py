"""Chaos over Kafka: supervised workers, three table groups, steady work, and one blow after another.

Blows come from a deck that is shuffled anew each time it is used up, so that a run of a few minutes has seen them all.
Between two blows rows must flow again in every group, and how long that took is kept.  A frozen worker stays frozen
for longer than its session lives while other blows fall, and wakes up to find its groups at other workers.  Blows at
workers fall on those that have something to do.  A further worker comes and goes, and a second one with the name of
one that runs must be refused.

In the end: both ends are equal, nothing is parked; the recorder's history at the target holds no row version twice and
none after a newer one; the feed's checkpoint never went back; frozen workers had writes rejected.
"""

from __future__ import annotations

import contextlib
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from bench.chaos.steady import Steady
from bench.chaos.target import Target
from bench.chaos.verdict import WITHIN_SECONDS, Blow, Verdict
from bench.harness import recorder
from bench.harness.recorder import Recorder
from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, Postgres
from bench.harness.servers.kafka import Kafka
from bench.harness.tidelock import TidelockFailed
from bench.harness.workers import Workers
from bench.harness.workload.churn import Churn
from bench.harness.workload.family import Family
from bench.harness.workload.mix import Mix
from bench.harness.workload.several import Several

RATE: Final = 1_000.0
"""Row changes a second."""
FROZEN_SECONDS: Final = 40.0
AWAY_SECONDS: Final = 25.0
SETTLING_SECONDS: Final = 15.0
RECOVERY_SECONDS: Final = 90.0
REFUSED_SECONDS: Final = 60.0
FURTHER: Final = "further"
LONGEST_REST_SECONDS: Final = 5.0
DECK: Final = (
    *("kill",) * 3,
    *("coordinator killed",) * 3,
    *("kill, away",) * 2,
    *("stop",) * 3,
    *("freeze",) * 2,
    "one more",
    "same name",
    "broker restart",
    "broker kill",
    "target restart",
    "target kill",
    "source restart",
    "source kill",
)
AT_WORKERS: Final = frozenset(("kill", "coordinator killed", "kill, away", "stop", "freeze", "same name"))


class Chaos:
    """One run.  `blows`: what happened so far.  `wrong`: what should not have, in words."""

    def __init__(self, workers: Workers, kafka: Kafka, history: Recorder, work: Steady, seed: int) -> None:
        self.blows: list[Blow] = []
        self.wrong: list[str] = []
        self._rig, self._kafka, self._workers = workers.rig, kafka, workers
        self._history, self._work = history, work
        self._rng = random.Random(seed)
        self._begun = time.monotonic()
        self._deck = self._draw()
        self._frozen: dict[str, float] = {}  # worker → when it wakes
        self._away: dict[str, float] = {}  # worker → when it is back
        self._settled = 0.0
        self._calm_first = True  # every other blow with a limit falls when everybody is up
        self._acts: dict[str, Callable[[str], None]] = {
            "kill": lambda name: self._workers.kill(name, alone=self._rng.random() < 0.5),
            "coordinator killed": lambda name: self._workers.kill(name, alone=self._rng.random() < 0.5),
            "stop": self._stop,
            "one more": lambda _: self._one_more(),
            "same name": self._same_name,
            "kill, away": self._send_away,
            "freeze": self._freeze,
            "broker restart": lambda _: self._kafka.restart(),
            "broker kill": lambda _: self._restart(self._kafka.kill, self._kafka.start),
            "target restart": lambda _: self._restart_target(self._rig.target.stop),
            "target kill": lambda _: self._restart_target(self._rig.target.kill),
            "source restart": lambda _: self._restart_source(self._rig.source.stop),
            "source kill": lambda _: self._restart_source(self._rig.source.kill),
        }

    def _draw(self) -> Iterator[str]:
        while True:
            yield from self._rng.sample(DECK, len(DECK))

    def run(self, minutes: float) -> None:
        """Blows for so long; then everyone is awake and at work again, and the workload has ended."""
        while time.monotonic() < self._begun + minutes * 60:
            self._wake()
            self._strike(next(self._deck))
            time.sleep(self._rng.uniform(0.5, LONGEST_REST_SECONDS))
        while self._frozen:
            self._wake()
            time.sleep(0.1)
        self._workers.until_flowing(RECOVERY_SECONDS, self._work.check)
        self._work.stop()

    def _strike(self, kind: str) -> None:
        while kind in WITHIN_SECONDS and self._calm_first and not self._calm:
            time.sleep(0.1)
            self._wake()
        self._calm_first = not self._calm_first
        standing = [name for name in self._workers.pids if name not in self._frozen and name not in self._away]
        name = ""
        if kind in AT_WORKERS:
            if len(standing) < 2:
                return  # one must be left
            name = self._aim(kind, standing)
        undisturbed = self._calm
        begun = time.monotonic()
        self._acts[kind](name)
        self._workers.until_flowing(RECOVERY_SECONDS, self._meanwhile)
        now = time.monotonic()
        blow = Blow(round(begun - self._begun, 1), kind, name, round(now - begun, 2), undisturbed)
        self.blows.append(blow)
        print(blow, flush=True)

    def _aim(self, kind: str, standing: list[str]) -> str:
        """Returns the worker that the blow falls on, one that has something to do."""
        if kind == "coordinator killed" and self._workers.coordinator in standing:
            return self._workers.coordinator
        busy = {self._workers.coordinator, *self._workers.owners.values()}
        return self._rng.choice([name for name in standing if name in busy] or standing)

    def _meanwhile(self) -> None:
        self._wake()
        self._work.check()

    # ------------------------------------------------------------------ workers

    @property
    def _calm(self) -> bool:
        """Everybody is up, and has had time to find his place again."""
        return not self._frozen and not self._away and time.monotonic() > self._settled

    def _send_away(self, name: str) -> None:
        self._away[name] = time.monotonic() + AWAY_SECONDS
        self._workers.kill(name, back_after=AWAY_SECONDS)

    def _stop(self, name: str) -> None:
        """SIGTERM; it is back later."""
        self._away[name] = time.monotonic() + AWAY_SECONDS
        self._workers.end(name, back_after=AWAY_SECONDS)

    def _one_more(self) -> None:
        """A further worker comes, or leaves in order where it came before."""
        if FURTHER in self._workers.pids:
            self._workers.stop(FURTHER)
        else:
            self._workers.start(FURTHER)

    def _same_name(self, name: str) -> None:
        """A second worker of that name must end by itself, and say who holds it."""
        second = self._workers.second(name)
        try:
            code = second.code(REFUSED_SECONDS)
        except TidelockFailed as error:
            self.wrong.append(f"a second worker {name} was not refused: {error}")
            return
        if code == 0 or name not in second.said:
            self.wrong.append(f"a second worker {name} ended with exit code {code}: {second.said[-400:]}")

    def _freeze(self, name: str) -> None:
        self._frozen[name] = time.monotonic() + FROZEN_SECONDS
        self._workers.freeze(name)

    def _wake(self) -> None:
        now = time.monotonic()
        for name in [name for name, due in self._frozen.items() if due <= now]:
            del self._frozen[name]
            self._workers.thaw(name)
            self._settled = now + SETTLING_SECONDS
        for name in [name for name, back in self._away.items() if back <= now]:
            del self._away[name]
            self._settled = now + SETTLING_SECONDS

    # ------------------------------------------------------------------ servers

    def _restart(self, end: Callable[[], None], start: Callable[[], None]) -> None:
        end()
        time.sleep(self._rng.uniform(0.0, 2.0))
        start()

    def _restart_target(self, end: Callable[[], None]) -> None:
        self._restart(end, self._rig.target.start)
        self._rig.reconnect()
        self._history.reconnect(self._rig.target.url())

    def _restart_source(self, end: Callable[[], None]) -> None:
        self._restart(end, self._rig.source.start)
        self._rig.reconnect()


def run(minutes: float, seed: int, logs: Path | None = None, count: int = 3, rate: float = RATE) -> Verdict:
    """`logs`: a folder that keeps the workers' logs.  `rate`: row changes a second.

    Raises AssertionError, with the logs' ends, if rows do not flow.
    """
    with contextlib.ExitStack() as stack:
        folder = logs or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-chaos-")))
        source, target = stack.enter_context(MariaDb(durable=True)), stack.enter_context(Postgres())
        kafka = stack.enter_context(Kafka())
        options = {"log": kafka.url(), "lanes": 2, "batch_rows": 100}
        rig = stack.enter_context(contextlib.closing(Rig(source, target, folder, "chaos", **options)))
        workload = Several(Mix(), Churn(), Family())
        rig.make(workload)
        tables = [f"{rig.schema}.{table}" for table in rig.tables]
        history = stack.enter_context(Recorder(target.url(), tables))
        work = Steady(workload, source, rig.schema, seed, rate)
        work.prepare()
        names = [f"w{number}" for number in range(1, count + 1)]
        workers = stack.enter_context(Workers(rig, [*names, FURTHER]))
        workers.start(*names)
        work.start()
        chaos = Chaos(workers, kafka, history, work, seed)
        workers.until_flowing(RECOVERY_SECONDS, work.check)
        chaos.run(minutes)
        workers.until_caught_up()
        load = os.getloadavg()[0]
        workers.stop()
        events = list(history.events())
        return Verdict(
            minutes=minutes,
            seed=seed,
            load_average=round(load, 2),
            changes=work.changes,
            history=len(events),
            differences=rig.differences().total,
            unique_violations=Target(target, rig.schema).unique_violations(),
            parked=rig.parked(),
            violations=[str(violation) for violation in recorder.check(events, workload.deleted)],
            states=workers.watch.states,
            backward=len(workers.watch.backward),
            fenced=workers.fenced,
            rate=rate,
            wrong=chaos.wrong,
            blows=chaos.blows,
        )
