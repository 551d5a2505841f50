"""Echoes: which rows of a spoke's own changes go back to it, as the capture machine reads the arbiter's log."""

import msgspec
import pytest

from tests.engine.world import table
from tidelock.engine.capture.echoes import Echoes, place_of
from tidelock.engine.capture.machine import CaptureMachine
from tidelock.engine.capture.mapping import Mapping, Rule
from tidelock.engine.capture.origin import Sites
from tidelock.engine.model.lineage import Proof, encode
from tidelock.engine.model.log_batch import RECEIPT, LogBatch, SourceChunk, SourceTransaction
from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import Column, Kind, Position, Row, RowChange, Shape
from tidelock.engine.model.schema import ForeignKey, TargetTable, UniqueKey
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.protocol.effects import Publish
from tidelock.engine.protocol.events import SourceRead

TABLE = table("t", ("id", "email"), ("id",), (("email",),))
PARENT = table("parent", ("id", "note"), ("id",))
SHAPE = Shape(TABLE.name, (Column("id", Kind.INT), Column("email", Kind.TEXT)), ("id",))
FILE, HERE = "log.000001", encode(Proof("eu-server", 0))
SITES = Sites("eu", "us", sister="us-eu", echo="exact")


class Reader:
    """Reads transactions of one row each, which end at 100, 200, …"""

    def __init__(
        self,
        *,
        every: bool = False,
        tables: tuple[TargetTable, ...] = (TABLE,),
        floor: int = 0,
        shape: Shape = SHAPE,
        groups: tuple[tuple[str, ...], ...] = (),
    ) -> None:
        start = Position(FILE, 4)
        mapping = Mapping([Rule("shop.*", "shop.*")])
        echoes = Echoes("us", tables, Position(FILE, floor), every=every, groups={TABLE.name: groups})
        self.machine = CaptureMachine(mapping, start, sites=SITES, echoes=echoes)
        self.number = 0
        self.shapes = {0: shape}

    def read(
        self, *rows: tuple[Row | None, Row | None], seen: Position | None = None, path: str = "", **more: object
    ) -> LogBatch:
        self.number += 1
        told = "" if seen is None else msgspec.json.encode(seen).decode()
        receipt = ("us-eu", 0, 1, self.number, b"", path.split(" ")[0], path, "", told)
        changes = [RowChange(0, *images, ordinal) for ordinal, images in enumerate(rows)]
        marks = ((RECEIPT, receipt),) if path else ()
        one = SourceTransaction("0-1", self.number, FILE, 100 * self.number, changes, marks=marks)
        one = msgspec.structs.replace(one, **more)
        chunk = SourceChunk([one], Position(FILE, 100 * self.number, proof=HERE), self.shapes)
        self.shapes = {}
        (effect,) = self.machine.step(0, [SourceRead([chunk])])
        assert isinstance(effect, Publish)
        return effect.batch

    def own(self, *rows: tuple[Row | None, Row | None], seen: Position | None = None) -> list[tuple]:
        """The rows of a transaction of the spoke that go back."""
        batch = self.read(*rows, seen=seen, path="us")
        assert not batch.origins, "an echo begins at the arbiter"
        return [(row.before, row.after) for row in batch.rows]


def at(offset: int, server: str = "eu-server") -> Position:
    return Position(FILE, offset, proof=encode(Proof(server, 0)))


def test_what_missed_a_change_of_its_row_goes_back_and_what_had_seen_it_does_not() -> None:
    log = Reader()
    assert len(log.read((None, (1, "a"))).rows) == 1
    mine = ((1, "a"), (1, "b"))
    assert log.own(mine, ((2, "x"), None), seen=at(50)) == [mine], "of two rows the one that missed something"
    assert log.own(((1, "b"), (1, "c")), seen=at(100)) == [((1, "b"), (1, "c"))], "it had not seen the echo"
    assert log.own(((1, "c"), (1, "d")), seen=at(300)) == []


def test_another_log_and_no_place_are_nothing_seen() -> None:
    for seen in (None, at(500, "another"), Position(FILE, 500)):
        log = Reader()
        log.read((None, (1, "a")))
        assert log.own(((1, "a"), None), seen=seen)


def test_a_value_of_a_unique_index_is_shared() -> None:
    """History 6."""
    log = Reader()
    log.read((None, (1, "u")))
    assert log.own((None, (2, "u")), seen=at(50))
    assert not log.own((None, (3, "v")), seen=at(50))


WIDE = table("t", ("id", "email", "a", "b"), ("id",), (("email",),))
WIDE_SHAPE = Shape(TABLE.name, tuple(Column(name, Kind.TEXT) for name in ("id", "email", "a", "b")), ("id",))


def test_groups_of_columns_are_changed_apart_but_by_inserts_deletes_and_unique_values() -> None:
    """B17; and what is sent writes the groups that it touches, so those alone count."""
    log = Reader(tables=(WIDE,), shape=WIDE_SHAPE, groups=(("a",),))
    log.read(((1, None, "x", "x"), (1, None, "y", "x")), ((2, None, "x", "x"), (2, "u", "x", "x")))
    assert not log.own(((1, None, "x", "x"), (1, None, "x", "y")), seen=at(50))
    assert not log.own(((1, None, "x", "y"), (1, "v", "x", "y")), seen=at(100)), "it had seen all"
    for mine in (
        ((1, None, "x", "y"), (1, None, "z", "y")),
        ((1, None, "z", "y"), (1, "w", "z", "y")),
        ((1, "w", "z", "y"), None),
        ((2, None, "x", "x"), (2, None, "x", "y")),
    ):
        log.read(((1, None, "x", "x"), (1, None, "y", "x")), ((2, None, "x", "x"), (2, "u", "x", "x")))
        assert log.own(mine, seen=at(50)) == [mine]


@pytest.mark.parametrize(
    "tables",
    [(), (msgspec.structs.replace(TABLE, uniques=(UniqueKey("short", ("email",), "a prefix"),)),)],
    ids=["not there when the reader began", "a prefix"],
)
def test_what_cannot_be_compared_goes_back(tables: tuple[TargetTable, ...]) -> None:
    log = Reader(tables=tables)
    assert log.own(((2, "x"), None), seen=at(50)) and log.own(((2, "x"), None), seen=at(300))


def test_a_child_goes_back_whose_parent_was_sent_meanwhile() -> None:
    """At the spoke it has gone with its parent, which has come again since."""
    refers = ForeignKey("f", TABLE.name, ("email",), PARENT.name, ("id",), cascades=True)
    child = msgspec.structs.replace(TABLE, uniques=(), foreign_keys=(refers,))
    log = Reader(tables=(child, msgspec.structs.replace(PARENT, references=(refers,))))
    log.shapes[1] = Shape(PARENT.name, (Column("id", Kind.TEXT), Column("note", Kind.TEXT)), ("id",))
    log.read(rows=[RowChange(1, None, ("p", ""), 0)])
    log.read(rows=[RowChange(1, ("q", ""), ("q", "x"), 0)])
    log.read((None, (5, "r")))
    assert log.own((None, (1, "p")), seen=at(50)) and log.own((None, (3, "p")), seen=at(100)) == []
    assert not log.own((None, (2, "q")), seen=at(50)), "nothing that is referred to has changed"
    assert not log.own((None, (6, "r")), seen=at(50)), "two children do not concern each other"


def test_below_the_floor_all_goes_back() -> None:
    """History 4: the reader before this one may have sent anything."""
    log = Reader(floor=1000)
    assert log.own(((2, "x"), None), seen=at(999)) and not log.own(((2, "x"), None), seen=at(1000))


def test_the_full_loop_sends_all_back() -> None:
    assert Reader(every=True).own(((2, "x"), None), seen=at(5000))


def test_another_spokes_change_goes_on_and_counts_as_sent() -> None:
    log = Reader()
    batch = log.read((None, (1, "a")), path="asia")
    assert batch.origins == (Origin(("asia", "eu")),)
    assert log.own(((1, "a"), None), seen=at(50))


def test_a_change_that_passed_the_spoke_before_its_last_site_stays_away() -> None:
    log = Reader()
    log.read((None, (1, "a")))
    assert not log.read(((1, "a"), None), path="us asia").rows


def test_a_verdict_is_sent_whatever_becomes_of_its_transaction_and_counts() -> None:
    log = Reader()
    told = (RowChange(0, None, (1, "h"), 1),)
    batch = log.read((None, (5, "e")), (None, (6, "f")), seen=at(50), path="us", verdicts=told)
    assert [(row.after, row.ordinal) for row in batch.rows] == [((1, "h"), 1)]
    assert log.own(((1, "h"), (1, "i")), seen=at(50)) and not log.own(((7, "j"), None), seen=at(50))


def test_a_verdict_that_no_row_stands_concerns_every_change() -> None:
    """It does not tell what unique values the spoke's row has."""
    log = Reader()
    assert [row.after for row in log.read(path="us", verdicts=(RowChange(0, (1, None), None, 0),)).rows] == [None]
    assert log.own(((7, "i"), None), seen=at(50)) and not log.own(((8, "j"), None), seen=at(100))


@pytest.mark.parametrize("kind", [DdlKind.TRUNCATE, DdlKind.UNRELATED])
def test_what_missed_a_truncate_goes_back(kind: DdlKind) -> None:
    log = Reader()
    log.read(ddl=Ddl("shop", "TRUNCATE t", "0-1", 1, kind, (TABLE.name,)))
    assert bool(log.own((None, (1, "a")), seen=at(50))) is (kind is DdlKind.TRUNCATE)


def test_a_part_of_a_transaction_is_placed_behind_its_rows() -> None:
    part = SourceTransaction("0-1", 7, FILE, 400, [], first_ordinal=10, ordinals=5, complete=False)
    assert place_of(part) == Position(FILE, 400, 15).order
    assert place_of(msgspec.structs.replace(part, complete=True, end=900)) == Position(FILE, 900).order
