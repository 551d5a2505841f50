"""One world of sites by plan: local writers, feeds with the real machines, and all that goes wrong with each.

    python -m tidelock.simulations.sites.world 17         one seed, told step by step
    python -m tidelock.simulations.sites.world 0-999      many, quietly

Writers and faults first.  Then nothing goes wrong any more: every feed must bring all that it is to bring, sites that
share rows must be equal, and logs must end.  Odd seeds have arbiters: all sites write the same rows.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from random import Random

from tidelock.engine.protocol.events import GoalSet, Paused
from tidelock.simulations import accidents
from tidelock.simulations.catalogue import STOCK
from tidelock.simulations.ledger import Mistake
from tidelock.simulations.model import Table
from tidelock.simulations.plan import Plan
from tidelock.simulations.sites.feed import Arbitration, SiteFeed
from tidelock.simulations.sites.intents import Intents
from tidelock.simulations.sites.permits import Permits
from tidelock.simulations.sites.plan import Conflicts, SitesPlan, drawn
from tidelock.simulations.sites.servers import Servers
from tidelock.simulations.sites.site import Site
from tidelock.simulations.sites.sums import Sums
from tidelock.simulations.sites.topology import ARBITRATED, TOPOLOGIES, Edge
from tidelock.simulations.sites.travels import UNIT, Travels
from tidelock.simulations.sites.writer import Writing

MOST_STEPS = 6_000
PATIENCE = 40  # steps that a writer waits
MOST_ROUNDS = 8  # in which a change goes one site further
QUIET_STEPS = 12


class SitesWorld:
    """`coverage`: what the run exercised.  `transcript`: set to a list, it is filled with the run, line by line.
    `most_idle`: checkpoints that a feed may store in the quiet steps."""

    most_idle = 1

    def __init__(self, plan: SitesPlan) -> None:
        self.plan = plan
        self.chance = Random(f"sites {plan.schedule}")
        self.coverage: Counter[str] = Counter()
        self.topology = TOPOLOGIES[plan.topology]
        first = next(iter(plan.feeds.values()))
        self.sites = {name: self._site(name, first) for name in self.topology.sites}
        parents = ARBITRATED[plan.topology] if plan.conflicts is not None else {}
        self._intents = None
        if plan.conflicts is not None:
            apart = [name for name, words in plan.conflicts.policies.items() if words.groups]
            self._intents = Intents(self.topology, parents, apart)
        self._travels = Travels(self.topology)
        self._parents = parents
        self._sums = Sums() if plan.conflicts is not None and plan.conflicts.counted else None
        self.watch = self._intents or self._travels
        self.feeds = [self._feed(edge, parents) for edge in self.topology.edges]
        self._works_at = {
            name: [feed.target.works for feed in self.feeds if feed.edge.target == name] for name in self.topology.sites
        }
        self._permits = None
        if plan.permit is not None:
            self._permits = Permits(self.feeds, plan.permit, self.chance, self.coverage)
        self._servers = None
        if plan.moves:
            self._servers = Servers([*self.sites.values()], self.feeds, self.chance, self.coverage)
        writers = [site for site in self.topology.sites if self.topology.routes(site)]
        self._holders = {unit: self.chance.choice(writers) for unit in range(plan.units)}
        self._written = self._waited = 0
        self._burst_ends = plan.burst
        self.transcript: list[str] | None = None

    def _site(self, name: str, plan: Plan) -> Site:
        return Site(name, plan, logs_unchanged=name in self.plan.unchanged)

    def _feed(self, edge: Edge, parents: Mapping[str, str]) -> SiteFeed:
        return SiteFeed(
            self.plan.feeds[edge.name], edge, self.topology, self.sites[edge.source], self.sites[edge.target],
            self.watch, self.chance, self.coverage, _arbitration(self.plan.conflicts, edge, parents),
        )  # fmt: skip

    @property
    def faults(self) -> int:
        """Number of faults that struck."""
        return sum(feed.faults.count for feed in self.feeds)

    # ------------------------------------------------------------------ running

    def run(self) -> None:
        """Raises Mistake, or the AssertionError of a machine that found itself in a state it must not be in."""
        for feed in self.feeds:
            feed.transcript = self.transcript
            feed.permitted = self._permits is not None
            feed.take_over()
        for _ in range(MOST_STEPS):
            self._write()
            if self._servers is not None and (site := self._servers.befall()) is not None:
                self._lost(site)
            if self._permits is not None:
                self._permits.go_on()
            for feed in self.feeds:
                self._go_on(feed)
            if self._written >= self.plan.writes and self.chance.random() < 0.05:
                break
            if self.plan.burst and self._written >= self._burst_ends:
                self._burst_ends += self.plan.burst
                self._come_to_rest()
        self._calm_down()
        self._settle()
        self._compare()
        self._end()

    def _lost(self, site: Site) -> None:
        """A site's server is another one."""
        site.open.clear()

    def _go_on(self, feed: SiteFeed) -> None:
        if self._permits is not None and self._permits.is_stopped(feed):
            return
        if self.chance.random() < self.plan.speeds[feed.edge.name]:
            accidents.befall(feed)
            if "pauses" in feed.plan.features and self.chance.random() < 0.02:
                self._pause(feed, self.chance.random() < 0.5)
            self._turn(feed)

    def _pause(self, feed: SiteFeed, paused: bool) -> None:
        if self._permits is not None:
            self._permits.pause(feed, paused)
        else:
            feed.owner.post(Paused(paused))

    def _turn(self, feed: SiteFeed) -> None:
        feed.happen()
        self._note_locks(feed)
        if self._permits is not None:
            self._permits.turned(feed)

    def _note_locks(self, feed: SiteFeed) -> None:
        """Others at its target see what it holds."""
        target = self.sites[feed.edge.target]
        target.open = [
            work.session for works in self._works_at[target.name] for work in works if work.session is not None
        ]

    def _calm_down(self) -> None:
        for feed in self.feeds:
            feed.tell("-- no more faults")
            feed.calm = True
            feed.faults.stop()
            for owner in feed.owners:
                owner.hangs, owner.dies_at = 0, -1
            if not feed.owner.alive:
                feed.take_over()
            self._pause(feed, False)
        if self._permits is not None:
            self._permits.calm_down()

    def _come_to_rest(self) -> None:
        """Writers wait until all that they wrote is everywhere.  Then spokes are as their arbiters, which later writes
        would hide."""
        for feed in self.feeds:
            feed.calm = True
            feed.faults.stop()
        self._settle()
        self._compare_spokes()
        self.coverage["writers rest"] += 1
        for feed in self.feeds:
            feed.calm = False
            feed.faults.go_on()

    def _settle(self) -> None:
        """Every feed reaches the end of its log; what that wrote to others is read in the next round."""
        for _ in range(MOST_ROUNDS):
            rows = self._rows
            self._catch_up()
            if self._rows == rows and not self.watch.left():
                return
        raise Mistake(f"sites do not come to rest: {self.watch.left() or 'rows go round'}")

    @property
    def _rows(self) -> int:
        return sum(site.history.rows for site in self.sites.values())

    def _catch_up(self) -> None:
        for feed in self.feeds:
            feed.owner.caught_up = False
            feed.owner.post(GoalSet(feed.goal))
        for _ in range(MOST_STEPS):
            late = [feed for feed in self.feeds if not feed.owner.caught_up]
            if not late:
                return
            if self._permits is not None:
                self._permits.go_on()
            for feed in self.feeds:
                if feed in late or feed.locking or self._permits is not None:
                    self._turn(feed)
        slow = next(feed for feed in self.feeds if not feed.owner.caught_up)
        raise Mistake(f"feed {slow.edge.name} is not done {MOST_STEPS} steps after the last fault")

    # ------------------------------------------------------------------ local writers

    def _write(self) -> None:
        if self._written >= self.plan.writes or self.chance.random() >= self.plan.pace:
            return
        number = self._written + 1
        chance = Random(f"write {self.plan.seed} {number}")
        if self._is_to_wait(chance):
            return
        self._written, self._waited = number, 0
        if number not in self.plan.without:
            self._write_some(number, chance)

    def _is_to_wait(self, chance: Random) -> bool:
        """Lets other sites take units over; says whether the writer waits until one can."""
        if self._intents is not None:
            return False
        moved = [self._hand_over(chance) for _ in range(2)]
        self._waited += 1
        return self.plan.restless and False in moved and True not in moved and self._waited < PATIENCE

    def _hand_over(self, chance: Random) -> bool | None:
        """Another site takes a unit over, where the same sites see what it writes and all has come to it.  False:
        not yet; None: never."""
        unit, other = chance.randrange(self.plan.units), chance.choice(self.topology.sites)
        holder = self._holders[unit]
        if other == holder or self.topology.together(other) != self.topology.together(holder):
            return None
        way = self.topology.routes(holder)[other] if self.topology.tree else self.topology.edges
        if any(self._travels.pending[edge.name, unit] for edge in way):
            return False
        self._holders[unit] = other
        self.coverage["unit of rows handed over"] += 1
        return True

    def _write_some(self, number: int, chance: Random) -> None:
        unit = chance.randrange(self.plan.units)
        name = self._holders[unit] if self._intents is None else chance.choice(self.topology.sites)
        begins = self._sums is not None and number == 1
        if begins:
            name = next(site for site in self.topology.sites if site not in self._parents)
        free = [u for u, holder in self._holders.items() if holder == name or self._intents is not None]
        others = [u for u in free if chance.random() < 0.4]
        site = self.sites[name]
        values = 8 if self.plan.conflicts is None else self.plan.conflicts.values
        units = tuple(self._holders) if begins else tuple(dict.fromkeys((unit, *others)))
        writing = Writing(site, units, number, chance, values, counted=self._sums is not None)
        session = writing.stocked() if begins else writing.make()
        if site.is_locked(session):
            self.coverage["writer waits for a lock too long"] += 1
            return
        added = site.commit(session)
        self.watch.wrote(added)
        if self._sums is not None:
            self._sums.wrote(added)
        self.coverage["written by a site's own"] += len(added)

    # ------------------------------------------------------------------ the end

    def _compare(self) -> None:
        """Sites that a unit's writes reach are equal in it, others have none of it.  Intents are accounted for."""
        if self._intents is not None:
            self._intents.finished()
            self._compare_spokes()
            return
        for unit, holder in self._holders.items():
            together = self.topology.together(holder)
            wanted = self._of(holder, unit)
            for name in self.topology.sites:
                found = self._of(name, unit)
                if found != (wanted if name in together else []):
                    raise Mistake(f"unit {unit}: {holder} has {wanted}, {name} has {found}")

    def _compare_spokes(self) -> None:
        """Each spoke is as its arbiter, but for rows that wait for an operator, as a foreign key refused them there.
        Nothing that was added is lost."""
        feeds = {feed.edge.name: feed for feed in self.feeds}
        for spoke, parent in self._parents.items():
            theirs = self.sites[parent].database.tables
            refers = any(table.spec.foreign_keys for table in theirs.values())
            waiting = feeds[f"{parent}-{spoke}"].waiting() if refers else set()
            for name, table in self.sites[spoke].database.tables.items():
                there = theirs[name].rows
                differing = {key for key in {*there, *table.rows} if there.get(key) != table.rows.get(key)}
                if wrong := [key for key in differing if (name, key[0]) not in waiting]:
                    held = [(rows.get(wrong[0]) or "none") for rows in (there, table.rows)]
                    raise Mistake(f"of row {wrong[0]} of {name}, {parent} has {held[0]} and {spoke} has {held[1]}")
                self.coverage["a row differs and waits for an operator"] += len(differing)
        if self._sums is not None:
            root = next(site for site in self.topology.sites if site not in self._parents)
            self._sums.compare(self.sites[root].database.tables[STOCK.name].rows.values())
            self.coverage["sums: something was added"] += self._sums.added

    def _of(self, site: str, unit: int) -> list[object]:
        tables = self.sites[site].database.tables.values()
        return [(table.spec.name.table, row) for table in tables for row in _of_unit(table, unit)]

    def _end(self) -> None:
        """Nothing is to do, so nothing is written but a checkpoint a feed now and then."""
        before, saved = self._rows, {feed.edge.name: feed.saved for feed in self.feeds}
        for _ in range(QUIET_STEPS):
            for feed in self.feeds:
                self._turn(feed)
        if self._rows != before:
            raise Mistake(f"{self._rows - before} rows are written after all was quiet")
        for feed in self.feeds:
            if (stored := feed.saved - saved[feed.edge.name]) > self.most_idle:
                raise Mistake(f"feed {feed.edge.name} is idle and stores {stored} checkpoints in a moment")
            self.coverage[f"brought by {self.plan.topology}"] += self.watch.brought[feed.edge.name]
        if self._intents is not None:
            self.coverage["recorded: a row that lost"] += self._intents.recorded


def _arbitration(conflicts: Conflicts | None, edge: Edge, parents: Mapping[str, str]) -> Arbitration | None:
    if conflicts is None:
        return None
    return Arbitration("up" if parents.get(edge.source) == edge.target else "down", conflicts)


def _of_unit(table: Table, unit: int) -> list[tuple[object, ...]]:
    return sorted((row for row in table.rows.values() if int(str(row[0])) // UNIT == unit), key=repr)


def main(seeds: str) -> int:
    first, _, last = seeds.partition("-")
    failed = 0
    for seed in range(int(first), int(last or first) + 1):
        world = SitesWorld(drawn(seed))
        world.transcript = None if last else []
        try:
            world.run()
        except AssertionError as error:
            failed += 1
            print(*world.transcript or (), f"python -m tidelock.simulations.sites.world {seed}: {error!r}", sep="\n")
            if not last:
                raise
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
