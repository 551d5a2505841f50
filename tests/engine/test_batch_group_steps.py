"""Blind steps by groups of columns: what a spoke has written to others stays."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_batch_blind_steps import BINDING, DRAFTS, LOCAL, NAME, RANKS, content, history, spoke
from tests.engine.world import change
from tidelock.engine.batch.blind_steps import blind_steps, displacing_steps
from tidelock.engine.batch.group_steps import by_groups
from tidelock.engine.model.conflict_options import GroupWords, TableWords
from tidelock.engine.model.records import Row
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.steps import DeleteRows, Step, UpsertRows
from tidelock.engine.two_way.column_groups import TouchedRows, laid_over
from tidelock.simulations.model import Database, Violation

WORDS = {NAME: TableWords(groups=(GroupWords(("note",), "arrival"),))}  # and one more of `email`, which is unique
GROUPS = ((2,), (1,))


def grouped(changes: list[Change]) -> list[Step]:
    return by_groups(blind_steps(changes, RANKS), changes, WORDS)


def test_of_a_row_that_is_there_what_was_touched_is_written() -> None:
    log = [
        change(BINDING, (1, "a", "x"), (1, "a", "y"), number=1),
        change(BINDING, (2, "b", "x"), (2, "c", "x"), number=2),
        change(BINDING, (3, "d", "x"), (3, "d", "x"), number=3),
        change(BINDING, None, (4, "e", "x"), number=4),
    ]
    assert grouped(log) == [
        DeleteRows(BINDING, [(2,)]),
        UpsertRows(BINDING, [(1, "a", "y")], fresh=False, blind=True, columns=(2,)),
        UpsertRows(BINDING, [(2, "c", "x"), (4, "e", "x")], fresh=True, blind=True),
    ]
    displacing = by_groups(displacing_steps(log), log, WORDS)
    assert [(step.columns, step.displaces) for step in displacing if isinstance(step, UpsertRows)] == [
        ((2,), (("0-1", 1, 0),)),
        ((), (("0-1", 2, 0), ("0-1", 4, 0))),
    ]


def test_tables_without_groups_stay_as_they_are() -> None:
    log = [change(BINDING, (1, "a", "x"), (1, "a", "y"))]
    for words in ({}, {NAME: TableWords()}):
        assert by_groups(blind_steps(log, RANKS), log, words) == blind_steps(log, RANKS)


def expected(database: Database, log: list[Change]) -> dict[int, Row]:
    """Rows that no unique value is in the way of, one change after another."""
    rows = content(database)
    for one in log:
        touched = TouchedRows(GROUPS, (0, 1), lambda row: row[0])
        touched.add(one.before, one.after)
        here = None if one.before is None else rows.pop(one.before[0], None)
        if one.after is None:
            continue
        columns = touched.columns(one.after)
        here = rows.get(one.after[0], here) if columns is not None else None
        if columns != ():
            rows[one.after[0]] = one.after if columns is None else laid_over(columns, one.after, here)
        elif here is not None:
            rows[one.after[0]] = here
    return rows


@settings(max_examples=60, deadline=None)
@given(drafts=DRAFTS, local=LOCAL, size=st.integers(1, 5))
def test_batches_end_as_their_changes_one_after_another(drafts: list, local: dict, size: int) -> None:
    log, _ = history([(old, new, None, note, stays) for old, new, _, note, stays in drafts])
    database = spoke({key: (None, note) for key, (_, note) in local.items()})
    wanted = expected(database, log)
    for start in range(0, len(log), size):
        batch = log[start : start + size]
        for steps in (blind_steps(batch, RANKS), displacing_steps(batch)):
            session = database.begin()
            try:
                session.run(by_groups(steps, batch, WORDS))
            except Violation:
                continue
            session.commit()
            break
    assert content(database) == wanted
