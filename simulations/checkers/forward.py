"""No older value after a newer one: the versions of each row reach the target in the order of the log."""

from __future__ import annotations

from typing import Any

from tidelock.engine.model.records import Row, TableName
from tidelock.engine.protocol.effects import MergeChunk
from tidelock.simulations.checkers.checker import Checker, Commit
from tidelock.simulations.layout import Token
from tidelock.simulations.ledger import Images, Mistake

Slot = tuple[TableName, Token]


class Forward(Checker):
    """A batch may fold versions, so all it applies counts at once."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._seen_newest: dict[Slot, float] = {}

    def merged(self, effect: MergeChunk) -> None:
        """All rows of the chunk are the newest before its merge."""
        name, progress = effect.split.table, self.ledger.progress(effect.split)
        at = progress.merged[effect.chunk]
        key = self.target.database.tables[name].layout.key
        for row in self.ledger.view.chunk(progress.split, at, effect.chunk):
            self._seen_newest[name, key(row) or row] = at - 1

    def committed(self, commit: Commit) -> None:
        newest: dict[Slot, float] = {}
        for place, images in zip(commit.applied, commit.images, strict=True):
            index = self.ledger.index[place]
            for slot in _slots(images):
                if self._seen_newest.get(slot, -1) > index:
                    raise Mistake(f"{place} is applied to {slot} after a newer version")
                newest[slot] = index
        self._seen_newest.update(newest)


def _slots(images: Images) -> list[Slot]:
    laid, before, after = images
    rows: list[Row] = [row for row in (before, after) if row is not None]
    return [(laid.spec.name, laid.key(row) or row) for row in rows]
