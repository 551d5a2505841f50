"""`tidelock pair remove`: takes a site out with all that its feeds have left at both ends: one that ends the tree, or
one of a ring or mesh whose other sites still reach each other.

What it has written must have gone on first, so its feeds run until they have caught up; nobody writes there any more.
Then slot, publication and bookkeeping of these feeds go, and the names by which the servers know each other.  In a mesh
each change of the other sites comes to all of them by their own feeds too, so nothing is waited for there.
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
    """Other sites would be cut off from each other."""


def edges_of(pair: Pair, site: str) -> list[Edge]:
    """Returns the edges of a site without which the others still reach each other.  Raises NotAtTheEnd."""
    tree = pair.tree
    if site not in tree.sites:
        raise NotAtTheEnd(f"{pair.path}: {site} is none of the sites {', '.join(tree.sites)}", "Name one of them")
    found = [edge for edge in tree.edges if site in edge.ends]
    if len(found) == 1:
        return found
    if not tree.circles:
        raise NotAtTheEnd(
            f"{site} ties several sites to each other", "Take the sites out first that hang on it, each at an end"
        )
    if cut := tree.without(site).cut_off():
        raise NotAtTheEnd(
            f"without {site} nothing would come from {cut[0]} to {cut[1]}",
            f"Tie them both ways in `edges`, as {cut[0]}-{cut[1]}; `tidelock pair init {pair.path} --from {tree.root} "
            "--equal --apply` opens that. Then remove again",
        )
    return found


def feeds_of(pair: Pair, edge: Edge) -> list[PairFeed]:
    """Returns the feeds of an edge, that of the way back first: what was written at the child goes before."""
    return sorted((one for one in pair.feeds if one.edge == edge), key=lambda one: not one.back)


async def removals(pair: Pair, site: str, apply: bool) -> list[tuple[str, list[PlannedStatement]]]:
    """Returns for each feed of the site what undoes it, and with `apply` does it, then forgets the names.

    Raises CannotRun while one runs; StatementFailed, SourceError, TargetError.
    """
    found = list[tuple[str, list[PlannedStatement]]]()
    for edge in edges_of(pair, site):
        found += [(one.name, await take_away(one.feed, apply)) for one in feeds_of(pair, edge)]
        if not apply:
            continue
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


