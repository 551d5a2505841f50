"""Conflicts by type, and what is decided about them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelock.engine.model.records import Row
from tidelock.engine.two_way.conflicts import Conflict, Holder, Met, conflict_of_row, conflict_of_values
from tidelock.engine.two_way.decisions import Arriving, Decision, Lost, Outcome, blind, decide
from tidelock.engine.two_way.merged import added, rank
from tidelock.engine.two_way.policies import ALLOWED, BY_COLUMN, Group, Order, Policies, Policy, refused

A, B, C = (1, "a"), (1, "b"), (1, "c")
OTHER = Holder((1,), (2, "b"))
OF_KEY = {
    "insert_exists": (None, B, Met(A)),
    "update_origin_differs": (A, B, Met(C, unseen=True)),
    "update_missing": (A, B, Met()),
    "update_deleted": (A, B, Met(deleted=True)),
    "delete_origin_differs": (A, None, Met(C, unseen=True)),
    "delete_missing": (A, None, Met()),
}


@pytest.mark.parametrize("name", OF_KEY)
def test_a_conflict_with_the_row_of_the_key(name: str) -> None:
    assert conflict_of_row(*OF_KEY[name]) is Conflict(name)
    assert conflict_of_values(*OF_KEY[name]) is None


@pytest.mark.parametrize(("before", "after", "met"), [(None, B, Met()), (A, B, Met(A)), (A, None, Met(A))])
def test_what_the_writer_had_seen_is_no_conflict(before: Row | None, after: Row | None, met: Met) -> None:
    assert conflict_of_row(before, after, met) is None
    assert decide(Policies(), Arriving(before, after), met) == Decision(Outcome.WRITE, after)


def test_a_conflict_with_other_rows_over_values() -> None:
    other = Holder((2,), (3, "x"))
    assert conflict_of_values(None, B, Met(holders=(OTHER,))) is Conflict.INSERT_EXISTS
    assert conflict_of_values(A, B, Met(A, holders=(OTHER,))) is Conflict.UPDATE_EXISTS
    assert conflict_of_values(A, B, Met(A, holders=(OTHER, other))) is Conflict.MULTIPLE_UNIQUE_CONFLICTS
    assert conflict_of_values(None, B, Met(A, holders=(OTHER,))) is Conflict.MULTIPLE_UNIQUE_CONFLICTS
    assert conflict_of_values(A, None, Met(A, holders=())) is None


def outcome(policy: Policy, name: str = "update_origin_differs", *, later: bool = True) -> tuple[str, Row | None]:
    before, after, met = OF_KEY[name]
    decision = decide(Policies(policy), Arriving(before, after, later), met)
    return decision.outcome.value, decision.row


def test_each_policy_on_an_update_of_both() -> None:
    assert outcome(Policy.STOP) == ("park", C)
    assert outcome(Policy.ARRIVAL) == outcome(Policy.SPOKE) == ("write", B)
    assert outcome(Policy.ARBITER) == ("verdict", C)
    assert outcome(Policy.LATEST) == ("write", B) and outcome(Policy.LATEST, later=False) == ("verdict", C)
    assert outcome(Policy.DELETE_WINS) == ("write", B) and outcome(Policy.DELETE_WINS, later=False) == ("verdict", C)


def test_a_delete_wins_from_either_side() -> None:
    assert outcome(Policy.DELETE_WINS, "delete_origin_differs", later=False) == ("write", None)
    assert outcome(Policy.DELETE_WINS, "update_deleted") == ("verdict", None)


def test_a_row_that_both_deleted_is_no_loss_under_any_policy() -> None:
    for policy in Policy:
        before, after, met = OF_KEY["delete_missing"]
        decision = decide(Policies(policy), Arriving(before, after), met)
        assert (decision.outcome, decision.row, decision.lost) == (Outcome.WRITE, None, ())
        assert decision.conflicts == (Conflict.DELETE_MISSING,)


def test_a_type_has_its_own_policy() -> None:
    policies = Policies(Policy.ARRIVAL, {Conflict.UPDATE_DELETED: Policy.ARBITER})
    before, after, met = OF_KEY["update_deleted"]
    assert decide(policies, Arriving(before, after), met).outcome is Outcome.VERDICT
    before, after, met = OF_KEY["update_missing"]
    assert decide(policies, Arriving(before, after), met).outcome is Outcome.WRITE


def test_rows_make_room_and_are_told() -> None:
    decision = decide(Policies(Policy.ARRIVAL), Arriving(A, B), Met(A, holders=(OTHER,)))
    assert (decision.outcome, decision.row, decision.displaced) == (Outcome.WRITE, B, (OTHER.row,))
    assert decision.lost == (Lost(Conflict.UPDATE_EXISTS, incoming=False, row=OTHER.row),)
    assert not decision.verdict


def test_a_row_that_holds_two_wanted_values_makes_room_once() -> None:
    twice = (Holder((1,), (2, "b", "x")), Holder((2,), (2, "b", "x")))
    decision = decide(Policies(Policy.ARRIVAL), Arriving(None, (1, "b", "x")), Met(holders=twice))
    assert decision.displaced == ((2, "b", "x"),) and len(decision.lost) == 1


@pytest.mark.parametrize(
    ("policy", "found"), [(Policy.ARBITER, "verdict"), (Policy.STOP, "park"), (Policy.DELETE_WINS, "park")]
)
def test_a_taken_value_refuses_the_change(policy: Policy, found: str) -> None:
    decision = decide(Policies(policy), Arriving(A, B), Met(A, holders=(OTHER,)))
    assert (decision.outcome.value, decision.row, decision.displaced) == (found, A, ())
    assert decision.verdict and decision.lost == (Lost(Conflict.UPDATE_EXISTS, incoming=True, row=B),)


def test_a_value_that_the_row_does_not_get_displaces_nobody() -> None:
    """The group of the unique column stays as it is at the arbiter; the holder of the other value is let alone."""
    groups = (Group((1,), Policy.ARBITER), Group((2,), Policy.ARRIVAL))
    met = Met((1, "c", 0), unseen=True, holders=(Holder((1,), (2, "b", 0)),))
    decision = decide(Policies(Policy.ARRIVAL, groups=groups), Arriving((1, "a", 0), (1, "b", 1)), met)
    assert (decision.outcome, decision.row, decision.displaced) == (Outcome.MERGE, (1, "c", 1), ())


def of_groups(*policies: Policy, before: Row, after: Row, here: Row, later: bool = True) -> Decision:
    groups = tuple(Group((n,), policy) for n, policy in enumerate(policies, 1))
    return decide(Policies(groups=groups), Arriving(before, after, later), Met(here, unseen=True))


def test_groups_that_only_one_side_changed_are_kept_of_both() -> None:
    decision = of_groups(Policy.ARRIVAL, Policy.ARRIVAL, before=(1, 0, 0), after=(1, 5, 0), here=(1, 0, 7))
    assert (decision.outcome, decision.row, decision.lost) == (Outcome.WRITE, (1, 5, 7), ())


def test_additions_add_up_and_nothing_is_lost() -> None:
    decision = of_groups(Policy.DELTA, before=(1, 10), after=(1, 13), here=(1, 8))
    assert (decision.outcome, decision.row, decision.lost) == (Outcome.MERGE, (1, 11), ())
    assert decision.verdict


def test_of_null_no_addition_can_be_told() -> None:
    decision = of_groups(Policy.DELTA, before=(1, None), after=(1, 13), here=(1, 8))
    assert decision.row == (1, 13)
    assert [(lost.incoming, lost.row) for lost in decision.lost] == [(False, (1, 8))]


def test_the_greater_and_the_smaller_value_stay_and_the_other_is_told() -> None:
    decision = of_groups(Policy.MAX, Policy.MIN, before=(1, 0, 9), after=(1, 3, 3), here=(1, 5, 5))
    assert (decision.outcome, decision.row) == (Outcome.MERGE, (1, 5, 3))
    assert {lost.incoming for lost in decision.lost} == {True, False}


def test_numbers_compare_and_add_as_numbers() -> None:
    assert added("10.50", "1.00", "2.25") == "11.75"
    assert max("9", "10", key=rank) == "10" and max("9", "a", key=rank) == "a"
    decision = of_groups(Policy.MAX, before=(1, "1"), after=(1, "10"), here=(1, "9"))
    assert decision.row == (1, "10")


def test_one_group_that_stops_parks_the_change() -> None:
    decision = of_groups(Policy.STOP, Policy.DELTA, before=(1, 0, 0), after=(1, 5, 1), here=(1, 4, 1))
    assert (decision.outcome, decision.row) == (Outcome.PARK, (1, 4, 1))


VALUES = st.integers(0, 2)
ROW = st.tuples(st.just(1), VALUES, VALUES)
POLICIES = st.builds(
    Policies,
    st.sampled_from(sorted(set(Policy) - BY_COLUMN, key=str)),
    groups=st.none().map(lambda _: ())
    | st.tuples(*(st.builds(Group, st.just((n,)), st.sampled_from(Policy)) for n in (1, 2))),
)
MET = st.builds(
    Met,
    st.none() | ROW,
    st.booleans(),
    st.booleans(),
    st.lists(st.builds(Holder, st.sampled_from([(1,), (2,)]), st.tuples(st.just(2), VALUES, VALUES)), max_size=2).map(
        tuple
    ),
)


@given(POLICIES, st.none() | ROW, st.none() | ROW, MET, st.booleans())
def test_the_loser_is_always_told_and_what_is_no_write_is_a_verdict(
    policies: Policies, before: Row | None, after: Row | None, met: Met, later: bool
) -> None:
    if before is None and after is None:
        return
    decision = decide(policies, Arriving(before, after, later), met)
    assert decision.verdict is (decision.outcome is not Outcome.WRITE)
    said = [(lost.incoming, lost.row) for lost in decision.lost]
    for row in decision.displaced:
        assert (False, row) in said
    if decision.outcome in (Outcome.VERDICT, Outcome.PARK):
        assert decision.row == met.row and decision.displaced == ()
        merged = bool(policies.groups) and all(g.policy is Policy.DELTA for g in policies.groups)
        assert (True, after) in said or met.row == after or merged or decision.row == after
    elif decision.outcome is Outcome.WRITE and not policies.groups:
        assert decision.row == after
        overwritten = met.unseen and met.row != after and before is not None
        assert not overwritten or met.row is None or (False, met.row) in said


def test_at_a_spoke_everything_makes_room() -> None:
    assert blind(B, ((2, "b"),)).displaced == ((2, "b"),)
    assert [(lost.incoming, lost.row) for lost in blind(B, ((2, "b"),)).lost] == [(False, (2, "b"))]
    assert blind(None, ()) == Decision(Outcome.WRITE, None)


def test_what_gives_no_equal_rows_is_refused() -> None:
    assert list(refused(Policies(), Order.STAMP)) == list(refused(Policies(Policy.ARRIVAL), Order.ARBITER)) == []
    assert any("arrival" in why for why in refused(Policies(Policy.ARRIVAL), Order.STAMP))
    assert any("spoke" in why for why in refused(Policies(Policy.SPOKE), Order.ONE_WAY))
    assert any("whole rows" in why for why in refused(Policies(Policy.DELTA), Order.ARBITER))
    assert set(ALLOWED) == set(Order)


def test_a_unique_index_is_within_one_group() -> None:
    groups = (Group((1,), Policy.ARRIVAL), Group((2,), Policy.MAX))
    assert list(refused(Policies(groups=groups), Order.ARBITER, ((1,),))) == []
    assert len(list(refused(Policies(groups=groups), Order.ARBITER, ((1, 2), (2,))))) == 2


def test_by_stamps_a_greatest_value_is_kept_only_where_nothing_is_deleted() -> None:
    groups = (Group((1,), Policy.LATEST), Group((2,), Policy.MAX))
    assert list(refused(Policies(Policy.LATEST, groups=groups), Order.STAMP, deletes=False)) == []
    assert any("deleted" in why for why in refused(Policies(Policy.LATEST, groups=groups), Order.STAMP))
    assert any("arbiter" in why for why in refused(Policies(groups=(Group((1,), Policy.STOP),)), Order.STAMP))
