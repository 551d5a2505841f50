"""The protocol of `adapters.workers.copy_homes`, explored: a table leaves group A for group B while it may be copied.

A small model in which every step is atomic and steps come in every order: the coordinator, which may die after each and
be followed by another; two lives of each group's owner; a request for a copy.  Each rule that is left out must end in
something wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

A, B = 0, 1
RULES = ("anew", "bump left", "bump got", "again", "before announcing")
LIVES = 2


@dataclass(frozen=True)
class Owner:
    """A life of a group's owner.  `copies`: its ledger has the table.  `looked`: it has looked the plan up and is about
    to begin a copy."""

    group: int
    epoch: int
    copies: bool
    looked: bool = False


@dataclass(frozen=True)
class World:
    """`stored`, `announced`: the version of the plan; with 2 the table is B's.  `moved`: the target has it, for the
    coordinator that lives.  `chunks`: whose books have the table's copy, which is not merged.  `gone_on`: rows of the
    table flow behind the place of the new plan.
    """

    stored: int = 1
    announced: int = 1
    moved: bool = False
    gone_on: bool = False
    epochs: tuple[int, int] = (0, 0)
    lives: tuple[int, int] = (0, 0)
    chunks: int | None = None
    asked: bool = True
    deaths: int = 0
    owners: frozenset[Owner] = frozenset()


class Wrong(AssertionError):
    """A state in which something is wrong."""


def home(version: int) -> int:
    return A if version == 1 else B


def raised(world: World, *groups: int) -> tuple[int, int]:
    return (world.epochs[A] + (A in groups), world.epochs[B] + (B in groups))


def coordinated(world: World, without: str) -> Iterator[World]:
    if world.stored == 1:
        yield replace(world, stored=2)
        return
    if not world.moved and not world.gone_on:
        yield moved(world, without)
    if world.announced == 1 and (world.moved or without == "before announcing"):
        yield replace(world, announced=2)
    if world.announced == 2 and world.moved and not world.gone_on:
        yield replace(world, gone_on=True)
    if world.deaths == 0 and not world.gone_on:
        yield replace(world, deaths=1, moved=world.moved or without == "again")


def moved(world: World, without: str) -> World:
    groups = set() if without == "bump left" else {A}
    if world.chunks == A:
        groups |= set() if without == "bump got" else {B}
    return replace(world, moved=True, chunks=B if world.chunks is not None else None, epochs=raised(world, *groups))


def taken_over(world: World, group: int) -> Iterator[World]:
    if world.lives[group] < LIVES:
        epochs = raised(world, group)
        owner = Owner(group, epochs[group], world.chunks == group)
        lives = (world.lives[A] + (group == A), world.lives[B] + (group == B))
        yield replace(world, epochs=epochs, lives=lives, owners=world.owners | {owner})


def owned(world: World, owner: Owner, without: str) -> Iterator[World]:
    others = world.owners - {owner}
    if world.asked and not owner.looked:
        settled = world.stored == world.announced
        ours = home(world.stored) == owner.group and settled
        if ours or (without == "anew" and owner.group == A):  # it goes by what it knew at its takeover
            yield replace(world, owners=others | {replace(owner, looked=True)})
    fenced = owner.epoch != world.epochs[owner.group]
    if owner.looked and not fenced and world.asked:
        touched(world, owner)
        if world.chunks is not None and world.chunks != owner.group:
            raise Wrong("a copy begins beside another group's")
        yield replace(
            world, asked=False, chunks=owner.group, owners=others | {replace(owner, copies=True, looked=False)}
        )
    if owner.copies and not fenced:
        touched(world, owner)
        yield replace(world, chunks=None, owners=others | {replace(owner, copies=False)})
    if world.gone_on and owner.group == B and not fenced and (world.chunks == B) != owner.copies:
        raise Wrong("B applies rows of a table of whose copy it does not know")


def touched(world: World, owner: Owner) -> None:
    if owner.group == A and (world.gone_on or world.announced == 2):
        raise Wrong("A touches the table, whose rows it does not get any more")


def explore(without: str = "") -> int:
    """Returns how many worlds there are.  Raises Wrong."""
    seen, frontier = {World()}, [World()]
    while frontier:
        world = frontier.pop()
        steps = [*coordinated(world, without), *taken_over(world, A), *taken_over(world, B)]
        for owner in world.owners:
            steps += owned(world, owner, without)
        for step in steps:
            if step not in seen:
                seen.add(step)
                frontier.append(step)
    return len(seen)


def test_a_table_moves_and_its_copy_with_it_whatever_comes_in_between() -> None:
    assert explore() > 1000


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_needed(rule: str) -> None:
    with pytest.raises(Wrong):
        explore(rule)
