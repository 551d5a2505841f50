"""The target of a feed between sites: it has a log, and others write its rows too."""

from __future__ import annotations

import msgspec

from tidelock.engine.capture.origin import Sites
from tidelock.engine.log import receipts
from tidelock.engine.model.log_batch import CHECKPOINT, RECEIPT
from tidelock.engine.model.origin import spelled
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.effects import ApplyBatch, EffectId
from tidelock.simulations.faults import Faults
from tidelock.simulations.lane_work import Work
from tidelock.simulations.ledger import Ledger, Mistake
from tidelock.simulations.log_entry import Marks
from tidelock.simulations.session import Session
from tidelock.simulations.sites.intents import Intents
from tidelock.simulations.sites.site import Site
from tidelock.simulations.sites.travels import Travels
from tidelock.simulations.stored import Stored
from tidelock.simulations.target import Target

_GROUP = 0


class StoredAtSite(Stored):
    """State of such a target; each checkpoint is in its log.  `saved`: how many were stored."""

    def __init__(self, feed: str, sites: Sites, site: Site, ledger: Ledger, faults: Faults) -> None:
        super().__init__(site.database, ledger, faults)
        self.saved = 0
        self._feed, self._sites, self._site = feed, sites, site

    def advance(self, position: Position, drop: tuple[EffectId, ...]) -> None:
        super().advance(position, drop)
        self.saved += 1
        place = msgspec.json.encode(position).decode()
        self._site.note(((CHECKPOINT, (self._feed, _GROUP, place, 0, self._sites.source)),))


class SiteTarget(Target):
    """Target whose rows others write too, and which has a log.

    `exact`: rows are as the source's log says, so that no two of the feed's batches may touch the same.  `lingers`:
    chance that a batch stays open for another step."""

    exact = True
    lingers = 0.0

    def __init__(
        self, feed: str, sites: Sites, site: Site, travels: Travels | Intents, ledger: Ledger, faults: Faults
    ) -> None:
        self._checkpoints = StoredAtSite(feed, sites, site, ledger, faults)
        super().__init__(self._checkpoints, faults, atomic=False, whole=True, strict=self.exact)
        self.stored.checkers = ()
        self._feed, self._sites, self._site, self._travels = feed, sites, site, travels

    @property
    def saved(self) -> int:
        """Number of checkpoints that were stored."""
        return self._checkpoints.saved

    def _waits(self, session: Session) -> bool:
        return self._site.is_locked(session)

    def locking(self) -> list[Session]:
        """Returns the transactions that hold locks."""
        return [work.session for work in self.works if work.session is not None]

    def _try_commit(self, work: Work) -> None:
        if self.lingers and self._faults.chance.random() < self.lingers:
            return
        super()._try_commit(work)

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
