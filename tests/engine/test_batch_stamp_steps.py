"""Steps of rows with stamps: the greatest of each key, whatever comes first; and tables that they do not fit."""

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.world import change, table
from tidelock.engine.batch.checked_steps import maker, maker_in_order, require
from tidelock.engine.batch.merge import Ranks
from tidelock.engine.model.options import Options
from tidelock.engine.model.records import Column, Kind, ReplicaIdentity, Row, Shape
from tidelock.engine.model.schema import Binding, Equality, ForeignKey, SchemaMismatch, TargetTable, UniqueKey
from tidelock.engine.model.stamp_columns import StampColumns, tombstones_of
from tidelock.engine.protocol.steps import UpsertRows

OPTIONS = Options(stamp=StampColumns())
RANKS = Ranks({}, {})
KINDS = {"id": Kind.INT, "tl_time": Kind.INT}


def made(*columns: str) -> TargetTable:
    found = table("t", columns, ("id",))
    return msgspec.structs.replace(
        found, columns=tuple(msgspec.structs.replace(c, nullable=c.name == "word") for c in found.columns)
    )


def bound(target: TargetTable, identity: ReplicaIdentity = "full") -> Binding:
    columns = tuple(Column(c.name, KINDS.get(c.name, Kind.TEXT)) for c in target.columns)
    return Binding(0, Shape(target.name, columns, ("id",), identity), target)


TABLE = made("id", "word", "tl_time", "tl_site")
ROWS = bound(TABLE)
DEAD = bound(msgspec.structs.replace(made("id", "tl_time", "tl_site"), name=tombstones_of(TABLE.name)))


def upserts(changes: list[tuple[Binding, Row | None, Row | None]]) -> list[tuple[str, list[Row]]]:
    """Tables and rows of the steps, which are the same in log order."""
    batch = [change(binding, before, after, number=n) for n, (binding, before, after) in enumerate(changes)]
    steps = maker(OPTIONS)(batch, RANKS)
    assert steps == maker_in_order(OPTIONS)(batch)
    assert all(isinstance(step, UpsertRows) and step.checks and not step.fresh for step in steps)
    return [(step.table.name.table, step.rows) for step in steps if isinstance(step, UpsertRows)]


def test_of_each_key_the_greatest_stamp_tombstones_first_and_deletes_say_nothing() -> None:
    assert upserts([
        (ROWS, None, (1, "late", 9, "a")),
        (ROWS, (1, "x", 1, "a"), (1, "older", 9, "A")),
        (ROWS, (2, "x", 1, "a"), (3, "moved", 5, "b")),
        (ROWS, (4, "x", 1, "a"), None),
        (DEAD, None, (4, 7, "a")),
        (DEAD, (4, 7, "a"), (4, 6, "b")),
        (DEAD, (5, 7, "a"), None),
        (DEAD, None, (6, 0, "")),
    ]) == [("t_tombstones", [(4, 7, "a")]), ("t", [(1, "late", 9, "a"), (3, "moved", 5, "b")])]  # fmt: skip


STAMPED = st.tuples(st.integers(0, 3), st.sampled_from("xy"), st.integers(1, 5), st.sampled_from("ab"))


@given(st.lists(STAMPED, unique_by=lambda row: (row[0], row[2:])), st.randoms())
def test_order_makes_no_difference(rows: list[Row], random: Random) -> None:
    shuffled = random.sample(rows, len(rows))
    assert upserts([(ROWS, None, row) for row in rows]) == upserts([(ROWS, None, row) for row in shuffled])


KEY = ForeignKey("fk", TABLE.name, ("word",), TABLE.name, ("id",))
PADDED = (msgspec.structs.replace(TABLE.columns[0], equality=Equality.PADDED), *TABLE.columns[1:])


def other(**changed: Any) -> Binding:
    return bound(msgspec.structs.replace(TABLE, **changed))


@pytest.mark.parametrize(
    ("binding", "words"),
    [
        (bound(made("id", "word")), "has no columns tl_time and tl_site"),
        (bound(table("t", ("id", "tl_time", "tl_site"), ("id",))), "a BIGINT NOT NULL"),
        (other(uniques=(*TABLE.uniques, UniqueKey("u", ("word",)))), "has the unique key u besides"),
        (bound(TABLE, "key"), "REPLICA IDENTITY FULL"),
        (other(key=(), uniques=()), "has none; give it one"),
        (other(foreign_keys=(KEY,)), "has foreign keys"),
        (other(columns=PADDED), "whose tombstone one is by id"),
    ],
)
def test_tables_that_stamps_do_not_fit_are_refused(binding: Binding, words: str) -> None:
    with pytest.raises(SchemaMismatch, match=words):
        require(binding, OPTIONS)


def test_tables_that_they_fit_are_not() -> None:
    require(ROWS, OPTIONS)
    require(DEAD, OPTIONS)
