"""The blows that fall on one process of a feed, its servers and the wires between; each returns when it is over.

Two decks take turns.  The first, eight times over, strikes all but the process itself, which must live through it, so
that its memory is seen over a life of some twenty minutes.  The second kills and ends the process too.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from bench.chaos.checkpoints import Checkpoints
from bench.chaos.supervised import Supervised
from bench.chaos.target import Target
from bench.harness.servers import Server
from bench.harness.small_disk import SmallDisk
from bench.harness.wire import Way, Wire

AROUND: Final = (
    "capture killed",
    "source restart",
    "source killed",
    "source silent",
    "target restart",
    "target killed",
    "target silent",
    "target answers silent",
    "target full of clients",
    "target read-only",
    "journal's disk full",
)
LONG_ROUNDS: Final = 8
AT_IT: Final = ("killed",) * 3 + ("killed alone",) * 2 + ("SIGTERM",) * 2
BLOWS: Final = (*AROUND, *dict.fromkeys(AT_IT))
SILENT_SECONDS: Final = (5.0, 40.0)
CROWDED_SECONDS: Final = (3.0, 15.0)
READ_ONLY_SECONDS: Final = (3.0, 15.0)
FULL_SECONDS: Final = (3.0, 10.0)
AWAY_SECONDS: Final = (0.0, 3.0)


def deck(rng: random.Random) -> Iterator[str]:
    """Without an end."""
    while True:
        for _ in range(LONG_ROUNDS):
            yield from rng.sample(AROUND, len(AROUND))
        both = AROUND + AT_IT
        yield from rng.sample(both, len(both))


class Unstoppable(Exception):
    """The process did not end in order when it was told to; the text says how it ended."""


class Blows:
    """`short`: a tenth of the time for each blow that lasts, for a test."""

    def __init__(
        self,
        feed: Supervised,
        source: Server,
        target: Target,
        wires: tuple[Wire, Wire],
        disk: SmallDisk,
        checkpoints: Checkpoints,
        rng: random.Random,
        *,
        short: bool = False,
    ) -> None:
        self._feed, self._source, self._target, self._disk = feed, source, target, disk
        self._to_source, self._to_target = wires
        self._checkpoints, self._rng, self._share = checkpoints, rng, 0.1 if short else 1.0
        self._acts: Mapping[str, Callable[[], None]] = {
            "killed": lambda: feed.kill(alone=False),
            "killed alone": lambda: feed.kill(alone=True),
            "capture killed": feed.kill_capture,
            "SIGTERM": self._terminate,
            "source restart": lambda: self._away(source, source.stop),
            "source killed": lambda: self._away(source, source.kill),
            "source silent": lambda: self._silent(self._to_source),
            "target restart": lambda: self._away(target.server, target.server.stop),
            "target killed": lambda: self._away(target.server, target.server.kill),
            "target silent": lambda: self._silent(self._to_target),
            "target answers silent": lambda: self._silent(self._to_target, Way.BACK),
            "target full of clients": lambda: target.crowd(self._some(CROWDED_SECONDS)),
            "target read-only": lambda: target.read_only(self._some(READ_ONLY_SECONDS)),
            "journal's disk full": self._full,
        }
        assert set(self._acts) == set(BLOWS)

    @property
    def left_out(self) -> dict[str, str]:
        return {"journal's disk full": self._disk.missing} if self._disk.missing else {}

    def strike(self, kind: str) -> None:
        """Raises Unstoppable."""
        self._acts[kind]()

    def _some(self, between: tuple[float, float]) -> float:
        return self._rng.uniform(*between) * self._share

    def _terminate(self) -> None:
        code = self._feed.stop(again=True)
        if code:
            raise Unstoppable(f"exit code {code} after SIGTERM:\n{self._feed.said(10)}")

    def _away(self, server: Server, end: Callable[[], None]) -> None:
        end()
        if end == self._target.server.kill:
            self._checkpoints.forget()
        time.sleep(self._some(AWAY_SECONDS))
        server.start()

    def _silent(self, wire: Wire, *ways: Way) -> None:
        wire.silence(*ways)
        time.sleep(self._some(SILENT_SECONDS))
        wire.speak()

    def _full(self) -> None:
        self._disk.fill()
        time.sleep(self._some(FULL_SECONDS))
        self._disk.free()
