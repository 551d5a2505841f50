"""The hunt for one mutant, in a process of its own: seed after seed until a world notices, or the limit is reached.

The order comes as a line of JSON on stdin, the result goes to stdout; when stdin ends the process does, so that no hunt
outlives the one who ordered it.

Anything counts that a world would not do with the sound engine: a checker's mistake, an assertion of the engine, any
other exception, more steps than a run may take, a step that does not come to an end.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import msgspec

from tidelock.simulations.mutants.functions import PACKAGES
from tidelock.simulations.mutants.mutant import Mutant
from tidelock.simulations.mutants.planting import plant

_TOGETHER = 20
"""Seeds behind which garbage is collected: worlds are full of cycles, and once for many is cheaper."""


class Order(msgspec.Struct, frozen=True):
    """`limit`: how many seeds at most, from `first` on.  `patience`: seconds of the processor that one may take."""

    mutant: Mutant
    limit: int
    patience: float
    first: int = 0


class Result(msgspec.Struct, frozen=True):
    """`seed`: the one that killed it, None if it is alive after `seeds` of them.  `by`: who noticed, and its words."""

    mutant: Mutant
    seed: int | None
    seeds: int
    seconds: float
    by: str

    @property
    def killed(self) -> bool:
        return self.seed is not None


class Endless(Exception):
    """A seed took longer than it may."""


def hunt(order: Order) -> Result:
    """Plants for good: one hunt a process.  Raises Stale."""
    plant(order.mutant)
    begun = time.monotonic()
    gc.disable()
    for number in range(1, order.limit + 1):
        seed = order.first + number - 1
        if number % _TOGETHER == 0:
            gc.collect()
        try:
            _run_seed(seed, order)
        except Exception as error:
            return Result(order.mutant, seed, number, time.monotonic() - begun, _spell(error))
    return Result(order.mutant, None, order.limit, time.monotonic() - begun, "")


def _run_seed(seed: int, order: Order) -> None:
    with _at_most(order.patience):
        if order.mutant.worlds == "feed":
            _run_feed(seed)
        elif order.mutant.worlds == "altering":
            _run_altering(seed)
        else:
            _run_sites(seed, order.mutant.worlds)


def _run_feed(seed: int) -> None:
    from tidelock.simulations.plan import draw  # not before the bug is planted
    from tidelock.simulations.world import World

    World(draw(seed)).run()


def _run_altering(seed: int) -> None:
    from tidelock.simulations.altering.plan import draw
    from tidelock.simulations.altering.world import AlteringWorld

    AlteringWorld(draw(seed)).run()


def _run_sites(seed: int, kind: str) -> None:
    from tidelock.simulations.sites.plan import draw, draw_arbitrated
    from tidelock.simulations.sites.stamp_plan import draw_stamped
    from tidelock.simulations.sites.stamp_world import StampWorld
    from tidelock.simulations.sites.world import SitesWorld

    if kind == "stamps":
        StampWorld(draw_stamped(seed)).run()
    else:
        SitesWorld(draw_arbitrated(seed) if kind == "arbiter" else draw(seed)).run()


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raises Endless once the processor has been busy with it for that long, however slow a loaded machine is."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise Endless(f"a seed took more than {seconds:g} s")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _spell(error: Exception) -> str:
    """`checks._forward: what it said`, by the innermost function of engine or world that the error came through."""
    stack = traceback.extract_tb(error.__traceback__)
    ours = [f for f in stack if Path(f.filename).resolve().is_relative_to(PACKAGES)]
    frames = [f for f in ours if f.filename != __file__]
    where = f"{Path(frames[-1].filename).stem}.{frames[-1].name}"
    plain = isinstance(error, AssertionError) and type(error).__module__ == "builtins"
    what = "" if type(error).__name__ == "Mistake" else "assertion " if plain else f"{type(error).__name__} "
    return f"{where}: {what}{error}".strip()


def _end_with_stdin() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    sys.stdout.buffer.write(msgspec.json.encode(hunt(order)))
