"""Exactly the bad rows are parked, all others are committed, in log order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.isolation import Isolation
from engine.segments import Change
from tests.engine.world import ACCOUNT, Database, History, Violation, change, drafts

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

    def __init__(self, bad: list[Change], at_commit: bool = False) -> None:
        self.bad = bad
        self.at_commit = at_commit
        self.committed: list[Change] = []
        self.parked: list[Change] = []
        self.commits: list[list[Change]] = []
        self.trials = 0

    def work_off(self, isolation: Isolation) -> None:
        """Begins after the whole batch has failed."""
        isolation.failed("the batch")
        while not isolation.finished:
            self.trials += 1
            assert self.trials < 1000, "it comes to an end"
            trial = isolation.trial()
            assert [c for c in isolation.piece if c in trial] == trial, "log order"
            wrong = [c for c in trial if c in self.bad]
            if wrong and not (self.at_commit and isolation.probing):
                isolation.failed(f"row {wrong[0].number}")
                continue
            if not isolation.probing:
                self.committed += trial
                self.commits.append(isolation.piece)
                self.parked += [c for c, _ in isolation.bad]
                assert set(trial) | {c for c, _ in isolation.bad} == set(isolation.piece), "nothing is left out"
            isolation.succeeded()


@pytest.mark.parametrize("atomic", [False, True])
@given(sizes=SIZES, data=st.data())
def test_exactly_the_bad_rows_are_parked(atomic: bool, sizes: list, data: st.DataObject) -> None:
    changes = log(*sizes)
    bad = data.draw(st.lists(st.sampled_from(changes), min_size=1, max_size=4, unique=True))
    target = Target(bad)
    target.work_off(Isolation(changes, atomic=atomic))
    assert sorted(target.parked, key=changes.index) == sorted(bad, key=changes.index)
    assert target.committed == [c for c in changes if c not in bad]
    assert [c for piece in target.commits for c in piece] == changes, "every change is covered once, in log order"


@given(sizes=SIZES, data=st.data())
def test_a_transaction_is_never_cut_apart(sizes: list, data: st.DataObject) -> None:
    changes = log(*sizes)
    bad = data.draw(st.lists(st.sampled_from(changes), min_size=1, max_size=4, unique=True))
    target = Target(bad)
    target.work_off(Isolation(changes, atomic=True))
    for one, following in zip(target.commits, target.commits[1:], strict=False):
        assert one[-1].number != following[0].number


@pytest.mark.parametrize("atomic", [False, True])
def test_one_bad_row_is_found_in_few_trials(atomic: bool) -> None:
    changes = log(1000)
    for place in (0, 1, 499, 998, 999):
        target = Target([changes[place]])
        target.work_off(Isolation(changes, atomic=atomic))
        assert target.trials <= 22


@pytest.mark.parametrize("atomic", [False, True])
@given(sizes=SIZES, data=st.data())
def test_a_constraint_checked_at_commit_comes_to_an_end(atomic: bool, sizes: list, data: st.DataObject) -> None:
    """Every prefix works until COMMIT, so the bad row cannot be told; something is parked each time, and it ends."""
    changes = log(*sizes)
    bad = data.draw(st.lists(st.sampled_from(changes), min_size=1, max_size=3, unique=True))
    target = Target(bad, at_commit=True)
    target.work_off(Isolation(changes, atomic=atomic))
    assert set(bad) <= set(target.parked)
    assert sorted([*target.committed, *target.parked], key=changes.index) == changes
    assert len(target.parked) == len(set(target.parked))


def test_the_error_of_each_bad_row_is_kept() -> None:
    changes = log(3)
    isolation = Isolation(changes, atomic=True)
    target = Target([changes[1]])
    isolation.failed("the batch")
    while not isolation.bad:
        wrong = [c for c in isolation.trial() if c in target.bad]
        isolation.failed("duplicate key") if wrong else isolation.succeeded()
    assert isolation.bad == [(changes[1], "duplicate key")]
    assert isolation.trial() == [changes[0], changes[2]] and not isolation.probing


def test_an_empty_trial_cannot_fail() -> None:
    isolation = Isolation(log(1), atomic=False)
    isolation.failed("duplicate key")
    assert isolation.trial() == []
    with pytest.raises(AssertionError, match="empty trial"):
        isolation.failed("what for?")


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
    isolation, target, parked = Isolation(changes, atomic=False), before, []
    while not isolation.finished:
        try:
            tried = apply(target, isolation.trial())
        except Violation as error:
            isolation.failed(str(error))
            continue
        parked += [c for c, _ in isolation.bad]
        target = tried
        isolation.succeeded()
    assert parked == must and target.content() == serial.content()
