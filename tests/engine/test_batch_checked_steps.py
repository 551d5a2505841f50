"""Steps that look at the target first: no row is blamed that nobody touched, and none is missed or written over."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.world import change, table
from tidelock.engine.batch import checked_steps
from tidelock.engine.batch.conflict_cut import suspected
from tidelock.engine.batch.merge import Ranks
from tidelock.engine.batch.parked_rows import ParkedRows
from tidelock.engine.model.options import Options
from tidelock.engine.model.records import Column, Kind, Row, Shape, TableName
from tidelock.engine.model.schema import Binding, SchemaMismatch, TargetTable
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.steps import DeleteRows, UpdateRows, UpsertRows
from tidelock.simulations.model import Database, Violation

_NULLABLE = table("t", ("id", "email", "note", "version"), ("id",), (("email",),))
TABLE = msgspec.structs.replace(
    _NULLABLE, columns=tuple(msgspec.structs.replace(c, nullable=c.name != "version") for c in _NULLABLE.columns)
)
NAME = TABLE.name
VERSIONED = Options(verify="version", versions={NAME: "version"})
VERSION = 3
RANKS = Ranks({NAME: TABLE}, {})


def shape(*columns: Column) -> Shape:
    return Shape(NAME, columns, ("id",))


def told(target: TargetTable = TABLE) -> Binding:
    kinds = {"version": Kind.INT}
    return Binding(0, shape(*(Column(c.name, kinds.get(c.name, Kind.TEXT)) for c in target.columns)), target)


BINDING = told()
Draft = tuple[int, int, str | None, str | None]
IDS, EMAILS, NOTES = st.integers(0, 3), st.sampled_from((None, "a", "b")), st.sampled_from((None, "x", "y"))
DRAFTS = st.lists(st.tuples(IDS, IDS, EMAILS, NOTES), max_size=14)


def history(drafts: list[Draft]) -> list[Change]:
    """Changes that a source with the same table has logged; each has a higher version than all before."""
    rows: dict[int, Row] = {}
    log: list[Change] = []
    for version, (old, new, email, note) in enumerate(drafts, 1):
        before = rows.get(old)
        after = (new, email, note, version)
        others = [row for id_, row in rows.items() if id_ != old]
        gone = before is not None and note is None and email is None
        if not gone and (any(row[0] == new or (email and row[1] == email) for row in others)):
            continue
        if before is not None:
            del rows[old]
        if not gone:
            rows[new] = after
        log.append(change(BINDING, before, None if gone else after, number=version))
    return log


def batches(log: list[Change], size: int) -> list[list[Change]]:
    return [log[i : i + size] for i in range(0, len(log), size)]


def applied(database: Database, batch: list[Change], options: Options = Options(verify="image")) -> None:
    """Raises Violation."""
    session = database.begin()
    session.run(checked_steps.maker(options)(batch, RANKS))
    session.commit()


def replayed(log: list[Change]) -> dict[object, Row]:
    rows: dict[object, Row] = {}
    for one in log:
        if one.before is not None:
            del rows[one.before[0]]
        if one.after is not None:
            rows[one.after[0]] = one.after
    return rows


def content(database: Database) -> dict[object, Row]:
    return {row[0]: row for row in database.tables[NAME].rows.values()}


@settings(max_examples=60, deadline=None)
@given(drafts=DRAFTS, size=st.integers(1, 6))
def test_rows_that_nobody_touched_are_never_blamed(drafts: list[Draft], size: int) -> None:
    log = history(drafts)
    for options in (Options(verify="image"), VERSIONED):
        database = Database({NAME: TABLE})
        for batch in batches(log, size):
            applied(database, batch, options)
        assert content(database) == replayed(log)


@settings(max_examples=80, deadline=None)
@given(drafts=DRAFTS, size=st.integers(1, 6), at=st.integers(0, 13), row=st.integers(0, 3), there=st.booleans())
def test_a_row_that_somebody_else_wrote_is_refused_with_the_first_change_of_it_and_is_left_alone(
    drafts: list[Draft], size: int, at: int, row: int, there: bool
) -> None:
    log = history(drafts)
    database, foreign = Database({NAME: TABLE}), (row, None, "foreign", 0)
    for batch in batches(log[:at], size):
        applied(database, batch)
    target, slot = database.tables[NAME], (row,)
    if target.rows.get(slot) is None and not there:
        return  # nothing to take away
    target.drop(slot)
    if there:
        target.put(slot, foreign)
    for batch in batches(log[at:], size):
        ids = [image[0] for one in batch for image in (one.before, one.after) if image is not None]
        try:
            applied(database, batch)
        except Violation:
            assert row in ids, "a batch that has nothing to do with the row is blamed"
            return
        assert row not in ids, "a change of the row is written over what somebody else wrote"
        assert target.rows.get(slot) == (foreign if there else None)


@settings(max_examples=80, deadline=None)
@given(drafts=DRAFTS, size=st.integers(1, 6), again=st.lists(st.integers(0, 13), max_size=6))
def test_what_comes_again_never_makes_a_row_older(drafts: list[Draft], size: int, again: list[int]) -> None:
    """Of rows that stay and leave unique values alone: a delete leaves nothing behind that could tell older rows off,
    and a value that has moved on is wanted twice."""
    log = history([(old, old, None, note or "z") for old, _, _, note in drafts])
    database = Database({NAME: TABLE})
    for batch in batches(log, size):
        applied(database, batch, VERSIONED)
    final = content(database)
    for start in again:
        for batch in batches(log[start:], size):
            applied(database, batch, VERSIONED)
            assert content(database) == final


def test_two_three_four_over_four_leaves_four_at_every_moment() -> None:
    database = Database({NAME: TABLE})
    rows = [(1, None, f"v{n}", n) for n in range(1, 5)]
    first, *rest = [change(BINDING, None if n == 0 else rows[n - 1], row, number=n) for n, row in enumerate(rows)]
    applied(database, [first, *rest], VERSIONED)
    for one in rest:
        applied(database, [one], VERSIONED)
        assert content(database) == {1: rows[3]}
    applied(database, rest, VERSIONED)
    assert content(database) == {1: rows[3]}


def test_an_equal_version_is_not_written_and_no_failure() -> None:
    database = Database({NAME: TABLE})
    database.tables[NAME].put((1,), (1, None, "theirs", 4))
    applied(database, [change(BINDING, (1, None, "ours", 3), (1, None, "ours", 4))], VERSIONED)
    assert content(database) == {1: (1, None, "theirs", 4)}


def test_a_row_goes_only_if_it_is_no_newer_than_the_one_that_went_at_the_source() -> None:
    database = Database({NAME: TABLE})
    for id_, version in ((1, 3), (2, 4), (3, 5)):
        database.tables[NAME].put((id_,), (id_, None, "x", version))
    for id_ in (1, 2, 3):
        applied(database, [change(BINDING, (id_, None, "x", 4), None, number=id_)], VERSIONED)
    assert list(content(database)) == [3]


def test_a_lower_version_after_a_higher_one_in_one_batch_is_not_written() -> None:
    database = Database({NAME: TABLE})
    high, low = (1, None, "high", 5), (1, None, "low", 3)
    applied(database, [change(BINDING, None, high), change(BINDING, high, low, number=2)], VERSIONED)
    assert content(database) == {1: high}


def test_an_insert_that_goes_again_in_its_batch_looks_at_the_target_all_the_same() -> None:
    database = Database({NAME: TABLE})
    database.tables[NAME].put((1,), (1, None, "foreign", 0))
    row = (1, None, "x", 1)
    with pytest.raises(Violation, match="not as the log has it"):
        applied(database, [change(BINDING, None, row), change(BINDING, row, None, number=2)])
    assert content(database) == {1: (1, None, "foreign", 0)}


def test_the_last_change_in_log_order_stands_alone_so_that_its_error_is_told() -> None:
    rows = [(n, None, "x", 1) for n in range(3)]
    steps = checked_steps.image_steps_in_order([change(BINDING, row, None, number=row[0]) for row in rows])
    assert [step.befores for step in steps if isinstance(step, DeleteRows)] == [rows[:2], rows[2:]]
    assert all(step.checks for step in steps)


def test_with_the_options_off_no_step_looks_at_anything() -> None:
    row, other = (1, None, "x", 1), (1, None, "y", 2)
    log = [change(BINDING, None, row), change(BINDING, row, other, number=2), change(BINDING, other, None, number=3)]
    for one in log:
        assert not any(step.checks for step in checked_steps.maker(Options())([one], RANKS))
        assert not any(step.checks for step in checked_steps.maker_in_order(Options())([one]))


@pytest.mark.parametrize("left", [(), (NAME,)])
def test_a_row_is_written_over_the_one_that_was_left_behind_unique_values_included(left: tuple[TableName, ...]) -> None:
    database, options = Database({NAME: TABLE}), Options(left_behind=left)
    former = [change(BINDING, None, (1, "a", "x", 1)), change(BINDING, None, (2, "b", "x", 2), number=2)]
    applied(database, former, options)
    for number, row in ((3, (1, "c", "y", 3)), (4, (2, "a", "y", 4))):
        applied(database, [change(BINDING, None, row, number=number)], options)
    assert [row[1] for row in content(database).values()] == (["c", "a"] if left else ["a", "b"])
    steps = checked_steps.maker_in_order(options)([change(BINDING, None, (3, "d", "x", 5))])
    assert [isinstance(step, UpsertRows) and step.blind for step in steps] == [bool(left)]


def test_replacing_is_for_tables_of_which_nothing_is_parked() -> None:
    row, parked = (1, "a", "x", 1), ParkedRows()
    insert = change(BINDING, None, row)

    def replaces(aside: list[Change]) -> bool:
        steps = checked_steps.maker_in_order(Options())([insert])
        checked_steps.let_replace(steps, parked, aside)
        (step,) = steps
        assert isinstance(step, UpsertRows)
        return step.replaces

    assert replaces([])
    assert not replaces([change(BINDING, None, (2, "b", "x", 1), number=2)]), "it may be what frees the value"
    parked.park(change(BINDING, None, (2, "b", "x", 1), number=2))
    assert not replaces([])


def test_a_replaced_row_makes_room_and_no_other_goes() -> None:
    database = Database({NAME: TABLE})
    for row in ((7, "a", "foreign", 0), (8, "b", "ours", 1)):
        database.tables[NAME].put((row[0],), row)
    update = change(BINDING, (8, "b", "ours", 1), (8, "a", "ours", 2))
    steps = checked_steps.maker_in_order(Options())([update])
    checked_steps.let_replace(steps, ParkedRows(), [])
    session = database.begin()
    session.run(steps)
    session.commit()
    assert isinstance(steps[0], UpdateRows) and content(database) == {8: (8, "a", "ours", 2)}


REFUSED = {
    "no key": (told(msgspec.structs.replace(TABLE, key=(), uniques=())), VERSIONED, "has none"),
    "no such column": (BINDING, Options(verify="version", versions={NAME: "v"}), "without the version column v"),
    "none named": (BINDING, Options(verify="version"), "none is named"),
    "a text": (BINDING, Options(verify="version", versions={NAME: "note"}), "whose order is not the same"),
    "may be NULL": (told(_NULLABLE), VERSIONED, "which is no version"),
    "half an image": (
        Binding(0, Shape(NAME, BINDING.shape.columns, ("id",), identity="key"), TABLE),
        Options(verify="image"),
        "REPLICA IDENTITY FULL",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_table_whose_rows_cannot_be_looked_at_is_refused(case: str) -> None:
    binding, options, words = REFUSED[case]
    with pytest.raises(SchemaMismatch, match=words):
        checked_steps.require(binding, options)
    checked_steps.require(binding, Options())


@pytest.mark.parametrize(
    "images",
    [
        [((1, "a", "x", 1), (1, "a", "y", 2)), ((1, "a", "x", 1), (1, "a", "z", 3))],
        [((1, "a", "x", 1), None), ((1, "a", "y", 2), (1, "a", "z", 3))],
        [((1, "a", "x", 1), (1, "a", "y", 2)), (None, (1, "a", "z", 3))],
        [(None, (2, "b", "x", 1)), (None, (2, "b", "y", 2))],
        [((1, "a", "x", 1), (1, "a", "y", 2)), ((1, "a", "x", 1), None)],
    ],
)
def test_a_change_that_does_not_begin_with_what_the_one_before_has_left_is_refused(images: list) -> None:
    """Between them another feed has written to the row at the source.  A fold would write over the first of them."""
    log = [change(BINDING, *pair, number=number) for number, pair in enumerate(images)]
    database = Database({NAME: TABLE})
    applied(database, [change(BINDING, None, (1, "a", "x", 1), number=9)])
    with pytest.raises(Violation):
        applied(database, log)
    assert suspected(log, []) == log[1:]
    applied(database, log[:1])
