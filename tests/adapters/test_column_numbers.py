"""Numbers of the columns that a relation message tells: certain, or not."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import MappingProxyType

import pytest
from msgspec.structs import replace

from tidelock.adapters.postgres.column_types import PostgresType
from tidelock.adapters.postgres.logical.column_numbers import Numbers, numbers_of
from tidelock.adapters.postgres.logical.form_facts import FormFacts
from tidelock.adapters.postgres.logical.messages import Relation, RelationColumn
from tidelock.adapters.postgres.logical.relation_catalogue import ColumnFacts, RelationCatalogue
from tidelock.adapters.postgres.logical.relation_changes import ComputedColumn, Form, FormChange, FormColumn
from tidelock.adapters.postgres.logical.relations import Relations, Role
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import DdlKind

Columns = Mapping[str, int]
NONE: Columns = MappingProxyType({})
BEFORE: Columns = {"id": 1, "v": 2, "w": 3}


def form(columns: Columns, ever: int = 3, computed: Columns = NONE) -> Form:
    made = tuple(FormColumn(name, 23, -1, "integer", number) for name, number in columns.items())
    generated = tuple(ComputedColumn(name, number, "1") for name, number in computed.items())
    return Form(1, TableName("public", "t"), made, ("id",), generated, ever)


def now(columns: Columns, ever: int, computed: Columns = NONE) -> RelationCatalogue:
    facts = {name: ColumnFacts(number, fill=str(number)) for name, number in {**columns, **computed}.items()}
    types = {23: PostgresType(23, "pg_catalog", "int4")}
    generated = tuple((name, number, "1") for name, number in computed.items())
    return RelationCatalogue(types, ("id",), columns=facts, computed=generated, ever=ever)


CERTAIN = {
    "another name": (["id", "x", "w"], now({"id": 1, "x": 2, "w": 3}, 3), (1, 2, 3)),
    "another name, and one more by now": (["id", "x", "w"], now({"id": 1, "y": 2, "w": 3, "v": 4}, 4), (1, 2, 3)),
    "one less": (["id", "w"], now({"id": 1, "w": 3}, 3), (1, 3)),
    "one less, under the other's name": (["id", "v"], now({"id": 1, "v": 3}, 3), (1, 3)),
    "not gone yet": (["id", "v", "w"], now({"id": 1, "w": 3}, 3), (1, 2, 3)),
    "one more": (["id", "v", "w", "x"], now({**BEFORE, "x": 4}, 4), (1, 2, 3, 4)),
    "one more, with another name by now": (["id", "v", "w", "x"], now({**BEFORE, "y": 4, "x": 5}, 5), (1, 2, 3, 4)),
    "one more behind one that is computed": (
        ["id", "v", "w", "x"], now({**BEFORE, "x": 5}, 5, {"g": 4}), (1, 2, 3, 5),
    ),
}  # fmt: skip
UNSURE = {
    "one less and one more by now": (["id", "v", "x"], now({"id": 1, "v": 2, "x": 4}, 4)),
    "made anew since": (["id", "v", "w", "x"], now({**BEFORE, "x": 5}, 5)),
    "gone": (["id", "v"], RelationCatalogue()),
    "one of two that are gone by now": (["id", "v"], now({"id": 1}, 3)),
}


@pytest.mark.parametrize("name", CERTAIN)
def test_numbers_are_certain_whatever_the_names_are(name: str) -> None:
    names, facts, wanted = CERTAIN[name]
    assert numbers_of(names, form(BEFORE), facts)[:2] == (wanted, True)


@pytest.mark.parametrize("name", UNSURE)
def test_numbers_that_may_be_others_are_said_to_be(name: str) -> None:
    names, facts = UNSURE[name]
    assert not numbers_of(names, form(BEFORE), facts).certain


def test_without_a_former_form_or_its_numbers_nothing_is_certain() -> None:
    facts = now(BEFORE, 3)
    assert numbers_of([*BEFORE], None, facts) == Numbers((1, 2, 3))
    assert not numbers_of([*BEFORE], form({**BEFORE, "w": 0}), facts).certain
    assert not numbers_of([*BEFORE], form(BEFORE, ever=0), facts).certain
    assert not numbers_of([*BEFORE, "g"], form(BEFORE, 4, {"g": 4}), now({**BEFORE, "g": 4}, 4)).certain, "stored now"


def test_certain_numbers_are_those_of_every_history() -> None:
    """All ways to drop and add up to four columns: whenever the numbers are told to be certain, they are right."""
    steps = [None, *range(1, 7)]  # add one, or drop this one
    certain = 0
    for history in itertools.product(steps, repeat=4):
        states, alive, ever = [(1, 2, 3)], [1, 2, 3], 3
        for step in history:
            if step is None:
                ever += 1
                alive = [*alive, ever]
            alive = [number for number in alive if number != step]
            states.append(tuple(alive))
        facts = now({f"c{number}": number for number in alive}, ever)
        for there in states:
            names = [f"n{number}" for number in there]
            found = numbers_of(names, form(BEFORE), facts)
            certain += found.certain
            assert not found.certain or found.of_columns == there, (history, there, found)
    assert certain > 3000


class Told:
    """A table as rows tell of it, while the catalogue has it as `now` says."""

    def __init__(self, known: Form) -> None:
        self.facts = RelationCatalogue()
        self.relations = Relations(lambda oid, types: self.facts, {1: known})

    def row(self, names: list[str], facts: RelationCatalogue) -> FormChange | None:
        self.facts = facts
        columns = tuple(RelationColumn(name, 23, -1, name == "id") for name in names)
        self.relations.tell(Relation(1, "public", "t", "d", columns))
        return self.relations.resolve(1, lambda _: Role.WANTED)


def test_numbers_that_are_guessed_make_nothing_certain_until_the_catalogue_has_told_them() -> None:
    """A column that was dropped while another one came, and one more right behind: it got the other one's number, and
    the value that old rows have in that."""
    there, more = {"id": 1, "w": 3, "x": 4}, {"id": 1, "w": 3, "x": 4, "y": 5}
    for looked in (False, True):
        told = Told(form(BEFORE))
        first = told.row(["id", "w", "x"], now(there, 4))
        assert first is not None and first.kind is DdlKind.OTHER
        if looked:
            assert told.relations.looked_at(form(there, 4)) is None
        second = told.row(["id", "w", "x", "y"], now(more, 5))
        assert second is not None and second.kind is (DdlKind.ADD_COLUMN if looked else DdlKind.OTHER)
        assert [added.fill for added in second.added] == ([5] if looked else [])


def test_a_look_tells_how_many_columns_there_were_though_none_is_another() -> None:
    """One that came and went, of which no row told, leaves a hole among the numbers."""
    for looked in (False, True):
        told = Told(replace(form(BEFORE), facts=FormFacts(())))
        if looked:
            assert told.relations.looked_at(form(BEFORE, 4)) is None
        change = told.row(["id", "v", "w", "x"], now({**BEFORE, "x": 5}, 5))
        assert change is not None and change.kind is (DdlKind.ADD_COLUMN if looked else DdlKind.OTHER)


@pytest.mark.parametrize("names", [["id", "w", "x"], ["id", "v", "w", "x"], ["id", "v"]])
def test_a_change_is_the_same_to_an_operator_whatever_has_become_of_the_table_since(names: list[str]) -> None:
    """The halt is passed by it, when the row that shows the change is read again."""
    later = {
        "dropped": RelationCatalogue({23: PostgresType(23, "pg_catalog", "int4")}),
        "a column was renamed": now({"id": 1, "w": 3, "z": 4}, 4),
        "a column was made anew": now({"id": 1, "w": 3, "x": 5}, 5),
    }
    first = Told(form(BEFORE)).row(names, now({"id": 1, "w": 3, "x": 4}, 4))
    assert first is not None
    for facts in later.values():
        again = Told(form(BEFORE)).row(names, facts)
        assert again is not None and again.number == first.number
