"""Promises of the simulated world: it repeats, it finds the bug that it was made for, and its faults strike."""

import pytest

from tidelock.simulations.plan import LEAST_FAULTS, LEAST_TABLES, draw
from tidelock.simulations.world import World


def test_a_run_is_as_large_as_it_should_be() -> None:
    for seed in range(16):
        world = World(draw(seed))
        world.run()
        assert world.faults.count >= LEAST_FAULTS
        assert world.history.rows >= 100
        assert len(world.history.tables) >= LEAST_TABLES


@pytest.mark.parametrize("seed", range(8))
def test_the_same_plan_makes_the_same_run(seed: int) -> None:
    transcripts = []
    for _ in range(2):
        world = World(draw(seed))
        world.transcript = []
        world.run()
        transcripts.append(world.transcript)
    assert transcripts[0] == transcripts[1]


def fails(seed: int) -> bool:
    try:
        World(draw(seed, locking=False)).run()
    except AssertionError:
        return True
    return False


def test_without_locks_many_worlds_go_wrong() -> None:
    assert sum(map(fails, range(20))) > 5, "with one lane, or whole transactions, nothing is to be seen"
