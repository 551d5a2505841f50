"""The chain of positions: every history of sending, losing, repeating and resending is taken once, without a gap."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from engine.ordering import Chain, Verdict
from engine.records import LogBatch, Position


def at(offset: int, file: str = "bin.000001", gtids: str = "") -> Position:
    return Position(file, offset, 0, gtids)


def batch(prev: Position, last: Position, resent: bool = False) -> LogBatch:
    return LogBatch(prev=prev, last=last, resent=resent)


class Delivery(RuleBasedStateMachine):
    """A reader sends batches numbered by offset; the way there may drop or repeat them; a resend starts it anew."""

    def __init__(self) -> None:
        super().__init__()
        self.chain = Chain(at(100))
        self.taken = [100]
        self.sent: list[LogBatch] = []
        self.reading, self.first = 100, True

    @rule(size=st.integers(1, 3), lost=st.booleans())
    def send(self, size: int, lost: bool) -> None:
        one = batch(at(self.reading), at(self.reading + size), resent=self.first)
        self.reading, self.first = self.reading + size, False
        if not lost:
            self.sent.append(one)
            self.arrive(one)

    @precondition(lambda self: self.sent)
    @rule(pick=st.integers(0, 100))
    def repeat(self, pick: int) -> None:
        self.arrive(self.sent[pick % len(self.sent)])

    @rule()
    def resend(self) -> None:
        start = self.chain.expect_resend()
        assert start.offset == self.taken[-1], "from the last position taken"
        self.reading, self.first = start.offset, True

    def arrive(self, one: LogBatch) -> None:
        match self.chain.judge(one):
            case Verdict.NEXT:
                assert one.prev.offset == self.taken[-1], "never on over a gap, nothing twice"
                self.taken.append(one.last.offset)
            case Verdict.DUPLICATE:
                assert one.last.offset <= self.taken[-1] or not one.resent
            case Verdict.GAP:
                assert one.prev.offset != self.taken[-1]
        assert self.chain.last.offset == self.taken[-1]

    def teardown(self) -> None:
        """A resend and a good line always get on."""
        self.resend()
        for _ in range(3):
            self.send(1, lost=False)
        assert self.taken[-1] == self.reading


TestDelivery = Delivery.TestCase
TestDelivery.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)


def flowing(start: Position, *lasts: Position) -> Chain:
    chain, prev = Chain(start), start
    for n, last in enumerate(lasts):
        assert chain.judge(batch(prev, last, resent=n == 0)) is Verdict.NEXT
        prev = last
    return chain


def test_a_gap_is_never_passed() -> None:
    chain = flowing(at(10), at(20))
    assert chain.judge(batch(at(30), at(40))) is Verdict.GAP
    assert chain.last == at(20)


def test_a_batch_that_overlaps_is_a_gap_it_cannot_be_cut_apart() -> None:
    chain = flowing(at(10), at(20))
    assert chain.judge(batch(at(15), at(30))) is Verdict.GAP


def test_events_with_the_same_position_are_not_lost_debezium_7531() -> None:
    """Rows inside one transaction: the same offset, ever more rows."""
    parts = [Position("bin.000001", 20, n) for n in (100, 200, 300)]
    chain = flowing(at(20), *parts)
    assert chain.last == parts[-1]
    assert chain.judge(batch(parts[1], parts[2])) is Verdict.DUPLICATE


def test_the_next_file_comes_after_the_last() -> None:
    chain = flowing(at(10), at(900), at(4, "bin.000002"))
    assert chain.judge(batch(at(10), at(900))) is Verdict.DUPLICATE
    assert at(1, "bin.1000000").order > at(1, "bin.999999").order, "numbers, not text"


def test_what_was_sent_before_the_resend_is_ignored() -> None:
    chain = flowing(at(10), at(20))
    assert chain.expect_resend() == at(20)
    assert chain.judge(batch(at(20), at(30))) is Verdict.LATE
    assert chain.judge(batch(at(20), at(25), resent=True)) is Verdict.NEXT
    assert chain.judge(batch(at(25), at(30))) is Verdict.NEXT


def test_a_resend_from_elsewhere_is_a_gap() -> None:
    chain = flowing(at(10), at(20))
    chain.expect_resend()
    assert chain.judge(batch(at(30), at(40), resent=True)) is Verdict.GAP
    assert chain.judge(batch(at(20), at(40), resent=True)) is Verdict.NEXT, "a later answer may still close it"


def test_a_replica_promoted_is_met_by_its_gtids() -> None:
    """Its files are others; the set of transactions is the same."""
    chain = flowing(at(10, gtids="0-1-5"), at(20, gtids="0-1-9"))
    chain.expect_resend()
    there = Position("other.000042", 777, 0, "0-1-9")
    assert chain.judge(batch(there, Position("other.000042", 900, 0, "0-1-12"), resent=True)) is Verdict.NEXT
    chain.expect_resend()
    assert chain.judge(batch(at(20), at(30), resent=True)) is Verdict.GAP, "no GTIDs, another place"
