"""Exactly the bad rows are parked, all others are committed, in log order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.engine.world import ACCOUNT, Database, History, Violation, change, drafts
from tidelock.engine.batch.bad_row_search import BadRowSearch
from tidelock.engine.parallel.segments import Change

(ACCOUNTS,) = ACCOUNT.bindings()
SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=6)


def log(*sizes: int) -> list[Change]:
    """Transactions of these many rows each."""
    return [
        change(ACCOUNTS, None, (10 * n + k, None, 0), number=n, ordinal=k)
        for n, size in enumerate(sizes)
        for k in range(size)
    ]


class Target:
    """Refuses a trial that holds a bad change; keeps what was committed, in the order of the commits."""

    def __init__(self, bad: list[Change], at_commit: bool = False, lacking: bool = False) -> None:
        self.bad = bad
        self.lacking = lacking  # what is bad lacks its parent
        self.at_commit = at_commit
        self.committed: list[Change] = []
        self.parked: list[Change] = []
        self.commits: list[list[Change]] = []
        self.trials = 0

    def work_off(self, search: BadRowSearch) -> None:
        """Begins after the whole batch has failed."""
        search.failed("the batch")
        while not search.finished:
            self.trials += 1
            assert self.trials < 1000, "it comes to an end"
            trial = search.trial()
            assert [c for c in search.piece if c in trial] == trial, "log order"
            wrong = [c for c in trial if c in self.bad]
            if wrong and not (self.at_commit and search.probing):
                search.failed(f"row {wrong[0].number}", lacks_parent=self.lacking)
                continue
            if not search.probing:
                self.committed += trial
                self.commits.append(search.piece)
                self.parked += [c for c, _ in search.bad]
                assert set(trial) | {c for c, _ in search.bad} == set(search.piece), "nothing is left out"
            search.succeeded()


@pytest.mark.parametrize("atomic", [False, True])
@given(sizes=SIZES, data=st.data())
def test_exactly_the_bad_rows_are_parked(atomic: bool, sizes: list, data: st.DataObject) -> None:
    changes = log(*sizes)
    bad = data.draw(st.lists(st.sampled_from(changes), min_size=1, max_size=4, unique=True))
    target = Target(bad)
    target.work_off(BadRowSearch(changes, atomic=atomic))
    assert sorted(target.parked, key=changes.index) == sorted(bad, key=changes.index)
    assert target.committed == [c for c in changes if c not in bad]
    assert [c for piece in target.commits for c in piece] == changes, "every change is covered once, in log order"


@given(sizes=SIZES, data=st.data())
def test_a_transaction_is_never_cut_apart(sizes: list, data: st.DataObject) -> None:
    changes = log(*sizes)
    bad = data.draw(st.lists(st.sampled_from(changes), min_size=1, max_size=4, unique=True))
    target = Target(bad)
    target.work_off(BadRowSearch(changes, atomic=True))
    for one, following in zip(target.commits, target.commits[1:], strict=False):
        assert one[-1].number != following[0].number


@pytest.mark.parametrize("atomic", [False, True])
def test_one_bad_row_is_found_in_few_trials(atomic: bool) -> None:
    changes = log(1000)
    for place in (0, 1, 499, 998, 999):
        target = Target([changes[place]])
        target.work_off(BadRowSearch(changes, atomic=atomic))
        assert target.trials <= 22


@pytest.mark.parametrize("atomic", [False, True])
@given(sizes=SIZES, data=st.data())
def test_a_constraint_checked_at_commit_comes_to_an_end(atomic: bool, sizes: list, data: st.DataObject) -> None:
    """Every prefix works until COMMIT, so the bad row cannot be told; something is parked each time, and it ends."""
    changes = log(*sizes)
    bad = data.draw(st.lists(st.sampled_from(changes), min_size=1, max_size=3, unique=True))
    target = Target(bad, at_commit=True)
    target.work_off(BadRowSearch(changes, atomic=atomic))
    assert set(bad) <= set(target.parked)
    assert sorted([*target.committed, *target.parked], key=changes.index) == changes
    assert len(target.parked) == len(set(target.parked))


def test_children_before_their_parents_take_one_trial_each_and_few_commits() -> None:
    """All of them, and with an innocent here and there."""
    for innocent in ((), range(0, 512, 100)):
        changes = log(512)
        bad = [change for n, change in enumerate(changes) if n not in innocent]
        target = Target(bad, lacking=True)
        search = BadRowSearch(changes, atomic=False)
        target.work_off(search)
        assert target.parked == bad and list(search.orphans) == bad
        assert target.committed == [change for change in changes if change not in bad]
        assert [c for piece in target.commits for c in piece] == changes
        assert target.trials < 512 * 1.2 and len(target.commits) < 512 / 10


@pytest.mark.parametrize("sizes", [(3,), (1, 3, 2), (2, 40, 1)])
def test_a_row_of_an_arbiter_that_lacks_its_parent_is_tried_behind_its_transaction(sizes: tuple[int, ...]) -> None:
    """The last row of the largest transaction is the parent of all others there, and comes last, as MySQL logs it."""
    changes = log(*sizes)
    largest = max(range(len(sizes)), key=sizes.__getitem__)
    *children, parent = (change for change in changes if change.number == largest)
    committed: list[Change] = []
    search = BadRowSearch(changes, atomic=False, differs=True, blind=True)
    search.failed("the batch")
    while not search.finished:
        trial = search.trial()
        if set(trial) & set(children) and parent not in committed:
            search.failed("no parent", lacks_parent=True)
            continue
        committed += trial
        search.succeeded()
    assert search.bad == [] and not search.orphans
    others = [change for change in changes if change.number != largest]
    assert [change for change in committed if change in others] == others
    assert [change for change in committed if change not in others] == [parent, *children]


def test_a_row_of_an_arbiter_that_lacks_its_parent_does_not_pass_a_later_change_of_it() -> None:
    child, other, again = (
        change(ACCOUNTS, before, after, number=1, ordinal=n)
        for n, (before, after) in enumerate([(None, (1, None, 0)), (None, (2, None, 0)), ((1, None, 0), (1, None, 5))])
    )
    for changes in ([child, other, again], [child]):
        search = BadRowSearch(changes, atomic=False, differs=True, blind=True)
        search.failed("the batch")
        while search.trial() != [child]:
            search.failed("a half")
        search.failed("no parent", lacks_parent=True)
        assert [bad for bad, _ in search.bad] == [child] and not search.orphans


def test_the_error_of_each_bad_row_is_kept() -> None:
    changes = log(3)
    search = BadRowSearch(changes, atomic=True)
    target = Target([changes[1]])
    search.failed("the batch")
    while not search.bad:
        wrong = [c for c in search.trial() if c in target.bad]
        search.failed("duplicate key") if wrong else search.succeeded()
    assert search.bad == [(changes[1], "duplicate key")]
    assert search.trial() == [changes[0], changes[2]] and not search.probing


@pytest.mark.parametrize("atomic", [False, True])
def test_a_change_alone_is_tried_in_log_order_where_that_may_make_room(atomic: bool) -> None:
    """It failed in a batch of its own, which may replace nothing."""
    changes = log(1)
    search = BadRowSearch(changes, atomic=atomic, differs=True)
    search.failed("duplicate key")
    assert (search.trial(), search.bad, search.probing) == (changes, [], False)
    search.failed("duplicate key again")
    assert search.bad == [(changes[0], "duplicate key again")] and search.trial() == []


def test_an_empty_trial_cannot_fail() -> None:
    search = BadRowSearch(log(1), atomic=False)
    search.failed("duplicate key")
    assert search.trial() == []
    with pytest.raises(AssertionError, match="empty trial"):
        search.failed("what for?")


@given(first=drafts(8), then=drafts(12, 4), pick=st.integers(0, 99))
def test_counter_example_15_no_innocent_row_is_parked(first: list, then: list, pick: int) -> None:
    """Parked is what serial replay with the same bad row would park: that row, and what then fails itself."""
    history = History(ACCOUNT)
    for draft in first:
        history.take(draft)
    before, begun = history.database, len(history.log)
    for draft in then:
        history.take(draft)
    changes = history.log[begun:]
    if not changes:
        return
    poison = changes[pick % len(changes)]

    def apply(database: Database, some: list[Change]) -> Database:
        trial = database.copy()
        for one in some:
            if one is poison:
                raise Violation("poison")
            trial.replay(one)
        return trial

    serial, must = before, []
    for one in changes:
        try:
            serial = apply(serial, [one])
        except Violation:
            must.append(one)
    search, target, parked = BadRowSearch(changes, atomic=False), before, []
    while not search.finished:
        try:
            tried = apply(target, search.trial())
        except Violation as error:
            search.failed(str(error))
            continue
        parked += [c for c, _ in search.bad]
        target = tried
        search.succeeded()
    assert parked == must and target.content() == serial.content()


class Bisecting(RuleBasedStateMachine):
    """A batch that the target refused, tried piece by piece; trials are lost on the way and sent again.

    The naive target knows why it refuses: some rows always, some only where another is there already.
    """

    @initialize(
        atomic=st.booleans(),
        sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
        bad=st.lists(st.integers(0, 9), max_size=2),
        clashes=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), max_size=2),
        lacking=st.booleans(),
    )
    def start(
        self, atomic: bool, sizes: list[int], bad: list[int], clashes: list[tuple[int, int]], lacking: bool
    ) -> None:
        """`clashes`: (first, how far on): the second is refused where the first is.  `lacking`: `bad` lack a parent."""
        self.lacking = lacking
        self.atomic = atomic
        self.changes = log(*sizes)
        count = len(self.changes)
        self.bad = [self.changes[n % count] for n in bad]
        self.clashes = [(self.changes[n % count], self.changes[(n + far) % count]) for n, far in clashes]
        self.clashes = [(a, b) for a, b in self.clashes if self.changes.index(a) < self.changes.index(b)]
        self.there: list[Change] = []
        self.parked: list[Change] = []
        self.covered: list[Change] = []
        self.trials = 0
        self.search = BadRowSearch(self.changes, atomic=atomic)
        if self.refusal(self.changes) is None:
            self.bad.append(self.changes[0])
        refused = self.refusal(self.changes)
        assert refused is not None
        self.search.failed(
            f"row {refused.number}.{refused.ordinal}", lacks_parent=lacking and refused in self.bad
        )

    def refusal(self, trial: list[Change]) -> Change | None:
        """The first change that the target refuses after what is there."""
        there = list(self.there)
        for one in trial:
            if one in self.bad or any(b is one and a in there for a, b in self.clashes):
                return one
            there.append(one)
        return None

    @precondition(lambda self: not self.search.finished)
    @rule()
    def the_answer_is_lost(self) -> None:
        """The same is sent again."""
        one = self.search
        first = (one.trial(), one.piece, one.tried, one.probing)
        assert first == (one.trial(), one.piece, one.tried, one.probing)

    @precondition(lambda self: not self.search.finished)
    @rule()
    def run_the_trial(self) -> None:
        one = self.search
        trial, parked = one.trial(), [change for change, _ in one.bad]
        self.trials += 1
        assert self.trials < 200, "it comes to an end"
        assert trial == [c for c in one.tried if c not in parked], "log order, the bad ones left out"
        refused = self.refusal(trial)
        if refused is not None:
            one.failed(f"row {refused.number}.{refused.ordinal}", lacks_parent=self.lacking and refused in self.bad)
        elif one.probing:
            one.succeeded()
        else:
            assert sorted([*trial, *parked], key=self.changes.index) == one.piece
            self.commit(one.piece, trial, one.bad)
            one.succeeded()

    def commit(self, piece: list[Change], trial: list[Change], parked: list[tuple[Change, str]]) -> None:
        self.covered += piece
        assert self.covered == self.changes[: len(self.covered)], "each change is covered once, in log order"
        if self.atomic and len(self.covered) < len(self.changes):
            assert self.covered[-1].number != self.changes[len(self.covered)].number, "transactions stay whole"
        for one, error in parked:
            before = [c for c in trial if self.changes.index(c) < self.changes.index(one)]
            assert self.refusal([*before, one]) is one, "no innocent is parked (counter-example 15)"
            assert error == f"row {one.number}.{one.ordinal}", "with its own error"
        self.there += trial
        self.parked += [c for c, _ in parked]

    @rule()
    def work_it_off(self) -> None:
        while not self.search.finished:
            self.run_the_trial()
        serial: list[Change] = []
        for one in self.changes:
            if one not in self.bad and not any(b is one and a in serial for a, b in self.clashes):
                serial.append(one)
        assert self.there == serial, "what stays out is what serial replay leaves out"
        assert sorted([*self.there, *self.parked], key=self.changes.index) == self.changes


TestBisecting = Bisecting.TestCase
TestBisecting.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, derandomize=True, report_multiple_bugs=False
)


@pytest.mark.proof
def test_bisecting_at_length() -> None:
    run_state_machine_as_test(Bisecting, settings=settings(max_examples=5000, stateful_step_count=40, deadline=None))
