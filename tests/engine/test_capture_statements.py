"""Statements between sites: which go on, which have run at the target, and which were made at the wrong site."""

import msgspec
import pytest

from tidelock.engine.apply.ddl_barrier import Passage, alarm, judge
from tidelock.engine.capture.machine import CaptureMachine
from tidelock.engine.capture.mapping import Mapping, Rule
from tidelock.engine.capture.origin import Sites
from tidelock.engine.capture.statements import ruled
from tidelock.engine.model.log_batch import LogBatch, SourceChunk, SourceTransaction
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.protocol.effects import Publish
from tidelock.engine.protocol.events import SourceRead

STATEMENT = Ddl("shop", "ALTER TABLE t ADD n int", "0-1", 7, DdlKind.ADD_COLUMN, (TableName("shop", "t"),))
UP, ON = Sites("us", "eu"), Sites("us", "asia")


@pytest.mark.parametrize(
    ("sites", "path", "statements", "passage", "back"),
    [
        (UP, (), "", Passage.APPLY, False),
        (UP, ("eu",), "", Passage.APPLY, True),
        (UP, ("eu",), "eu", Passage.APPLY, True),
        (UP, (), "eu", Passage.HALT, False),
        (UP, (), "us", Passage.APPLY, False),
        (ON, ("eu",), "eu", Passage.APPLY, False),
        (ON, (), "eu", Passage.HALT, False),
        (ON, ("asia", "eu"), "eu", Passage.APPLY, True),
    ],
)
def test_the_way_of_a_statement(
    sites: Sites, path: tuple[str, ...], statements: str, passage: Passage, back: bool
) -> None:
    rule = msgspec.structs.replace(sites, statements=statements)
    found = ruled(msgspec.structs.replace(STATEMENT, path=path), rule)
    assert (judge(found, None), found.back, found.path) == (passage, back, (*path, "us"))
    assert judge(found, ("0-1", 7)) is Passage.PASS, "whatever an operator has passed"
    assert (found.elsewhere == ("us", "eu")) is (passage is Passage.HALT)


def test_one_of_no_table_of_the_feed_passes_wherever_it_was_made() -> None:
    other = msgspec.structs.replace(STATEMENT, kind=DdlKind.UNRELATED)
    assert judge(ruled(other, msgspec.structs.replace(UP, statements="eu")), None) is Passage.PASS
    back = ruled(msgspec.structs.replace(other, path=("eu",)), UP)
    assert judge(back, None) is Passage.APPLY, "but a feed's is told, however little it has changed"


def test_a_statement_of_another_site_halts_with_both_ways_out() -> None:
    told = alarm(ruled(STATEMENT, msgspec.structs.replace(UP, statements="eu")), "bin.1:400")
    assert "was made at us" in told.message and "are made at eu" in told.message
    for words in ("at the target, and at eu", "undo it at us", "Then `tidelock ddl done FEED`", "`tidelock ddl skip"):
        assert words in told.hint, told.hint


def test_the_machine_asks_the_rule_and_a_feed_without_sites_does_not() -> None:
    def read(sites: Sites | None) -> LogBatch:
        machine = CaptureMachine(Mapping([Rule("shop.*", "shop.*")]), Position("bin.1", 4), sites=sites)
        one = SourceTransaction("0-1", 7, "bin.1", 400, [], ddl=STATEMENT)
        (effect,) = machine.step(0, [SourceRead([SourceChunk([one], Position("bin.1", 400))])])
        assert isinstance(effect, Publish)
        return effect.batch

    for sites, elsewhere in ((None, None), (msgspec.structs.replace(UP, statements="eu"), ("us", "eu"))):
        found = read(sites).ddl
        assert found is not None and found.elsewhere == elsewhere and bool(found.path) is (sites is not None)
