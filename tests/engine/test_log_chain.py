"""The chain of positions: every history of sending, losing, repeating and resending is taken once, without a gap."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tidelock.engine.log.chain import Chain, Verdict
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position


def at(offset: int, file: str = "bin.000001", gtids: str = "") -> Position:
    return Position(file, offset, 0, gtids)


def batch(prev: Position, last: Position, resent: bool = False) -> LogBatch:
    return LogBatch(prev=prev, last=last, resent=resent)


Place = tuple[int, int]  # so many whole transactions, and so many rows of the next
SIZES = (1, 3, 1, 2, 4, 1, 1, 2, 3, 1)  # rows of the transactions, over and over


def size(transaction: int) -> int:
    return SIZES[transaction % len(SIZES)]


def named(place: Place, server: str) -> Position:
    """As the server calls it: files hold three transactions and are numbered from 8 (a) or 7 (b)."""
    transaction, rows = place
    file = f"{server}-bin.{transaction // 3 + (8 if server == 'a' else 7):06d}"
    return Position(file, 4 + 50 * (transaction % 3), rows, f"0-1-{transaction}")


def ahead(place: Place, rows: int) -> Place:
    transaction, at = place
    for _ in range(rows):
        transaction, at = (transaction, at + 1) if at + 1 < size(transaction) else (transaction + 1, 0)
    return transaction, at


class Delivery(RuleBasedStateMachine):
    """Readers send batches; on the way some are lost, repeated or late; a resend starts a new reader, perhaps on a
    replica that was promoted.

    The naive side knows each batch by the places in the source's history that it lies between, whatever servers call
    them: only one that begins where all is taken may be taken.
    """

    @initialize()
    def start(self) -> None:
        self.taken: Place = (0, 0)
        self.chain = Chain(named(self.taken, "a"))
        self.sent: list[tuple[Place, Place, LogBatch, int]] = []
        self.waiting, self.asked = True, 0
        self.new_reader("a", self.taken, self.chain.last)

    def new_reader(self, server: str, place: Place, start: Position) -> None:
        self.server, self.reading, self.first, self.prev = server, place, True, start

    @rule(rows=st.integers(0, 4), lost=st.sampled_from([False, False, True]))
    def send(self, rows: int, lost: bool) -> None:
        """No rows: a heartbeat."""
        end = ahead(self.reading, rows)
        last = named(end, self.server) if rows else self.prev
        self.sent.append((self.reading, end, batch(self.prev, last, resent=self.first), self.asked))
        self.reading, self.prev, self.first = end, last, False
        if not lost:
            self.arrive(*self.sent[-1])

    @precondition(lambda self: self.sent)
    @rule(back=st.integers(0, 8))
    def an_old_one_arrives(self, back: int) -> None:
        """Late, or a second time; from the reader of now or one before it."""
        self.arrive(*self.sent[max(len(self.sent) - 1 - back, 0)])

    @precondition(lambda self: self.sent)
    @rule(back=st.integers(0, 4), rows=st.integers(1, 6))
    def a_longer_one_arrives(self, back: int, rows: int) -> None:
        """It begins where an old one did, and may overlap what is taken."""
        begin, _, one, reader = self.sent[max(len(self.sent) - 1 - back, 0)]
        end = ahead(begin, rows)
        self.arrive(begin, end, batch(one.prev, named(end, one.prev.file[0])), reader)

    @rule(server=st.sampled_from("ab"), renamed=st.booleans(), beats=st.booleans())
    def resend(self, server: str, renamed: bool, beats: bool = False) -> None:
        """The new reader starts at the place asked for, under the name it was given or by the server's own."""
        start = self.ask()
        self.new_reader(server, self.taken, named(self.taken, server) if renamed else start)
        if beats:
            self.send(0, lost=False)

    @rule(server=st.sampled_from("ab"), where=st.sampled_from(["its transaction's begin", "a row on"]))
    def resend_from_elsewhere(self, server: str, where: str) -> None:
        """The reader does not start where it was asked to."""
        self.ask()
        place = ahead(self.taken, 1) if where == "a row on" else (self.taken[0], 0)
        self.new_reader(server, place, named(place, server))
        self.send(1, lost=False)

    def ask(self) -> Position:
        start, number = self.chain.expect_resend()
        self.waiting, self.asked = True, self.asked + 1
        assert start == self.chain.last and number == self.asked, "from the last position taken, by a reader anew"
        return start

    def arrive(self, begin: Place, end: Place, one: LogBatch, reader: int) -> None:
        before, verdict = self.chain.last, judge(self.chain, one, reader)
        if reader != self.asked:
            assert verdict is Verdict.LATE, "of a reader that has been replaced"
        elif verdict is Verdict.NEXT:
            assert begin == self.taken, "never on over a gap, nothing twice"
            assert one.resent or not self.waiting, "an answer comes first: it names the tables"
            assert self.waiting or one.last.order >= before.order, "the log does not go back"
            self.taken, self.waiting = end, False
        elif self.waiting:
            assert verdict is Verdict.GAP, "only its answer is the next"
            assert not one.resent or begin != self.taken, "the answer is never refused"
        elif one.prev == before and one.last.order < before.order:
            assert verdict is Verdict.GAP, "the log goes back"
        elif one.last.file[0] == before.file[0]:  # names of one server can be compared
            assert begin != self.taken, "the next one is never refused"
            assert verdict is (Verdict.GAP if end > self.taken else Verdict.DUPLICATE)
        assert self.chain.last == (one.last if verdict is Verdict.NEXT else before)
        assert self.chain.last.gtids == f"0-1-{self.taken[0]}" and self.chain.last.rows == self.taken[1]

    @rule()
    def a_good_line_gets_on(self) -> None:
        self.resend("b", renamed=True)
        for rows in (2, 0, 3):
            self.send(rows, lost=False)
        assert self.taken == self.reading


TestDelivery = Delivery.TestCase
TestDelivery.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, derandomize=True, report_multiple_bugs=False
)


@pytest.mark.proof
def test_delivery_at_length() -> None:
    run_state_machine_as_test(Delivery, settings=settings(max_examples=3000, stateful_step_count=50, deadline=None))


def flowing(start: Position, *lasts: Position) -> Chain:
    chain, prev = Chain(start), start
    for n, last in enumerate(lasts):
        assert chain.judge(prev, last, 0, resent=n == 0) is Verdict.NEXT
        prev = last
    return chain


def judge(chain: Chain, one: LogBatch, reader: int | None = None) -> Verdict:
    """By default from the reader that was asked for last."""
    return chain.judge(one.prev, one.last, chain.reader if reader is None else reader, resent=one.resent)


def test_a_gap_is_never_passed() -> None:
    chain = flowing(at(10), at(20))
    assert judge(chain, batch(at(30), at(40))) is Verdict.GAP
    assert chain.last == at(20)


def test_a_batch_that_overlaps_is_a_gap_it_cannot_be_cut_apart() -> None:
    chain = flowing(at(10), at(20))
    assert judge(chain, batch(at(15), at(30))) is Verdict.GAP


def test_events_with_the_same_position_are_not_lost_debezium_7531() -> None:
    """Rows inside one transaction: the same offset, ever more rows."""
    parts = [Position("bin.000001", 20, n) for n in (100, 200, 300)]
    chain = flowing(at(20), *parts)
    assert chain.last == parts[-1]
    assert judge(chain, batch(parts[1], parts[2])) is Verdict.DUPLICATE


def test_the_next_file_comes_after_the_last() -> None:
    chain = flowing(at(10), at(900), at(4, "bin.000002"))
    assert judge(chain, batch(at(10), at(900))) is Verdict.DUPLICATE
    assert at(1, "bin.1000000").order > at(1, "bin.999999").order, "numbers, not text"


def test_what_was_sent_before_the_resend_is_ignored() -> None:
    chain = flowing(at(10), at(20))
    assert chain.expect_resend() == (at(20), 1)
    assert judge(chain, batch(at(20), at(30)), 0) is Verdict.LATE
    assert judge(chain, batch(at(20), at(25), resent=True)) is Verdict.NEXT
    assert judge(chain, batch(at(25), at(30))) is Verdict.NEXT


def test_a_resend_from_elsewhere_is_a_gap() -> None:
    chain = flowing(at(10), at(20))
    chain.expect_resend()
    assert judge(chain, batch(at(30), at(40), resent=True)) is Verdict.GAP
    assert judge(chain, batch(at(20), at(40), resent=True)) is Verdict.NEXT, "a later answer may still close it"


def test_a_replica_promoted_is_met_by_its_gtids() -> None:
    """Its files are others; the set of transactions is the same."""
    chain = flowing(at(10, gtids="0-1-5"), at(20, gtids="0-1-9"))
    chain.expect_resend()
    there = Position("other.000042", 777, 0, "0-1-9")
    assert judge(chain, batch(there, Position("other.000042", 900, 0, "0-1-12"), resent=True)) is Verdict.NEXT
    chain.expect_resend()
    assert judge(chain, batch(at(20), at(30), resent=True)) is Verdict.GAP, "no GTIDs, another place"


def test_an_old_answer_inside_the_same_transaction_is_not_this_one() -> None:
    """Places inside one transaction have one GTID set: the first row would be taken a second time."""
    before, inside = at(20, gtids="0-1-9"), Position("bin.000001", 20, 1, "0-1-9")
    chain = Chain(before)
    answer = batch(before, inside, resent=True)
    assert judge(chain, answer) is Verdict.NEXT
    assert chain.expect_resend() == (inside, 1)
    assert judge(chain, answer) is not Verdict.NEXT


def test_an_old_answer_of_a_server_whose_files_have_the_same_numbers_is_not_this_one() -> None:
    """Number and offset of a file say nothing of another server's, the GTID sets do."""
    chain = Chain(at(20, "b-bin.000008", "0-1-9"))
    answer = batch(at(20, "a-bin.000008", "0-1-2"), at(30, "a-bin.000008", "0-1-3"), resent=True)
    assert judge(chain, answer) is Verdict.GAP
