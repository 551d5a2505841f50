"""Conduct of a machine's batches when answers come late, out of turn, or not as hoped: short transcripts."""

from msgspec.structs import replace

from tidelock.engine.apply.machine import ApplyMachine, Options
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import RowChange, Shape, Transaction
from tidelock.engine.protocol.effects import ApplyBatch
from tidelock.engine.protocol.events import BatchCommitted, LogArrived, TakenOver
from tidelock.engine.protocol.steps import DeleteRows
from tidelock.simulations.catalogue import POOL, linked, shape
from tidelock.simulations.scenario import Scenario, position
from tidelock.simulations.selection import without_tier


def play(*lines: str) -> list[str]:
    """The effects of the last line."""
    scenario = Scenario()
    effects: list[str] = []
    for line in lines:
        effects = [effect.removeprefix("  → ") for effect in scenario.take(line)]
    return effects


ATOMIC = ("options lanes=2 atomic=true batch_rows=1", "tables account seat", "take over")
TWO = (*ATOMIC, "log 1 resent: insert account 1 a x", "log 2: insert seat 1 1 a - x")


def test_a_batch_told_to_roll_back_answers_that_even_if_it_failed_meanwhile() -> None:
    """Else its lane would get the next batch while the server still rolls this one back."""
    rolling = (*TWO, "wait 1100")
    assert play(*rolling) == ["roll back 1.2"]
    assert play(*rolling, "failed 1.2 row too long") == []
    assert play(*rolling, "failed 1.2 row too long", "rolled back 1.2") == []
    resent = play(*rolling, "rolled back 1.2", "ready 1.1", "committed 1.1")
    assert resent == ["apply 1.2 lane 1 held [0-1:2:0]: insert shop.seat (1, 1, a, NULL, x)"]


def test_the_head_is_not_rolled_back_and_later_ones_only_once() -> None:
    assert play(*TWO, "ready 1.2", "wait 1100") == ["roll back 1.2"]
    assert play(*TWO, "ready 1.2", "wait 1100", "wait 1100") == []


def test_an_answer_to_a_batch_that_is_not_known_is_dropped() -> None:
    for answer in ("committed 1.9", "ready 1.9", "rolled back 1.9", "failed 1.9 row x"):
        assert play(*TWO, answer) == []


def test_retries_wait_longer_and_longer() -> None:
    start = ("tables account", "take over", "log 1 resent: insert account 1 a x")
    again = ["apply 1.1 lane 1 [0-1:1:0]: insert shop.account (1, a, x)"]
    failed = "failed 1.1 transient deadlock"
    assert play(*start, failed, "wait 19") == []
    assert play(*start, failed, "wait 20") == again
    assert play(*start, failed, "wait 20", failed, "wait 39") == []
    assert play(*start, failed, "wait 20", failed, "wait 40") == again


PARKED = (
    "options lanes=1",
    "tables account",
    "take over",
    "log 1 resent: insert account 1 a bad",
    "failed 1.1 row too long",
    "committed 1.2",
)


def test_a_wish_waits_for_a_schema_change() -> None:
    ddl = (*PARKED, "ddl 2 truncate account")
    assert play(*ddl) == ["apply ddl 1.3: truncate account"]
    assert play(*ddl, "wish skip 0-1:1:0") == []
    assert play(*ddl, "wish skip 0-1:1:0", "ddl applied 1.3") == ["save checkpoint 1.4 log.000001:200, drop 1.2"]
    saved = play(*ddl, "wish skip 0-1:1:0", "ddl applied 1.3", "saved 1.4")
    assert saved == [], "the row went with its table's rows"


def test_a_wish_waits_for_the_statement_and_is_carried_out_behind_it() -> None:
    ddl = (*PARKED, "ddl 2 add column account", "wish skip 0-1:1:0", "ddl applied 1.3")
    assert play(*ddl, "saved 1.4") == ["apply 1.5 lane 0 []: unpark 0-1:1:0"]


def test_what_the_lot_holds_is_what_the_target_holds() -> None:
    """A batch that parks a row and does not commit has parked nothing."""
    scenario = Scenario()
    for line in PARKED[:-1]:
        list(scenario.take(line))
    assert scenario.machine.snapshot()["parked"] == 0
    list(scenario.take("failed 1.2 transient deadlock"))
    list(scenario.take("wait 30"))
    list(scenario.take("committed 1.2"))
    assert scenario.machine.snapshot()["parked"] == 1


def test_only_what_comes_after_the_bad_change_of_a_row_is_parked_with_it() -> None:
    effects = play(
        "options lanes=1 atomic=true",
        "tables account",
        "take over",
        "log 1 resent: insert account 1 a x; update account 1 a x to 1 a bad; update account 1 a bad to 1 b y",
        "failed 1.1 row too long",
        "failed 1.2 row too long",
        "ready 1.3",
        "rolled back 1.3",
        "failed 1.4 row too long",
    )
    assert effects == [
        (
            "apply 1.5 lane 0 held [0-1:1:0 0-1:1:1 0-1:1:2]: insert shop.account (1, a, x); "
            "park 0-1:1:1 of shop.account (too long), 0-1:1:2 of shop.account (an earlier change of this row failed)"
        )
    ]


def test_a_parked_row_is_known_by_the_targets_equality() -> None:
    start = (
        "options lanes=1",
        "tables word",
        "take over",
        "log 1 resent: insert word b 1 bad",
        "failed 1.1 row too long",
        "committed 1.2",
    )
    effects = play(*start, "log 2: update word B 1 bad to B 1 x; insert word c 2 x")
    assert effects == [
        (
            "apply 1.3 lane 0 [0-1:2:0 0-1:2:1]: insert shop.word (c, 2, x); park 0-1:2:0 of shop.word "
            "(an earlier change of this row failed)"
        )
    ]


def test_parked_rows_and_their_wishes_come_back_at_takeover() -> None:
    scenario = Scenario()
    for line in (*PARKED, "log 2: update account 1 a bad to 1 a x", "committed 1.3"):
        list(scenario.take(line))
    again = scenario.restarted()
    assert list(again.take("take over epoch 2 at 200 parked")) == []
    assert [line.strip() for line in again.take("log 3 resent: delete account 1 a x")] == [
        "→ apply 2.1 lane 1 [0-1:3:0]: park 0-1:3:0 of shop.account (an earlier change of this row failed)"
    ]
    list(again.take("committed 2.1"))
    assert [line.strip() for line in again.take("wish retry 0-1:1:0 0-1:2:0 0-1:3:0")] == [
        "→ apply 2.2 lane 0 []: unpark 0-1:1:0, 0-1:2:0, 0-1:3:0"
    ]


class TwoSources:
    """`pool` from two tables of the source: `whole` rows, and rows without the column of its unique index."""

    def __init__(self) -> None:
        self.machine = ApplyMachine(Options(lanes=4, checkpoint_us=10**12))
        self.machine.step(0, [TakenOver(1, position(0), tables=linked(POOL))])
        self.number = 0

    def log(self, table: Shape, before: tuple | None, after: tuple | None) -> list[ApplyBatch]:
        self.number += 1
        rows = (RowChange(self.number, before, after, 0),)
        batch = LogBatch(
            position(self.number - 1), position(self.number), (Transaction("0-1", self.number, 0),), rows,
            {self.number: table}, resent=self.number == 1,
        )  # fmt: skip
        return self._sent([LogArrived([batch])])

    def commit(self, batch: ApplyBatch) -> list[ApplyBatch]:
        return self._sent([BatchCommitted(batch.id)])

    def _sent(self, events: list) -> list[ApplyBatch]:
        return [effect for effect in self.machine.step(self.number, events) if isinstance(effect, ApplyBatch)]


WHOLE = shape(POOL)
NARROW = without_tier(WHOLE)


def test_rows_of_two_sources_follow_each_other_where_one_lacks_a_column_of_a_unique_index() -> None:
    """The value that a whole row frees is the default that the target gives to a narrow one, and back."""
    feed = TwoSources()
    (freed,) = feed.log(WHOLE, (1, "default", "x"), None)
    assert feed.log(NARROW, None, (2, "x")) == [], "before it was known that there are such rows"
    (filled,) = feed.commit(freed)
    assert feed.log(WHOLE, None, (3, "other", "x")) == [], "who takes the table whole is alone in it"
    (other,) = feed.commit(filled)
    (beside,) = feed.log(WHOLE, None, (4, "fourth", "x"))
    assert feed.log(NARROW, (2, "x"), None) == []
    assert feed.commit(other) == []
    (gone,) = feed.commit(beside)
    assert isinstance(gone.steps[0], DeleteRows)


def test_they_do_so_once_the_target_s_tables_were_read_anew() -> None:
    feed = TwoSources()
    (narrow,) = feed.log(NARROW, None, (2, "x"))
    feed.machine.pipeline._rebind(feed.machine.pipeline.tables)
    assert feed.log(WHOLE, None, (3, "other", "x")) == []
    assert len(feed.commit(narrow)) == 1


def test_rows_of_two_sources_that_lack_no_such_column_run_side_by_side() -> None:
    feed = TwoSources()
    feed.log(WHOLE, None, (1, "a", "x"))
    without_note = replace(WHOLE, columns=WHOLE.columns[:2])
    assert any(feed.log(without_note, None, (id_, f"b{id_}")) for id_ in range(2, 9)), "some are on another lane"
