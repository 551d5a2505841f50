"""A statement that changes the schema drains all before it, runs alone, and is saved before anything follows."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tidelock.engine.apply.ddl_barrier import Barrier, Passage, alarm, judge
from tidelock.engine.model.errors import Hindrance
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.protocol.effects import ApplyDdl, EffectId

END, ELSEWHERE = Position("bin.000001", 500), Position("bin.000001", 400)


def ddl(kind: DdlKind = DdlKind.ADD_COLUMN, statement: str = "ALTER TABLE account ADD nick text") -> Ddl:
    return Ddl("shop", statement, "0-1", 7, kind, (TableName("shop", "account"),))


def test_every_kind_has_its_passage() -> None:
    assert {kind: judge(ddl(kind), None) for kind in DdlKind} == {
        DdlKind.CREATE_TABLE: Passage.APPLY,
        DdlKind.ADD_COLUMN: Passage.APPLY,
        DdlKind.TRUNCATE: Passage.APPLY,
        DdlKind.ALTERED: Passage.APPLY,
        DdlKind.SHADOW: Passage.APPLY,
        DdlKind.UNRELATED: Passage.PASS,
        DdlKind.OTHER: Passage.HALT,
    }


@pytest.mark.parametrize("kind", DdlKind)
def test_what_the_operator_declared_done_passes_and_nothing_else_does(kind: DdlKind) -> None:
    assert judge(ddl(kind), ("0-1", 7)) is Passage.PASS
    assert judge(ddl(kind), ("0-1", 8)) is judge(ddl(kind), None)
    assert judge(ddl(kind), ("0-2", 7)) is judge(ddl(kind), None)


def test_a_table_whose_rows_have_stamps_is_not_altered_by_itself() -> None:
    """Its tombstones and triggers would have to change with it."""
    assert judge(ddl(DdlKind.ALTERED), None, stamps=True) is Passage.HALT
    assert judge(ddl(DdlKind.ADD_COLUMN), None, stamps=True) is Passage.APPLY


def test_the_alarm_says_what_where_and_what_to_do() -> None:
    told = alarm(ddl(DdlKind.OTHER, "ALTER TABLE account " + "x" * 10_000), "bin.000001:400")
    assert told.kind == "ddl" and told.table == "shop.account" and told.position == "bin.000001:400"
    assert "ALTER TABLE account x" in told.message and len(told.message) < 1000
    assert "tidelock ddl done" in told.hint and "tidelock ddl skip" in told.hint


def test_a_truncate_among_rows_with_stamps_halts_with_a_way_out_of_its_own() -> None:
    truncate = ddl(DdlKind.TRUNCATE, "TRUNCATE account")
    assert judge(truncate, None, stamps=True) is Passage.HALT
    assert judge(ddl(), None, stamps=True) is Passage.APPLY
    assert "DELETE FROM" in alarm(truncate, "bin.000001:400", stamps=True).hint
    assert "DELETE FROM" not in alarm(truncate, "bin.000001:400").hint


def test_a_statement_goes_through_the_barrier() -> None:
    barrier, id_ = Barrier(), EffectId(1, 5)
    assert not barrier.draining and not barrier.answers(id_)
    barrier.raise_for(ddl(), END)
    assert barrier.draining and barrier.ddl == ddl()
    barrier.apply(id_)
    assert not barrier.draining and barrier.answers(id_) and not barrier.answers(EffectId(1, 6))
    assert barrier.applied() == END
    assert barrier.ddl is not None, "up until it is saved"
    assert not barrier.answers(id_), "a second answer is stale"
    barrier.saved(ELSEWHERE)
    assert barrier.ddl is not None, "an older checkpoint does not lower it"
    barrier.saved(END)
    assert barrier.ddl is None and barrier.end is None and not barrier.draining and not barrier.sealing
    barrier.raise_for(ddl(), END)
    assert barrier.draining


def test_a_statement_that_has_passed_is_sealed_like_one_that_ran() -> None:
    barrier = Barrier()
    barrier.passes(ddl(), END)
    assert barrier.sealing and barrier.ddl == ddl() and not barrier.draining
    barrier.saved(ELSEWHERE)
    assert barrier.sealing
    barrier.saved(END)
    assert barrier.ddl is None and not barrier.sealing


def test_a_checkpoint_before_the_statement_took_effect_does_not_lower_it() -> None:
    barrier = Barrier()
    barrier.raise_for(ddl(), END)
    barrier.saved(END)
    assert barrier.draining


def test_a_statement_that_did_not_run_is_sent_again() -> None:
    barrier, first = Barrier(), EffectId(1, 5)
    barrier.raise_for(ddl(), END)
    barrier.apply(first)
    barrier.again(1_000, "the disk is full")
    assert barrier.draining and not barrier.answers(first)
    assert barrier.apply(EffectId(1, 6)) == ApplyDdl(EffectId(1, 6), ddl(), END)
    assert barrier.answers(EffectId(1, 6))


def test_what_keeps_a_statement_is_told_since_its_first_refusal_until_it_took_effect() -> None:
    barrier = Barrier()
    barrier.raise_for(ddl(), END)
    assert barrier.hindrance is None and not barrier.resting(0)
    for tried, message in ((1_000, "the disk is full"), (500_000, "a lock timed out")):
        barrier.apply(EffectId(1, tried))
        barrier.again(tried, message)
        assert barrier.hindrance == Hindrance(1_000, message)
        assert barrier.resting(tried) and barrier.resting(tried + 199_999) and not barrier.resting(tried + 200_000)
    barrier.apply(EffectId(1, 9))
    barrier.applied()
    assert barrier.hindrance is None


def test_a_statement_that_is_not_applied_holds_the_log_back_for_good() -> None:
    barrier = Barrier()
    barrier.raise_for(ddl(DdlKind.OTHER), END)
    barrier.halt()
    assert barrier.halting and not barrier.draining and not barrier.sealing
    barrier.saved(END)
    assert barrier.halting and barrier.ddl == ddl(DdlKind.OTHER), "no checkpoint lowers it"
    with pytest.raises(AssertionError, match="from halting to applying"):
        barrier.apply(EffectId(1, 1))


def test_one_statement_at_a_time_and_each_once() -> None:
    barrier = Barrier()
    with pytest.raises(AssertionError):
        barrier.apply(EffectId(1, 1))
    barrier.raise_for(ddl(), END)
    with pytest.raises(AssertionError, match="one statement"):
        barrier.raise_for(ddl(), END)
    barrier.apply(EffectId(1, 1))
    with pytest.raises(AssertionError):
        barrier.apply(EffectId(1, 2))


class Statements(RuleBasedStateMachine):
    """Statements come by, are sent, answered, told twice, late or to somebody else; checkpoints pass in between.

    The naive side is a diary: what happened to the statement that is up, word by word.  Its stage is read off the
    last word, and what is allowed next stands in a table.
    """

    STAGES = {"came": "draining", "sent": "applying", "failed": "draining", "took effect": "sealing"}

    @initialize()
    def start(self) -> None:
        self.barrier = Barrier()
        self.diary: list[str] = []
        self.up: tuple[Ddl, Position] | None = None
        self.ids: list[EffectId] = []  # sent so far, for this statement and those before it
        self.came = 0

    @property
    def stage(self) -> str:
        return self.STAGES[self.diary[-1]] if self.diary else "flowing"

    @rule(kind=st.sampled_from([DdlKind.ADD_COLUMN, DdlKind.TRUNCATE, DdlKind.OTHER]))
    def a_statement_comes(self, kind: DdlKind) -> None:
        one, end = ddl(kind, f"statement {self.came}"), Position("bin.000001", 100 * (self.came + 1))
        if self.stage != "flowing":
            with pytest.raises(AssertionError, match="one statement"):
                self.barrier.raise_for(one, end)
            return
        self.came += 1
        self.up = one, end
        self.barrier.raise_for(one, end)
        self.diary.append("came")

    @rule()
    def send(self) -> None:
        id_ = EffectId(1, len(self.ids))
        if self.stage != "draining":
            with pytest.raises(AssertionError):
                self.barrier.apply(id_)
            return
        self.barrier.apply(id_)
        self.ids.append(id_)
        self.diary.append("sent")

    @rule(which=st.sampled_from([0, 0, 0, 1, 2]), epoch=st.sampled_from([1, 1, 1, 2]), done=st.booleans())
    def an_answer(self, which: int, epoch: int, done: bool) -> None:
        """To the last effect or an older one (`which` back), of this owner or of another (`epoch`)."""
        if which >= len(self.ids):
            return
        id_ = EffectId(epoch, self.ids[-1 - which].counter)
        ours = self.stage == "applying" and id_ == self.ids[-1]
        assert self.barrier.answers(id_) is ours
        if ours and done:
            assert self.barrier.applied() == self.up[1]
            self.diary.append("took effect")
        elif ours:
            self.barrier.again(0, "busy")
            self.diary.append("failed")
        assert not self.barrier.answers(id_), "told twice"

    @rule(behind=st.sampled_from([-50, 0, 0, 50]))
    def a_checkpoint_is_saved(self, behind: int) -> None:
        place = self.up[1].offset if self.up else 50
        self.barrier.saved(Position("bin.000001", place + behind))
        if self.stage == "sealing" and behind == 0:
            self.up, self.diary = None, []

    @rule()
    def it_always_gets_through(self) -> None:
        """Whatever stray checkpoints there are on the way."""
        if self.stage == "draining":
            self.send()
        if self.stage == "applying":
            self.a_checkpoint_is_saved(0)
            self.it_stands_where_the_diary_says()
            self.an_answer(0, 1, done=True)
        if self.stage == "sealing":
            self.a_checkpoint_is_saved(-50)
            self.it_stands_where_the_diary_says()
            self.a_checkpoint_is_saved(0)
        assert self.stage == "flowing"

    @invariant()
    def it_stands_where_the_diary_says(self) -> None:
        assert (self.barrier.ddl, self.barrier.end) == (self.up or (None, None))
        assert self.barrier.draining is (self.stage == "draining")
        assert self.barrier.sealing is (self.stage == "sealing")


TestStatements = Statements.TestCase
TestStatements.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, derandomize=True, report_multiple_bugs=False
)


@pytest.mark.proof
def test_statements_at_length() -> None:
    run_state_machine_as_test(Statements, settings=settings(max_examples=4000, stateful_step_count=50, deadline=None))
