"""The holder of a worker's name: whatever order the words come in, everybody agrees, and two never both have it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import pytest
from msgspec.structs import replace

from tidelock.engine.cluster.name_holder import NameHolder
from tidelock.engine.protocol.worker_names import NameWord

A = NameWord(says="claim", name="w1", token="a", host="one", pid=1, since_us=1)
B = replace(A, token="b", host="two", pid=2)
C = replace(A, token="c", host="three", pid=3)


def after(*words: NameWord) -> NameHolder:
    holder = NameHolder()
    for word in words:
        holder.observe(word)
    return holder


def says(worker: NameWord, word: Literal["claim", "alive", "take", "left"]) -> NameWord:
    return replace(worker, says=word)


def token(holder: NameHolder) -> str | None:
    return holder.holder.token if holder.holder else None


def test_the_first_has_the_name_and_the_second_waits() -> None:
    holder = after(A, B)
    assert token(holder) == "a"
    assert not holder.refused("a") and not holder.refused("b")


def test_an_answer_refuses_who_waits() -> None:
    holder = after(A, B, C, says(A, "alive"))
    assert token(holder) == "a"
    assert holder.refused("b") and holder.refused("c")


def test_a_take_after_the_answer_comes_too_late() -> None:
    holder = after(A, B, says(A, "alive"), says(B, "take"))
    assert token(holder) == "a" and holder.refused("b")


def test_an_answer_after_the_take_comes_too_late() -> None:
    holder = after(A, B, says(B, "take"), says(A, "alive"))
    assert token(holder) == "b" and holder.refused("a")


def test_a_name_that_is_left_goes_to_who_waits() -> None:
    assert token(after(A, says(A, "left"))) is None
    assert token(after(A, B, C, says(A, "left"))) == "b"
    assert token(after(A, B, C, says(B, "left"), says(A, "left"))) == "c"


def test_a_reader_that_missed_the_beginning_learns_the_holder_from_any_of_its_words() -> None:
    assert token(after(says(A, "alive"))) == "a"
    assert token(after(says(A, "take"))) == "a"


class World(NamedTuple):
    """`read`: how many words of the topic each life has seen.  `spoken`: (life, word) that it says once at most."""

    topic: tuple[NameWord, ...]
    read: tuple[int, ...]
    spoken: frozenset[tuple[int, str]]


def nexts(world: World, lives: tuple[NameWord, ...]) -> Iterator[World]:
    """Every step that some life may take: it reads a word and answers, it claims, or it has waited in vain."""
    for number, life in enumerate(lives):
        seen = after(*world.topic[: world.read[number]])
        if world.read[number] < len(world.topic):
            word = world.topic[world.read[number]]
            seen.observe(word)
            read = tuple(count + (one == number) for one, count in enumerate(world.read))
            answers = token(seen) == life.token and word.says == "claim" and word.token != life.token
            yield World(world.topic + ((says(life, "alive"),) if answers else ()), read, world.spoken)
        wanted: list[Literal["claim", "take"]] = ["take"] if life.token in seen.waiting else []
        wanted += ["claim"] if world.read[number] == len(world.topic) else []
        for word_of in wanted:
            if (number, word_of) not in world.spoken:
                topic = (*world.topic, says(life, word_of))
                yield World(topic, world.read, world.spoken | {(number, word_of)})


@pytest.mark.parametrize("lives", [(A, B), (A, B, C)])
def test_whatever_the_order_exactly_one_has_the_name_in_the_end(lives: tuple[NameWord, ...]) -> None:
    """Every interleaving of lives that claim, read, answer and lose patience, each as slow as it likes."""
    begin = World((), (0,) * len(lives), frozenset())
    seen, waiting, ends = {begin}, [begin], 0
    while waiting:
        world = waiting.pop()
        steps = list(nexts(world, lives))
        if not steps:
            ends += 1
            last = after(*world.topic)
            standing = [life.token for life in lives if not last.refused(life.token)]
            assert standing == [token(last)], world.topic
        new = set(steps) - seen
        seen |= new
        waiting += new
    assert ends > 1
