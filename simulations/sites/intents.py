"""Intents of local writers where sites have an arbiter: each is kept, overwritten by who saw it, or recorded as lost.

Every local transaction notes itself in the rows that it writes.  At the end the note of each row that a writer left,
and that it did not write again itself, is in the arbiter's log, or in what feeds have recorded or parked.  On the way
the arbiter's feeds bring each row once, echoes and verdicts as its own; a row that the arbiter writes over without its
writer having seen it is recorded.  What a feed writes at a spoke is a row that its arbiter's log has, and no mixture of
that with the spoke's own, unless columns of the table are written apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from tidelock.engine.batch.parked_rows import decode_change
from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import Position, Row, TableName
from tidelock.engine.protocol.steps import ParkedRow
from tidelock.simulations.ledger import Mistake
from tidelock.simulations.log_entry import Entry, Place
from tidelock.simulations.sites.topology import Edge, Topology

LOCAL = Origin(())
RowKey = tuple[str, TableName, object]


class Intents:
    """`parents`: the arbiter of each spoke.  `apart`: tables of which columns are written apart.  `written`, `brought`:
    as `Travels` has them.  `recorded`: rows in conflicts' records."""

    def __init__(self, topology: Topology, parents: Mapping[str, str], apart: Collection[str]) -> None:
        self._apart = apart
        self._edges = {edge.name: edge for edge in topology.edges}
        self._parents = parents
        self.written = 0
        self.brought: Counter[str] = Counter()
        self.recorded = 0
        self._origins: dict[tuple[str, int], Origin] = {}
        self._entries: dict[Place, Entry] = {}
        self._covered: dict[str, set[Place]] = {edge.name: set() for edge in topology.edges}
        self._last: dict[RowKey, str] = {}  # by a site's own writers
        self._logged: set[tuple[str, str]] = set()  # notes in each site's log
        self._lost: set[str] = set()
        self._parked: set[tuple[str, Place]] = set()  # by the feed that parked them

    def left(self) -> str:
        """Returns '': what is left to bring is told by comparing the sites."""
        return ""

    def wrote(self, added: Sequence[Entry]) -> None:
        """A local writer's transaction is in its site's log."""
        for entry in added:
            if entry.change is not None:
                self.written += 1
                for row in _rows(entry):
                    self._last.pop((entry.source, *_key(entry, row)), None)
                if entry.after is not None:
                    self._last[entry.source, *_key(entry, entry.after)] = str(entry.after[-1])
        self._note(added, LOCAL)

    def _note(self, added: Sequence[Entry], origin: Origin) -> None:
        for entry in added:
            self._origins[entry.source, entry.number] = origin
            if entry.change is not None:
                self._entries[entry.place] = entry
                if entry.after is not None:
                    self._logged.add((entry.source, str(entry.after[-1])))

    # ------------------------------------------------------------------ what a feed brings

    def brings(
        self, feed: str, places: Sequence[Place], told: Origin | None, seen: Position | None, added: Sequence[Entry]
    ) -> None:
        """A feed's batch has committed, as `Travels.brings` says."""
        edge = self._edges[feed]
        origins = dict.fromkeys(self._takes(edge, place) for place in places)
        if len(origins) > 1:
            raise Mistake(f"a batch of feed {feed} has rows of several paths: {[*origins]}")
        for origin in origins:
            if (told or Origin((edge.source,), edge.mark)).path != origin.path:
                raise Mistake(f"feed {feed} tells {told} of rows that have come as {origin}")
        if self._goes_up(edge):
            self._none_overwritten_unseen(edge, places, added)
        else:
            self._none_displaced_unseen(edge, places, added)
            self._all_as_at_the_arbiter(edge, places, added)
        self._note(added, next(iter(origins), LOCAL))

    def is_to_arbiter(self, feed: str) -> bool:
        """Tells whether a feed goes from a spoke to its arbiter."""
        return self._goes_up(self._edges[feed])

    def entries(self, places: Iterable[Place]) -> list[Entry]:
        """Returns what the log has at these places."""
        return [self._entries[place] for place in places]

    def _goes_up(self, edge: Edge) -> bool:
        return self._parents.get(edge.source) == edge.target

    def _takes(self, edge: Edge, place: Place) -> Origin:
        """Returns the origin of a row at the target.  Raises Mistake where it is not one to come."""
        self.brought[edge.name] += 1
        if self._goes_up(edge):
            if place in self._covered[edge.name]:
                raise Mistake(f"feed {edge.name} brings {place} a second time")
            self._covered[edge.name].add(place)
        origin = self._origins[place[:2]]
        if edge.passes(origin.path, origin.marks) and not self._entries[place].verdict:
            return Origin((*origin.path, edge.source), edge.marked(origin.marks))
        if self._goes_up(edge) or origin.path[-1:] != (edge.target,):
            raise Mistake(f"feed {edge.name} brings {place} back, which has the path {origin.path}")
        return Origin((edge.source,), edge.mark)

    def _none_overwritten_unseen(self, edge: Edge, places: Iterable[Place], added: Sequence[Entry]) -> None:
        """A row of the arbiter that goes is one that the changes knew, or one that is recorded."""
        known = {str(row[-1]) for place in places for row in _rows(self._entries[place])}
        for entry in added:
            if entry.change is None or entry.verdict or entry.before is None or entry.before == entry.after:
                continue
            known |= {str(entry.after[-1])} if entry.after is not None else set()
            note = str(entry.before[-1])
            if note not in known and note not in self._lost:
                raise Mistake(f"feed {edge.name} writes over {entry.before}, and nothing records it")

    def _none_displaced_unseen(self, edge: Edge, places: Iterable[Place], added: Sequence[Entry]) -> None:
        """A row of a spoke that goes, and that no change is of, is recorded."""
        concerned = {_key(self._entries[place], row) for place in places for row in _rows(self._entries[place])}
        for entry in added:
            if entry.change is None or entry.before is None or entry.after is not None:
                continue
            if _key(entry, entry.before) not in concerned and str(entry.before[-1]) not in self._lost:
                raise Mistake(f"feed {edge.name} makes {entry.before} give way, and nothing records it")

    def _all_as_at_the_arbiter(self, edge: Edge, places: Iterable[Place], added: Iterable[Entry]) -> None:
        """A batch leaves at a spoke the last of the changes that it has of each row, but for those parked."""
        applied = (place for place in places if (edge.name, place) not in self._parked)
        entries = (self._entries[place] for place in sorted(applied, key=_in_the_log))
        wanted, found = _left(entries), _left(entry for entry in added if entry.change is not None)
        for (table, key), row in found.items():
            if row is not None and table.table not in self._apart and wanted.get((table, key), row) != row:
                had = wanted[table, key]
                raise Mistake(f"feed {edge.name} leaves {row} of {table}, and {edge.source} had {had}")

    # ------------------------------------------------------------------ what is recorded

    def records(self, lost: Iterable[bytes | None]) -> None:
        """Rows are written to `tidelock_conflicts`."""
        for row in lost:
            self.recorded += 1
            if row is not None:
                self._lost.add(str(msgspec.msgpack.decode(row)["note"]))

    def displaces(self, rows: Iterable[Row]) -> None:
        """Rows made room, which is recorded."""
        for row in rows:
            self.recorded += 1
            self._lost.add(str(row[-1]))

    def parks(self, feed: str, rows: Iterable[ParkedRow]) -> None:
        """A feed parks changes."""
        for row in rows:
            self._parked.add((feed, (row.source, row.number, row.ordinal)))
            if (after := decode_change(row.change).after) is not None:
                self._lost.add(str(after[-1]))

    def finished(self) -> None:
        """All is quiet.  Raises Mistake for an intent of which nothing is left."""
        for (site, table, key), note in self._last.items():
            if site in self._parents and note not in self._lost and (self._parents[site], note) not in self._logged:
                raise Mistake(f"{site} wrote {note} to row {key} of {table}, and it is neither kept nor recorded")


def _in_the_log(place: Place) -> tuple[int, int]:
    _, number, ordinal = place
    return number, ordinal


def _left(entries: Iterable[Entry]) -> dict[tuple[TableName, object], Row | None]:
    """Returns the last image of each row, None of one that is gone."""
    left: dict[tuple[TableName, object], Row | None] = {}
    for entry in entries:
        if entry.before is not None:
            left[_key(entry, entry.before)] = None
        if entry.after is not None:
            left[_key(entry, entry.after)] = entry.after
    return left


def _rows(entry: Entry) -> list[Row]:
    return [row for row in (entry.before, entry.after) if row is not None]


def _key(entry: Entry, row: Row) -> tuple[TableName, object]:
    assert entry.shape is not None
    return entry.shape.name, row[0]
