"""Blind steps: the last image of a row decides, whatever the spoke has; who holds a wanted value makes room."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.world import change, table
from tidelock.engine.batch.blind_steps import blind_steps, displacing_steps, require_blind
from tidelock.engine.batch.merge import Ranks
from tidelock.engine.model.records import Column, Kind, Row, Shape, TableName
from tidelock.engine.model.schema import Binding, ForeignKey, SchemaMismatch, TargetTable, UniqueKey
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.steps import DeleteRows, UpdateRows, UpsertRows
from tidelock.simulations.model import Database, Violation

TABLE = table("t", ("id", "email", "note"), ("id",), (("email",),))
NAME = TABLE.name
RANKS = Ranks({NAME: TABLE}, {})
COLUMNS = tuple(Column(name, Kind.TEXT) for name in ("id", "email", "note"))


def binding(target: TargetTable = TABLE) -> Binding:
    return Binding(0, Shape(NAME, COLUMNS, ("id",)), target)


BINDING = binding()
Rows = dict[int, Row]
IDS, EMAILS, NOTES = st.integers(0, 3), st.sampled_from((None, "a", "b")), st.sampled_from(("x", "y"))
DRAFTS = st.lists(st.tuples(IDS, IDS, EMAILS, NOTES, st.booleans()), max_size=12)
LOCAL = st.dictionaries(st.integers(0, 5), st.tuples(EMAILS, NOTES), max_size=4)


def history(drafts: list[tuple[int, int, str | None, str, bool]]) -> tuple[list[Change], Rows]:
    """Changes of the arbiter's log, each as its constraints let it, and the rows that it ends with."""
    rows: Rows = {}
    log: list[Change] = []
    for number, (old, new, email, note, stays) in enumerate(drafts):
        before, after = rows.get(old), (new, email, note)
        others = [row for id_, row in rows.items() if id_ != old]
        if stays and any(row[0] == new or (email and row[1] == email) for row in others):
            continue
        if not stays and before is None:
            continue
        rows.pop(old, None)
        if stays:
            rows[new] = after
        log.append(change(BINDING, before, after if stays else None, number=number))
    return log, rows


def spoke(local: dict[int, tuple[str | None, str]]) -> Database:
    database = Database({NAME: TABLE})
    session = database.begin()
    for id_, (email, note) in local.items():
        row = (id_, email, note)
        try:
            session.insert(NAME, row)
        except Violation:
            continue
    session.commit()
    return database


def content(database: Database) -> Rows:
    return {row[0]: row for row in database.tables[NAME].rows.values()}


def applied(database: Database, batch: list[Change]) -> None:
    """As an engine does it: in log order where the target does not take it."""
    for steps in (blind_steps(batch, RANKS), displacing_steps(batch)):
        session = database.begin()
        try:
            session.run(steps)
        except Violation:
            continue
        session.commit()
        return
    raise AssertionError("a batch in log order is refused")


@settings(max_examples=200, deadline=None)
@given(drafts=DRAFTS, local=LOCAL, size=st.integers(1, 5))
def test_rows_of_the_log_end_as_the_arbiter_has_them(
    drafts: list, local: dict[int, tuple[str | None, str]], size: int
) -> None:
    """Whatever stood there; and a row that the log does not touch makes room, or stays as it was."""
    log, final = history(drafts)
    database = spoke(local)
    before = content(database)
    for start in range(0, len(log), size):
        applied(database, log[start : start + size])
    touched = {image[0] for one in log for image in (one.before, one.after) if image is not None}
    wanted = {one.after[1] for one in log if one.after is not None and one.after[1] is not None}
    after = content(database)
    assert {id_: row for id_, row in after.items() if id_ in touched} == final
    for id_, row in before.items():
        if id_ not in touched:
            assert after.get(id_) == row or (id_ not in after and row[1] in wanted)


def locks(one: Change) -> set[tuple[str, object]]:
    images = [image for image in (one.before, one.after) if image is not None]
    emails = {("email", image[1]) for image in images if image[1] is not None}
    return {("id", image[0]) for image in images} | emails


def batches(log: list[Change], draws: st.DataObject) -> list[list[Change]]:
    """As lanes commit them: a change behind all that it shares a lock with, in one batch with some of these, or not."""
    left, found = list(log), []
    while left:
        batch: list[Change] = []
        for one in list(left):
            before = [other for other in left[: left.index(one)] if locks(other) & locks(one)]
            if not before and draws.draw(st.booleans()):
                batch.append(one)
                left.remove(one)
        found += [batch] if batch else []
    return found


@settings(max_examples=100, deadline=None)
@given(drafts=DRAFTS, local=LOCAL, draws=st.data())
def test_rows_that_make_room_need_no_lock_beforehand(
    drafts: list, local: dict[int, tuple[str | None, str]], draws: st.DataObject
) -> None:
    """Whatever order lanes take within the locks of the arbiter's log: it knows nothing of what the spoke's rows hold.
    """
    log, final = history(drafts)
    database = spoke(local)
    for batch in batches(log, draws):
        applied(database, batch)
    touched = {image[0] for one in log for image in (one.before, one.after) if image is not None}
    assert {id_: row for id_, row in content(database).items() if id_ in touched} == final


def test_inserted_and_deleted_in_one_batch_is_deleted() -> None:
    """History 11."""
    batch = [change(BINDING, None, (1, "a", "x")), change(BINDING, (1, "a", "x"), None)]
    assert blind_steps(batch, RANKS) == [DeleteRows(BINDING, [(1,)])]


def test_a_changed_key_deletes_the_old_one_and_writes_the_new_one() -> None:
    batch = [change(BINDING, (1, "a", "x"), (2, "a", "x"))]
    assert blind_steps(batch, RANKS) == [
        DeleteRows(BINDING, [(1,)]),
        UpsertRows(BINDING, [(2, "a", "x")], fresh=True, blind=True),
    ]


LOG = [
    change(BINDING, None, (1, "a", "x"), number=5),
    change(BINDING, (2, "b", "x"), (2, "c", "x"), number=6),
    change(BINDING, (1, "a", "x"), (1, "a", "y"), number=7),
]


def test_rows_that_may_displace_go_together_by_last_images_and_say_whose_change_each_is() -> None:
    of = (("0-1", 7, 0), ("0-1", 6, 0))
    assert displacing_steps(LOG) == [
        DeleteRows(BINDING, [(2,)]),
        UpsertRows(BINDING, [(1, "a", "y"), (2, "c", "x")], fresh=False, blind=True, displaces=of),
    ]


def test_rows_that_others_may_refer_to_stay_in_log_order() -> None:
    child = TableName("shop", "child")
    tied = binding(msgspec.structs.replace(TABLE, references=(ForeignKey("f", child, ("t",), NAME, ("id",)),)))
    steps = displacing_steps([change(tied, one.before, one.after, number=one.number) for one in LOG])
    assert [step.displaces for step in steps if isinstance(step, UpsertRows)] == [(("0-1", n, 0),) for n in (5, 6, 7)]
    assert len(steps) == 3


def test_a_change_alone_may_clear_what_refers_to_its_row_and_a_key_changes_in_its_place() -> None:
    """Of several, an earlier one may take a child elsewhere: that is not in the way."""
    child = TableName("shop", "child")
    tied = binding(msgspec.structs.replace(TABLE, references=(ForeignKey("f", child, ("t",), NAME, ("id",)),)))
    of = (("0-1", 1, 0),)
    moves = change(tied, (1, "a", "x"), (2, "a", "x"))
    update = UpdateRows(tied, [(1,)], [(2, "a", "x")], moves=True, displaces=of, clears=of, changed=("id",))
    assert displacing_steps([moves]) == [DeleteRows(tied, [(2,)], clears=of), update]
    goes = change(tied, (1, "a", "x"), None)
    assert displacing_steps([goes]) == [DeleteRows(tied, [(1,)], clears=of)]
    both = displacing_steps([goes, moves])
    assert not any(step.clears for step in both if not isinstance(step, UpsertRows))


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (table("t", ("id", "email", "note"), ()), "has no key"),
        (table("t", ("id", "email", "note", "extra"), ("id",), (("extra",),)), "does not write"),
        (msgspec.structs.replace(TABLE, uniques=(UniqueKey("short", ("email",), "a prefix"),)), "short"),
    ],
    ids=["no key", "a column that is not told", "a prefix"],
)
def test_a_table_whose_rows_cannot_be_displaced_exactly_is_refused(target: TargetTable, words: str) -> None:
    with pytest.raises(SchemaMismatch, match=words):
        require_blind(binding(target))
