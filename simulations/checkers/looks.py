"""With `verify: image` nothing is written over a row that somebody else has written, until a repair or a copy has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema_change import DdlKind
from tidelock.engine.protocol.effects import BeginCopy, MergeChunk
from tidelock.simulations.checkers.checker import Checker, Commit
from tidelock.simulations.layout import Token
from tidelock.simulations.ledger import Ledger, Mistake
from tidelock.simulations.log_entry import Entry

if TYPE_CHECKING:
    from tidelock.simulations.target import Target


class Looks(Checker):
    def __init__(self, ledger: Ledger, target: Target, *, atomic: bool, whole: bool) -> None:
        super().__init__(ledger, target, atomic=atomic, whole=whole)
        self._seen_foreign: dict[tuple[TableName, Token], None] = {}

    @property
    def foreign(self) -> list[tuple[TableName, Row]]:
        """The keys of rows that somebody else has written, of tables whose keys are compared as they are."""
        return list(self._seen_foreign)

    def tampered(self, name: TableName, slot: Token, row: Row | None) -> None:
        self._seen_foreign[name, slot] = None

    def merged(self, effect: MergeChunk) -> None:
        name = effect.split.table
        if effect.split.by is By.KEYS:
            layout = self.target.database.tables[name].layout
            for key in effect.gone:
                self._seen_foreign.pop((name, layout.key(key)), None)  # the key is what a row begins with
        else:
            self._forget(name)

    def copy_begun(self, effect: BeginCopy) -> None:
        for split in effect.splits:
            if split.by is not By.KEYS:
                self._forget(split.table)

    def statement(self, entry: Entry) -> None:
        assert entry.ddl is not None
        for name in entry.ddl.tables if entry.ddl.kind is DdlKind.TRUNCATE else ():
            self._forget(name)

    def committed(self, commit: Commit) -> None:
        if not self.target.image or not self._seen_foreign:
            return
        for place, (layout, *rows) in zip(commit.applied, commit.images, strict=True):
            name = self.ledger.table(place)
            for row in rows:
                if row is not None and (name, layout.key(row)) in self._seen_foreign:
                    raise Mistake(f"{place} is written over what somebody else wrote at {layout.key(row)} of {name}")

    def _forget(self, name: TableName) -> None:
        for known in [known for known in self._seen_foreign if known[0] == name]:
            del self._seen_foreign[known]
