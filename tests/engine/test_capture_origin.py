"""Changes that came through a node or a site do not return to it: by hand, and in networks of capture machines."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.engine.source_log import FILE, Reader, SourceLog
from tidelock.engine.capture.machine import CaptureMachine
from tidelock.engine.capture.mapping import Mapping, Rule
from tidelock.engine.capture.origin import NodeFilter, SiteFilter, Sites, Untraceable, admits
from tidelock.engine.model.log_batch import CHECKPOINT, RECEIPT, LogBatch, SourceTransaction
from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import Column, Kind, Position, RowChange, Shape, TableName, Transaction
from tidelock.engine.protocol.effects import Publish
from tidelock.engine.protocol.events import SourceRead

# The columns of tidelock_progress: feed, grp, epoch, batch, covered, origin, path.
ROW = ("shop", 0, 1, 7, b"\x80")


def mark(origin: str, path: str) -> tuple:
    return (*ROW, origin, path)


@pytest.mark.parametrize(
    ("marks", "admitted"),
    [
        ([], True),
        ([mark("north", "north")], True),
        ([mark("south", "north")], False),
        ([mark("north", "north south")], False),
        ([mark("north", "south north")], False),
        ([mark("north", "southern north")], True),
        ([mark("north", "")], True),
        ([mark("north", "north"), mark("south", "")], False),
    ],
    ids=["local", "another's", "ours", "through us", "through us first", "a longer name", "no path", "one of two"],
)
def test_an_endless_loop_in_a_ring_pglogical_210(marks: list, admitted: bool) -> None:
    assert admits(marks, "south") is admitted


def test_a_feed_without_a_node_name_goes_one_way_and_takes_all() -> None:
    assert admits([mark("south", "north south")], "") and admits([mark("south", "")], "")


# ------------------------------------------------------------------ sites


ROWS = [RowChange(0, None, (1,), 0)]


def marked(number: int, path: str, marks: str = "", count: int = 1) -> SourceTransaction:
    """A transaction of a feed that names sites."""
    row = (*ROW, path.split(" ")[0], path, marks, "")
    return SourceTransaction("0-1", number, FILE, 4, ROWS, marks=((RECEIPT, row),) * count)


def admitted(taken: NodeFilter | SiteFilter, one: SourceTransaction) -> bool:
    return taken.admits((one.source, one.number), one.marks, rows=bool(one.rows))


def local(number: int) -> SourceTransaction:
    return SourceTransaction("0-1", number, FILE, 4, ROWS)


def test_a_path_grows_by_the_site_that_a_change_is_read_from() -> None:
    taken = SiteFilter(Sites("b", "c"))
    assert admitted(taken, marked(1, "x a")) and taken.origin == Origin(("x", "a", "b"))
    assert admitted(taken, local(2)) and taken.origin is None
    assert not admitted(taken, marked(3, "c a"))
    assert not admitted(taken, SourceTransaction("0-1", 3, FILE, 4, [])), "the rest of it"
    assert admitted(taken, local(4))


def test_own_changes_alone_go_on_if_the_feed_says_so() -> None:
    taken = SiteFilter(Sites("b", "c", own=True))
    assert admitted(taken, local(1)) and not admitted(taken, marked(2, "a")) and admitted(taken, local(3))


def test_words_that_changes_are_marked_with_add_up_and_end_their_way() -> None:
    first = SiteFilter(Sites("b", "c", mark=("eu-only", "slow")))
    assert admitted(first, marked(1, "a", "fast eu-only"))
    assert first.origin == Origin(("a", "b"), ("fast", "eu-only", "slow"))
    assert Sites("b", "c", mark=("eu-only",)).local == Origin(("b",), ("eu-only",))
    last = SiteFilter(Sites("b", "d", drop=("eu-only",)))
    assert not admitted(last, marked(1, "a", "fast eu-only")) and admitted(last, marked(2, "a", "fast"))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (marked(1, "127.0.0.1:3306"), "names no sites"),
        (marked(1, "a b"), "was here before"),
        (marked(1, "a", count=2), "more than one receipt"),
    ],
    ids=["a node", "this site again", "two receipts"],
)
def test_what_cannot_be_told_ends_the_reading(found: SourceTransaction, words: str) -> None:
    with pytest.raises(Untraceable, match=words):
        admitted(SiteFilter(Sites("b", "c")), found)


def test_receipts_of_other_tables_concern_nobody() -> None:
    other = marked(1, "127.0.0.1:3306")
    taken = SiteFilter(Sites("b", "c"))
    assert admitted(taken, SourceTransaction("0-1", 1, FILE, 4, [], complete=False, marks=other.marks))
    with pytest.raises(Untraceable):
        admitted(taken, SourceTransaction("0-1", 1, FILE, 4, ROWS))
    assert admitted(taken, local(2))
    assert admitted(NodeFilter("db2:3306"), SourceTransaction("0-1", 1, FILE, 4, [], marks=marked(1, "a").marks))


def test_a_receipt_behind_other_rows_of_its_transaction_ends_the_reading() -> None:
    taken = SiteFilter(Sites("b", "c"))
    admitted(taken, marked(1, "a"))
    with pytest.raises(Untraceable, match="more than one receipt"):
        admitted(taken, marked(1, "a"))


def test_a_feed_without_sites_does_not_take_what_one_with_sites_has_brought() -> None:
    with pytest.raises(Untraceable, match="this feed names none"):
        admitted(NodeFilter("db2:3306"), marked(1, "a"))
    assert admitted(NodeFilter(""), marked(1, "a")), "a lake sends nothing back"


def checkpoint(feed: str, offset: int, site: str, group: int = 0) -> SourceTransaction:
    place = f'["log.000007", {offset}, 0, "", ""]'
    marks = ((CHECKPOINT, (feed, group, place, "2026-11-25", site)),)
    return SourceTransaction("0-1", 1000 + offset, FILE, 4, [], marks=marks)


def test_what_the_source_had_seen_is_told_by_the_sisters_checkpoints_alone() -> None:
    taken = SiteFilter(Sites("b", "c", sister="c-b"))
    seen = []
    for one in (
        local(1), checkpoint("c-b", 100, "c"), local(2), checkpoint("other", 900, "c"), checkpoint("c-b", 800, "a"),
        checkpoint("c-b", 700, "c", group=1), local(3), checkpoint("c-b", 200, "c"), local(4),
    ):  # fmt: skip
        assert admitted(taken, one)
        seen.append(taken.seen.offset if taken.seen else None)
    assert [seen[n] for n in (0, 2, 6, 8)] == [None, 100, 100, 200]


# ------------------------------------------------------------------ nodes that feed each other

NETWORKS = {
    "one way": ["a→b", "b→c"],
    "two-way": ["a→b", "b→a"],
    "ring": ["a→b", "b→c", "c→a"],
    "diamond": ["a→b", "a→c", "b→d", "c→d"],
    "two-way and a branch": ["a→b", "b→a", "b→c", "c→d", "d→b"],
    "full mesh": ["a→b", "a→c", "b→a", "b→c", "c→a", "c→b"],
}
SHAPE = Shape(TableName("shop", "note"), (Column("id", Kind.INT),), ("id",))


class Feed:
    """Reads one node's log through the capture machine; `applied`: what its receipts at the other node cover.  `sites`:
    it names its nodes as sites."""

    def __init__(self, name: str, log: SourceLog, sites: bool) -> None:
        self.sites = sites
        self.source, self.target = name.split("→")
        self.log = log
        self.applied: list[tuple[str, int, int]] = []
        self.place = Position(FILE, log.end)
        self.restart()

    def restart(self) -> None:
        self.reader = Reader(self.log, self.place, {0: SHAPE})
        sites = Sites(self.source, self.target) if self.sites else None
        self.machine = CaptureMachine(Mapping([Rule("shop.note", "shop.note")]), self.place, self.target, sites)

    def read(self, ordinals: int) -> list[LogBatch]:
        return [e.batch for e in self.machine.step(0, [SourceRead([self.reader.read(ordinals)])]) if type(e) is Publish]


class Nodes(RuleBasedStateMachine):
    """Rows are committed at nodes and carried on; each must reach every node once a way, and none where it was."""

    @initialize(network=st.sampled_from(sorted(NETWORKS)), sites=st.booleans())
    def start(self, network: str, sites: bool) -> None:
        names = NETWORKS[network]
        self.logs = {node: SourceLog() for node in sorted({n for name in names for n in name.split("→")})}
        self.feeds = {name: Feed(name, self.logs[name[0]], sites) for name in names}
        self.born: dict[int, str] = {}  # row → the node it was committed at
        self.arrived: dict[int, list[str]] = {}  # row → nodes it came to, once for each time

    @rule(node=st.sampled_from("abcd"), rows=st.integers(1, 3))
    def commit(self, node: str, rows: int) -> None:
        if node in self.logs:
            made = range(len(self.born), len(self.born) + rows)
            self.born |= dict.fromkeys(made, node)
            self.arrived |= {row: [] for row in made}
            self.logs[node].commit(f"server {node}", [(0, None, (row,)) for row in made])

    @rule(feed=st.integers(0, 5), ordinals=st.integers(1, 3), crash=st.booleans())
    def carry(self, feed: int, ordinals: int, crash: bool) -> None:
        behind = [feed for feed in self.feeds.values() if feed.reader.more] or list(self.feeds.values())
        one = behind[feed % len(behind)]
        self.run(one, ordinals)
        if crash:
            one.restart()

    def run(self, feed: Feed, ordinals: int) -> None:
        for batch in feed.read(ordinals):
            ends = [t.first for t in batch.transactions[1:]] + [len(batch.rows)]
            for one, end in zip(batch.transactions, ends, strict=False):
                origin = batch.origins[one.origin - 1] if one.origin else None
                self.apply(feed, one, batch.rows[one.first : end], origin)
            feed.place = batch.last

    def apply(self, feed: Feed, one: Transaction, rows: tuple[RowChange, ...], origin: Origin | None) -> None:
        """One target transaction, marked with the whole way; rows that a receipt covers are left out."""
        fresh = [row for row in rows if (one.source, one.number, row.ordinal) not in feed.applied]
        if not fresh:
            return
        feed.applied += [(one.source, one.number, row.ordinal) for row in fresh]
        came = next(t for t in feed.log.transactions if (t.source, t.number) == (one.source, one.number))
        path = (*came.path, feed.source)
        if feed.sites:
            assert (origin.path if origin is not None else (feed.source,)) == path
        assert feed.target not in path, f"back where it was: {'→'.join((*path, feed.target))}"
        for row in fresh:
            self.arrived[row.after[0]].append(feed.target)
        of_sites = ("", "") if feed.sites else ()
        images = [(0, None, row.after) for row in fresh]
        self.logs[feed.target].commit(f"server {feed.target}", images, path, of_sites=of_sites)

    @rule(feed=st.integers(0, 5))
    def crash_before_the_place_was_saved(self, feed: int) -> None:
        """Some rows come by again, and the receipts drop them."""
        one = list(self.feeds.values())[feed % len(self.feeds)]
        if one.place.rows > 1:
            one.place = Position(FILE, one.place.offset, one.place.rows - 1)
        one.restart()

    @rule()
    def come_to_rest(self) -> None:
        for _ in range(500):
            busy = [feed for feed in self.feeds.values() if feed.reader.more]
            if not busy:
                break
            self.run(busy[0], 3)
        assert not any(feed.reader.more for feed in self.feeds.values()), "it goes round and round"
        for row, node in self.born.items():
            assert sorted(self.arrived[row]) == sorted(self.ways(node, [node])), f"row {row} of {node}"

    def ways(self, node: str, been: list[str]) -> list[str]:
        """Ends of each way from `node` leads that meets no node twice."""
        ends = [f.target for f in self.feeds.values() if f.source == node and f.target not in been]
        return [*ends, *(end for n in ends for end in self.ways(n, [*been, n]))]


TestNodes = Nodes.TestCase
TestNodes.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, derandomize=True, report_multiple_bugs=False
)


@pytest.mark.proof
def test_nodes_at_length() -> None:
    run_state_machine_as_test(
        Nodes, settings=settings(max_examples=2500, stateful_step_count=40, deadline=None, report_multiple_bugs=False)
    )
