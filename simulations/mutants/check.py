"""All hunts: a process for each mutant, so many at a time, ended cleanly whatever happens here."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence

import msgspec

from tidelock.simulations.mutants.beyond import BEYOND
from tidelock.simulations.mutants.catalogue import CATALOGUE
from tidelock.simulations.mutants.functions import PACKAGES
from tidelock.simulations.mutants.hunt import Order, Result
from tidelock.simulations.mutants.mutant import Mutant
from tidelock.simulations.mutants.planting import changed

LIMIT = 20_000
PATIENCE = 30.0
_COMMAND = (sys.executable, "-m", "tidelock.simulations.mutants.hunt")


class HuntFailed(Exception):
    """The process that hunts a mutant ended without a result; `args[0]` holds what it said."""


def named(names: Sequence[str]) -> list[Mutant]:
    """Mutants of the catalogue; all that are not beyond the worlds' reach if no name is given.  Raises ValueError for
    names that it does not have."""
    known = {mutant.name: mutant for mutant in CATALOGUE}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"no such mutant: {', '.join(unknown)}")
    return [known[name] for name in names or known if names or name not in BEYOND]


def run(
    names: Sequence[str] = (), jobs: int = 2, limit: int = LIMIT, progress: Callable[[Result], None] = lambda _: None
) -> list[Result]:
    """Hunt these mutants, `jobs` at a time, for `limit` seeds each; `progress` is called as each hunt ends.

    Returns the results in the order of the catalogue, or of `names`.  Raises ValueError (`named`), HuntFailed, and
    before any hunt begins Stale.
    """
    mutants = named(names)
    for mutant in mutants:
        changed(mutant)
    return hunt_all([Order(mutant, limit, PATIENCE) for mutant in mutants], jobs, progress)


def hunt_all(
    orders: Sequence[Order], jobs: int = 2, progress: Callable[[Result], None] = lambda _: None
) -> list[Result]:
    """Raises HuntFailed."""
    return asyncio.run(_hunt_all(orders, jobs, progress))


async def _hunt_all(orders: Sequence[Order], jobs: int, progress: Callable[[Result], None]) -> list[Result]:
    places = asyncio.Semaphore(jobs)

    async def one(order: Order) -> Result:
        async with places:
            result = await _hunt(order)
        progress(result)
        return result

    try:
        async with asyncio.TaskGroup() as group:
            hunts = [group.create_task(one(order)) for order in orders]
    except* HuntFailed as failed:
        raise failed.exceptions[0] from None
    return [hunt.result() for hunt in hunts]


async def _hunt(order: Order) -> Result:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*_COMMAND, stdin=pipe, stdout=pipe, stderr=pipe, cwd=PACKAGES)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    try:
        process.stdin.write(msgspec.json.encode(order) + b"\n")  # and left open: the hunt ends when it does
        told, failed = await asyncio.gather(process.stdout.read(), process.stderr.read())
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise HuntFailed(f"the hunt for {order.mutant.name} ended with {process.returncode}: {failed.decode()[-2000:]}")
    return msgspec.json.decode(told, type=Result)
