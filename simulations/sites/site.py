"""A site: a database with a log of its own, which local writers and feeds write to.

A transaction's marks are the rows that it wrote into the tables of feeds: a receipt comes before all else in it, as
the sinks write it.  MySQL logs no update that changes nothing, PostgreSQL does.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from msgspec.structs import replace

from tidelock.engine.model.records import Position, RowChange
from tidelock.simulations.history import History
from tidelock.simulations.log_entry import Entry, Marks
from tidelock.simulations.plan import Plan
from tidelock.simulations.session import Session, Wrote
from tidelock.simulations.source_log import Log, Server

TRANSACTIONS_A_FILE = 6


class Growing(History):
    """History that begins empty, and whose log is read while it is written."""

    def __init__(self, plan: Plan, first_file: int) -> None:
        super().__init__(replace(plan, changes=0))
        self._first_file = first_file
        self.start = self._end = Position(f"log.{first_file:06}", 0)

    def add(
        self, source: str, wrote: Sequence[Wrote], marks: Marks, verdicts: Sequence[Wrote] = (), feed: str = ""
    ) -> list[Entry]:
        """Adds a transaction, and the verdicts that `feed` leaves in it; returns what the log has of it."""
        self.number += 1
        file = f"log.{self._first_file + self.number // TRANSACTIONS_A_FILE:06}"
        offset = self._end.offset if file == self._end.file else 0
        added: list[Entry] = []
        for ordinal, (name, before, after) in enumerate((*wrote, *verdicts)):
            left = feed if ordinal >= len(wrote) else ""
            laid = self.source.tables[name].layout
            change = RowChange(-1, before, after, ordinal)
            place = Position(file, offset, ordinal + 1)
            entry = Entry(source, self.number, place, change, laid.shape, before=before, after=after, marks=marks)
            entry.verdict = left
            added.append(entry)
        end = self.close(file, offset, 100 + 10 * len(wrote))
        added.append(Entry(source, self.number, end, commit=True, marks=marks))
        self.entries += added
        self._orders += [entry.end.order for entry in added]
        self.rows += len(wrote) + len(verdicts)
        return added


class Site:
    """`logs_unchanged`: an update that changes nothing is logged.  `open`: transactions that hold locks there."""

    def __init__(self, name: str, plan: Plan, *, logs_unchanged: bool) -> None:
        self.name = name
        chance = Random(f"{name} {plan.seed}")
        self.history = Growing(plan, chance.choice((1, 1, 999_998)))
        self.database = self.history.source
        self.logs_unchanged = logs_unchanged
        self.open: list[Session] = []
        server = Server(f"server {name}", chance.random() < 0.5, chance.random() < 0.75)
        most = 1 << 30
        self.log = Log(self.history.entries, server, same=most, filed=most)
        self.note(())  # of a log without any transaction nothing can be proved

    def is_locked(self, session: Session) -> bool:
        """Tells whether another transaction there has what this one needs."""
        return any(other is not session and session.conflicts(other) for other in self.open)

    def commit(
        self, session: Session, marks: Marks = (), verdicts: Sequence[Wrote] = (), feed: str = ""
    ) -> list[Entry]:
        """Commits; returns what the log has of the transaction, nothing where nothing was written.  `verdicts`: rows as
        they stand, which `feed` tells."""
        wrote = [one for one in session.wrote if self.logs_unchanged or one[1] != one[2]]
        session.commit()
        return self.note(marks, wrote, verdicts, feed) if wrote or marks else []

    def note(
        self, marks: Marks, wrote: Sequence[Wrote] = (), verdicts: Sequence[Wrote] = (), feed: str = ""
    ) -> list[Entry]:
        """Writes a transaction to the log."""
        added = self.history.add(self.name, wrote, marks, verdicts, feed)
        self.log.grown()
        return added
