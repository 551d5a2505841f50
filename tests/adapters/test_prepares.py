"""Prepares and their answers are paired as a plain dictionary would, whatever the order; planted bugs are found."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import pytest

from tidelock.adapters.mysql.binlog import prepares as module
from tidelock.adapters.mysql.binlog.events import TABLE_MAP, WRITE_ROWS
from tidelock.adapters.mysql.binlog.prepares import Event, Prepared, Prepares, Xid
from tidelock.engine.model.records import Position

TOGETHER = 40
STORIES = 1000
XIDS = [Xid(1, b"a", b""), Xid(2, b"a", b""), Xid(1, b"a", b"b"), Xid(1, b"b", b"")]


class Group(NamedTuple):
    """Prepared under `xid`, with rows of so many bytes each; or ended at once (`ONE PHASE`), as if it never was."""

    xid: Xid
    rows: tuple[int, ...]
    wanted: bool
    prepared: bool


class Answer(NamedTuple):
    xid: Xid


Step: TypeAlias = Group | Answer


def told(rng: random.Random) -> list[Step]:
    """A story of up to twenty steps."""
    return [step(rng) for _ in range(rng.randint(1, 20))]


def step(rng: random.Random) -> Step:
    xid = rng.choice(XIDS)
    if rng.random() < 0.3:
        return Answer(xid)
    rows = tuple(rng.randint(1, 12) for _ in range(rng.randint(0, 3)))
    return Group(xid, rows, rng.random() < 0.6, rng.random() < 0.8)


class Oracle:
    """Model of what is open, in the order of the prepares, with its place and all its events."""

    def __init__(self) -> None:
        self.open: dict[Xid, tuple[Position, bool, list[Event]]] = {}

    def judge(self, xid: Xid, found: Prepared | None) -> None:
        expected = self.open.pop(xid, None)
        if expected is None:
            assert found is None, f"{xid} has no prepare"
            return
        place, wanted, events = expected
        assert found is not None and (found.place, found.touches) == (place, wanted)
        assert found.events is None or list(found.events) == events, f"rows of another transaction, or not all of {xid}"
        assert wanted or found.events is None, "rows that nobody wants are kept"


def play(make: Callable[[], Prepares], story: list[Step]) -> None:
    prepares, oracle = make(), Oracle()
    for number, step in enumerate(story, 1):
        if isinstance(step, Answer):
            oracle.judge(step.xid, prepares.decide(step.xid))
        else:
            place = Position("log.000001", number * 100)
            prepares.begin(place, number)
            events = list[Event]()
            for row, size in enumerate((3, *step.rows)):
                body = bytes([number, row]) + bytes(size)
                kind = TABLE_MAP if row == 0 else WRITE_ROWS
                prepares.keep(kind, b"-" + body + b"-", 1, 1 + len(body), wanted=step.wanted and row > 0)
                events.append((kind, body))
            if not step.prepared:
                continue
            oracle.open.pop(step.xid, None)
            oracle.open[step.xid] = place, step.wanted and bool(step.rows), events
            prepares.prepare(step.xid)
        seen = prepares.unanswered()
        waits = [(xid, place) for xid, (place, wanted, _) in oracle.open.items() if wanted]
        assert (seen and (seen[0], seen[1].place)) == (waits[0] if waits else None), "the oldest that has wanted rows"
        held = sum(len(body) for one in prepares._open.values() for _, body in one.events or ())
        assert held <= TOGETHER, f"{held} bytes are kept"
    for xid in XIDS:
        oracle.judge(xid, prepares.decide(xid))


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 30)
    monkeypatch.setattr(module, "KEPT_TOGETHER", TOGETHER)


def search(make: Callable[[], Prepares]) -> None:
    """Plays stories until one fails."""
    for seed in range(STORIES):
        play(make, told(random.Random(seed)))


def test_answers_find_their_prepares() -> None:
    search(Prepares)


class AnswersTheOldest(Prepares):
    def decide(self, xid: Xid) -> Prepared | None:
        return super().decide(next(iter(self._open), xid))


class ByNameAlone(Prepares):
    """Branch and format do not count."""

    def prepare(self, xid: Xid) -> None:
        super().prepare(Xid(1, xid.gtrid, b""))

    def decide(self, xid: Xid) -> Prepared | None:
        return super().decide(Xid(1, xid.gtrid, b""))


class KeepsItsAge(Prepares):
    """A name that is prepared anew stays where the first one was."""

    def prepare(self, xid: Xid) -> None:
        before = [*self._open]
        super().prepare(xid)
        if xid in before:
            self._open = {one: self._open[one] for one in before if one in self._open} | self._open


class CountsNothing(Prepares):
    def prepare(self, xid: Xid) -> None:
        super().prepare(xid)
        self._total = 0


class ForgetsTheYoungest(Prepares):
    """Where too much would be kept, its events go and what stays is another's."""

    def prepare(self, xid: Xid) -> None:
        super().prepare(xid)
        if len(self._kept) > 1:
            first, *_ = self._kept
            self._open[xid] = self._open[xid]._replace(events=self._open[first].events)


class BeginsNothing(Prepares):
    """Events of a group that was not prepared come with the next one."""

    def begin(self, place: Position, when: int) -> None:
        self._place, self._when = place, when
        self.touches = False


class RemainsWanted(Prepares):
    def begin(self, place: Position, when: int) -> None:
        touches = self.touches
        super().begin(place, when)
        self.touches = touches


@pytest.mark.parametrize(
    "planted",
    [AnswersTheOldest, ByNameAlone, KeepsItsAge, CountsNothing, ForgetsTheYoungest, BeginsNothing, RemainsWanted],
)
def test_a_planted_bug_is_found(planted: type[Prepares]) -> None:
    with pytest.raises(AssertionError):
        search(planted)
