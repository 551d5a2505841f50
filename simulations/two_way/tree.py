"""The tree world: sites of which each but the root hangs on a parent, which is its arbiter, and forwards.

One row.  A change goes up and down with its path and the marks that it leaves; `seen` and `echo` of the engine decide
what is sent.  Promise: when nothing is on its way any more all sites hold one row, and no log grows for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import msgspec

from tidelock.engine.model.records import Row
from tidelock.engine.two_way.echo import EchoIndex, Passing, Path, Sending, path_of, sending
from tidelock.engine.two_way.places import NOTHING, Place
from tidelock.engine.two_way.registers import Register
from tidelock.engine.two_way.seen import Mark, SeenPrefix, Stretch
from tidelock.simulations.two_way.explorer import Word
from tidelock.simulations.two_way.hub import registers
from tidelock.simulations.two_way.hub_state import ROW, image, place, put
from tidelock.simulations.two_way.rule import Rule, Sound

NAMES = "HSTU"


class Entry(NamedTuple):
    """An entry of a site's log.  `changes`: it holds a change of the row.  `path`: without the site itself.  `mark`:
    None where a writer of the site made it.  `seen`: of the change, by the child that it came from."""

    changes: bool
    before: Row | None
    after: Row | None
    path: Path = ()
    mark: Mark | None = None
    seen: Place = NOTHING


class Edge(NamedTuple):
    """Between a site and its parent.  `up`, `down`: next entries to be read of the two logs.  `raised`, `sent`: the
    last places of which something went up or down.  `seen`, `beyond`: of `SeenPrefix`; `floor`, `last`: of
    `EchoIndex`."""

    up: int = 0
    raised: Place = NOTHING
    seen: Place = NOTHING
    beyond: tuple[Stretch, ...] = ()
    down: int = 0
    sent: Place = NOTHING
    floor: Place = NOTHING
    last: tuple[tuple[Register, Place], ...] = ()


class State(NamedTuple):
    """`rows`, `logs`: of each site; `edges`: of each but the root to its parent."""

    rows: tuple[Row | None, ...]
    logs: tuple[tuple[Entry, ...], ...]
    edges: tuple[Edge, ...]
    writes: int


class Scope(msgspec.Struct, frozen=True):
    """`parents`: of each site but the root."""

    parents: tuple[int, ...]
    writes: int = 3
    deletes: bool = True


Step: TypeAlias = tuple[Word, State]


class TreeWorld:
    """Sites in a tree."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def start(self) -> State:
        sites = len(self.scope.parents) + 1
        return State((None,) * sites, ((),) * sites, (Edge(),) * (sites - 1), self.scope.writes)

    def wrong(self, state: State) -> str:
        if any(len(log) > 4 * self.scope.writes for log in state.logs):
            return "loop: a log does not end"
        for child, parent in enumerate(self.scope.parents, 1):
            edge = state.edges[child - 1]
            if edge.up < len(state.logs[child]) or edge.down < len(state.logs[parent]):
                return ""
        if len(set(state.rows)) > 1:
            return "unequal: " + ", ".join(
                f"{name} {image(1, row)}" for name, row in zip(NAMES, state.rows, strict=False)
            )
        return ""

    def steps(self, state: State) -> Iterator[Step]:
        if state.writes:
            for site, row in enumerate(state.rows):
                for after in self._images(row):
                    entry = Entry(True, row, after)
                    wrote = self._logged(state, site, after, entry)
                    yield f"{NAMES[site]} writes {image(1, after)}", wrote._replace(writes=state.writes - 1)
        for child, parent in enumerate(self.scope.parents, 1):
            edge = state.edges[child - 1]
            if edge.up < len(state.logs[child]):
                yield self._climb(state, child, parent, edge)
            if edge.down < len(state.logs[parent]):
                yield self._fall(state, child, parent, edge)

    def _images(self, row: Row | None) -> Iterator[Row | None]:
        for value in (1, 2):
            if row is None or row[1] != value:
                yield (1, value)
        if row is not None and self.scope.deletes:
            yield None

    def _climb(self, state: State, child: int, parent: int, edge: Edge) -> Step:
        entry, at = state.logs[child][edge.up], place(edge.up)
        name = f"{NAMES[child]}-{NAMES[parent]}"
        prefix = SeenPrefix(self._feed_down(child, parent), NAMES[parent], edge.seen, edge.beyond)
        if entry.mark is not None:
            prefix.observe(entry.mark)
        edge = edge._replace(up=edge.up + 1, seen=prefix.seen, beyond=prefix.beyond)
        if not entry.changes or NAMES[parent] in entry.path:
            return f"{name} passes entry {at[0]}", with_edge(state, child, edge)
        seen = self._seen(prefix, entry)
        mark = Mark(name, NAMES[child], ((edge.raised, at),))
        here = state.rows[parent]
        path = (*entry.path, NAMES[child])
        raised = Entry(here != entry.after, here, entry.after, path, mark, seen)
        state = with_edge(state, child, edge._replace(raised=at))
        word = f"{name} applies {image(1, entry.after)}, seen {seen[0] if seen else 'nothing'}"
        return word, self._logged(state, parent, entry.after, raised)

    def _feed_down(self, child: int, parent: int) -> str:
        """The feed whose marks say what the child had seen of its parent."""
        return f"{NAMES[parent]}-{NAMES[child]}"

    def _seen(self, prefix: SeenPrefix, entry: Entry) -> Place:
        """Returns `seen` of the forwarder, whoever made the change."""
        return prefix.seen

    def _fall(self, state: State, child: int, parent: int, edge: Edge) -> Step:
        entry, at = state.logs[parent][edge.down], place(edge.down)
        name = f"{NAMES[parent]}-{NAMES[child]}"
        index = EchoIndex(100, edge.floor, edge.last)
        passing = Passing(at, entry.path, entry.seen, registers(ROW, entry.before, entry.after))
        how = sending(index, NAMES[child], passing) if entry.changes else Sending.NOT
        edge = edge._replace(down=edge.down + 1, floor=index.floor, last=index.entries())
        if how is Sending.NOT:
            return f"{name} passes entry {at[0]}", with_edge(state, child, edge)
        path = self._path(NAMES[parent], passing, how)
        mark = Mark(name, NAMES[parent], ((edge.sent, at),))
        here = state.rows[child]
        fallen = Entry(here != entry.after, here, entry.after, path, mark)
        state = with_edge(state, child, edge._replace(sent=at))
        return f"{name} {how.value}: {image(1, entry.after)}", self._logged(state, child, entry.after, fallen)

    def _path(self, arbiter: str, row: Passing, how: Sending) -> Path:
        return path_of(arbiter, row, how)

    def _logged(self, state: State, site: int, row: Row | None, entry: Entry) -> State:
        logs = put(state.logs, site, (*state.logs[site], entry))
        return state._replace(rows=put(state.rows, site, row), logs=logs)


def with_edge(state: State, child: int, edge: Edge) -> State:
    return state._replace(edges=put(state.edges, child - 1, edge))


class _FirstSitesSeen(TreeWorld):
    def _seen(self, prefix: SeenPrefix, entry: Entry) -> Place:
        return entry.seen if entry.mark is not None else prefix.seen


class _EchoKeepsPath(TreeWorld):
    def _path(self, arbiter: str, row: Passing, how: Sending) -> Path:
        return (*row.path, arbiter)


class _MarksOfTheChild(TreeWorld):
    def _climb(self, state: State, child: int, parent: int, edge: Edge) -> Step:
        """All marks count, those of the feeds from the sites below too."""
        entry = state.logs[child][edge.up]
        if entry.mark is not None:
            taken = msgspec.structs.replace(entry.mark, feed=self._feed_down(child, parent), log=NAMES[parent])
            log = state.logs[child]
            log = put(log, edge.up, entry._replace(mark=taken))
            word, after = super()._climb(state._replace(logs=put(state.logs, child, log)), child, parent, edge)
            return word, after._replace(logs=put(after.logs, child, state.logs[child]))
        return super()._climb(state, child, parent, edge)


CHAIN, STAR, FOUR, MIXED = (0, 1), (0, 0), (0, 1, 2), (0, 1, 0)


def _rule(history: str, broken: str, world: type[TreeWorld]) -> Rule:
    return Rule(history, broken, lambda: world(Scope(CHAIN, deletes=False)))


TREE_RULES = {
    "forwarder": _rule("5", "a forwarded change has the `seen` of who made it", _FirstSitesSeen),
    "fresh-path": _rule("24a", "an echo keeps the path of the change", _EchoKeepsPath),
    "right-feed": _rule("B6", "marks of the feeds from below count too", _MarksOfTheChild),
}


def sound(name: str, full: Scope, writes: int = 0) -> Sound:
    """`writes`: of the small scope; 0: there is none."""
    less = msgspec.structs.replace(full, writes=writes)
    return Sound(name, lambda: TreeWorld(full), (lambda: TreeWorld(less)) if writes else None)


TREE_SCOPES = [
    sound("tree, pair", Scope((0,), 5), 3),
    sound("tree, chain", Scope(CHAIN, 4), 2),
    sound("tree, star", Scope(STAR, 4), 2),
    sound("tree, chain of four", Scope(FOUR, 3, deletes=False), 2),
    sound("tree, chain and a leaf", Scope(MIXED, 3, deletes=False), 2),
]
