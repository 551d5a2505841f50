"""`tidelock pair remove`: takes a site out, that ends the tree, with all that its feeds have left at both ends.

What it has written must have gone on first, so its feeds run until they have caught up; nobody writes there any more.
Then slot, publication and bookkeeping of both feeds go, and the names by which the two servers know each other.
"""

from __future__ import annotations

from tidelock.adapters.app.planned import take_away
from tidelock.adapters.app.planned_statement import PlannedStatement
from tidelock.adapters.bookkeeping.tables import SITES, quote
from tidelock.adapters.config.edges import Edge
from tidelock.adapters.config.pair import Pair, PairFeed
from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.operator.upgrade import look
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.wiring.session import session


class NotAtTheEnd(TargetError):
    """The site has several edges, or is the last one."""


def edge_of(pair: Pair, site: str) -> Edge:
    """Returns the one edge of a site.  Raises NotAtTheEnd."""
    if site not in pair.tree.sites:
        raise NotAtTheEnd(f"{pair.path}: {site} is none of the sites {', '.join(pair.tree.sites)}", "Name one of them")
    edge = pair.tree.leaf(site)
    if edge is None:
        raise NotAtTheEnd(
            f"{site} ties several sites to each other", "Take the sites out first that hang on it, each at an end"
        )
    return edge


def feeds_of(pair: Pair, edge: Edge) -> list[PairFeed]:
    """Returns the feeds of an edge, that of the way back first: what was written at the child goes before."""
    return sorted((one for one in pair.feeds if one.edge == edge), key=lambda one: not one.back)


async def removals(pair: Pair, site: str, apply: bool) -> list[tuple[str, list[PlannedStatement]]]:
    """Returns for each feed of the site what undoes it, and with `apply` does it, then forgets the names.

    Raises CannotRun while one runs; StatementFailed, SourceError, TargetError.
    """
    edge = edge_of(pair, site)
    found = [(one.name, await take_away(one.feed, apply)) for one in feeds_of(pair, edge)]
    if apply:
        other = edge.parent if site == edge.child else edge.child
        places = _places(pair, edge)
        schema = pair.feeds[0].feed.schema
        await _forget(places[other], schema, site)
        await _forget(places[site], schema, other)
    return found


def _places(pair: Pair, edge: Edge) -> dict[str, Endpoint]:
    forward = pair.way(edge.parent, edge.child)
    assert forward is not None, "an edge has a feed away from the root"
    return {edge.parent: forward.feed.source_url, edge.child: forward.feed.target_url}


async def _forget(place: Endpoint, schema: str, site: str) -> None:
    """Forgets at one server the name of another; with the last such name its own one too."""
    async with session(place) as server:
        if SITES in (await look(server, schema)).tables:
            return
        table = f"{quote(server.dialect, schema)}.{SITES}"
        await server.execute(f"DELETE FROM {table} WHERE site = %s AND own = 0", site)
        if not await server.fetch(f"SELECT 1 FROM {table} WHERE own = 0"):
            await server.execute(f"DELETE FROM {table} WHERE own = 1")


