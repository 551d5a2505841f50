"""A feed to an arbiter: the one change that its target does not take is decided about, and nothing else waits."""

from __future__ import annotations

from tidelock.engine.apply.machine import ApplyMachine
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.options import Options
from tidelock.engine.protocol.effects import ApplyBatch, ApplyEffect, EffectId
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, Decided
from tidelock.engine.protocol.steps import DecideChange
from tidelock.simulations.scenario import Scenario

LOG = "log 1 resent: update account 1 a x to 1 a y; update account 2 b x to 2 b y; update account 3 c x to 3 c y"


class Up(Scenario):
    """`sent`: the batches of the last line or answer."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = ApplyMachine(Options(lanes=1, direction="up"))
        self.sent: list[ApplyBatch] = []
        for line in ("tables account", "take over", LOG):
            self.play(line)

    def _note(self, effect: ApplyEffect) -> None:
        super()._note(effect)
        if isinstance(effect, ApplyBatch):
            self.sent.append(effect)

    def play(self, line: str) -> None:
        self.sent = []
        list(self.take(line))

    def answer(self, event: BatchCommitted | BatchFailed) -> None:
        self.sent = []
        list(self._step(event))

    def refuse(self, words: str = "differs", code: str = "") -> None:
        self.answer(BatchFailed(self.sent[0].id, Failure(ErrorKind.ROW, words, code)))

    def commit(self, *decided: Decided) -> None:
        self.answer(BatchCommitted(self.sent[0].id, decided=decided))

    @property
    def asked(self) -> DecideChange:
        """The only question of the only batch."""
        ((question,),) = [batch.decide for batch in self.sent]
        return question

    def at_the_decision(self) -> Up:
        """The batch of three is refused, then the first alone."""
        self.refuse()
        self.refuse()
        return self


def test_the_change_that_fails_alone_is_decided_about_alone() -> None:
    up = Up()
    up.refuse("the batch")
    assert [len(step.rows) for batch in up.sent for step in batch.steps if hasattr(step, "rows")] == [1]
    assert not up.sent[0].decide
    up.refuse("differs")
    (batch,) = up.sent
    assert not batch.steps and not batch.held and not batch.parked
    assert (up.asked.before, up.asked.after) == ((1, "a", "x"), (1, "a", "y"))
    assert (up.asked.refused, up.asked.parked.error) == ("", "differs")
    up.commit(Decided(False, (("update_origin_differs", "write"),)))
    assert not up.sent[0].decide and len(up.sent[0].steps) > 0, "the others go on"
    assert up.machine.status().conflicts == {("update_origin_differs", "write"): 1}
    assert up.machine.snapshot()["parked"] == 0


def test_an_answer_that_is_lost_asks_the_same_question_again() -> None:
    up = Up().at_the_decision()
    before = up.sent[0]
    up.answer(BatchFailed(before.id, Failure(ErrorKind.IN_DOUBT, "lost")))
    up.play("wait 100")
    assert up.sent == [before] and before.decide


def test_what_cannot_be_written_is_kept_out_and_else_parked() -> None:
    up = Up().at_the_decision()
    up.refuse("no parent", "1452")
    assert (up.asked.refused, up.asked.foreign) == ("no parent", True)
    up.refuse("a value")
    (batch,) = up.sent
    assert not batch.decide and [row.error for row in batch.parked] == ["a value"]
    assert [rows.keys for rows in batch.told] == [[(1,)]]


def test_what_waits_behind_a_parked_change_is_told() -> None:
    up = Up().at_the_decision()
    up.commit(Decided(True))
    assert up.machine.snapshot()["parked"] == 1
    while up.sent:
        up.commit()
    up.play("log 2: update account 1 a y to 4 a z; update account 2 b y to 2 b z")
    (batch,) = up.sent
    assert [rows.keys for rows in batch.told] == [[(1,), (4,)]]
    assert len(batch.parked) == 1 and batch.steps, "the others go on"


def test_a_batch_id_names_one_question() -> None:
    up = Up().at_the_decision()
    first = up.sent[0].id
    up.refuse("no parent", "1452")
    assert up.sent[0].id != first and isinstance(first, EffectId)


def test_rows_in_conflict_that_the_target_tells_are_decided_about_together_behind_all_others() -> None:
    up = Up()
    (first,) = up.sent
    assert first.scan
    name = first.steps[0].table.name
    failure = Failure(ErrorKind.ROW, "2 of 3 rows are")
    up.answer(BatchFailed(first.id, failure, ((name, (1,)), (name, (3,)))))
    (clear,) = up.sent
    assert [step.rows for step in clear.steps if hasattr(step, "rows")] == [[(2, "b", "y")]]
    assert not clear.decide and not clear.scan, "of one row it is known which it is"
    up.commit()
    (deciding,) = up.sent
    assert [question.after for question in deciding.decide] == [(1, "a", "y"), (3, "c", "y")]
    assert not deciding.steps and all(q.parked.error.startswith("in conflict") for q in deciding.decide)
    up.commit(Decided(False, (("update_origin_differs", "write"),)), Decided(True, (("update_missing", "park"),)))
    status = up.machine.status()
    assert status is not None
    assert status.conflicts == {("update_origin_differs", "write"): 1, ("update_missing", "park"): 1}
    assert up.machine.snapshot()["parked"] == 1
    up.play("log 2: update account 3 c y to 3 c z; update account 1 a y to 1 a z")
    (batch,) = up.sent
    assert [rows.keys for rows in batch.told] == [[(3,)]], "its row waits, and no other"


def test_decisions_that_fail_together_are_made_apart() -> None:
    up = Up()
    name = up.sent[0].steps[0].table.name
    up.answer(BatchFailed(up.sent[0].id, Failure(ErrorKind.ROW, "differs"), ((name, (1,)), (name, (3,)))))
    up.commit()
    up.refuse("no parent", "1452")
    assert (up.asked.after, up.asked.refused) == ((1, "a", "y"), ""), "it may be the other"
    up.commit(Decided(False))
    up.refuse("no parent", "1452")
    assert (up.asked.after, up.asked.refused) == ((3, "c", "y"), "no parent")
