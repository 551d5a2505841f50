"""The edges between the sites of a pair, as its YAML spells them: `eu-us` both ways, `eu>us` one way.

They make a tree.  Where rows have stamps they may make circles: then some are a tree by which rows come to all sites,
and the others close circles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec


class TreeError(Exception):
    """The edges make no tree; `number`: the one that is wrong, None for all."""

    def __init__(self, words: str, number: int | None = None) -> None:
        super().__init__(words)
        self.number = number


class Edge(msgspec.Struct, frozen=True):
    """Two sites.  `parent`: the one nearer to the tree's root, whose rows the other begins with.  `closing`: it closes
    a circle, and both have their rows by other edges."""

    parent: str
    child: str
    two_way: bool
    closing: bool = False

    @property
    def ends(self) -> tuple[str, str]:
        """Both sites."""
        return self.parent, self.child

    @property
    def ways(self) -> tuple[tuple[str, str], ...]:
        """The ways of its feeds, each from a site to a site: away from the root first."""
        return (self.ends, (self.child, self.parent))[: self.count]

    @property
    def count(self) -> Literal[1, 2]:
        """The number of its feeds."""
        return 2 if self.two_way else 1


class Tree(msgspec.Struct, frozen=True):
    """All sites and edges.  `root`: the arbiter, or the first site.  `circles`: there may be edges that close some."""

    sites: tuple[str, ...]
    edges: tuple[Edge, ...]
    root: str
    circles: bool = False

    @classmethod
    def of(cls, sites: Sequence[str], texts: Sequence[str], root: str = "", *, circles: bool = False) -> Tree:
        """Reads the edges.  Raises TreeError."""
        root = root or sites[0]
        if root not in sites:
            raise TreeError(f"the arbiter {root} is none of the sites {', '.join(sites)}")
        read = [_edge(sites, text, number) for number, text in enumerate(texts)]
        return cls(tuple(sites), _rooted(sites, read, root, circles), root, circles)

    def rooted(self, root: str) -> Tree:
        """Returns the same edges as they hang from another site, whose rows the others are to begin with.

        Raises TreeError where an edge that goes one way alone goes towards it.
        """
        read = [(edge.parent, edge.child, edge.two_way) for edge in self.edges]
        return Tree(self.sites, _rooted(self.sites, read, root, self.circles), root, self.circles)

    def without(self, site: str) -> Tree:
        """Returns what is left when a site and its edges are taken out; it may have fallen apart."""
        left = tuple(one for one in self.sites if one != site)
        edges = tuple(edge for edge in self.edges if site not in edge.ends)
        return Tree(left, edges, self.root if self.root in left else left[0], self.circles)

    def cut_off(self) -> tuple[str, str] | None:
        """Returns a site and one to which nothing comes from it; None where each reaches all others."""
        ways = [way for edge in self.edges for way in edge.ways]
        for site in self.sites:
            reached = {site}
            while more := {target for source, target in ways if source in reached} - reached:
                reached |= more
            if missing := [other for other in self.sites if other not in reached]:
                return site, missing[0]
        return None


def _edge(sites: Sequence[str], text: str, number: int) -> tuple[str, str, bool]:
    for mark, two_way in (("-", True), (">", False)):
        places = [place for place, letter in enumerate(text) if letter == mark]
        found = [(text[:place].strip(), text[place + 1 :].strip()) for place in places]
        known = [(one, other) for one, other in found if one in sites and other in sites]
        if len(known) == 1:
            return *known[0], two_way
        if known:
            raise TreeError(f"{text!r} can be read in several ways: {known}", number)
    raise TreeError(f"{text!r} is not SITE-SITE or SITE>SITE, of {', '.join(sites)}", number)


def _rooted(
    sites: Sequence[str], read: Sequence[tuple[str, str, bool]], root: str, circles: bool
) -> tuple[Edge, ...]:
    """Returns the edges from the root outwards, those that close circles last.  Raises TreeError."""
    reached, made, left = {root}, list[Edge](), list(enumerate(read))
    while left:
        grown = next((one for one in left if _grows(one[1], reached)), None)
        number, (one, other, two_way) = grown or left[0]
        if grown is not None:
            parent, child = (one, other) if one in reached else (other, one)
            made.append(Edge(parent, child, two_way))
            reached.add(child)
        elif one in reached and other in reached and circles:
            made.append(Edge(one, other, two_way, closing=True))
        elif one in reached and other in reached:
            raise TreeError(
                f"{one} and {other} are tied already, so there is a circle: a pair is a tree, but where rows have "
                "stamps (`conflicts: {stamp: …}`)",
                number,
            )
        elif other in reached:
            raise TreeError(f"{one}>{other} goes towards {root}, with whose rows the sites begin", number)
        else:
            break
        left.remove((number, (one, other, two_way)))
    if alone := [site for site in sites if site not in reached]:
        raise TreeError(f"no edge ties {', '.join(alone)} to {root}")
    if len({frozenset(edge.ends) for edge in made}) < len(made):
        raise TreeError("two edges tie the same sites")
    return tuple(made)


def _grows(edge: tuple[str, str, bool], reached: set[str]) -> bool:
    """Does the edge bring rows to a site that has none yet?"""
    one, other, two_way = edge
    return (one in reached and other not in reached) or (two_way and other in reached and one not in reached)
