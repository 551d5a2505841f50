"""Tombstones go: `tidelock tombstones` among all that goes on, as `adapters.app.tombstones` does it, by the engine's
rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tidelock.engine.model.records import TableName
from tidelock.engine.model.stamp_columns import holds_tombstones, rows_of
from tidelock.engine.two_way.places import Place
from tidelock.engine.two_way.stamp import Stamp
from tidelock.engine.two_way.tombstones import Rounds
from tidelock.simulations.layout import Token
from tidelock.simulations.sites.feed import SiteFeed
from tidelock.simulations.sites.stamp_session import NONE, Statement
from tidelock.simulations.sites.stamp_site import StampedSite, stamp_of
from tidelock.simulations.sites.stamp_statements import look
from tidelock.simulations.sites.topology import Topology

Tombstones = Mapping[tuple[TableName, Token], Stamp]
Coming = Callable[[TableName, Token], Sequence[Stamp]]


class Purge:
    """One call of the command.  `done`: tombstones are gone at every site; `purged`: how many."""

    def __init__(
        self, sites: Mapping[str, StampedSite], feeds: Sequence[SiteFeed], topology: Topology, now: int, coming: Coming
    ) -> None:
        self._sites, self._feeds, self._coming = sites, feeds, coming
        self._wanted = 2 * hops(topology)
        self._left = {name: _old(site, now) for name, site in sites.items()}
        self._rounds = Rounds(self._ends())
        self.purged = 0

    @property
    def done(self) -> bool:
        return not self._left

    def go_on(self) -> None:
        """Sees whether a round is over; behind the last, tombstones go at one site."""
        if self._rounds.finished < self._wanted:
            self._rounds.step(self._applied(), self._ends())
        elif self._left:
            name = next(iter(self._left))
            if self._forget(self._sites[name], self._left[name]):
                del self._left[name]

    def _ends(self) -> dict[str, Place]:
        return {name: site.history.last.order for name, site in self._sites.items()}

    def _applied(self) -> dict[tuple[str, str], Place]:
        return {(feed.edge.name, feed.edge.source): feed.target.checkpoint.order for feed in self._feeds}

    def _forget(self, site: StampedSite, old: Tombstones) -> bool:
        """The floor comes first.  A tombstone that is greater by now stays.  Tells whether it need not wait."""
        site.floor = max(site.floor, max((stamp.time for stamp in old.values()), default=0))
        session = site.begin()
        if session.waits(Statement(look, frozenset(old), NONE), site.others(session)):
            return False
        for (name, key), stamp in old.items():
            if stamp_of(session, name, key) == stamp:
                session.delete(name, key)
                alive = rows_of(name)
                site.versions.purged(site.name, alive, key, stamp, self._coming(alive, key))
                self.purged += 1
        site.note_purged(session)
        return True


def _old(site: StampedSite, now: int) -> Tombstones:
    """Returns the tombstones that stand at a site, but for those that are ahead of the clock."""
    found: dict[tuple[TableName, Token], Stamp] = {}
    for name, table in site.database.tables.items():
        for key in table.rows if holds_tombstones(name) else ():
            stamp = stamp_of(site.database, name, key)
            if stamp is not None and stamp.time < now:
                found[name, key] = stamp
    return found


def hops(topology: Topology) -> int:
    """Returns over how many feeds a change goes to the farthest site."""
    return max(len(way) for site in topology.sites for way in topology.routes(site).values())
