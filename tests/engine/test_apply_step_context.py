"""The step context numbers effects, keeps their order, and knows the first thing that ended the owner."""

from tidelock.engine.apply.step_context import StepContext
from tidelock.engine.model.errors import Alarm, ErrorKind, Failure
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.effects import CaughtUp, CommitBatch, EffectId, Halt, StepDown

PLACE = Position("bin.000001", 400)


def test_ids_are_the_owner_s_and_none_comes_twice() -> None:
    context = StepContext()
    context.epoch = 7
    assert [context.next_id() for _ in range(3)] == [EffectId(7, n) for n in (1, 2, 3)]


def test_effects_are_listed_in_their_order() -> None:
    context = StepContext()
    effects = [CommitBatch(EffectId(1, 1)), CaughtUp()]
    for effect in effects:
        context.emit(effect)
    assert context.effects == effects


def test_only_the_first_end_is_told() -> None:
    context = StepContext()
    alarm = Alarm("gap", "the log has a gap", "Wait")
    context.halt(alarm)
    context.halt(Alarm("schema", "another", "Wait"))
    context.step_down(StepDown("a newer owner", again=False))
    context.give_up(Failure(ErrorKind.TARGET, "refused"), PLACE)
    assert context.end == Halt(alarm)
    assert context.effects == [Halt(alarm)]


def test_an_owner_whose_target_lost_commits_begins_again_and_a_fenced_one_does_not() -> None:
    for kind, again in ((ErrorKind.COMMITS_LOST, True), (ErrorKind.FENCED, False)):
        context = StepContext()
        context.give_up(Failure(kind, "told so"), PLACE)
        assert context.end == StepDown("told so", again)


def test_what_the_target_refuses_for_good_is_an_alarm_with_its_place() -> None:
    context = StepContext()
    context.give_up(Failure(ErrorKind.TARGET, "permission denied for table account"), PLACE)
    assert isinstance(context.end, Halt)
    alarm = context.end.alarm
    assert (alarm.kind, alarm.position) == ("target", str(PLACE))
    assert "permission denied for table account" in alarm.message and "tidelock check FEED" in alarm.hint
