"""Sites and the feeds between them, and by which way a change comes to which site.

The rule is told once more here, by itself, so that the engine's can be checked against it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

Path = tuple[str, ...]


class Edge(msgspec.Struct, frozen=True, cache_hash=True):
    """A feed: `own`, `mark` and `drop` are as a feed's `sites:` has them."""

    source: str
    target: str
    own: bool = False
    mark: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.source}-{self.target}"

    @property
    def back(self) -> str:
        """Name of the feed that goes the other way."""
        return f"{self.target}-{self.source}"

    def passes(self, path: Path, marks: tuple[str, ...]) -> bool:
        """Tells whether a change goes this way; `path`: where it was before the source, `marks`: what it carries."""
        if self.own and path:
            return False
        return self.target not in path and not {*marks} & {*self.drop}

    def marked(self, marks: tuple[str, ...]) -> tuple[str, ...]:
        """Returns the marks of a change that has come this way."""
        return tuple(dict.fromkeys((*marks, *self.mark)))


class Topology(msgspec.Struct, frozen=True, cache_hash=True):
    """`tree`: between two sites there is one way at most."""

    sites: tuple[str, ...]
    edges: tuple[Edge, ...]
    tree: bool = True

    def out_of(self, site: str) -> tuple[Edge, ...]:
        return _out_of(self, site)

    def routes(self, site: str) -> Mapping[str, tuple[Edge, ...]]:
        """Returns by which feeds the site's own changes come to each other site that they reach."""
        return _routes(self, site)

    def together(self, site: str) -> frozenset[str]:
        """Returns the site and those that its changes reach."""
        return frozenset((site, *self.routes(site)))


@functools.cache  # worlds ask again and again
def _out_of(topology: Topology, site: str) -> tuple[Edge, ...]:
    return tuple(edge for edge in topology.edges if edge.source == site)


@functools.cache
def _routes(topology: Topology, site: str) -> Mapping[str, tuple[Edge, ...]]:
    return dict(_onward(topology, site, (), (), ()))


def _onward(
    topology: Topology, at: str, path: Path, marks: tuple[str, ...], way: tuple[Edge, ...]
) -> Iterator[tuple[str, tuple[Edge, ...]]]:
    for edge in _out_of(topology, at):
        if edge.passes(path, marks):
            gone = (*way, edge)
            yield edge.target, gone
            yield from _onward(topology, edge.target, (*path, at), edge.marked(marks), gone)


def _both(one: str, other: str) -> tuple[Edge, Edge]:
    return Edge(one, other), Edge(other, one)


def _mesh(*sites: str) -> tuple[Edge, ...]:
    return tuple(Edge(a, b, own=True) for a in sites for b in sites if a != b)


ARBITRATED: Final = {
    "pair": {"b": "a"},
    "line": {"b": "a", "c": "b"},
    "star": {"a": "hub", "b": "hub", "c": "hub"},
}
"""Topologies with arbiters: the arbiter of each spoke."""

TOPOLOGIES: Final = {
    "pair": Topology(("a", "b"), _both("a", "b")),
    "chain": Topology(("a", "b", "c"), (Edge("a", "b"), Edge("b", "c"))),
    "tail": Topology(("a", "b", "c"), (*_both("a", "b"), Edge("b", "c"))),
    "inlet": Topology(("a", "b", "c"), (*_both("a", "b"), Edge("c", "b"))),
    "line": Topology(("a", "b", "c"), (*_both("a", "b"), *_both("b", "c"))),
    "star": Topology(("hub", "a", "b", "c"), (*_both("hub", "a"), *_both("hub", "b"), *_both("hub", "c"))),
    "ring": Topology(("a", "b", "c"), (Edge("a", "b"), Edge("b", "c"), Edge("c", "a")), tree=False),
    "ring of four": Topology(
        ("a", "b", "c", "d"), (Edge("a", "b"), Edge("b", "c"), Edge("c", "d"), Edge("d", "a")), tree=False
    ),
    "mesh": Topology(("a", "b", "c"), _mesh("a", "b", "c"), tree=False),
    "marked": Topology(
        ("a", "b", "c"), (Edge("a", "b", mark=("eu-only",)), Edge("b", "a"), Edge("b", "c", drop=("eu-only",)))
    ),
    "marked twice": Topology(
        ("a", "b", "c", "d"),
        (Edge("a", "b", mark=("x",)), Edge("b", "c", mark=("y",)), Edge("c", "d", drop=("x",)), Edge("c", "b")),
    ),
}
