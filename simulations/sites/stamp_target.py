"""The target of a feed with stamps: batches go on statement by statement, among others' transactions."""

from __future__ import annotations

from tidelock.engine.capture.origin import Sites
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.protocol.effects import ApplyPiece
from tidelock.engine.protocol.events import ApplyEvent, BatchFailed, BatchReady, TakenOver
from tidelock.engine.two_way.stamp import Stamp, must_wait
from tidelock.simulations.faults import Faults
from tidelock.simulations.lane_work import Stage, Work
from tidelock.simulations.ledger import Ledger
from tidelock.simulations.session import Session
from tidelock.simulations.sites.intents import Intents
from tidelock.simulations.sites.site import Site
from tidelock.simulations.sites.stamp_session import StampedSession, Statement
from tidelock.simulations.sites.stamp_site import StampedSite
from tidelock.simulations.sites.stamp_statements import statements
from tidelock.simulations.sites.target import SiteTarget
from tidelock.simulations.sites.travels import Travels

LONGEST_WAIT_US = 5_000_000  # as the triggers' (`adapters.schema.stamped_table`)
_GIVES_UP = 0.05


class _Running:
    """A batch amid its statements."""

    def __init__(self, session: StampedSession, left: list[Statement]) -> None:
        self.session = session
        self.left = left


class StampedTarget(SiteTarget):
    """Target whose rows have stamps.  `breaks`: chance that it pauses behind a statement."""

    exact = False
    breaks = 0.0

    def __init__(
        self, feed: str, sites: Sites, site: Site, travels: Travels | Intents, ledger: Ledger, faults: Faults
    ) -> None:
        super().__init__(feed, sites, site, travels, ledger, faults)
        assert isinstance(site, StampedSite), "rows with stamps are at sites with clocks"
        self._at = site
        self._running: dict[Work, _Running] = {}
        site.knows(self.locking)

    def locking(self) -> list[Session]:
        return [*super().locking(), *(running.session for running in self._running.values())]

    def take_over(self) -> TakenOver:
        """Roll back every batch whose statements were not all done: it comes too late."""
        self._running.clear()
        return super().take_over()

    def _drop_works(self) -> None:
        super()._drop_works()
        self._running.clear()

    def _end(self, work: Work, answer: ApplyEvent) -> None:
        self._running.pop(work, None)
        super()._end(work, answer)

    def _run(self, work: Work) -> None:
        running = self._running.get(work)
        if running is None:
            session = self._at.begin()
            running = self._running[work] = _Running(session, [*statements(session, work.effect.steps)])
        while running.left:
            statement = running.left[0]
            if self._waits_for_clock(statement):
                self._faults.seen("stamps: a change waits for the clock")
                return
            if running.session.waits(statement, self._at.others(running.session)):
                self._waited(work)
                return
            running.session.do(running.left.pop(0))
            if running.left and self._faults.chance.random() < self.breaks:
                return
        del self._running[work]
        work.session, work.stage = running.session, Stage.OPEN
        if work.effect.held:
            self.opened[work.effect.id] += 1
            work.post(BatchReady(work.effect.id))

    def _waits_for_clock(self, statement: Statement) -> bool:
        ahead = statement.passed - self._at.clock
        return must_wait(Stamp(statement.passed, ""), self._at.clock) and ahead < LONGEST_WAIT_US

    def _waited(self, work: Work) -> None:
        if self._faults.chance.random() < _GIVES_UP:
            self._faults.seen("stamps: a batch waits for a lock too long")
            self._fail(work, ErrorKind.TRANSIENT, "lock wait timeout")

    def _execute_piece(self, work: Work, piece: ApplyPiece) -> None:
        session = work.session
        assert isinstance(session, StampedSession)
        session.refresh()
        others = self._at.others(session)
        wanted = [*statements(session, piece.steps)]
        if any(session.waits(statement, others) for statement in wanted):
            if self._faults.chance.random() < _GIVES_UP:
                work.piece = None
                self.works.remove(work)
                work.post(BatchFailed(piece.id, Failure(ErrorKind.TRANSIENT, "lock wait timeout")))
            return
        super()._execute_piece(work, piece)
