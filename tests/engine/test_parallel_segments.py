from tests.engine.world import ACCOUNT
from tidelock.engine.model.records import RowChange, Transaction
from tidelock.engine.parallel.segments import Change

(ACCOUNTS,) = ACCOUNT.bindings()


def test_a_change_knows_its_place_in_the_log() -> None:
    one = Change.of(ACCOUNTS, RowChange(0, None, (1, "a", 0), 7), Transaction("0-101", 42, 3))
    assert (one.source, one.number, one.ordinal) == ("0-101", 42, 7)
    assert (one.binding, one.before, one.after) == (ACCOUNTS, None, (1, "a", 0))


def test_a_change_is_as_large_as_its_values() -> None:
    small, both = Change(ACCOUNTS, None, (1, "a", 0), "0-101", 42, 7), (1, "a" * 501, 0)
    large = Change(ACCOUNTS, both, both, "0-101", 42, 7)
    assert large.size == 2 * (small.size + 500)
