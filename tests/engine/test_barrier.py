"""A statement that changes the schema drains all before it, runs alone, and is saved before anything follows."""

import pytest

from engine.barrier import Barrier, Passage, alarm, judge
from engine.effects import EffectId
from engine.records import Ddl, DdlKind, Position, TableName

END, ELSEWHERE = Position("bin.000001", 500), Position("bin.000001", 400)


def ddl(kind: DdlKind = DdlKind.ADD_COLUMN, statement: str = "ALTER TABLE account ADD nick text") -> Ddl:
    return Ddl("shop", statement, "0-1", 7, kind, (TableName("shop", "account"),))


def test_every_kind_has_its_passage() -> None:
    assert {kind: judge(ddl(kind), None) for kind in DdlKind} == {
        DdlKind.CREATE_TABLE: Passage.APPLY,
        DdlKind.ADD_COLUMN: Passage.APPLY,
        DdlKind.TRUNCATE: Passage.APPLY,
        DdlKind.UNRELATED: Passage.PASS,
        DdlKind.OTHER: Passage.HALT,
    }


@pytest.mark.parametrize("kind", DdlKind)
def test_what_the_operator_declared_done_passes_and_nothing_else_does(kind: DdlKind) -> None:
    assert judge(ddl(kind), ("0-1", 7)) is Passage.PASS
    assert judge(ddl(kind), ("0-1", 8)) is judge(ddl(kind), None)
    assert judge(ddl(kind), ("0-2", 7)) is judge(ddl(kind), None)


def test_the_alarm_says_what_where_and_what_to_do() -> None:
    told = alarm(ddl(DdlKind.OTHER, "ALTER TABLE account " + "x" * 10_000), "bin.000001:400")
    assert told.kind == "ddl" and told.table == "shop.account" and told.position == "bin.000001:400"
    assert "ALTER TABLE account x" in told.message and len(told.message) < 1000
    assert "tidelock ddl done" in told.hint and "tidelock ddl skip" in told.hint


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


def test_a_checkpoint_before_the_statement_took_effect_does_not_lower_it() -> None:
    barrier = Barrier()
    barrier.raise_for(ddl(), END)
    barrier.saved(END)
    assert barrier.draining


def test_a_statement_that_did_not_run_is_sent_again() -> None:
    barrier, first = Barrier(), EffectId(1, 5)
    barrier.raise_for(ddl(), END)
    barrier.apply(first)
    barrier.again()
    assert barrier.draining and not barrier.answers(first)
    barrier.apply(EffectId(1, 6))
    assert barrier.answers(EffectId(1, 6))


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
