"""A feed to an arbiter where many changes are in conflict: each is decided about untried, until few are again."""

from __future__ import annotations

from tests.engine.test_batch_arbitration import Up
from tidelock.engine.apply.machine import ApplyMachine
from tidelock.engine.batch.contention import Contention
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.options import Options
from tidelock.engine.protocol.events import BatchFailed, Decided

OPTIONS = Options(lanes=1, direction="up", batch_rows=8)
CONFLICT = Decided(False, (("update_origin_differs", "write"),))
NONE = Decided(False, ())


def test_a_share_is_taken_over_a_part_of_a_batch() -> None:
    seen = Contention(Options(direction="up", batch_rows=1000))
    seen.note(100, 100)
    assert not seen.high, "too few"
    seen.note(25, 0)
    assert seen.high
    seen.note(125, 5)
    assert seen.high, "fewer, and not few"
    seen.note(125, 2)
    assert not seen.high
    seen.note(125, 5)
    assert not seen.high, "more, and not many"


def test_other_feeds_try_each_batch() -> None:
    for options in (Options(direction="down"), Options(), Options(direction="up", atomic=True)):
        seen = Contention(options)
        seen.note(10_000, 10_000)
        assert not seen.high


def test_what_follows_many_conflicts_is_decided_about_untried() -> None:
    up = Up()
    up.machine = ApplyMachine(OPTIONS)
    rows = "; ".join(f"update account {n} {n}u x to {n} {n}u y" for n in (1, 2, 3))
    for line in ("tables account", "take over", f"log 1 resent: {rows}"):
        up.play(line)
    (batch,) = up.sent
    name = batch.steps[0].table.name
    up.answer(BatchFailed(batch.id, Failure(ErrorKind.ROW, "differs"), ((name, (1,)),)))
    assert up.sent[0].steps and not up.sent[0].decide, "the two that are clear are tried"
    up.commit()
    assert [question.after for question in up.sent[0].decide] == [(1, "1u", "y")]
    up.commit(CONFLICT)
    up.play(f"log 2: {rows.replace(' y', ' z').replace(' x', ' y')}; update account 1 1u z to 1 1u w")
    (batch,) = up.sent
    assert not batch.steps, "nothing is tried"
    assert [question.after for question in batch.decide] == [(1, "1u", "z"), (2, "2u", "z"), (3, "3u", "z")]
    up.commit(NONE, NONE, NONE)
    assert [question.after for question in up.sent[0].decide] == [(1, "1u", "w")], "it shares a lock, so it follows"
    up.commit(NONE)
    up.play("log 3: update account 2 2u z to 2 2u w; update account 3 3u z to 3 3u w")
    assert up.sent[0].steps and not up.sent[0].decide, "there is no conflict any more"
