"""Servers of sites change under the feeds: one fails over to a replica, moves with its disk, or drops its oldest files.

The log is the same, and nothing of it is lost.  A replica is another server: who reads there finds the place by the
GTID, who writes there has lost its connections, and what a site had `seen` of the server before says nothing any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Final

from msgspec.structs import replace

from tidelock.engine.model import lineage
from tidelock.simulations.accidents import lose_readers
from tidelock.simulations.sites.feed import SiteFeed
from tidelock.simulations.sites.site import Site

_LATER: Final = (0, 3, 100_000)  # seconds by which a replica began its files later
_RATE: Final = 0.01


class Servers:
    """Servers of all sites."""

    def __init__(
        self, sites: Sequence[Site], feeds: Sequence[SiteFeed], chance: Random, coverage: Counter[str]
    ) -> None:
        self._sites, self._feeds, self._chance, self._coverage = sites, feeds, chance, coverage
        self._number = 0

    def befall(self) -> Site | None:
        """Lets a server change, now and then; returns the site whose connections are lost by it."""
        if self._chance.random() >= _RATE:
            return None
        site = self._chance.choice(self._sites)
        readers = [feed for feed in self._feeds if feed.edge.source == site.name]
        ways = self._ways(site, readers)
        if not ways:
            return None
        how = self._chance.choice(ways)
        self._coverage[f"server of a site: {how}"] += 1
        self._change(site, readers, how)
        for feed in readers:
            feed.tell(f"-- the server of {site.name}: {how}")
            feed.log.moved_to(site.log)
            lose_readers(feed)
        if how == "expired":
            return None
        for feed in self._feeds:
            if feed.edge.target == site.name:
                feed.target.lose_connections()
        return site

    def _ways(self, site: Site, readers: Sequence[SiteFeed]) -> list[str]:
        """Returns how it can change: each reader must find its stored place again."""
        log, ways = site.log, ["disk"]
        places = [(feed.target.checkpoint, lineage.decode(feed.target.checkpoint.proof)) for feed in readers]
        if any(proof is None or proof.last is None or proof.last.file not in log.files for _, proof in places):
            return []
        if log.server.gtids:
            ways += ["replica", "replica"]
        if places and all(
            proof is not None and proof.server == log.server.name and log.here(place, proof).begun == proof.begun
            for place, proof in places
        ):
            ways.append("expired")
        return ways

    def _change(self, site: Site, readers: Sequence[SiteFeed], how: str) -> None:
        server = site.log.server
        if how == "expired":
            first = min((feed.target.checkpoint for feed in readers), key=lambda place: place.order).file
            site.log = site.log.at(replace(server, first=first))
            return
        self._number += 1
        later = self._chance.choice(_LATER) if how == "replica" else 0
        name = f"server {site.name} {self._number}"
        site.log = site.log.at(replace(server, name=name, shift=server.shift + later))
