"""Shrinking, with worlds that fail for a known reason."""

import itertools
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tidelock.simulations.plan import FAULTS, FEATURES, Plan, draw
from tidelock.simulations.shrink import SCHEDULES, Shrinker, parts_left
from tidelock.simulations.trial import Trial

BIG = replace(draw(7), features=tuple(sorted(FEATURES)), faults=dict.fromkeys(FAULTS, 4))
FAMILIES = ("account", "member", "seat")


def world(guilty: Callable[[Plan, tuple[int, ...]], str]) -> Callable[[Plan], Trial]:
    """A history of one change a transaction; `guilty` names the mistake of a plan with these transactions."""

    def attempt(plan: Plan) -> Trial:
        numbers: list[int] = []
        for number in range(1, 5 * plan.changes + 1):
            if len(numbers) < plan.changes and number not in plan.without:
                numbers.append(number)
        mistake = guilty(plan, tuple(numbers))
        lines = [f"line {n}" for n in range(100 - plan.schedule % 64 + len(numbers))]
        error = mistake.partition(" ")[0]
        return Trial(plan, mistake, error, changes=len(numbers), transactions=tuple(numbers), transcript=lines)

    return attempt


def shrunk(plan: Plan, attempt: Callable[[Plan], Trial], steps: int = 100_000) -> Trial:
    ticks = itertools.count()
    return Shrinker(attempt(plan), attempt, seconds=steps, clock=lambda: next(ticks)).run()


@pytest.mark.parametrize("needed", [[], [0], [99], [3, 4], [0, 50, 99], list(range(0, 100, 7)), list(range(100))])
def test_only_what_is_needed_is_left(needed: list[int]) -> None:
    assert parts_left(range(100), lambda left: set(needed) <= set(left)) == needed


def test_few_are_found_among_many_in_few_tries() -> None:
    tries: list[int] = []

    def fails(left: list[int]) -> bool:
        tries.append(len(left))
        return {17, 700} <= set(left)

    assert parts_left(range(1000), fails) == [17, 700]
    assert len(tries) < 60


def test_everything_that_has_no_part_in_it_goes() -> None:
    def guilty(plan: Plan, numbers: tuple[int, ...]) -> str:
        needs = (
            {3, 41} <= set(numbers),
            "seat" in plan.families,
            "crash" in plan.faults and "doubt" in plan.faults,
            "ddl" in plan.features,
            plan.engine.lanes >= 2,
        )
        return "Mistake here" if all(needs) else ""

    big = replace(BIG, families=FAMILIES, atomic=True, cascades="parent first", engine=replace(BIG.engine, lanes=8))
    small = shrunk(big, world(guilty))
    assert small.transactions == (3, 41)
    assert small.plan.families == ("seat",)
    assert small.plan.faults == {"crash": 1, "doubt": 1}
    assert small.plan.features == ("ddl",)
    assert (small.plan.atomic, small.plan.cascades, small.plan.changes) == (False, "hidden", 9)
    assert small.plan.without == tuple(n for n in range(1, 46) if n not in (3, 41))
    assert (small.plan.engine.lanes, small.plan.engine.batch_rows, small.plan.engine.window_rows) == (2, 1, 1)


def test_a_shorter_history_names_no_transaction_that_is_not_in_it() -> None:
    plan = replace(BIG, changes=64, without=(2, 3, 50, 300))
    small = shrunk(plan, world(lambda plan, numbers: "Mistake" if 1 in numbers else ""))
    assert (small.plan.changes, small.plan.without) == (1, (2, 3))


def test_a_smaller_history_is_tried_under_other_schedules() -> None:
    def guilty(plan: Plan, numbers: tuple[int, ...]) -> str:
        return "Mistake" if 9 in numbers and plan.schedule % SCHEDULES == len(numbers) % SCHEDULES else ""

    plan = replace(BIG, schedule=BIG.changes)
    assert shrunk(plan, world(guilty)).transactions == (9,)


def test_the_same_mistake_is_better_than_another_of_its_class() -> None:
    def guilty(plan: Plan, numbers: tuple[int, ...]) -> str:
        if 9 not in numbers:
            return "KeyError elsewhere"
        return f"Mistake at {len(numbers)}" if plan.schedule == 5 else f"Mistake of another kind {numbers[0]}"

    small = shrunk(replace(BIG, schedule=5), world(guilty))
    assert (small.transactions, small.mistake, small.plan.schedule) == ((9,), "Mistake at 1", 5)


def test_another_mistake_of_its_class_is_better_than_none() -> None:
    def guilty(plan: Plan, numbers: tuple[int, ...]) -> str:
        return "Mistake one" if len(numbers) > 4 else "Mistake two" if numbers else ""

    assert len(shrunk(BIG, world(guilty)).transactions) == 1


def test_of_many_schedules_the_shortest_story_stays() -> None:
    small = shrunk(BIG, world(lambda plan, numbers: "Mistake"))
    assert (small.plan.schedule, len(small.transcript)) == (63, 38)


def test_when_the_time_is_over_the_best_so_far_stays() -> None:
    runs: list[Plan] = []

    def guilty(plan: Plan, numbers: tuple[int, ...]) -> str:
        runs.append(plan)
        return "Mistake" if {9, 60, 90} <= set(numbers) else ""

    some = shrunk(BIG, world(guilty), steps=60)
    assert some.mistake and 3 < len(some.transactions) < 100
    assert len(runs) < 60


def test_a_clean_run_cannot_be_shrunk() -> None:
    with pytest.raises(ValueError, match="clean"):
        Shrinker(Trial(BIG), lambda plan: Trial(plan))
