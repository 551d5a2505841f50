"""A transaction at a site with stamps: statement by statement, each of which sees what was committed before it began.

A statement names the records that it locks, and waits while another transaction has one of them.  Locks are of records:
of one that is not there none is held, though whoever has inserted it is waited for (`batch.stamp_steps` needs no more).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from tidelock.engine.model.records import Row, TableName
from tidelock.engine.protocol.steps import Step
from tidelock.simulations.layout import Token
from tidelock.simulations.model import Database
from tidelock.simulations.session import Lock, Session

Record = tuple[TableName, Token]
Records = frozenset[Record]
NONE: Records = frozenset()


class Statement(msgspec.Struct, frozen=True):
    """`locks`, `shares`: records that it locks alone, and with others.  `passed`: the time that the site's clock is to
    have passed."""

    run: Callable[[StampedSession], None]
    locks: Records = NONE
    shares: Records = NONE
    passed: int = 0


class StampedSession(Session):
    """Session at READ COMMITTED."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, watched=True)

    def refresh(self) -> None:
        """From now on it sees what others have committed."""
        for name, mine in list(self._tables.items()):
            fresh = self._tables[name] = self._database.tables[name].copy()
            for slot in [slot for table, slot in self._written if table == name]:
                fresh.drop(slot)
                if slot in mine.rows:
                    fresh.put(slot, mine.rows[slot])

    def has_written(self, name: TableName, key: Token) -> bool:
        return (name, key) in self._written

    def waits(self, statement: Statement, others: Iterable[Session]) -> bool:
        """Tells whether one of the others has a record that the statement locks."""
        alone = {_lock(record) for record in statement.locks}
        shared = {_lock(record) for record in statement.shares}
        return any(alone & (other.exclusive | other.shared) or shared & other.exclusive for other in others)

    def do(self, statement: Statement) -> None:
        """Runs the statement, and keeps its locks of records that are there."""
        self.refresh()
        statement.run(self)
        self.exclusive |= {_lock(record) for record in statement.locks if self._is_there(*record)}
        self.shared |= {_lock(record) for record in statement.shares if self._is_there(*record)}

    def _is_there(self, name: TableName, key: Token) -> bool:
        return key in self.table(name).rows

    def run(self, steps: Sequence[Step]) -> None:
        """Runs steps at once."""
        from tidelock.simulations.sites.stamp_statements import statements

        for statement in statements(self, steps):
            self.do(statement)

    def put(self, name: TableName, key: Token, row: Row) -> None:
        """Writes a row over what is there, if anything."""
        if key in self.table(name).rows:
            self.update(name, key, row)
        else:
            self.insert(name, row)


def _lock(record: Record) -> Lock:
    name, key = record
    return name, "row", key
