"""`seen`: what was applied without a gap, told by the marks of one feed from one log."""

from hypothesis import given
from hypothesis import strategies as st

from tidelock.engine.model import lineage
from tidelock.engine.model.records import Position
from tidelock.engine.two_way.places import NOTHING, place_in
from tidelock.engine.two_way.seen import MOST_GAPS, Mark, SeenPrefix, seen_of_batch


def mark(*stretches: tuple[int, int], feed: str = "eu-us", log: str = "eu") -> Mark:
    return Mark(feed, log, tuple(((a,) if a else NOTHING, (b,)) for a, b in stretches))


def told(*marks: Mark) -> SeenPrefix:
    prefix = SeenPrefix("eu-us", "eu")
    for each in marks:
        prefix.observe(each)
    return prefix


def test_places_are_compared_as_numbers() -> None:
    """As text, the later file would be before the earlier one (planted in bug B7)."""
    proof = lineage.encode(lineage.Proof("eu", 0))
    earlier, later = Position("binlog.999999", 700, proof=proof), Position("binlog.1000000", 4, proof=proof)
    assert place_in("eu", earlier) < place_in("eu", later)


def test_a_place_of_another_log_is_nothing() -> None:
    proof = lineage.encode(lineage.Proof("eu", 0))
    assert place_in("us", Position("binlog.000001", 4, proof=proof)) == NOTHING
    assert place_in("eu", Position("binlog.000001", 4)) == NOTHING
    assert place_in("", Position("binlog.000001", 4)) == NOTHING
    assert place_in("eu", Position("binlog.000001", 0, proof=proof)) > NOTHING


def test_receipts_count_up_to_the_first_gap() -> None:
    prefix = told(mark((0, 3)), mark((5, 9)))
    assert (prefix.seen, prefix.beyond) == ((3,), (((5,), (9,)),))
    prefix.observe(mark((3, 5)))
    assert (prefix.seen, prefix.beyond) == ((9,), ())


def test_a_checkpoint_counts_from_the_beginning() -> None:
    assert told(mark((0, 3)), mark((5, 9)), mark((0, 7))).seen == (9,)


def test_marks_of_other_feeds_and_logs_say_nothing() -> None:
    assert told(mark((0, 9), feed="asia-us"), mark((0, 9), log="eu, put back")).seen == NOTHING


def test_a_batch_says_the_least() -> None:
    assert seen_of_batch([(7,), (3,), (9,)]) == (3,)
    assert seen_of_batch([(7,), NOTHING]) == NOTHING == seen_of_batch([])


def test_what_is_remembered_is_bounded_and_nearest_first() -> None:
    prefix = SeenPrefix("eu-us", "eu")
    for n in range(2 * MOST_GAPS, 0, -1):
        prefix.observe(mark((2 * n, 2 * n + 1)))
    assert len(prefix.beyond) == MOST_GAPS
    assert prefix.beyond[0] == ((2,), (3,)) and prefix.seen == NOTHING


@given(st.data())
def test_in_whatever_order_stretches_come_the_prefix_is_what_is_applied_without_a_gap(data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, 30), min_size=1)))
    stretches = list(zip([0, *cuts], cuts, strict=False))
    order = data.draw(st.permutations(stretches))
    prefix, applied = SeenPrefix("eu-us", "eu"), set()
    for stretch in order:
        prefix.observe(mark(stretch))
        applied.add(stretch)
        end = 0
        for each in stretches:
            if each not in applied:
                break
            end = each[1]
        assert prefix.seen == ((end,) if end else NOTHING)
        again = SeenPrefix("eu-us", "eu", prefix.seen, prefix.beyond)
        assert (again.seen, again.beyond) == (prefix.seen, prefix.beyond)
