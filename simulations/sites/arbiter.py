"""The two ends of a feed with an arbiter, as sinks carry them out: a target that decides, and one that makes room.

What a batch decides and tells is done with its steps, behind locks, so that it is certain when it commits.  That there
is no row under a key is certain too: the key is locked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidelock.adapters.target.suspect_looks import Looks, looks_of
from tidelock.engine.capture.origin import Sites
from tidelock.engine.log import receipts
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import ApplyBatch, EffectId
from tidelock.engine.protocol.events import BatchCommitted, Decided
from tidelock.simulations.faults import Faults
from tidelock.simulations.lane_work import Work
from tidelock.simulations.ledger import Ledger
from tidelock.simulations.model import Violation
from tidelock.simulations.session import Session, Wrote
from tidelock.simulations.sites.deciding import Concluded, decide, holders, lock
from tidelock.simulations.sites.intents import Intents
from tidelock.simulations.sites.lock_order import LockOrder
from tidelock.simulations.sites.site import Site
from tidelock.simulations.sites.target import SiteTarget
from tidelock.simulations.sites.travels import Travels

HAS_CHILDREN: Final = "1451"
"""MySQL's number of a row that others refer to."""

_WRONG: Final = 0.3
"""Part of the scans that say wrong rows."""


class ArbitratedTarget(SiteTarget):
    """Target of a feed between a spoke and its arbiter, whichever of the two it is.  Its rows may hold other values
    than before-images say, so what is deleted for others may wait for another batch."""

    exact = False

    def __init__(
        self, feed: str, sites: Sites, site: Site, travels: Travels | Intents, ledger: Ledger, faults: Faults
    ) -> None:
        super().__init__(feed, sites, site, travels, ledger, faults)
        assert isinstance(travels, Intents), "where an arbiter decides, intents are watched"
        self.intents = travels
        self._order = LockOrder(self.database)
        self._concluded: dict[EffectId, Concluded] = {}
        self._decided: dict[EffectId, tuple[Decided, ...]] = {}  # as `tidelock_conflicts` has it

    def _code(self, error: Violation) -> str:
        return HAS_CHILDREN if error.has_children else super()._code(error)

    def _answer(self, id_: EffectId) -> BatchCommitted:
        return BatchCommitted(id_, decided=self._decided.get(id_, ()))

    def _run_steps(self, session: Session, effect: ApplyBatch) -> None:
        session.run(effect.steps)
        concluded = self._concluded[effect.id] = Concluded()
        decide(session, effect.decide, concluded, self._faults)
        for rows in effect.told:
            concluded.told.update(dict.fromkeys((rows.table, key) for key in rows.keys))
        for table, key in concluded.told:
            lock(session, table, key)

    def _suspects(self, effect: ApplyBatch) -> tuple[tuple[TableName, Row], ...]:
        """Rows in conflict, and now and then any others in their place."""
        if not effect.scan:
            return ()
        faults, session = self._faults, self.database.begin(watched=True)
        found, others = list[tuple[TableName, Row]](), list[tuple[TableName, Row]]()
        for table, looks in looks_of(effect.steps).items():
            for key, in_conflict in _looked_at(session, table, looks):
                (found if in_conflict else others).append((table.name, key))
        if faults.chance.random() < _WRONG:
            faults.seen("up: a scan says the wrong rows")
            found = [one for one in (*found, *others) if faults.chance.random() < 0.5]
        elif found:
            faults.seen("up: a scan says which rows are in conflict")
        return tuple(found)

    def _commit(self, work: Work) -> None:
        effect, session, state = work.effect, work.session, self.state
        assert session is not None
        concluded = self._concluded[effect.id]
        parked = list(effect.parked)
        if effect.decide:
            self._decided[effect.id] = tuple(concluded.decided)
            for answer in concluded.decided:
                for conflict, outcome in answer.conflicts:
                    self._faults.seen(f"decided: {conflict}: {outcome}")
            parked += [c.parked for c, answer in zip(effect.decide, concluded.decided, strict=True) if answer.parked]
        for row in parked:
            state.parked[row.source, row.number, row.ordinal] = (row, "")
        for place in effect.unparked:
            del state.parked[place]
        self.intents.parks(self._feed, parked)
        self.intents.records(concluded.lost)
        self.intents.displaces(row for _, row in session.displaced)
        verdicts = [_verdict(session, table, key) for table, key in concluded.told]
        added = self._site.commit(session, self._receipt(effect), verdicts, self._feed)
        state.receipts[effect.id] = effect.covered
        places = receipts.decode(effect.covered)
        self.intents.brings(self._feed, places, effect.origin, effect.seen, added)
        if self.intents.is_to_arbiter(self._feed):
            self._order.brings(self._feed, self.intents.entries(places))


def _looked_at(session: Session, table: Binding, looks: Looks) -> Iterator[tuple[Row, bool]]:
    """Yields each key that is looked at, and whether it is in conflict."""
    rows = session.table(table.name)
    for before in looks.befores:
        slot = session.find(rows, table, table.key_of(before))
        yield table.key_of(before), slot is None or rows.rows[slot] != before
    for key in looks.absent:
        yield key, session.find(rows, table, key) is not None
    for row in looks.wanted:
        slot = session.find(rows, table, table.key_of(row))
        yield table.key_of(row), any(rows.key(held) != slot for _, held in holders(rows, row))


def _verdict(session: Session, table: Binding, key: Row) -> Wrote:
    """The row as it stands, or its key alone where there is none."""
    rows = session.table(table.name)
    slot = session.find(rows, table, key)
    if slot is not None:
        return table.name, None, rows.rows[slot]
    return table.name, _of_key(table, key), None


def _of_key(table: Binding, key: Row) -> Row:
    values = dict(zip(table.key, key, strict=True))
    return tuple(values.get(at) for at in range(len(table.shape.columns)))


