"""Journals of simulated runs, and worlds on the log of a journal."""

import functools
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from tidelock.adapters.runtime.journal import Journal, JournalError, replay
from tidelock.engine.apply.machine import Options
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import UNKNOWN, Column, Kind, Position, Row, RowChange, Shape, TableName, Transaction
from tidelock.engine.model.schema import Equality, ForeignKey, TargetColumn, TargetTable, UniqueKey
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.protocol.events import ApplyEvent, LogArrived, TakenOver
from tidelock.simulations import recorded
from tidelock.simulations.plan import draw
from tidelock.simulations.recorded import FromJournal, NotModelled, RecordedHistory, model_of
from tidelock.simulations.recording import read_recording, write_journal
from tidelock.simulations.shrink import Shrinker
from tidelock.simulations.trial import Drawn, Trial

SHOP = TableName("shop", "item")
SHAPE = Shape(SHOP, (Column("id", Kind.INT), Column("code", Kind.TEXT)), ("id",))
ITEM = TargetTable(
    SHOP,
    (TargetColumn("id", "int", False), TargetColumn("code", "text"), TargetColumn("own", "int", default=True)),
    ("id",),
    (UniqueKey("primary", ("id",)), UniqueKey("code", ("code",)), UniqueKey("odd", ("code",), "an expression")),
)
NAME = TableName("recorded_shop", "item")
WHOLE = [seed for seed in range(16) if not draw(seed).keyed][:12]
"""Seeds of worlds whose log tells all of each row."""


def at(offset: int, rows: int = 0) -> Position:
    return Position("log.000001", offset, rows)


def log(
    prev: int, last: int, number: int, *rows: tuple[Row | None, Row | None], shape: Shape = SHAPE, part: bool = False
) -> LogBatch:
    changes = tuple(RowChange(0, before, after, n) for n, (before, after) in enumerate(rows))
    transaction = Transaction("0-1", number, 0, complete=not part)
    return LogBatch(at(prev), at(last), (transaction,), changes, {0: shape})


def written(path: Path, *batches: LogBatch, tables: tuple[TargetTable, ...] = (ITEM,)) -> str:
    """A journal of these batches, one a step."""
    journal = Journal(path / "a.journal", Options())
    taken = TakenOver(1, at(0), tables={table.name: table for table in tables})
    steps: list[list[ApplyEvent]] = [[taken], *([LogArrived([batch])] for batch in batches)]
    for now, events in enumerate(steps):
        journal.record(now, events)
    journal.close()
    model_of.cache_clear()
    return str(path / "a.journal")


def rows_of(history: RecordedHistory) -> list[tuple[str, int, int, Row | None, Row | None]]:
    return [(*entry.place, entry.before, entry.after) for entry in history.entries if entry.change is not None]


def history(path: str) -> RecordedHistory:
    return RecordedHistory(model_of(path), FromJournal(path).plan(1))


def busiest(trial: Trial) -> int:
    """The owner that received most of the log."""
    rows = Counter[int]()
    for turn in trial.turns:
        batches = [batch for event in turn.events if isinstance(event, LogArrived) for batch in event.batches]
        rows[turn.owner] += sum(len(batch.rows) for batch in batches)
    return rows.most_common(1)[0][0]


def without_ticks(lines: list[str]) -> list[str]:
    return [line for line in lines if not line.endswith("  tick")]


# ---------------------------------------------------------------------- round trips


@pytest.mark.parametrize("seed", range(12))
def test_a_journal_of_a_simulated_run_replays_with_the_same_effects(seed: int, tmp_path: Path) -> None:
    trial = Drawn(told=True)(seed)
    replayed: dict[int, list[str]] = {}
    told: dict[int, list[str]] = {}
    for owner in dict.fromkeys(turn.owner for turn in trial.turns):
        write_journal(trial, tmp_path / "run.journal", owner)
        replayed[owner] = without_ticks(list(replay(tmp_path / "run.journal")))
        own = [line.removeprefix(f"{owner} ") for line in trial.transcript if line.startswith(f"{owner} ")]
        told[owner] = without_ticks(own)
    assert replayed == told
    assert any("  → apply " in line for lines in replayed.values() for line in lines)


@pytest.mark.parametrize("seed", WHOLE)
def test_the_log_of_a_journal_is_that_of_the_world_that_made_it(seed: int, tmp_path: Path) -> None:
    trial = Drawn(told=True)(seed)
    assert trial.history is not None
    there = {entry.place: (entry.before, entry.after) for entry in trial.history.entries if entry.taken}
    write_journal(trial, tmp_path / "run.journal", busiest(trial))
    recording = read_recording(tmp_path / "run.journal")
    found = {
        (logged.source, logged.number, ordinal): (before, after)
        for logged in recording.log
        for ordinal, (_, before, after) in logged.rows.items()
    }
    assert found and found.items() <= there.items()
    order = [place for place in there if place in found]
    assert list(found) == order


@pytest.mark.parametrize("seed", WHOLE)
def test_worlds_on_a_recorded_log_are_clean_and_repeat(seed: int, tmp_path: Path) -> None:
    trial = Drawn(told=True)(seed)
    write_journal(trial, tmp_path / "run.journal", busiest(trial))
    model_of.cache_clear()
    worlds = FromJournal(str(tmp_path / "run.journal"), told=True)
    first, again = worlds(seed + 1), worlds(seed + 1)
    assert first.mistake == ""
    assert first.changes >= model_of(worlds.path).rows > 0
    assert (first.transcript, first.digest) == (again.transcript, again.digest)


def test_a_log_that_does_not_tell_whole_rows_is_not_modelled(tmp_path: Path) -> None:
    """What such a row was the log does not say, so there is no source to play."""
    batches = [log(0, 100, 1, (None, (1, "a"))), log(100, 200, 2, ((1, UNKNOWN), (1, "b")))]
    with pytest.raises(NotModelled, match=r"does not tell rows of recorded_shop\.item whole"):
        history(written(tmp_path, *batches))


def test_what_fails_on_a_recorded_log_shrinks(tmp_path: Path) -> None:
    batches = [log(100 * n - 100, 100 * n, n, (None, (n, f"c{n}")), ((n, f"c{n}"), None)) for n in range(1, 30)]
    batches.append(log(2900, 3000, 30, (None, (77, "x"))))
    worlds = FromJournal(written(tmp_path, *batches), told=True)

    def attempt(plan: recorded.Plan) -> Trial:
        """A world that does not like item 77."""
        trial = worlds.attempt(plan, told=True)
        bad = any("insert recorded_shop.item (77, x)" in line for line in trial.transcript)
        return replace_mistake(trial, "77 is bad" if bad else "")

    failing = attempt(worlds.plan(3))
    assert failing.changes == 59
    best = Shrinker(failing, attempt, seconds=1e9).run()
    assert (best.changes, best.transactions) == (1, (30,))


def replace_mistake(trial: Trial, mistake: str) -> Trial:
    return replace(trial, mistake=mistake, error="Mistake" if mistake else "")


# ---------------------------------------------------------------------- the log in a journal


def test_duplicates_gaps_and_parts(tmp_path: Path) -> None:
    one = log(0, 100, 1, (None, (1, "a")))
    two = log(100, 200, 2, (None, (2, "b")))
    three = log(200, 300, 3, (None, (3, "c")), (None, (4, "d")))
    part = LogBatch(at(200), at(200, 1), (Transaction("0-1", 3, 0, False),), three.rows[:1], {0: SHAPE})
    rest = LogBatch(at(200, 1), at(300), (Transaction("0-1", 3, 0),), three.rows[1:])
    unfinished = log(300, 400, 4, (None, (9, "z")), part=True)
    path = written(tmp_path, one, three, one, two, part, rest, two, three, unfinished)
    assert rows_of(history(path)) == [
        ("0-1", 1, 0, None, (1, "a")),
        ("0-1", 2, 0, None, (2, "b")),
        ("0-1", 3, 0, None, (3, "c")),
        ("0-1", 3, 1, None, (4, "d")),
    ]


def test_the_log_goes_on_at_a_promoted_replica(tmp_path: Path) -> None:
    one = replace(log(0, 5000, 1, (None, (1, "a"))), last=replace(at(5000), gtids="0-1-1"))
    two = replace(
        log(0, 0, 2, (None, (2, "b"))), prev=replace(at(70), gtids="0-1-1"), last=replace(at(90), gtids="0-1-2")
    )
    assert [row[4] for row in rows_of(history(written(tmp_path, one, two)))] == [(1, "a"), (2, "b")]


def test_each_reader_numbers_the_tables_in_its_own_way(tmp_path: Path) -> None:
    other = replace(SHAPE, name=TableName("shop", "other"), columns=SHAPE.columns[:1])
    rows = (RowChange(0, None, (5,), 0), RowChange(1, None, (6, "f"), 1))
    first = LogBatch(at(0), at(100), (Transaction("0-1", 1, 0),), rows, {0: other, 1: SHAPE})
    again = LogBatch(at(0), at(100), (Transaction("0-1", 1, 0),), rows[:1], {0: SHAPE, 1: other}, resent=True)
    next_ = LogBatch(at(100), at(200), (Transaction("0-1", 2, 0),), rows)
    journal = Journal(tmp_path / "a.journal", Options())
    tables = {table.name: table for table in (ITEM, replace(ITEM, name=other.name, uniques=ITEM.uniques[:1]))}
    arrived = [LogArrived([first], 0), LogArrived([again], 1), LogArrived([next_], 0)]
    journal.record(0, [TakenOver(1, at(0), tables=tables), *arrived])
    journal.close()
    found = [
        (shape.name.table, after)
        for one in read_recording(tmp_path / "a.journal").log
        for shape, _, after in one.rows.values()
    ]
    assert found == [("other", (5,)), ("item", (6, "f"))] * 2


def test_rows_that_must_have_been_there_are_inserted_first(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        log(0, 100, 7, ((1, "a"), (1, "b")), (None, (2, "a")), ((1, "b"), (3, "b"))),
        log(100, 200, 9, ((4, "d"), None), (None, (4, "e")), ((4, "e"), None), ((3, "b"), None)),
    )
    made = history(path)
    assert rows_of(made)[:2] == [("setup", 1, 0, None, (1, "a")), ("setup", 1, 1, None, (4, "d"))]
    assert {place[:2] for place in rows_of(made)[2:]} == {("0-1", 1), ("0-1", 2)}  # numbered anew
    assert made.source.contents() == {NAME: [(2, "a")]}
    assert (made.rows, FromJournal(path).plan(1).changes) == (9, 7)


def test_a_plan_may_end_the_log_early(tmp_path: Path) -> None:
    batches = (log(100 * n - 100, 100 * n, n, (None, (n, f"c{n}")), ((n, f"c{n}"), None)) for n in range(1, 5))
    model = model_of(written(tmp_path, *batches))
    plan = FromJournal(str(tmp_path / "a.journal")).plan(1)
    assert [RecordedHistory(model, replace(plan, changes=n)).rows for n in (1, 2, 3, 8, 99)] == [2, 2, 4, 8, 8]


def test_rows_of_a_table_without_a_key_are_counted(tmp_path: Path) -> None:
    keyless = replace(ITEM, key=(), uniques=())
    path = written(
        tmp_path,
        log(0, 100, 1, ((1, "a"), None), ((1, "a"), (1, "b")), ((1, "b"), None), (None, (1, "a")), ((1, "a"), None)),
        tables=(keyless,),
    )
    assert [row[0] for row in rows_of(history(path))] == ["setup"] * 2 + ["0-1"] * 5


def test_parents_come_before_children_and_unseen_parents_are_not_asked_for(tmp_path: Path) -> None:
    other = TableName("shop", "other")
    refers = (
        ForeignKey("seen", SHOP, ("code",), SHOP, ("id",)),
        ForeignKey("unseen", SHOP, ("code",), other, ("id",)),
    )
    table = replace(ITEM, foreign_keys=refers, uniques=ITEM.uniques[:1])
    path = written(tmp_path, log(0, 100, 1, ((2, 1), None), ((1, None), None)), tables=(table,))
    assert [fk.name for fk in model_of(path).tables[NAME].foreign_keys] == ["seen"]
    assert [row[4] for row in rows_of(history(path))[:2]] == [(1, None), (2, 1)]
    alone = written(tmp_path, log(0, 100, 1, ((2, 1), None)), tables=(table,))
    assert model_of(alone).tables[NAME].foreign_keys == ()


def test_the_table_is_what_the_log_shows_of_it(tmp_path: Path) -> None:
    grown = replace(SHAPE, columns=(*SHAPE.columns, Column("late", Kind.TEXT)))
    add = LogBatch(at(100), at(200), ddl=Ddl("shop", "ALTER …", "0-1", 2, DdlKind.ADD_COLUMN, (SHOP,)))
    batches = (log(0, 100, 1, (None, (1, "a"))), add, log(200, 300, 3, ((1, "a", None), (1, "a", "l")), shape=grown))
    columns = (ITEM.columns[0], replace(ITEM.columns[1], equality=Equality.FOLDED, generated=True, default=True))
    folded = replace(ITEM, columns=columns)
    path = written(tmp_path, *batches, tables=(folded,))
    table = model_of(path).tables[NAME]
    assert [(c.name, c.equality) for c in table.columns] == [("id", "exact"), ("code", "folded"), ("late", "exact")]
    assert not any(c.generated or c.default for c in table.columns)
    assert [u.name for u in table.uniques] == ["primary", "code"]
    assert rows_of(history(path))[0][4] == (1, "a", None)
    assert [entry.ddl.kind for entry in history(path).entries if entry.ddl is not None] == [DdlKind.UNRELATED]
    assert FromJournal(path)(1).mistake == ""


def test_truncate_empties_the_table(tmp_path: Path) -> None:
    truncate = LogBatch(at(100), at(200), ddl=Ddl("shop", "TRUNCATE item", "0-1", 2, DdlKind.TRUNCATE, (SHOP,)))
    path = written(tmp_path, log(0, 100, 1, ((1, "a"), (1, "b"))), truncate, log(200, 300, 3, (None, (1, "a"))))
    assert history(path).source.contents() == {NAME: [(1, "a")]}
    assert FromJournal(path)(1).mistake == ""


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([(None, (1, "a")), (None, (2, "a"))], "row 1 of transaction 1 does not fit: duplicate"),
        ([(None, (1, "a")), ((1, "b"), None)], "row 1 of transaction 1 does not fit: .* does not hold"),
        ([((1, "a"), None), ((2, "a"), None)], r"\(2, 'a'\) of recorded_shop.item cannot have been there"),
    ],
)
def test_a_log_that_no_database_makes_is_refused(
    rows: list[tuple[Row | None, Row | None]], words: str, tmp_path: Path
) -> None:
    with pytest.raises(NotModelled, match=words):
        model_of(written(tmp_path, log(0, 100, 1, *rows)))


def test_a_journal_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no change of a row"):
        model_of(written(tmp_path))


def test_a_plan_that_leaves_out_what_later_changes_need_is_clean(tmp_path: Path) -> None:
    batches = (
        log(0, 100, 1, (None, (1, "a"))),
        log(100, 200, 2, ((1, "a"), (1, "b"))),
        log(200, 300, 3, ((1, "b"), None)),
    )
    worlds = FromJournal(written(tmp_path, *batches))
    plan = worlds.plan(1)
    assert worlds.attempt(replace(plan, without=(2,))) == Trial(replace(plan, without=(2,)))
    kept = functools.partial(worlds.attempt, told=True)(replace(plan, without=(1,)))
    assert (kept.mistake, kept.changes) == ("", 3)  # row 1 was there before
