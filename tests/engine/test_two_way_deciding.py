"""A change at its arbiter: which is later, what is written, and which policies a table can have."""

from __future__ import annotations

from typing import Any

import pytest

from tidelock.engine.batch.parked_rows import parked_row
from tidelock.engine.model.conflict_options import GroupWords, TableWords
from tidelock.engine.model.records import Column, Kind, Row, Shape, TableName
from tidelock.engine.model.schema import Binding, TargetColumn, TargetTable, UniqueKey
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.steps import DecideChange, DeleteRows, UpdateRows, UpsertRows
from tidelock.engine.two_way.conflicts import Conflict, Holder, Met
from tidelock.engine.two_way.deciding import decided_steps, is_later, judged, kept_out, keys_of
from tidelock.engine.two_way.decisions import Decision, Outcome
from tidelock.engine.two_way.policies import Group, Policies, Policy
from tidelock.engine.two_way.table_policies import policies_of, problems

NAME = TableName("shop", "t")
KINDS = {"id": Kind.INT, "u": Kind.TEXT, "n": Kind.INT, "v": Kind.INT, "f": Kind.DOUBLE}
UNIQUES = (UniqueKey("p", ("id",)), UniqueKey("u", ("u",)))
TARGET = TargetTable(NAME, tuple(TargetColumn(name, "text") for name in KINDS), ("id",), UNIQUES)
SHAPE = Shape(NAME, tuple(Column(name, kind) for name, kind in KINDS.items()), ("id",))
TABLE = Binding(0, SHAPE, TARGET)
LATEST = TableWords("latest", version="v")


def row(id_: int = 1, u: str = "a", n: int = 0, v: int | None = 1) -> Row:
    return (id_, u, n, v, 0.5)


def question(before: Row | None, after: Row | None, words: TableWords = LATEST, **refused: Any) -> DecideChange:
    parked = parked_row(Change(TABLE, before, after, "0-1", 1, 0), "differs", EffectId(1, 1), 0)
    return DecideChange(TABLE, before, after, words, parked, **refused)


@pytest.mark.parametrize(
    ("before", "after", "met", "later"),
    [
        (row(), row(v=3), Met(row(v=2), unseen=True), True),
        (row(), row(v=2), Met(row(v=2), unseen=True), False),
        (row(), row(v=10), Met(row(v=9), unseen=True), True),
        (row(), row(v=None), Met(row(v=2), unseen=True), False),
        (row(), row(v=2), Met(row(v=None), unseen=True), True),
        (row(v=1), None, Met(row(v=2), unseen=True), False),
        (row(v=2), None, Met(row(v=1), unseen=True), True),
        (row(), row(v=3), Met(), True),
        (row(), row(v=3), Met(row(v=2), holders=(Holder((1,), row(2, v=4)),)), False),
    ],
)
def test_the_later_change_has_the_greater_version(before: Row | None, after: Row | None, met: Met, later: bool) -> None:
    assert is_later(question(before, after), met) is later


def test_without_a_version_what_comes_last_is_later() -> None:
    words = TableWords("delete wins")
    assert is_later(question(row(), row(v=1), words), Met(row(v=9), unseen=True))


def test_a_decision_is_written_over_what_is_there() -> None:
    here, after = row(n=5), row(n=6)
    assert judged(question(row(), after, TableWords("arrival")), Met(here, unseen=True)).row == after
    (update,) = decided_steps(TABLE, Met(here), Decision(Outcome.WRITE, after))
    assert update == UpdateRows(TABLE, [(1,)], [after], moves=False)
    (move,) = decided_steps(TABLE, Met(here), Decision(Outcome.MERGE, row(2)))
    assert move == UpdateRows(TABLE, [(1,)], [row(2)], moves=True)
    (insert,) = decided_steps(TABLE, Met(), Decision(Outcome.WRITE, after))
    assert insert == UpsertRows(TABLE, [after], fresh=True, absent=True)
    room, _ = decided_steps(TABLE, Met(), Decision(Outcome.WRITE, after, displaced=(row(7),)))
    assert room == DeleteRows(TABLE, [(7,)])
    assert decided_steps(TABLE, Met(here), Decision(Outcome.WRITE, None)) == [DeleteRows(TABLE, [(1,)])]
    assert decided_steps(TABLE, Met(), Decision(Outcome.WRITE, None)) == []
    for outcome in (Outcome.VERDICT, Outcome.PARK):
        assert decided_steps(TABLE, Met(here), Decision(outcome, here)) == []


def test_the_rows_of_a_change_are_those_of_both_its_keys() -> None:
    assert keys_of(TABLE, row(1), row(2)) == [(1,), (2,)]
    assert keys_of(TABLE, row(1), row(1, "b")) == keys_of(TABLE, None, row(1)) == [(1,)]


def test_what_a_foreign_key_refuses_is_parked_or_lost() -> None:
    change = {"refused": "no parent", "foreign": True}
    lost = kept_out(question(None, row(), TableWords("arbiter"), **change))
    assert (lost.outcome, [one.conflict for one in lost.lost]) == (Outcome.VERDICT, [Conflict.FOREIGN_KEY])
    assert kept_out(question(None, row(), TableWords(), **change)).outcome is Outcome.PARK
    stopped = TableWords("arbiter", {"foreign_key": "stop"})
    assert kept_out(question(None, row(), stopped, **change)).outcome is Outcome.PARK
    other = kept_out(question(None, row(), TableWords("arbiter"), refused="too long"))
    assert (other.outcome, other.lost, other.verdict) == (Outcome.PARK, (), True)


def test_columns_in_no_group_are_a_group_of_their_own() -> None:
    words = TableWords("latest", groups=(GroupWords(("n",), "delta"),), version="v")
    assert policies_of(words, TABLE) == Policies(
        Policy.LATEST, {}, (Group((2,), Policy.DELTA), Group((1, 3, 4), Policy.LATEST))
    )
    assert policies_of(LATEST, TABLE).groups == ()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (LATEST, ""),
        (TableWords("latest", version="w"), "column w"),
        (TableWords("latest", version="f"), "f is no number"),
        (TableWords(groups=(GroupWords(("id",), "arbiter"),)), "column of the key"),
        (TableWords(groups=(GroupWords(("f",), "delta"),)), "`delta` adds whole and decimal"),
        (TableWords(groups=(GroupWords(("f",), "max"),)), "not the same everywhere"),
        (TableWords(groups=(GroupWords(("u",), "max"),)), "not the same everywhere"),
        (TableWords(groups=(GroupWords(("n",), "max"),)), ""),
    ],
)
def test_a_table_whose_rows_cannot_be_decided_about(words: TableWords, problem: str) -> None:
    found = next(problems(words, TABLE), "")
    assert (problem in found) if problem else not found


def test_a_table_without_a_key_or_without_whole_images_cannot() -> None:
    keyless = TargetTable(NAME, TARGET.columns, ())
    assert "no key" in next(problems(TableWords(), Binding(0, SHAPE, keyless)))
    partial = Binding(0, Shape(NAME, SHAPE.columns, ("id",), "key"), TARGET)
    assert "REPLICA IDENTITY FULL" in next(problems(TableWords(), partial))
