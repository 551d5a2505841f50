"""A feed between two sites: the real capture and apply machines, over the source's log and the target's database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from tidelock.engine.batch.parked_rows import decode_change
from tidelock.engine.capture.echoes import Echoes, NamedGroups
from tidelock.engine.capture.origin import Sites
from tidelock.engine.model.conflict_options import Direction
from tidelock.engine.model.log_batch import SourceChunk
from tidelock.engine.model.records import Position, RowChange, TableName
from tidelock.engine.protocol.events import Paused
from tidelock.simulations.copier import Copier
from tidelock.simulations.faults import Faults
from tidelock.simulations.feed import Feed
from tidelock.simulations.ledger import Ledger
from tidelock.simulations.log import Reader
from tidelock.simulations.log_entry import Entry
from tidelock.simulations.owner import Owner
from tidelock.simulations.plan import Plan
from tidelock.simulations.session import Session
from tidelock.simulations.sites.arbiter import ArbitratedTarget
from tidelock.simulations.sites.intents import Intents
from tidelock.simulations.sites.plan import Conflicts
from tidelock.simulations.sites.site import Site
from tidelock.simulations.sites.target import SiteTarget
from tidelock.simulations.sites.topology import Edge, Topology
from tidelock.simulations.sites.travels import Travels
from tidelock.simulations.source_log import Log, Source


class Arbitration(msgspec.Struct, frozen=True):
    """Settings of a feed between a spoke and its arbiter: which way it goes, and how conflicts are decided."""

    direction: Direction
    conflicts: Conflicts

    def options(self) -> dict[str, Any]:
        """Settings of its apply machine."""
        words = {TableName("shop", name): words for name, words in self.conflicts.policies.items()}
        return {"direction": self.direction, "policies": words}

    def groups(self) -> dict[TableName, NamedGroups]:
        """Returns the groups of columns of the tables that have some."""
        policies = self.options()["policies"].items()
        return {name: tuple(one.columns for one in words.groups) for name, words in policies if words.groups}


def sites_of(edge: Edge, topology: Topology) -> Sites:
    """Returns the edge as a feed's `sites:` tells it."""
    sister = edge.back if any(other.name == edge.back for other in topology.edges) else ""
    return Sites(edge.source, edge.target, edge.own, edge.mark, edge.drop, sister)


class SiteReader(Reader):
    """Reader between sites.  `sister`: the feed whose verdicts it hands over.

    Its batches end with a transaction of which they do not have the beginning, as the adapters' do: of two
    origins in one batch, none is told of a part that is applied as it comes."""

    sister: str = ""

    def _cut(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        taken = super()._cut(entries)
        if not self._last.rows:
            return taken
        return taken[: next((i for i, entry in enumerate(taken, 1) if entry.commit), len(taken))]


    def _chunk(self, taken: Sequence[Entry]) -> SourceChunk:
        """With the verdicts of the sister, and the extent of a part."""
        chunk = super()._chunk(taken)
        verdicts: dict[tuple[str, int], list[RowChange]] = {}
        for entry in taken:
            if entry.verdict and entry.verdict == self.sister:
                verdicts.setdefault((entry.source, entry.number), []).append(self._row(entry, chunk.shapes))
        transactions = [
            replace(
                one,
                verdicts=tuple(verdicts.get((one.source, one.number), ())),
                ordinals=0 if one.complete else self._last.rows,
            )
            for one in chunk.transactions
        ]
        return replace(chunk, transactions=transactions)


class SiteOwner(Owner):
    """`feed`: whose owner it is."""

    feed: SiteFeed

    def _opened(self, log: Log, place: Position, chance: Random) -> Reader:
        feed = self.feed
        reader = SiteReader(self._history, log, place, chance, feed.sites, feed.echoes())
        reader.sister = feed.sites.sister
        return reader


class SiteFeed(Feed):
    """`permitted`: it has a permit, and holds until that says otherwise."""

    permitted = False

    def __init__(
        self,
        plan: Plan,
        edge: Edge,
        topology: Topology,
        source: Site,
        target: Site,
        travels: Travels | Intents,
        chance: Random,
        coverage: Counter[str],
        arbitration: Arbitration | None = None,
    ) -> None:
        self.edge = edge
        self.arbitration = arbitration
        self.sites = sites_of(edge, topology)
        if arbitration is not None and arbitration.direction == "down":
            self.sites = replace(self.sites, echo=arbitration.conflicts.echo)
        faults = Faults(plan, chance, coverage)
        ledger = Ledger(source.history)
        at = self._kind(edge.name, self.sites, target, travels, ledger, faults)
        log = Source(source.history, plan.schedule, ledger, source.log)
        super().__init__(plan, chance, source.history, at, log, faults, coverage)
        at.stored.begin_at(self.log.start)
        if arbitration is not None:
            at.lingers = arbitration.conflicts.lingers
        self._at = at

    @property
    def _kind(self) -> type[SiteTarget]:
        return SiteTarget if self.arbitration is None else ArbitratedTarget

    def _options(self) -> dict[str, Any]:
        return {} if self.arbitration is None else self.arbitration.options()

    @property
    def saved(self) -> int:
        """How many checkpoints of it were stored."""
        return self._at.saved

    def waiting(self) -> set[tuple[TableName, object]]:
        """Returns the rows at the target of which changes are parked: tables and keys."""
        found = set()
        for parked, _ in self.target.parked.values():
            change = decode_change(parked.change)
            images = (image for image in (change.before, change.after) if image is not None)
            found |= {(TableName(parked.schema, parked.table), image[0]) for image in images}
        return found

    @property
    def locking(self) -> list[Session]:
        """Transactions of it that hold locks at the target."""
        return self._at.locking()

    def take_over(self) -> None:
        super().take_over()
        if self.permitted:
            self.owner.post(Paused(True))

    def _new_owner(self, hands: Copier, patience: int | None) -> Owner:
        number = len(self.owners) + 1
        owner = SiteOwner(number, self.plan, self.history, self.faults, hands, self.log, patience, self._options())
        owner.feed = self
        return owner

    def echoes(self) -> Echoes | None:
        """Returns what a new reader sends back, of a feed from an arbiter."""
        if self.arbitration is None or self.arbitration.direction != "down":
            return None
        conflicts = self.arbitration.conflicts
        tables = self.target.database.specs.values()
        every = conflicts.echo == "all"
        groups = self.arbitration.groups()
        return Echoes(self.edge.target, tables, self.history.last, every=every, limit=conflicts.limit, groups=groups)

    def tell(self, line: str) -> None:
        super().tell(f"{self.edge.name}: {line}")
