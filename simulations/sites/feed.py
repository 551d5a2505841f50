"""A feed between two sites: the real capture and apply machines, over the source's log and the target's database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import msgspec

from tidelock.engine.capture.origin import Sites
from tidelock.engine.log import receipts
from tidelock.engine.model.origin import spelled
from tidelock.engine.model.records import CHECKPOINT, RECEIPT, Position
from tidelock.engine.protocol.effects import ApplyBatch, EffectId
from tidelock.simulations.copier import Copier
from tidelock.simulations.faults import Faults
from tidelock.simulations.feed import Feed
from tidelock.simulations.history import Entry, Marks
from tidelock.simulations.ledger import Ledger, Mistake
from tidelock.simulations.log import Reader
from tidelock.simulations.owner import Owner
from tidelock.simulations.plan import Plan
from tidelock.simulations.session import Session
from tidelock.simulations.sites.site import Site
from tidelock.simulations.sites.topology import Edge, Topology
from tidelock.simulations.sites.travels import Travels
from tidelock.simulations.source_log import Log, Source
from tidelock.simulations.target import Target, Work

_GROUP = 0


def sites_of(edge: Edge, topology: Topology) -> Sites:
    """Returns the edge as a feed's `sites:` tells it."""
    sister = edge.back if any(other.name == edge.back for other in topology.edges) else ""
    return Sites(edge.source, edge.target, edge.own, edge.mark, edge.drop, sister)


class SiteTarget(Target):
    """Target whose rows others write too, and which has a log.  `saved`: how many checkpoints were stored."""

    def __init__(self, feed: str, sites: Sites, site: Site, travels: Travels, ledger: Ledger, faults: Faults) -> None:
        super().__init__(site.database, ledger, faults, atomic=False, whole=True, strict=True)
        self.checkers = ()
        self.saved = 0
        self._feed, self._sites, self._site, self._travels = feed, sites, site, travels

    def _waits(self, session: Session) -> bool:
        return self._site.is_locked(session)

    def locking(self) -> list[Session]:
        """Returns the transactions that hold locks."""
        return [work.session for work in self.works if work.session is not None]

    def _commit(self, work: Work) -> None:
        effect, session = work.effect, work.session
        assert session is not None
        if effect.parked:
            raise Mistake(f"feed {self._feed} parks {effect.parked[0]}")
        added = self._site.commit(session, self._receipt(effect))
        self.state.receipts[effect.id] = effect.covered
        self._travels.brings(self._feed, receipts.decode(effect.covered), effect.origin, effect.seen, added)

    def _receipt(self, effect: ApplyBatch) -> Marks:
        """As the sinks write it."""
        origin = effect.origin or self._sites.local
        seen = "" if effect.seen is None else msgspec.json.encode(effect.seen).decode()
        id_ = effect.id
        told = origin.path[0], spelled(origin.path), spelled(origin.marks), seen
        return ((RECEIPT, (self._feed, _GROUP, id_.epoch, id_.counter, effect.covered, *told)),)

    def _advance(self, position: Position, drop: tuple[EffectId, ...]) -> None:
        super()._advance(position, drop)
        self.saved += 1
        place = msgspec.json.encode(position).decode()
        self._site.note(((CHECKPOINT, (self._feed, _GROUP, place, 0, self._sites.source)),))


class SiteReader(Reader):
    """Reader whose batches end with a transaction of which they do not have the beginning, as the adapters' do: of two
    origins in one batch, none is told of a part that is applied as it comes."""

    def _cut(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        taken = super()._cut(entries)
        if not self._last.rows:
            return taken
        return taken[: next((i for i, entry in enumerate(taken, 1) if entry.commit), len(taken))]


class SiteOwner(Owner):
    sites: Sites

    def _opened(self, log: Log, place: Position, chance: Random) -> Reader:
        return SiteReader(self._history, log, place, chance, self.sites)


class SiteFeed(Feed):
    """`until`: the place that it is to reach once nothing goes wrong any more."""

    def __init__(
        self,
        plan: Plan,
        edge: Edge,
        topology: Topology,
        source: Site,
        target: Site,
        travels: Travels,
        chance: Random,
        coverage: Counter[str],
    ) -> None:
        self.edge = edge
        self._sites = sites_of(edge, topology)
        faults = Faults(plan, chance, coverage)
        ledger = Ledger(source.history)
        at = SiteTarget(edge.name, self._sites, target, travels, ledger, faults)
        log = Source(source.history, plan.schedule, ledger, source.log)
        super().__init__(plan, chance, source.history, at, log, faults, coverage)
        at.begin_at(self.log.start)
        self._at = at

    @property
    def saved(self) -> int:
        """How many checkpoints of it were stored."""
        return self._at.saved

    @property
    def locking(self) -> list[Session]:
        """Transactions of it that hold locks at the target."""
        return self._at.locking()

    def _new_owner(self, hands: Copier, patience: int | None) -> Owner:
        owner = SiteOwner(len(self.owners) + 1, self.plan, self.history, self.faults, hands, self.log, patience)
        owner.sites = self._sites
        return owner

    def tell(self, line: str) -> None:
        super().tell(f"{self.edge.name}: {line}")
