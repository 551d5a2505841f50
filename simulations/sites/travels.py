"""Travels of changes from site to site: where each has been in truth, and what feeds make of it.

A *root* is what a row change of a local writer means to one row; a change of a key has two.  A feed's batch covers
rows of its source's log and leaves rows in its target's; of each root that those carried, one of these carries it on,
unless the batch left no such row.

What must hold at each commit of a feed: it brings what the topology says and nothing twice, no root comes back to where
it began, all rows of a batch have one path and the receipt tells it, and `seen` is never too high.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import Position, Row, TableName
from tidelock.simulations.ledger import Mistake
from tidelock.simulations.log_entry import Entry, Place
from tidelock.simulations.sites.topology import Edge, Topology

Order = tuple[int, int, int]
Transaction = tuple[str, int]
RowKey = tuple[TableName, object]
Root = tuple[Place, RowKey]
LOCAL = Origin(())
UNIT = 10
"""Keys of a unit of rows, which one site writes at a time, are that far from the next one's."""


def unit_of(entry: Entry) -> int:
    row = entry.after if entry.after is not None else entry.before
    assert row is not None and isinstance(row[0], int)
    return row[0] // UNIT


class Travels:
    """`origins`: what each transaction's path and marks were before it came to the site whose log it is in.
    `due`: rows that each feed has yet to bring, with their places in the log.  `pending`: how many of them each feed
    has of a unit.  `written`: rows that local writers changed; `brought`: those that each feed has brought."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._edges = {edge.name: edge for edge in topology.edges}
        self.origins: dict[Transaction, Origin] = {}
        self.due: dict[str, dict[Place, Order]] = {edge.name: {} for edge in topology.edges}
        self.pending: Counter[tuple[str, int]] = Counter()
        self.brought: Counter[str] = Counter()
        self.written = 0
        self._entries: dict[Place, Entry] = {}
        self._roots: dict[Place, tuple[Root, ...]] = {}
        self._came: dict[str, dict[Root, Transaction]] = {site: {} for site in topology.sites}
        # By feed: numbers of the target's transactions, and the first row that was not there yet behind each.
        self._known: dict[str, tuple[list[int], list[Order | None]]] = {
            edge.name: ([], []) for edge in topology.edges
        }

    def left(self) -> str:
        """Returns what feeds have yet to bring, '' where that is nothing."""
        return ", ".join(f"{next(iter(due))} by {name}" for name, due in self.due.items() if due)

    def coming(self, feed: str) -> Iterator[Entry]:
        """Yields the rows that a feed has yet to bring."""
        return (self._entries[place] for place in self.due[feed])

    # ------------------------------------------------------------------ what is written

    def wrote(self, added: Sequence[Entry]) -> None:
        """A local writer's transaction is in its site's log."""
        self.written += sum(entry.change is not None for entry in added)
        for entry in added:
            if entry.change is not None:
                self._roots[entry.place] = tuple((entry.place, row) for row in _rows(entry))
        self._logged(added, LOCAL)

    def _logged(self, added: Sequence[Entry], origin: Origin) -> None:
        if not added:
            return
        site, number = added[0].source, added[0].number
        self.origins[site, number] = origin
        for entry in added:
            if entry.change is not None:
                self._entries[entry.place] = entry
        for edge in self._topology.out_of(site):
            if edge.passes(origin.path, origin.marks):
                for entry in added:
                    if entry.change is not None:
                        self.due[edge.name][entry.place] = entry.end.order
                        self.pending[edge.name, unit_of(entry)] += 1

    # ------------------------------------------------------------------ what a feed brings

    def brings(
        self, feed: str, places: Sequence[Place], told: Origin | None, seen: Position | None, added: Sequence[Entry]
    ) -> None:
        """A feed's batch has committed.  `told`, `seen`: what its receipt says.  `added`: what the target's log has of
        it."""
        edge = self._edges[feed]
        carried = [place for place in places if self._takes(edge, place)]
        origin = self._origin(edge, carried)
        if origin is not None:
            self._compare(edge, origin, told)
        if seen is not None:
            self._not_too_high(edge, carried, seen)
        self._carry(carried, added)
        self._logged(added, origin or LOCAL)
        if not added:
            return
        numbers, firsts = self._known[feed]
        numbers.append(added[0].number)
        firsts.append(next(iter(self.due[feed].values()), None))

    def _takes(self, edge: Edge, place: Place) -> bool:
        """Notes that a row has come, and was to come."""
        if self.due[edge.name].pop(place, None) is None:
            origin = self.origins.get(place[:2])
            what = "is in no log" if origin is None else f"has the path {origin.path} and the marks {origin.marks}"
            if origin is not None and edge.passes(origin.path, origin.marks):
                what = "has come by it before"
            raise Mistake(f"feed {edge.name} brings {place}, which {what}")
        self.pending[edge.name, unit_of(self._entries[place])] -= 1
        self.brought[edge.name] += 1
        came = self._came[edge.target]
        for root in self._roots[place]:
            began, _ = root
            if began[0] == edge.target:
                raise Mistake(f"feed {edge.name} brings {began} back to where it began, as {place}")
            if came.setdefault(root, place[:2]) != place[:2]:
                raise Mistake(f"{began} comes to {edge.target} a second time, as {place}")
        return True

    def _origin(self, edge: Edge, places: Iterable[Place]) -> Origin | None:
        """Returns the origin that these rows have at the target.  Raises Mistake where they have several."""
        origins = dict.fromkeys(self.origins[place[:2]] for place in places)
        if len(origins) > 1:
            raise Mistake(f"a batch of feed {edge.name} has rows of several paths: {[*origins]}")
        for origin in origins:
            return Origin((*origin.path, edge.source), edge.marked(origin.marks))
        return None

    @staticmethod
    def _compare(edge: Edge, origin: Origin, told: Origin | None) -> None:
        told = told or Origin((edge.source,), edge.mark)
        if told.path != origin.path or {*told.marks} != {*origin.marks}:
            raise Mistake(f"feed {edge.name} tells {told} of rows that have come as {origin}")

    def _carry(self, places: Sequence[Place], added: Sequence[Entry]) -> None:
        """The rows that a batch left carry what the covered ones did, each of the same row."""
        by_row: dict[RowKey, dict[Root, None]] = {}
        for place in places:
            for root in self._roots[place]:
                by_row.setdefault(root[1], {})[root] = None
        for entry in added:
            if entry.change is not None:
                roots = [root for row in _rows(entry) for root in by_row.pop(row, ())]
                self._roots[entry.place] = tuple(roots)

    def _not_too_high(self, edge: Edge, places: Sequence[Place], seen: Position) -> None:
        """`seen` is a place in the target's log: all before it that the source gets, it had when it made these."""
        back = self._known.get(edge.back)
        if back is None or not places:
            return
        numbers, firsts = back
        at = bisect_right(numbers, min(number for _, number, _ in places)) - 1
        first = firsts[at] if at >= 0 else None
        if first is not None and seen.order >= first:
            raise Mistake(
                f"feed {edge.name} tells that {edge.source} had seen {seen} of {edge.target}, and it lacked {first}"
            )


def _rows(entry: Entry) -> Iterable[RowKey]:
    """Table and key of the row before and after."""
    assert entry.shape is not None
    images: tuple[Row | None, ...] = (entry.before, entry.after)
    return dict.fromkeys((entry.shape.name, row[0]) for row in images if row is not None)
