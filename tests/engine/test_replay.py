"""A journal's steps again, as the text that people read."""

from tidelock.engine.apply.machine import Options
from tidelock.engine.model.errors import Alarm, ErrorKind, Failure
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import RowChange, TableName, Transaction
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import (
    ApplyEvent,
    BatchCommitted,
    BatchFailed,
    BatchReady,
    BatchRolledBack,
    CheckpointFailed,
    CheckpointSaved,
    DdlApplied,
    DdlFailed,
    GoalSet,
    LogArrived,
    ParkedKey,
    ParkedWished,
    Paused,
    SourceFailed,
    TakenOver,
    Tick,
)
from tidelock.engine.replay import Replay, spell_event
from tidelock.simulations.catalogue import ACCOUNT, linked, shape
from tidelock.simulations.scenario import position

ID = EffectId(1, 1)
FAILURE = Failure(ErrorKind.ROW, "too long", "22001")
ALARM = Alarm("connection", "connection lost", "Wait")
PLACE = ParkedKey("0-1", 5, 0, TableName("shop", "account"), b"", "retry")


def test_a_step_is_its_events_and_their_effects() -> None:
    replay = Replay(Options(lanes=2))
    batch = LogBatch(
        position(0),
        position(1),
        (Transaction("0-1", 1, 0),),
        (RowChange(0, None, (1, None, "x"), 0), RowChange(0, (2, "a", "x"), (3, "a", "x"), 1)),
        {0: shape(ACCOUNT)},
        resent=True,
    )
    taken = TakenOver(1, position(0), tables=linked(ACCOUNT))
    assert replay.step(1_500_000, [taken, LogArrived([batch])]) == [
        "1.500000  taken over: epoch 1, checkpoint log.000001:0, 0 receipts, 0 parked, 1 tables",
        "1.500000  log log.000001:0 to log.000001:100 resent: 2 rows",
        "  → apply 1.1 lane 0 [0-1:1:1]: delete shop.account (2); insert shop.account (3, a, x)",
        "  → apply 1.2 lane 1 [0-1:1:0]: insert shop.account (1, NULL, x)",
    ]


def test_every_event_has_its_words() -> None:
    ddl = LogBatch(position(0), position(1), ddl=Ddl("shop", "DROP TABLE x", "0-1", 1, DdlKind.OTHER))
    words: list[tuple[ApplyEvent, str]] = [
        (LogArrived([ddl]), "log log.000001:0 to log.000001:100: ddl DROP TABLE x"),
        (BatchReady(ID), "ready 1.1"),
        (BatchCommitted(ID), "committed 1.1"),
        (BatchRolledBack(ID), "rolled back 1.1"),
        (BatchFailed(ID, FAILURE), "failed 1.1 row: too long"),
        (CheckpointSaved(ID), "checkpoint saved 1.1"),
        (CheckpointFailed(ID, FAILURE), "checkpoint failed 1.1 row: too long"),
        (DdlApplied(ID, {}), "ddl applied 1.1"),
        (DdlFailed(ID, FAILURE), "ddl failed 1.1 row: too long"),
        (ParkedWished((PLACE,)), "wished retry 0-1:5:0"),
        (GoalSet(position(3)), "goal log.000001:300"),
        (Paused(True), "paused"),
        (Paused(False), "resumed"),
        (SourceFailed(ALARM, True), "source failed: connection lost. Wait"),
        (SourceFailed(ALARM, False), "source failed for good: connection lost. Wait"),
        (Tick(), "tick"),
    ]
    assert [list(spell_event(event)) for event, _ in words] == [[line] for _, line in words]
