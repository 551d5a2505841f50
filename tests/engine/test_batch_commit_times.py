"""Times of commits of the changes that are on their way."""

from tests.engine.test_batch_blind_steps import BINDING
from tests.engine.world import change
from tidelock.engine.batch.commit_times import CommitTimes
from tidelock.engine.model.conflict_options import CommitClock, TableWords
from tidelock.engine.model.options import Options
from tidelock.engine.model.records import Transaction

CLOCK = CommitClock(spoke="us", arbiter="eu")


def test_times_of_the_last_transactions_are_known() -> None:
    options = Options(clock=CLOCK, policies={BINDING.name: TableWords("latest")}, max_in_flight_rows=1, window_rows=1)
    times = CommitTimes(options)
    for number in range(1, 7):
        one = Transaction("s", number, 0, True, 100 + number)
        times.note([(one,)])
    found = [times.of(change(BINDING, None, (1, "a", "x"), source="s", number=number)) for number in range(1, 7)]
    assert found == [0, 0, 103, 104, 105, 106]
