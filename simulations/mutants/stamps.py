"""Stamps, tombstones and rounds: bugs that show where the later row stays (`simulations.sites.stamp_world`).

`case` names the bugs (B) and histories (two-way) of the design of two-way replication.  What triggers and sinks do is
modelled (`stamp_writer`, `stamp_statements`), so a bug of theirs is planted there.
"""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant


def _stamped(name: str, patch: str, wrong: str, case: str) -> Mutant:
    return Mutant(name, patch, wrong, case=case, worlds="stamps")


STAMPS = (
    _stamped(
        "later-time-or-what-comes",
        """
        @ stamp.stands
        - incoming > row
        + incoming.time >= row.time
        """,
        "equal times: what comes stays, whatever its site",
        "two-way 18",
    ),
    _stamped(
        "later-time-or-what-is-there",
        """
        @ stamp.stands
        - incoming > row
        + incoming.time > row.time
        """,
        "equal times: what is there stays, whatever its site",
        "two-way B20",
    ),
    _stamped(
        "greater-site-first",
        """
        @ stamp.stands
        - incoming > row
        + incoming[::-1] > row[::-1]
        """,
        "sites are compared before times",
        "two-way 18",
    ),
    _stamped(
        "what-comes-stays",
        """
        @ stamp_statements.write_greater
        - stands(Stamp(row[time], row[site]), here, None)
        + True
        """,
        "what comes is written over what is there (the source wins, on both sides)",
        "two-way 13",
    ),
    _stamped(
        "what-is-there-stays",
        """
        @ stamp_statements.write_greater
        - stands(Stamp(row[time], row[site]), here, None)
        + here is None
        """,
        "a row that is there is kept (the target wins, on both sides)",
        "two-way 14",
    ),
    _stamped(
        "equal-rows-are-not-compared",
        """
        @ stamp_statements.write_greater
        - stands(Stamp(row[time], row[site]), here, None)
        + there is None or len(row) > 3 and row[1] == there[1] or stands(Stamp(row[time], row[site]), here, None)
        """,
        "stamps are compared only where the row is another than the one that comes",
        "two-way 15",
    ),
    _stamped(
        "tombstones-stay-at-home",
        """
        @ stamp_steps
        - dead and row[time] == 0
        + dead
        """,
        "tombstones do not travel",
        "two-way 16",
    ),
    _stamped(
        "missing-rows-are-not-written",
        """
        @ stamp_statements.write_greater
        - stands(Stamp(row[time], row[site]), here, None)
        + stands(Stamp(row[time], row[site]), here, None) and not (
        +     len(row) > 3 and here is None and table.key(row) in session.table(tombstones_of(step.table.name)).rows
        + )
        """,
        "a row that was deleted here is not written, however much later it is",
        "two-way 17, 25a",
    ),
    _stamped(
        "clock-alone",
        """
        @ local_stamp
        - max(clock, floor + 1, 0 if over is None else over.time + 1)
        + max(clock, floor + 1)
        """,
        "a row gets the time of a clock that is behind what it writes over",
        "two-way 19",
    ),
    _stamped(
        "as-late-as-what-it-writes-over",
        """
        @ local_stamp
        - over.time + 1
        + over.time
        """,
        "a row gets the time of what it writes over",
        "two-way 19",
    ),
    _stamped(
        "no-floor-for-stamps",
        """
        @ local_stamp
        - floor + 1
        + 0
        """,
        "a stamp may be below a tombstone that was taken away",
        "two-way 20",
    ),
    _stamped(
        "as-late-as-the-floor",
        """
        @ local_stamp
        - floor + 1
        + floor
        """,
        "a stamp may have the time of a tombstone that was taken away",
        "two-way 20",
    ),
    _stamped(
        "floor-stays",
        """
        @ Purge._forget
        - max(site.floor, max((stamp.time for stamp in old.values()), default=0))
        + site.floor
        """,
        "tombstones go, and the floor does not rise",
        "two-way 20",
    ),
    _stamped(
        "tombstones-go-when-all-have-them",
        """
        @ Purge.__init__
        - 2 * hops(topology)
        + 1
        """,
        "tombstones go after a round, though something older may come",
        "two-way 20",
    ),
    _stamped(
        "round-without-waiting",
        """
        @ Rounds.step
        - any(place < self.ends[site] for (_, site), place in applied.items())
        + False
        """,
        "a round is over at once",
        "two-way 20",
    ),
    _stamped(
        "round-of-one-feed",
        """
        @ Rounds.step
        - any(place < self.ends[site] for (_, site), place in applied.items())
        + all(place < self.ends[site] for (_, site), place in applied.items())
        """,
        "a round is over when one feed has applied its log",
        "two-way 20",
    ),
    _stamped(
        "later-tombstones-go-too",
        """
        @ Purge._forget
        - stamp_of(session, name, key) == stamp
        + stamp_of(session, name, key) is not None
        """,
        "a tombstone that came meanwhile goes with the one that stood there",
        "two-way 20",
    ),
    _stamped(
        "tombstones-go-everywhere",
        """
        @ stamp_steps
        - return sorted(steps, key=lambda step: not holds_tombstones(step.table.name))
        + from tidelock.engine.protocol.steps import DeleteRows
        + gone = [c for c in changes if c.after is None and holds_tombstones(c.binding.name)]
        + away = [DeleteRows(c.binding, [c.binding.key_of(c.before)]) for c in gone]
        + return [*sorted(steps, key=lambda step: not holds_tombstones(step.table.name)), *away]
        """,
        "a tombstone that is taken away at one site goes at the others, a newer one too",
        "two-way 20",
    ),
    _stamped(
        "deletes-travel-too",
        """
        @ stamp_steps
        - return sorted(steps, key=lambda step: not holds_tombstones(step.table.name))
        + from tidelock.engine.protocol.steps import DeleteRows
        + gone = [c for c in changes if c.after is None and not holds_tombstones(c.binding.name)]
        + away = [DeleteRows(c.binding, [c.binding.key_of(c.before)]) for c in gone]
        + return [*away, *sorted(steps, key=lambda step: not holds_tombstones(step.table.name))]
        """,
        "a delete in the log deletes whatever is there",
        "two-way 16",
    ),
    _stamped(
        "looks-before-it-writes",
        """
        @ stamp_statements._stamped
        - bury = partial(bury_older, alive=alive, dead=dead, keys=keys)
        + bury = partial(bury_older, alive=alive, dead=dead, keys=keys)
        + if not holds_tombstones(name):
        +     known = session.table(dead).rows
        +     step.rows[:] = [
        +         row for row in step.rows
        +         if (key := session.table(name).key(row)) not in known or row[-2:] > known[key][-2:]
        +     ]
        +     bury = look
        """,
        "a row is inserted because no tombstone was there before it waited",
        "two-way 21",
    ),
    _stamped(
        "row-does-not-look",
        """
        @ stamp_statements._stamped
        - yield Statement(look, shares=tombstones)
        - yield Statement(bury, locks=rows)
        + yield Statement(look, shares=tombstones)
        """,
        "a row is written beside a later tombstone",
        "two-way 16",
    ),
    _stamped(
        "look-does-not-wait",
        """
        @ stamp_statements._stamped
        - yield Statement(look, shares=tombstones)
        + yield Statement(look)
        """,
        "a row's look does not wait for a tombstone that is not committed",
        "two-way 21",
    ),
    _stamped(
        "tombstone-leaves-the-row",
        """
        @ stamp_statements._stamped
        - yield Statement(write, locks=tombstones)
        - yield Statement(bury, locks=rows)
        + yield Statement(write, locks=tombstones)
        """,
        "a tombstone comes and the row stays",
        "two-way 16",
    ),
    _stamped(
        "stamped-before-it-waits",
        """
        @ StampedWriter._look_again
        + return
        + yield
        """,
        "an insert has the stamp that it took before it waited, below the tombstone that came meanwhile",
        "two-way 21a",
    ),
    _stamped(
        "old-view-is-believed",
        """
        @ StampedWriter._take_its_place
        + pass
        """,
        "a transaction at REPEATABLE READ of PostgreSQL goes by the tombstones of its view",
        "two-way 21a",
    ),
    _stamped(
        "time-nought-travels",
        """
        @ stamp_steps
        - dead and row[time] == 0
        + False
        """,
        "a tombstone that was there for a moment only is left at other sites",
        "two-way 21a",
    ),
    _stamped(
        "forwarders-time",
        """
        @ stamp_statements.write_greater
        - session.put(step.table.name, table.key(row), row)
        + forwarder = (max(other[time] for other in step.rows), row[site])
        + session.put(step.table.name, table.key(row), (*row[:-2], *forwarder))
        """,
        "all rows of a batch get one time, as of a commit",
        "two-way 22",
    ),
    _stamped(
        "moved-without-a-tombstone",
        """
        @ StampedWriter._move
        - yield from self._bury(name, key, over)
        + pass
        """,
        "a change of the key leaves no tombstone of the old one",
        "two-way B19",
    ),
    _stamped(
        "moved-by-its-own-stamp-alone",
        """
        @ StampedWriter._move
        - _later(over, self._dead(name, other))
        + over

        @ StampedWriter._look_again
        + return
        + yield
        """,
        "a row that comes to another key is not above that one's tombstone",
        "two-way B19",
    ),
    _stamped(
        "ring-does-not-forward-stamps",
        """
        @ SiteFilter._passes
        - sites.own or sites.target in origin.path
        + True
        """,
        "what was replicated goes no further: the third site of a ring never gets the first one's rows",
        "two-way 23",
    ),
)
