"""The tables of a source at the places of its log: from looks at the catalogue, statements and what was kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest

from tidelock.adapters.ddl.classify import classify
from tidelock.adapters.ddl.dropped_database import of_tables
from tidelock.adapters.ddl.former_tables import moved
from tidelock.adapters.mysql.binlog.table_history import TableHistory
from tidelock.adapters.mysql.binlog.table_look import Look
from tidelock.adapters.ports.table_form import KnownForms, TableForm
from tidelock.engine.model import lineage
from tidelock.engine.model.records import Column, Kind, Position, Shape, TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind, FormerTable

T = TableName("shop", "t")


def at(offset: int, server: str = "one", file: str = "bin.000002") -> Position:
    return Position(file, offset, proof=lineage.encode(lineage.Proof(server, 0)))


def table(columns: str) -> FormerTable:
    found = moved(classify(Ddl("shop", f"CREATE TABLE t ({columns})", "0-1", 6), "mysql"), {})[T]
    assert found is not None
    return found


OLD, NEW = table("id int, a smallint"), table("id int, a bigint")


class Catalogue:
    """Answers of looks: what is seen at each, the last one again and again.  `known`: what was not asked for."""

    def __init__(self, *looks: Look) -> None:
        self.looks, self.known = list(looks), list[set[TableName]]()

    def __call__(self, known: Collection[TableName]) -> Look:
        self.known.append(set(known))
        seen = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return Look(seen.server, seen.place, {name: one for name, one in seen.tables.items() if name not in known})


def history(catalogue: Catalogue, start: Position, kept: Iterable[TableForm] = ()) -> TableHistory:
    made = TableHistory(start, kept, catalogue, lambda name: name.schema == "shop")
    made.begin()
    return made


def former(made: TableHistory, end: Position, statement: str = "ALTER TABLE t MODIFY a bigint") -> FormerTable | None:
    return made.passed(classify(Ddl("shop", statement, "0-1", 7), "mysql"), end).former


def seen(place: Position, form: FormerTable, server: str = "one") -> Catalogue:
    return Catalogue(Look(server, place, {T: form}))


def test_a_look_holds_once_the_log_is_read_up_to_it_and_no_statement_stands_between() -> None:
    assert former(history(seen(at(500), OLD), at(500)), at(600)) == OLD
    assert former(history(seen(at(500), NEW), at(100)), at(400)) is None, "seen behind the statement, perhaps"
    assert former(history(seen(at(500), NEW), at(100)), at(500)) is None
    assert former(history(seen(at(500), OLD), at(100)), at(600)) == OLD, "it begins at the place of the look"
    between = history(seen(at(500), NEW), at(100))
    former(between, at(400), "ALTER TABLE t ADD INDEX i (a)")
    between.met({}, at(550))
    assert former(between, at(600)) == NEW, "it was looked at anew behind the index"


def test_what_was_seen_of_a_table_does_not_hold_once_a_statement_was_met() -> None:
    made = history(Catalogue(Look("one", at(500), {T: NEW}), Look("one", at(560), {T: OLD})), at(100))
    former(made, at(400), "ALTER TABLE t ADD INDEX i (a)")
    made.met({}, at(520))
    assert former(made, at(540)) is None


def test_names_that_a_statement_exchanges() -> None:
    made = history(seen(at(500), OLD), at(500))
    assert former(made, at(600), "ALTER TABLE t CHANGE id a smallint, CHANGE a id int") == OLD
    behind = former(made, at(700))
    assert behind is not None
    assert [(one.column.name, one.type) for one in behind.columns] == [("a", "smallint"), ("id", "int")]


def columns_behind(statement: str) -> tuple[list[str], tuple[str, ...] | None]:
    made = history(seen(at(500), table("a int, b int, c int, PRIMARY KEY (a, b)")), at(500))
    former(made, at(600), f"ALTER TABLE t {statement}")
    behind = former(made, at(700))
    assert behind is not None, statement
    return [one.column.name for one in behind.columns], behind.primary_key


PLACES = {
    "ADD x int": ["a", "b", "c", "x"],
    "ADD x int FIRST": ["x", "a", "b", "c"],
    "ADD x int AFTER A, ADD y int AFTER x": ["a", "x", "y", "b", "c"],
    "ADD x int AS (a) AFTER a": ["a", "x", "b", "c"],
    "ADD x int NOT NULL DEFAULT 1 AFTER b, DROP c": ["a", "b", "x"],
    "ADD (x int, y int)": ["a", "b", "c", "x", "y"],
    "MODIFY c int FIRST": ["c", "a", "b"],
    "MODIFY b int FIRST, MODIFY c int FIRST": ["c", "b", "a"],
    "CHANGE c z int AFTER a, DROP b": ["a", "z"],
    "RENAME COLUMN c TO z, ADD x int AFTER z": ["a", "b", "z", "x"],
    "RENAME COLUMN c TO b, RENAME COLUMN b TO c": ["a", "c", "b"],
    "DROP c, ADD c int FIRST": ["c", "a", "b"],
    "MODIFY b bigint": ["a", "b", "c"],
}


@pytest.mark.parametrize("statement", PLACES)
def test_places_of_columns(statement: str) -> None:
    """As the servers have them: the same statements run on some in `test_unnamed_columns.py`."""
    assert columns_behind(statement)[0] == PLACES[statement]


@pytest.mark.parametrize(
    ("statement", "key"),
    [
        ("DROP PRIMARY KEY", ()), ("DROP PRIMARY KEY, ADD PRIMARY KEY (C)", ("c",)), ("MODIFY a int FIRST", ("a", "b")),
        ("CHANGE b z int FIRST", ("a", "z")), ("DROP b", ("a",)), ("ADD x int", ("a", "b")),
    ],
)  # fmt: skip
def test_keys_follow_columns(statement: str, key: tuple[str, ...]) -> None:
    assert columns_behind(statement)[1] == key


def test_statements_move_a_table_forward() -> None:
    made = history(seen(at(500), OLD), at(500))
    assert former(made, at(600)) == OLD
    behind = former(made, at(700), "ALTER TABLE t MODIFY a int, ADD b int")
    assert behind is not None and behind.columns[1].column.length == 8
    last = former(made, at(800), "DROP TABLE t")
    assert last is not None and [one.column.name for one in last.columns] == ["id", "a", "b"]
    assert former(made, at(900)) is None


def test_what_is_learned_brings_the_next_reader_to_the_same() -> None:
    """Whatever the catalogue shows by then, and from wherever the log is read again."""
    first = history(seen(at(500), OLD), at(500))
    former(first, at(600))
    former(first, at(700), "ALTER TABLE t ADD b int")
    known = KnownForms()
    known.learn(first.take_learned())
    assert first.take_learned() == ()
    latest = table("id int, a bigint, b int, c int")
    for start, end, columns in ((500, 600, 2), (600, 700, 2), (700, 800, 3)):
        again = former(history(seen(at(900), latest), at(start), known.all), at(end))
        assert again is not None and len(again.columns) == columns, start
        length = 2 if start == 500 else 8
        assert again.columns[1].column.length == length
    known.forget_behind(at(500))
    assert former(history(seen(at(900), latest), at(600), known.all), at(700)) == OLD, "of the last known place"


def test_another_file_at_the_same_offset_is_another_place() -> None:
    made = history(seen(at(500), OLD), at(500))
    former(made, at(600))
    former(made, at(600, file="bin.000003"), "ALTER TABLE t ADD b int")
    known = KnownForms()
    known.learn(made.take_learned())
    again = former(history(seen(at(900), OLD), at(700), known.all), at(800))
    assert again is not None and again.columns[1].column.length == 8 and len(again.columns) == 2


def test_places_of_another_server_mean_nothing() -> None:
    first = history(seen(at(500), OLD), at(500))
    moved_on = history(seen(at(200, "two"), NEW, "two"), at(500), first.take_learned())
    assert former(moved_on, at(150, "two")) is None, "before the look at that server"
    elsewhere = history(seen(at(200, "two"), NEW, "two"), at(500), ())
    elsewhere.met({}, at(250, "two"))
    assert former(elsewhere, at(300, "two")) == NEW
    assert [form.place.offset for form in elsewhere.take_learned()] == [250]


def test_what_cannot_be_read_makes_all_unknown_and_other_tables_do_not_matter() -> None:
    made = history(seen(at(500), OLD), at(500))
    former(made, at(550), "ALTER TABLE other.x ADD b int")
    assert {form.table for form in made.take_learned()} == {T}
    former(made, at(600), "CALL what_ever_this is")
    assert former(made, at(700)) is None
    assert made.take_learned()[-1].words.endswith("null]")


def test_rows_that_contradict_what_is_known_are_right() -> None:
    """As where a table was changed by a session that logs nothing."""
    changed = Shape(T, (Column("id", Kind.INT, length=4), Column("a", Kind.INT, length=8)))
    catalogue = Catalogue(Look("one", at(500), {T: OLD}), Look("one", at(650), {T: NEW}))
    made = history(catalogue, at(500))
    made.met({1: changed}, at(600))
    assert catalogue.known[-1] == set()
    assert former(made, at(700)) == NEW
    renamed = Shape(T, (Column("id", Kind.INT, length=4), Column("z", Kind.INT, length=2)))
    made = history(Catalogue(Look("one", at(500), {T: OLD}), Look("one", at(650), {T: NEW})), at(500))
    made.met({1: renamed}, at(600))
    assert former(made, at(640)) is None


def test_rows_tell_the_character_set_that_a_statement_left_to_a_default() -> None:
    made = history(Catalogue(Look("one", at(500), {})), at(500))
    former(made, at(600), "CREATE TABLE t (id int, a varchar(9), b varchar(9) CHARACTER SET ascii)")
    columns = (Column("a", Kind.TEXT, length=9, charset="latin1"), Column("b", Kind.TEXT, length=9, charset="ascii"))
    made.met({1: Shape(T, columns)}, at(700))
    found = former(made, at(800))
    assert found is not None and found.charset == "latin1"
    assert [one.column.charset for one in found.columns] == ["", "latin1", "ascii"]


def test_a_feed_that_is_put_back_behind_what_was_forgotten_knows_nothing() -> None:
    made = history(seen(at(500), OLD), at(500))
    for place in (at(600), at(600, file="bin.000003"), at(900, file="bin.000003")):
        former(made, place, f"ALTER TABLE t ADD c{place.offset}{place.file[-1]} int")
    known = KnownForms()
    known.learn(made.take_learned())
    assert len(known.forget_replaced(at(900, file="bin.000003"))) == 3
    latest = seen(at(990, file="bin.000003"), NEW)
    assert former(history(latest, at(700, file="bin.000003"), known.all), at(800, file="bin.000003")) is None
    assert former(history(latest, at(900, file="bin.000003"), known.all), at(950, file="bin.000003")) is not None


def told(forms: Iterable[TableForm]) -> list[tuple[int, bool]]:
    """Returns where each form of a table holds from, and whether it is known there."""
    return [(form.place.offset, not form.words.endswith("null]")) for form in forms if form.table == T]


def test_a_later_look_holds_from_the_last_statement_about_the_table() -> None:
    """A reader that begins between the two knows nothing of it, whatever was seen behind the statement."""
    made = history(Catalogue(Look("one", at(500), {T: NEW}), Look("one", at(560), {T: NEW})), at(100))
    former(made, at(400), "ALTER TABLE t ADD INDEX i (a)")
    made.met({}, at(520))
    made.met({}, at(560))
    forms = made.take_learned()
    assert told(forms) == [(400, False), (400, True)]
    assert former(history(seen(at(900), NEW), at(300), forms), at(350)) is None
    assert former(history(seen(at(900), NEW), at(450), forms), at(470)) == NEW


def test_a_statement_that_cannot_be_read_is_looked_past_from_its_place_on() -> None:
    made = history(Catalogue(Look("one", at(500), {T: NEW}), Look("one", at(600), {T: OLD})), at(100))
    former(made, at(400), "CALL what_ever_this is")
    made.met({}, at(520))
    assert made.take_learned() == (), "the look of before may have shown what is behind it"
    made.met({}, at(600))
    assert told(made.take_learned()) == [(400, True)]
    assert former(made, at(700)) == OLD


def test_what_means_nothing_to_tables_leaves_all_known() -> None:
    made = history(catalogue := seen(at(500), OLD), at(500))
    for place, statement in ((540, "CREATE USER someone"), (550, "ALTER TABLE other.x ADD b int")):
        former(made, at(place), statement)
    former(made, at(560), "CREATE TABLE other.y (id int)")
    made.met({}, at(570))
    assert former(made, at(600)) == OLD
    assert len(catalogue.known) == 1, "nothing was looked at anew"


def test_a_table_that_a_statement_makes_is_looked_at_for_what_that_leaves_out() -> None:
    whole = table("id int, a varchar(9) CHARACTER SET latin1")
    catalogue = Catalogue(Look("one", at(500), {}), Look("one", at(650), {T: whole}))
    made = history(catalogue, at(500))
    former(made, at(600), "CREATE TABLE t (id int, a varchar(9))")
    made.met({}, at(620))
    assert catalogue.known == [set(), set()], "it is known in part alone"
    made.met({}, at(650))
    assert former(made, at(700), "ALTER TABLE t ADD INDEX i (id)") == whole
    former(made, at(750), "CREATE TABLE u (id int)")
    made.met({}, at(760))
    assert catalogue.known[-1] == {T}, "and then wholly"


def test_a_look_of_another_server_than_the_log_says_nothing() -> None:
    """As where the source's name leads to another server by now."""
    made = history(Catalogue(Look("one", at(500), {}), Look("two", at(650), {T: NEW})), at(500))
    former(made, at(600), "CREATE TABLE t (id int, a smallint)")
    made.met({}, at(620))
    made.met({}, at(660))
    assert former(made, at(700)) == OLD


def test_the_places_of_a_server_that_was_switched_to_begin_with_its_own_proof() -> None:
    kept = history(seen(at(500), OLD), at(500)).take_learned()
    made = history(seen(at(900, "two"), NEW, "two"), at(500), kept)
    for place in (at(950), Position("bin.000002", 960), at(850, "two")):
        made.met({}, place)
        assert made.take_learned() == (), "in the first server's log, or before the look at the other one"
    made.met({}, at(920, "two"))
    assert told(made.take_learned()) == [(850, True)]
    assert former(history(seen(at(900, "two"), NEW, "two"), at(500)), at(950, "two")) == NEW


def test_of_what_is_kept_holds_the_last_form_of_this_server() -> None:
    first = history(seen(at(100), OLD), at(100))
    former(first, at(400), "ALTER TABLE t DEFAULT CHARACTER SET utf8mb4")
    forms = first.take_learned()
    assert former(history(seen(at(900), NEW), at(450), forms), at(470)) is None
    assert former(history(seen(at(900), NEW), at(200), forms), at(250)) == OLD
    assert former(history(seen(at(900, "two"), NEW, "two"), at(200, "two"), forms), at(250, "two")) is None
    assert former(history(seen(at(900), NEW), Position("bin.000002", 200), forms), at(250)) is None


def test_each_shape_is_compared_once_and_again_behind_a_statement() -> None:
    shape = Shape(T, (Column("id", Kind.INT, length=4), Column("a", Kind.INT, length=2)))
    made = history(Catalogue(Look("one", at(500), {T: OLD}), Look("one", at(750), {T: NEW})), at(500))
    made.met({1: shape}, at(600))
    former(made, at(650), "ALTER TABLE t MODIFY a bigint")
    made.met({1: shape}, at(700))
    assert former(made, at(740)) is None, "its rows are of the form before the statement"
    late = history(Catalogue(Look("one", at(500), {T: NEW}), Look("one", at(900), {})), at(100))
    for place in (at(300), at(520)):
        late.met({1: shape}, place)
    assert former(late, at(600)) is None, "what is seen behind rows is compared with them, too"


def test_kinds_that_the_log_and_the_catalogue_tell_in_ways_of_their_own_are_not_compared() -> None:
    known = table("id int, a json, b varchar(9) CHARACTER SET latin1, c decimal(6,2)")
    alike = (Column("a", Kind.TEXT), Column("b", Kind.BINARY), Column("c", Kind.DECIMAL, precision=6, scale=2))
    made = history(catalogue := seen(at(500), known), at(500))
    made.met({1: Shape(T, alike), 2: Shape(TableName("shop", "u"), alike)}, at(600))
    assert former(made, at(700)) == known and len(catalogue.known) == 1
    other = history(Catalogue(Look("one", at(500), {T: known}), Look("one", at(900), {})), at(500))
    other.met({1: Shape(T, (Column("c", Kind.DECIMAL, precision=6, scale=1),))}, at(600))
    assert former(other, at(700)) is None


def test_the_character_set_that_rows_tell_is_learned_and_stays() -> None:
    made = history(Catalogue(Look("one", at(500), {})), at(500))
    former(made, at(600), "CREATE TABLE t (id int, a varchar(9))")
    for charset, place in (("", at(650)), ("latin1", at(700)), ("utf8mb4", at(750))):
        made.met({1: Shape(T, (Column("a", Kind.TEXT, length=9, charset=charset),))}, place)
    forms = made.take_learned()
    assert told(forms) == [(600, True), (700, True)]
    again = former(history(seen(at(900), OLD), at(800), forms), at(850))
    assert again is not None and again.charset == "latin1"


# ---------------------------------------------------------------------- DROP DATABASE


def gone(made: TableHistory, end: Position) -> tuple[DdlKind, tuple[TableName, ...], tuple[str, ...]]:
    """Returns what a statement that drops the database is taken for."""
    told = made.passed(classify(Ddl("", "DROP DATABASE shop", "0-1", 7), "mysql"), end)
    return told.kind, told.tables, told.databases


NOT_KNOWN = (DdlKind.OTHER, (), ("shop",))


def test_a_database_goes_as_the_tables_that_statements_have_left_in_it() -> None:
    made = history(seen(at(500), OLD), at(500))
    former(made, at(510), "CREATE TABLE n (id int PRIMARY KEY)")
    former(made, at(520), "CREATE TABLE z (id int PRIMARY KEY)")
    former(made, at(530), "RENAME TABLE z TO y")
    former(made, at(540), "DROP TABLE t")
    assert gone(made, at(600)) == (DdlKind.ALTERED, (TableName("shop", "n"), TableName("shop", "y")), ())
    assert gone(made, at(700)) == (DdlKind.UNRELATED, (), ()), "nothing is left"


def test_a_database_that_goes_before_all_of_its_tables_are_known_halts() -> None:
    assert gone(history(seen(at(500), OLD), at(100)), at(400)) == NOT_KNOWN, "the look is of a later place"
    for statement in ("CALL what_ever_this is", "CREATE TABLE n SELECT * FROM t", "RENAME TABLE other.x TO x"):
        made = history(seen(at(500), OLD), at(500))
        former(made, at(550), statement)
        assert gone(made, at(600)) == NOT_KNOWN, statement
    changed = Shape(T, (Column("id", Kind.INT, length=4), Column("a", Kind.INT, length=8)))
    made = history(Catalogue(Look("one", at(500), {T: OLD}), Look("one", at(650), {T: NEW})), at(500))
    made.met({1: changed}, at(600))
    assert gone(made, at(640)) == NOT_KNOWN, "nobody knows whether another table is there"


def test_a_statement_that_cannot_be_read_may_make_the_first_table() -> None:
    made = history(Catalogue(Look("one", at(500), {})), at(500))
    assert gone(made, at(550)) == (DdlKind.UNRELATED, (), ())
    former(made, at(600), "CALL what_ever_this is")
    assert gone(made, at(650)) == NOT_KNOWN


def test_tables_of_other_databases_stay() -> None:
    ddl = classify(Ddl("", "DROP DATABASE shop", "0-1", 7), "mysql")
    told = of_tables(ddl, [T, TableName("other", "t"), TableName("shop", "a")])
    assert (told.kind, told.tables) == (DdlKind.ALTERED, (TableName("shop", "a"), T))
    others = classify(Ddl("shop", "DROP TABLE t", "0-1", 7), "mysql")
    assert of_tables(others, [T]) is others


def test_a_look_behind_what_was_not_understood_makes_all_tables_known_again() -> None:
    n = TableName("shop", "n")
    made = history(Catalogue(Look("one", at(500), {T: OLD}), Look("one", at(560), {T: OLD, n: OLD})), at(500))
    former(made, at(510), "CREATE TABLE n SELECT * FROM t")
    made.met({}, at(520))
    former(made, at(530), "CREATE TABLE x SELECT * FROM t")
    assert gone(made, at(570)) == NOT_KNOWN, "x came behind the look, for all that this reader knows"
    made = history(Catalogue(Look("one", at(500), {T: OLD}), Look("one", at(560), {T: OLD, n: OLD})), at(500))
    former(made, at(510), "CREATE TABLE n SELECT * FROM t")
    made.met({}, at(520))
    made.met({}, at(570))
    assert gone(made, at(580)) == (DdlKind.ALTERED, (n, T), ())
