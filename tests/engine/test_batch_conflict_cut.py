"""A batch that is cut by what its target says is in conflict: what shares a key keeps its order, nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.world import ACCOUNT, change
from tidelock.engine.batch.bad_row_search import BadRowSearch
from tidelock.engine.batch.conflict_cut import Locks, parted
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.options import Options
from tidelock.engine.parallel.segments import Change

(ACCOUNTS,) = ACCOUNT.bindings()
REFUSED = Failure(ErrorKind.ROW, "refused")
LOCKS = st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=2)


def log(count: int) -> list[Change]:
    return [change(ACCOUNTS, None, (n, None, 0), number=n, ordinal=0) for n in range(count)]


def share(one: Locks, other: Locks) -> bool:
    return any(a == b and (x or y) for a, x in one for b, y in other)


class Target:
    """An arbiter that takes a trial without changes in conflict, and decides about any.

    `says`: of which rows it says that they are in conflict, at one scan after the other; the last says nothing.
    `firm`: changes that cannot even be decided about."""

    def __init__(self, conflicts: list[Change], says: list[list[Change]], firm: list[Change]) -> None:
        self.conflicts = conflicts
        self.says = [[(ACCOUNTS.name, ACCOUNTS.key_of(c.after)) for c in some if c.after is not None] for some in says]
        self.firm = firm
        self.covered: list[Change] = []
        self.decided: list[Change] = []
        self.transactions = 1

    def work_off(self, search: BadRowSearch, locks: dict[Change, Locks], *, tried: bool = True) -> None:
        """Begins after the whole batch has failed, where it was tried."""
        if tried:
            self.refuse(search, locks)
        while not search.finished:
            self.transactions += 1
            assert self.transactions < 3000, "it comes to an end"
            trial = search.trial()
            refused = [c for c in trial if c in self.firm or (c in self.conflicts and not search.refusals)]
            if refused and not (len(search.refusals) == 2 and len(trial) == 1 and trial[0] not in self.firm):
                self.refuse(search, locks)
                continue
            self.decided += trial if search.refusals else []
            self.covered += search.piece
            search.succeeded()

    def refuse(self, search: BadRowSearch, locks: dict[Change, Locks]) -> None:
        says = [] if search.refusals or not self.says else self.says.pop(0)
        if not (search.cut(says, lambda some: [locks[c] for c in some]) or search.decides_about(REFUSED)):
            search.failed("refused")


@given(data=st.data())
def test_every_change_is_covered_once_and_what_shares_a_key_in_log_order(data: st.DataObject) -> None:
    changes = log(data.draw(st.integers(1, 14)))
    locks: dict[Change, Locks] = {one: data.draw(LOCKS) for one in changes}
    some = st.lists(st.sampled_from(changes), max_size=6, unique=True)
    target = Target(data.draw(some), data.draw(st.lists(some, max_size=4)), data.draw(some))
    search = BadRowSearch.under(Options(direction="up"), changes)
    target.work_off(search, locks)
    assert sorted(target.covered, key=changes.index) == changes
    for later, one in enumerate(target.covered):
        for other in target.covered[:later]:
            assert other.number < one.number or not share(locks[one], locks[other])
    assert set(target.conflicts) - set(target.firm) <= set(target.decided)


@given(data=st.data())
def test_what_follows_a_change_in_conflict_is_not_clear(data: st.DataObject) -> None:
    changes = log(data.draw(st.integers(1, 14)))
    locks = [data.draw(LOCKS) for _ in changes]
    suspects = set(data.draw(st.lists(st.sampled_from(changes), max_size=6)))
    clear, behind = parted(changes, locks, suspects)
    assert not suspects & set(clear)
    order = [c for piece in behind for c in piece]
    assert sorted(order, key=changes.index) == [c for c in changes if c not in clear]
    for at, one in enumerate(order):
        for other in order[:at]:
            assert other.number < one.number or not share(locks[one.number], locks[other.number])
    must = dict.fromkeys(range(len(changes)), False)
    for n, one in enumerate(changes):
        must[n] = one in suspects or any(must[m] and share(locks[n], locks[m]) for m in range(n))
    assert clear == [one for n, one in enumerate(changes) if not must[n]], "and no more than that waits"
    for piece in behind:
        decided = [c in suspects for c in piece]
        assert all(decided) or not any(decided)
        together = [locks[c.number] for c in piece] if decided[0] else []
        assert not any(share(a, b) for n, a in enumerate(together) for b in together[:n]), "decided about apart"


def test_there_are_as_many_pieces_as_a_lock_is_handed_on() -> None:
    """Each second change is in conflict, and the one behind it is of the same row."""
    changes = log(60)
    clear, behind = parted(changes, [[(c.number // 2, True)] for c in changes], set(changes[::2]))
    assert not clear and behind == [changes[::2], changes[1::2]]


@given(data=st.data())
def test_what_is_decided_about_untried_keeps_the_order_of_its_locks(data: st.DataObject) -> None:
    changes = log(data.draw(st.integers(1, 14)))
    locks: dict[Change, Locks] = {one: data.draw(LOCKS) for one in changes}
    some = st.lists(st.sampled_from(changes), max_size=6, unique=True)
    target = Target(data.draw(some), [], data.draw(some))
    search = BadRowSearch.under(Options(direction="up"), changes)
    search.decide_untried(lambda some: [locks[c] for c in some])
    target.work_off(search, locks, tried=False)
    assert sorted(target.covered, key=changes.index) == changes
    for later, one in enumerate(target.covered):
        for other in target.covered[:later]:
            assert other.number < one.number or not share(locks[one], locks[other])
    assert set(changes) - set(target.firm) <= set(target.decided)


@pytest.mark.parametrize("told", [True, False])
def test_conflicts_that_are_told_cost_few_transactions(told: bool) -> None:
    changes = log(750)
    conflicts = changes[::10]
    target = Target(conflicts, [conflicts] if told else [], [])
    target.work_off(BadRowSearch.under(Options(direction="up"), changes), {c: [(c.number, True)] for c in changes})
    assert target.decided == conflicts
    assert target.transactions == 5 if told else target.transactions > 400, target.transactions


def test_what_is_refused_again_is_halved() -> None:
    """Rows change between the scan and the transaction: a shorter one is less often late."""
    changes = log(9)
    search = BadRowSearch.under(Options(direction="up"), changes)
    pieces = []
    for says in ([changes[0]], [changes[5]]):
        target = Target([], [says], [])
        target.refuse(search, {c: [(0 if c.number in (2, 7) else c.number + 1, True)] for c in changes})
        pieces.append([c.number for c in search.piece])
        assert not search.in_order and not search.refusals
    while not search.finished:
        search.succeeded()
        pieces += [] if search.finished else [[c.number for c in search.piece]]
    assert pieces == [[1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4], [6, 7, 8], [5], [0]]
