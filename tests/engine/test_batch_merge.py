"""A merged batch ends where serial replay ends, and breaks no constraint on the way."""

from functools import partial

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.engine.world import (
    ACCOUNT,
    BY_CODE,
    CASCADE,
    FAMILY,
    FOLDED,
    KEYLESS,
    OWN_COLUMNS,
    SELF,
    WORLDS,
    Database,
    Dialect,
    History,
    Violation,
    World,
    bind,
    change,
    drafts,
    linked,
    refers,
    table,
)
from tidelock.engine.batch.merge import Ranks, fold, in_log_order, merge
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Binding, Equality
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.steps import DeleteRows, UpdateRows, UpsertRows

CASES = [(world, dialect) for world in WORLDS for dialect in world.dialects]


def marked(database: Database) -> Database:
    """The target's own columns hold something that the log never says."""
    for name, rows in database.rows.items():
        own = database.world.own.get(name.table, ())
        at = [i for i, c in enumerate(database.world.tables[name].columns) if c.name in own]
        database.rows[name] = [tuple("kept" if i in at else v for i, v in enumerate(row)) for row in rows]
    return database


def check(world: World, dialect: Dialect, before: Database, batches: list[list]) -> None:
    serial, batched = marked(before.copy()), marked(before.copy(dialect))
    ranks = Ranks(world.tables, {})
    for batch in batches:
        for one in batch:
            serial.replay(one)
        batched.run(merge(batch, ranks))
        assert batched.content() == serial.content()


@pytest.mark.parametrize(("world", "dialect"), CASES, ids=lambda x: getattr(x, "name", ""))
@settings(max_examples=20, deadline=None)
@given(first=drafts(8), then=drafts(12, 2), cut=st.integers(1, 12))
def test_a_merged_batch_is_serial_replay(world: World, dialect: Dialect, first: list, then: list, cut: int) -> None:
    history = History(world)
    for draft in first:
        history.take(draft)
    before, begun = history.database, len(history.log)
    for draft in then:
        history.take(draft)
    log = history.log[begun:]
    check(world, dialect, before, [log[i : i + cut] for i in range(0, len(log), cut)])


@pytest.mark.proof
@pytest.mark.parametrize(("world", "dialect"), CASES, ids=lambda x: getattr(x, "name", ""))
@settings(max_examples=500, deadline=None)
@given(first=drafts(8), then=drafts(12, 2), cut=st.integers(1, 12))
def test_many_merged_batches_are_serial_replay(
    world: World, dialect: Dialect, first: list, then: list, cut: int
) -> None:
    test_a_merged_batch_is_serial_replay.hypothesis.inner_test(world, dialect, first, then, cut)


@pytest.mark.parametrize(("world", "dialect"), CASES, ids=lambda x: getattr(x, "name", ""))
@settings(max_examples=15, deadline=None)
@given(first=drafts(8), then=drafts(10, 2))
def test_log_order_is_serial_replay(world: World, dialect: Dialect, first: list, then: list) -> None:
    history = History(world)
    for draft in first:
        history.take(draft)
    before, begun = history.database, len(history.log)
    for draft in then:
        history.take(draft)
    batched = marked(before.copy(dialect))
    batched.run(in_log_order(history.log[begun:]))
    serial = marked(before.copy())
    for one in history.log[begun:]:
        serial.replay(one)
    assert batched.content() == serial.content()


# ------------------------------------------------------------------ cases by name


def state(world: World, **rows: list) -> Database:
    database = Database(world)
    for name, those in rows.items():
        database.rows[TableName("shop", name)] = list(those)
    return database


def run(world: World, before: Database, log: list) -> list:
    """The steps of the log as one batch, checked against serial replay on both servers."""
    for dialect in world.dialects:
        check(world, dialect, before, [log])
    return merge(log, Ranks(world.tables, {}))


def test_unique_value_swapped_inside_one_transaction_tiflow_9430() -> None:
    (account,) = ACCOUNT.bindings()
    log = [
        change(account, (1, "a", 0), (1, None, 0)),
        change(account, (2, "b", 0), (2, "a", 0)),
        change(account, (1, None, 0), (1, "b", 0)),
    ]
    steps = run(ACCOUNT, state(ACCOUNT, account=[(1, "a", 0), (2, "b", 0)]), log)
    assert steps == [
        DeleteRows(account, [(1,), (2,)]),
        UpsertRows(account, [(1, "b", 0), (2, "a", 0)], fresh=True),
    ]


def test_counter_example_17_a_swap_that_no_row_by_row_replay_survives() -> None:
    (account,) = ACCOUNT.bindings()
    log = [change(account, (1, "a", 0), (1, "b", 0)), change(account, (2, "b", 0), (2, "a", 0))]
    target = state(ACCOUNT, account=[(1, "a", 0), (2, "b", 0)])
    target.run(merge(log, Ranks(ACCOUNT.tables, {})))
    assert target.content() == state(ACCOUNT, account=[(1, "b", 0), (2, "a", 0)]).content()


def test_primary_key_chain_tiflow_10918() -> None:
    (account,) = ACCOUNT.bindings()
    log = [
        change(account, (3, "c", 0), (4, "c", 0)),
        change(account, (2, "b", 0), (3, "b", 0)),
        change(account, (1, "a", 0), (2, "a", 0)),
    ]
    run(ACCOUNT, state(ACCOUNT, account=[(1, "a", 0), (2, "b", 0), (3, "c", 0)]), log)


def test_counter_example_8_two_rows_take_turns_with_a_value() -> None:
    """By labels, delete(1,a) and insert(1,b) fold to an insert; it is an update, and 2 takes what 1 gave up."""
    (account,) = ACCOUNT.bindings()
    log = [
        change(account, (1, "a", 0), None),
        change(account, None, (2, "a", 0)),
        change(account, None, (1, "b", 0)),
    ]
    run(ACCOUNT, state(ACCOUNT, account=[(1, "a", 0)]), log)
    assert fold(log) == {account: {1: [(1, "a", 0), (1, "b", 0)], 2: [None, (2, "a", 0)]}}


@pytest.mark.parametrize(
    ("images", "kind"),
    [
        ([(None, "x"), ("x", "y")], "insert"),
        ([(None, "x"), ("x", None)], "nothing"),
        ([("x", "y"), ("y", None)], "delete"),
        ([("x", None), (None, "y")], "update"),
        ([("x", "y"), ("y", "z")], "update"),
        ([("x", None), (None, "y"), ("y", None)], "delete"),
        ([(None, "x"), ("x", None), (None, "y")], "insert"),
    ],
)
def test_a_fold_keeps_the_first_before_image_and_the_last_after_image(images: list, kind: str) -> None:
    (account,) = ACCOUNT.bindings()
    log = [change(account, b and (1, "a", b), a and (1, "a", a)) for b, a in images]
    want = {
        "insert": [UpsertRows(account, [log[-1].after], fresh=True)],
        "nothing": [],
        "delete": [DeleteRows(account, [(1,)])],
        "update": [UpsertRows(account, [log[-1].after], fresh=False)],
    }
    assert merge(log, Ranks(ACCOUNT.tables, {})) == want[kind]


def test_counter_example_9_child_and_parent_deleted_in_one_batch() -> None:
    mother, child = FAMILY.bindings()
    log = [change(child, (1, 1, "s"), None), change(mother, (1, "a", 0), None)]
    steps = run(FAMILY, state(FAMILY, mother=[(1, "a", 0)], child=[(1, 1, "s")]), log)
    assert [step.table for step in steps] == [child, mother]


def test_counter_example_9_child_to_null_and_parent_deleted() -> None:
    mother, child = FAMILY.bindings()
    log = [change(child, (1, 1, "s"), (1, None, "s")), change(mother, (1, "a", 0), None)]
    run(FAMILY, state(FAMILY, mother=[(1, "a", 0)], child=[(1, 1, "s")]), log)


def test_counter_example_9_self_references_in_log_order() -> None:
    (node,) = SELF.bindings()
    log = [change(node, (2, 1, 0), None), change(node, (1, None, 0), None), change(node, None, (3, 3, 0))]
    steps = run(SELF, state(SELF, node=[(1, None, 0), (2, 1, 0)]), log)
    assert steps == [
        DeleteRows(node, [(2,)]),
        DeleteRows(node, [(1,)]),
        UpsertRows(node, [(3, 3, 0)], fresh=True),
    ]


def test_a_referenced_value_passes_from_one_parent_to_another() -> None:
    country, town = BY_CODE.bindings()
    log = [
        change(town, (1, "a", 0), (1, "b", 0)),
        change(country, (1, "a", 0), None),
        change(country, None, (3, "a", 0)),
        change(town, (1, "b", 0), (1, "a", 0)),
    ]
    run(BY_CODE, state(BY_CODE, country=[(1, "a", 0), (2, "b", 0)], town=[(1, "a", 0)]), log)


def test_a_referenced_value_passes_to_a_row_that_took_another_first() -> None:
    country, town = BY_CODE.bindings()
    log = [
        change(town, (1, "a", 0), None),
        change(country, (1, "a", 0), None),
        change(country, None, (3, "c", 0)),
        change(country, (3, "c", 0), (3, "a", 0)),
        change(town, None, (1, "a", 1)),
    ]
    steps = run(BY_CODE, state(BY_CODE, country=[(1, "a", 0)], town=[(1, "a", 0)]), log)
    assert [type(step) for step in steps] == [DeleteRows, DeleteRows, UpsertRows, UpdateRows, UpsertRows], "log order"


def test_a_parent_whose_key_moves_takes_its_children_along() -> None:
    """ON UPDATE CASCADE that the log does not show: delete-first would delete the children."""
    mother, _, _ = CASCADE.bindings()
    before = state(CASCADE, mother=[(1, "a")], child=[(1, 1, "s")])
    steps = run(CASCADE, before, [change(mother, (1, "a"), (3, "a"))])
    assert steps == [UpdateRows(mother, [(1,)], [(3, "a")], moves=True)]


def test_a_parent_that_goes_and_comes_back_loses_its_children() -> None:
    """ON DELETE CASCADE that the log does not show: the fold would make an update of it."""
    mother, _, _ = CASCADE.bindings()
    run(
        CASCADE,
        state(CASCADE, mother=[(1, "a")], child=[(1, 1, "s")]),
        [change(mother, (1, "a"), None), change(mother, None, (1, "a"))],
    )


def test_a_parent_key_changes_its_case_under_its_children() -> None:
    word, _ = FOLDED.bindings()
    log = [change(word, ("a", "x", 0), ("A", "x", 0))]
    run(FOLDED, state(FOLDED, word=[("a", "x", 0)], use=[(1, "a")]), log)


def test_a_parent_key_that_cannot_be_folded_may_be_the_one_that_comes_back() -> None:
    word, use = FOLDED.bindings()
    log = [
        change(use, (1, "a"), (1, None)),
        change(word, ("á", "x", 0), None),
        change(word, None, ("a", "x", 0)),
        change(use, (1, None), (1, "a")),
    ]
    run(FOLDED, state(FOLDED, word=[("á", "x", 0)], use=[(1, "a")]), log)


def test_columns_of_the_targets_own_are_kept() -> None:
    (account,) = OWN_COLUMNS.bindings()
    log = [change(account, (1, "a"), (2, "a")), change(account, (2, "a"), (2, "b"))]
    steps = run(OWN_COLUMNS, state(OWN_COLUMNS, account=[(1, "a", "kept")]), log)
    assert all(isinstance(step, UpdateRows) for step in steps)


def test_no_primary_key_duplicates_are_counted_tiflow_994() -> None:
    visit, _ = KEYLESS.bindings()
    log = [
        change(visit, None, (1, 0)),
        change(visit, None, (1, 0)),
        change(visit, (1, 0), None),
        change(visit, (1, 0), None),
        change(visit, (1, 0), (2, 0)),
    ]
    run(KEYLESS, state(KEYLESS, visit=[(1, 0)]), log)


def test_null_in_a_unique_key_conflicts_with_nothing() -> None:
    (account,) = ACCOUNT.bindings()
    log = [change(account, None, (1, None, 0)), change(account, None, (2, None, 0))]
    assert len(run(ACCOUNT, state(ACCOUNT), log)) == 1


def test_the_same_key_never_twice_in_one_statement_debezium_7759() -> None:
    (account,) = ACCOUNT.bindings()
    log = [change(account, (1, "a", n), (1, "a", n + 1)) for n in range(5)]
    assert merge(log, Ranks(ACCOUNT.tables, {})) == [UpsertRows(account, [(1, "a", 5)], fresh=False)]
    assert all(len(step.rows) == 1 for step in in_log_order(log))


def test_neighbours_of_one_key_do_not_share_a_step() -> None:
    """As raw changes of a split batch may stand, where a parked one is missing in between."""
    (account,) = ACCOUNT.bindings()
    gone, born = change(account, (1, "a", 0), None), change(account, None, (1, "a", 0))
    assert in_log_order([gone, gone]) == [DeleteRows(account, [(1,)])] * 2
    assert in_log_order([born, born]) == [UpsertRows(account, [(1, "a", 0)], fresh=True)] * 2


def test_a_row_that_comes_and_moves_on_leaves_nothing_where_it_was() -> None:
    (account,) = ACCOUNT.bindings()
    log = [change(account, None, (1, "a", 0)), change(account, (1, "a", 0), (2, "a", 0))]
    assert fold(log) == {account: {1: [None, None], 2: [None, (2, "a", 0)]}}


def test_one_table_under_two_shapes_is_not_folded() -> None:
    (old,), (new,) = ACCOUNT.bindings(), ACCOUNT.bindings()
    log = [change(old, None, (1, "a", 0)), change(new, (1, "a", 0), (1, "b", 0))]
    run(ACCOUNT, state(ACCOUNT), log)


def test_parents_rank_before_children_and_weights_decide_between_equals() -> None:
    tables = linked(
        table("z", ["id"], ["id"]),
        table("m", ["id", "p"], ["id"], [], [refers("m", ["p"], "z", ["id"])]),
        table("a", ["id"], ["id"]),
        table("b", ["id"], ["id"]),
    )
    name = {n.table: n for n in tables}
    ranks = Ranks(tables, {name["a"]: 9, name["m"]: 0})
    assert sorted(name, key=lambda n: ranks.of(name[n])) == ["b", "z", "a", "m"]
    assert not ranks.looped
    assert Ranks(SELF.tables, {}).looped == set(SELF.tables)


# ------------------------------------------------------------------ a batch that grows, compared after every change

GROWN = World(
    "a column added in between",
    linked(table("account", ["id", "u", "own"], ["id"], [["u"]])),
    {**ACCOUNT.values, "own": ("p", "q")},
    own={"account": ["own"]},
)
MIXED = World(
    "all at once",
    linked(
        table("mother", ["id", "u"], ["id"], [["u"]]),
        table(
            "child", ["id", "parent", "tag"], ["id"], [["tag"]],
            [refers("child", ["parent"], "mother", ["id"], cascades=True)],
        ),
        table("visit", ["id", "note"], []),
        table("word", ["name", "u"], ["name"], [["u"]], equality={"name": Equality.FOLDED, "u": Equality.PADDED}),
        table("use", ["id", "name"], ["id"], [], [refers("use", ["name"], "word", ["name"])]),
    ),
    {**FOLDED.values, **CASCADE.values, "u": ("a", "a ", "b", None), "note": (0, 1)},
    actions=CASCADE.actions,
    dialects=(Dialect.MYSQL,),
)  # fmt: skip
GROUNDS = {world.name: world for world in (*WORLDS, GROWN, MIXED)}
PICKS = st.integers(0, 5)
VALUES = st.tuples(PICKS, PICKS, PICKS, PICKS)


class GrowingBatch(RuleBasedStateMachine):
    """Changes that the source's database allows are logged one by one; the naive side is that database.

    After each, the batch so far is merged and run on a copy of the target as it was when the batch began.
    """

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.bindings = world.bindings()
        self.ranks = Ranks(world.tables, {})
        self.source = Database(world)
        self.commit()

    @initialize(rows=st.integers(1, 4), parent=st.sampled_from(["the same", "the one before"]))
    def start(self, rows: int, parent: str) -> None:
        """So many rows in each table, if allowed; a child's parent has its number, or the one before."""
        for of in range(len(self.bindings)):
            for n in range(rows):
                self.insert(of, (n, n if parent == "the same" else n + 3, n))
        self.commit()

    @rule(of=PICKS, values=VALUES)
    def insert(self, of: int, values: tuple[int, ...]) -> None:
        binding = self.bindings[of % len(self.bindings)]
        self.do(binding, None, self.made(binding, values))

    @rule(of=PICKS, row=PICKS)
    def delete(self, of: int, row: int) -> None:
        if (found := self.found(of, row)) is not None:
            self.do(*found, None)

    @rule(of=PICKS, row=PICKS, column=PICKS, value=PICKS)
    def set_one_column(self, of: int, row: int, column: int, value: int) -> None:
        if (found := self.found(of, row)) is not None:
            self.do(*found, self.with_value(*found, column, value))

    @rule(of=PICKS, row=PICKS, values=VALUES)
    def become_another_row(self, of: int, row: int, values: tuple[int, ...]) -> None:
        if (found := self.found(of, row)) is not None:
            self.do(*found, self.made(found[0], values))

    @rule(of=PICKS, row=PICKS, with_row=PICKS, column=PICKS)
    def swap_values(self, of: int, row: int, with_row: int, column: int) -> None:
        """One gives its value up for a moment: NULL, or the last of those that the column may hold."""
        one, other = self.found(of, row), self.found(of, with_row)
        if one is None or other is None or one == other:
            return
        (binding, a), (_, b) = one, other
        at = column % len(a)
        between = self.with_value(binding, a, at, -1)
        self.do(binding, a, between)
        self.do(binding, b, (*b[:at], a[at], *b[at + 1 :]))
        self.do(binding, between, (*between[:at], b[at], *between[at + 1 :]))

    @rule(of=PICKS, row=PICKS, column=PICKS, value=PICKS)
    def leave_and_come_back(self, of: int, row: int, column: int, value: int) -> None:
        """With all that refers to it; perhaps it comes back a little different."""
        if (found := self.found(of, row)) is None:
            return
        gone = self.clear(*found)
        self.do(found[0], None, self.with_value(*found, column, value))
        for binding, one in reversed(gone):
            self.do(binding, None, one)

    def clear(self, binding: Binding, row: Row, deep: int = 3) -> list[tuple[Binding, Row]]:
        """Deletes it after all that refers to it, which a database may do by itself and not log."""
        gone: list[tuple[Binding, Row]] = []
        if deep and not any(fk.cascades for fk in binding.target.references):
            for child in (b for b in self.bindings if any(fk.parent == binding.name for fk in b.target.foreign_keys)):
                for one in [self.logged(child, r) for r in self.source.rows[child.name]]:
                    if not self.allowed(binding, row, None) and one != row:
                        gone += self.clear(child, one, deep - 1)
        self.do(binding, row, None)
        return [*gone, (binding, row)]

    @rule(of=PICKS, row=PICKS, value=PICKS)
    def hand_its_children_over(self, of: int, row: int, value: int) -> None:
        """To another row that holds the same value, or to what the collation takes for it."""
        if (found := self.found(of, row)) is None:
            return
        held: list[tuple[Binding, Row, Row]] = []
        for child in self.bindings:
            names = [column.name for column in child.shape.columns]
            for at in [names.index(fk.columns[0]) for fk in child.target.foreign_keys if fk.parent == found[0].name]:
                for one in [self.logged(child, r) for r in self.source.rows[child.name]]:
                    held.append((child, (*one[:at], None, *one[at + 1 :]), one))
                    self.do(child, one, held[-1][1])
        self.do(*found, None)
        self.do(found[0], None, self.with_value(*found, 0, value))
        for child, free, one in held:
            if free in [self.logged(child, r) for r in self.source.rows[child.name]]:
                self.do(child, free, one)

    @rule(of=PICKS)
    def move_all_keys_up(self, of: int) -> None:
        binding = self.bindings[of % len(self.bindings)]
        rows = [self.logged(binding, row) for row in self.source.rows[binding.name]]
        for row in sorted((r for r in rows if isinstance(r[0], int)), reverse=True):
            self.do(binding, row, (row[0] + 1, *row[1:]))

    @rule()
    def add_the_column(self) -> None:
        """The log names from now on what only the target had: one table under two shapes in one batch."""
        if self.world is GROWN:
            self.bindings = [bind(target) for target in self.world.tables.values()]

    @rule()
    def commit(self) -> None:
        """The next batch begins, on a target whose own columns hold something that the log never said."""
        self.before = marked(self.source)
        self.batch: list[Change] = []
        self.source = self.before.copy()

    # ------------------------------------------------------------------

    def made(self, binding: Binding, values: tuple[int, ...]) -> Row:
        held = (self.world.values[column.name] for column in binding.shape.columns)
        return tuple(of[values[i % len(values)] % len(of)] for i, of in enumerate(held))

    def with_value(self, binding: Binding, row: Row, column: int, value: int) -> Row:
        at = column % len(row)
        held = self.world.values[binding.shape.columns[at].name]
        return (*row[:at], held[value % len(held)], *row[at + 1 :])

    def found(self, of: int, row: int) -> tuple[Binding, Row] | None:
        binding = self.bindings[of % len(self.bindings)]
        rows = self.source.rows[binding.name]
        return (binding, self.logged(binding, rows[row % len(rows)])) if rows else None

    def logged(self, binding: Binding, row: Row) -> Row:
        there = dict(zip((c.name for c in binding.target.columns), row, strict=True))
        return tuple(there[c.name] for c in binding.shape.columns)

    def allowed(self, binding: Binding, before: Row | None, after: Row | None) -> Database | None:
        trial = self.source.copy()
        try:
            trial.replay(change(binding, before, after))
        except Violation:
            return None
        return trial

    def do(self, binding: Binding, before: Row | None, after: Row | None) -> None:
        """Log it, unless a constraint of the source refuses it."""
        trial = self.allowed(binding, before, after)
        if trial is not None and before != after:
            note(f"{self.world.name}, {binding.name.table}: {before} → {after}")
            self.source = trial
            self.batch.append(change(binding, before, after, number=len(self.batch)))
            self.compare()

    def compare(self) -> None:
        for steps in (merge(self.batch, self.ranks), in_log_order(self.batch)):
            updates = [step for step in steps if isinstance(step, UpdateRows)]
            assert all(len(set(step.keys)) == len(step.keys) for step in updates), "no key twice in a step"
            for dialect in self.world.dialects:
                target = self.before.copy(dialect)
                target.run(steps)
                assert target.content() == self.source.content(), [type(step).__name__ for step in steps]


@pytest.mark.parametrize("ground", sorted(GROUNDS))
def test_a_batch_that_grows(ground: str) -> None:
    run_state_machine_as_test(
        partial(GrowingBatch, GROUNDS[ground]),
        settings=settings(
            max_examples=6, stateful_step_count=15, deadline=None, derandomize=True, report_multiple_bugs=False
        ),
    )


@pytest.mark.proof
@pytest.mark.parametrize("ground", sorted(GROUNDS))
def test_a_batch_that_grows_at_length(ground: str) -> None:
    run_state_machine_as_test(
        partial(GrowingBatch, GROUNDS[ground]),
        settings=settings(max_examples=1500, stateful_step_count=40, deadline=None, report_multiple_bugs=False),
    )
