"""State of the fence model: the log of a few letters, its owners, the target, and what is on its way between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from tidelock.engine.apply.machine import Options
from tidelock.engine.log import receipts
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, RowChange, Transaction
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.protocol.effects import ApplyBatch, ApplyDdl, EffectId, SaveCheckpoint
from tidelock.engine.protocol.events import (
    ApplyEvent,
    BatchCommitted,
    BatchFailed,
    CheckpointFailed,
    CheckpointSaved,
    DdlApplied,
    DdlFailed,
)
from tidelock.engine.protocol.steps import DeleteRows, Step, UpsertRows
from tidelock.simulations import catalogue
from tidelock.simulations.explore.scopes import plain_keys
from tidelock.simulations.explore.search import Broken

OPTIONS = Options(lanes=2, batch_rows=10, checkpoint_us=0, idle_checkpoint_us=0)
REST_US = 10_000_000
TABLES = catalogue.linked(catalogue.OWNER)
NAME = catalogue.OWNER.name
SOURCE = "0-1"

Order: TypeAlias = tuple[int, int, int, bool]  # owner, node and index of the effect, is it open?
Answer: TypeAlias = tuple[int, str, EffectId]  # owner, what was done, of which effect


class Owner(msgspec.Struct, frozen=True):
    """`node`: its machine; `start`, `read`: where it began in the log, and what it has of it by now; `ticks`: how often
    time has passed for it; `resting`: something was refused and waits for that."""

    node: int
    start: int
    read: int
    ticks: int = 0
    resting: bool = False


SILENT = Owner(0, 0, 0)


class State(msgspec.Struct, frozen=True):
    """`held`: receipts by id, with the numbers they cover; `applied`: numbers of the log, in order of commit."""

    owners: tuple[Owner, ...] = ()
    orders: tuple[Order, ...] = ()
    answers: tuple[Answer, ...] = ()
    epoch: int = 0
    checkpoint: int = 0
    held: tuple[tuple[EffectId, tuple[int, ...]], ...] = ()
    rows: tuple[tuple[int, int], ...] = ()
    applied: frozenset[int] = frozenset()
    doubts: int = 1
    takeovers: int = 1
    raised: bool = False  # the epoch, by one who has not read yet


class Source:
    """The log of a sequence of letters."""

    def __init__(self, letters: str) -> None:
        self.letters = letters
        self.positions = [Position("log.000001", n) for n in range(len(letters) + 1)]
        self.rows: dict[int, int] = {}  # at the end: note by key
        self.batches = [self._batch(n, letter) for n, letter in enumerate(letters, 1)]

    def _batch(self, number: int, letter: str) -> LogBatch:
        prev, last = self.positions[number - 1], self.positions[number]
        if letter == "T":
            self.rows.clear()
            ddl = Ddl(NAME.schema, f"truncate {NAME.table}", SOURCE, number, DdlKind.TRUNCATE, (NAME,))
            return LogBatch(prev, last, ddl=ddl)
        key = KEYS[letter]
        before = (key, self.rows[key]) if key in self.rows else None
        after = (key, number)
        self.rows[key] = number
        change = RowChange(0, before, after, 0)
        return LogBatch(prev, last, (Transaction(SOURCE, number, 0),), (change,))


KEYS = dict(zip("ab", plain_keys(catalogue.OWNER, [(0, 0), (1, 1)]), strict=True))


def encoded(numbers: Sequence[int]) -> bytes:
    return receipts.encode((SOURCE, n, 0) for n in numbers)


def written(rows: dict[int, int], steps: Sequence[Step]) -> dict[int, int]:
    """`rows`, note by key, after the steps of a batch.  Raises Broken where one does not find what the log tells."""
    for step in steps:
        match step:
            case DeleteRows():
                for (key,) in step.keys:
                    if rows.pop(key, None) is None:
                        raise Broken(f"row {key} is not there to be deleted")
            case UpsertRows():
                for key, note in step.rows:
                    if step.fresh is (key in rows):
                        raise Broken(f"row {key} is {'there' if step.fresh else 'not there'} for {note}")
                    rows[key] = note
            case _:
                raise Broken(f"{step} for a plain table")
    return rows


KINDS: dict[type[object], str] = {ApplyBatch: "batch", SaveCheckpoint: "checkpoint", ApplyDdl: "statement"}
FENCED, IN_DOUBT = (Failure(trouble, trouble.value) for trouble in (ErrorKind.FENCED, ErrorKind.IN_DOUBT))
ANSWERS: dict[str, Callable[[EffectId], ApplyEvent]] = {
    "batch committed": BatchCommitted,
    "batch fenced": lambda id_: BatchFailed(id_, FENCED),
    "batch in doubt": lambda id_: BatchFailed(id_, IN_DOUBT),
    "checkpoint committed": CheckpointSaved,
    "checkpoint fenced": lambda id_: CheckpointFailed(id_, FENCED),
    "checkpoint in doubt": lambda id_: CheckpointFailed(id_, IN_DOUBT),
    "statement committed": lambda id_: DdlApplied(id_, TABLES),
    "statement fenced": lambda id_: DdlFailed(id_, FENCED),
    "statement in doubt": lambda id_: DdlFailed(id_, IN_DOUBT),
}
REFUSALS = ("batch in doubt", "checkpoint in doubt", "statement in doubt")
