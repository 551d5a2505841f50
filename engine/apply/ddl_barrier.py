"""The barrier: a statement that changes the schema drains everything before it and runs alone.

| stage    | what is so                              | left by                                              |
|----------|-----------------------------------------|------------------------------------------------------|
| OPEN     | rows flow                               | a statement → DRAINING; one that passes → SEALING    |
| DRAINING | nothing is planned; all before commits  | all is committed (and below a stored checkpoint,     |
|          |                                         | where it is ALTERED) → APPLYING; or → HALTING        |
| APPLYING | the statement is at the target          | it took effect → SEALING; it is to be tried → DRAINING |
| SEALING  | it took effect, or passed               | a checkpoint behind it is stored → OPEN              |
| HALTING  | it is none that is applied by itself    | a checkpoint before it is stored: the feed halts     |

No receipt covers a statement: until a checkpoint does, a restart would apply it again, and a TRUNCATE would take rows
with it that came after it and whose receipts say that they are there.  So nothing follows before that is stored.  That
holds for a statement that passes, too: the target remembers the last one alone, which the next one takes the place of.

A statement that cannot be applied exactly halts the feed at the drained point, so the operator finds the target exactly
as before the statement; after `tidelock ddl done|skip` the same statement passes.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from tidelock.engine.model.errors import Alarm, Hindrance
from tidelock.engine.model.records import Position
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.protocol.effects import ApplyDdl, EffectId

_RETRY_US = 200_000


class Passage(enum.Enum):
    """Fate of a statement once everything before it is committed."""

    PASS = "pass"
    APPLY = "apply"
    HALT = "halt"


_APPLIED = (DdlKind.CREATE_TABLE, DdlKind.ADD_COLUMN, DdlKind.TRUNCATE, DdlKind.ALTERED, DdlKind.SHADOW)
_UNSTAMPED = (DdlKind.TRUNCATE, DdlKind.ALTERED)


def judge(ddl: Ddl, passed: tuple[str, int] | None, *, stamps: bool = False) -> Passage:
    """Say what becomes of a statement; `passed`: (source, number) of the one that the operator declared done or
    skipped.  `stamps`: rows are compared by stamps: a TRUNCATE has none, and a table with them has others beside it.

    One that has run at the target already is applied as well, which is to read its tables anew."""
    if passed == (ddl.source, ddl.number):
        return Passage.PASS
    if ddl.back:
        return Passage.APPLY
    if ddl.kind is DdlKind.UNRELATED:
        return Passage.PASS
    applied = ddl.elsewhere is None and ddl.kind in _APPLIED and not (stamps and ddl.kind in _UNSTAMPED)
    return Passage.APPLY if applied else Passage.HALT


_DONE = (
    "then `tidelock ddl done FEED`; or `tidelock ddl skip FEED` if the target needs no change; then `tidelock run FEED`"
)


def alarm(ddl: Ddl, position: str, *, stamps: bool = False, failed: int = 0) -> Alarm:
    """Tell the operator which statement is not applied by itself, and what to do about it; `stamps`: as `judge`;
    `failed`: how many rows of its tables are set aside."""
    applied = _applied(failed)
    hint = f"{applied} Change the target to match, {_DONE}"
    if ddl.elsewhere is not None:
        made, wanted = ddl.elsewhere
        told = f"a statement was made at {made}, and the statements of these sites are made at {wanted} (`ddl`)"
        hint = (
            f"{applied} Make the same change at the target, and at {wanted} where that is "
            f"another site, unless they have it; or undo it at {made}, where the feed then halts once more. "
            f"T{_DONE[1:]}"
        )
    elif ddl.databases:
        told = f"a statement drops database {', '.join(ddl.databases)}, from which the feed takes tables"
        hint = (
            f"{applied} Drop the tables of that database at the target, or empty them (rows that "
            f"stay clash with those of a database made anew), {_DONE}"
        )
    elif ddl.untold and ddl.tables:
        told = "a replicated table was changed, and what its rows hold since is not in the log"
        hint = (
            f"{applied} Change the target's table to match, `tidelock ddl done FEED`, `tidelock "
            f"run FEED`, and beside it `tidelock copy FEED --table {ddl.tables[-1]}`, which copies its rows anew"
        )
    elif stamps and ddl.kind is DdlKind.TRUNCATE:
        told = "a table was emptied in a way that leaves no tombstones, and rows are compared by stamps"
        hint = (
            f"{applied} Run DELETE FROM on the table at one of the other sites, which empties it "
            "everywhere, then `tidelock ddl skip FEED`, then `tidelock run FEED`"
        )
    elif ddl.tables:
        told = "a statement changes a replicated table in a way that is not applied by itself"
    else:
        told = "a statement cannot be read, so it may change any table, replicated ones too"
    return Alarm(
        kind="ddl",
        message=f"{told}: {ddl.statement[:500]}",
        hint=hint,
        position=position,
        table=", ".join([*(str(t) for t in ddl.tables), *(f"{name}.*" for name in ddl.databases)]),
    )


def _applied(failed: int) -> str:
    """Returns what is applied; failed rows are kept in the form that the statement takes away."""
    if not failed:
        return "Everything before it is applied."
    return (
        f"Everything before it is applied but {failed} failed row{'s' * (failed > 1)} that it may concern, kept in the "
        "form of before. End these first: `tidelock rows list FEED`, `tidelock rows retry FEED --all` or `skip`, and "
        "`tidelock run FEED`, which halts here again."
    )


class Stage(enum.Enum):
    """Stage of the statement at the barrier (the table above)."""

    OPEN = "open"
    DRAINING = "draining"
    APPLYING = "applying"
    SEALING = "sealing"
    HALTING = "halting"


NEXT: Final[Mapping[Stage, tuple[Stage, ...]]] = {
    Stage.OPEN: (Stage.DRAINING, Stage.SEALING),
    Stage.DRAINING: (Stage.APPLYING, Stage.HALTING),
    Stage.APPLYING: (Stage.DRAINING, Stage.SEALING),
    Stage.SEALING: (Stage.OPEN,),
    Stage.HALTING: (),
}


class Barrier:
    """Holds the log back for one statement at a time.

    `ddl`, `end`: the statement and the position after it; None while rows flow.
    `hindrance`: why the statement is not applied just now, though that is tried.
    """

    __slots__ = ("_applying", "_retry_at", "ddl", "end", "hindrance", "stage")

    def __init__(self) -> None:
        self.stage = Stage.OPEN
        self.ddl: Ddl | None = None
        self.end: Position | None = None
        self.hindrance: Hindrance | None = None
        self._applying: EffectId | None = None
        self._retry_at = 0

    def raise_for(self, ddl: Ddl, end: Position) -> None:
        """Let all before this statement commit, and nothing after it be planned."""
        assert self.ddl is None, "one statement at a time"
        self._enter(Stage.DRAINING)
        self.ddl, self.end = ddl, end

    def passes(self, ddl: Ddl, end: Position) -> None:
        """Let nothing after this statement be planned before a checkpoint behind it is stored: it has run, or needs
        nothing."""
        assert self.ddl is None, "one statement at a time"
        self._enter(Stage.SEALING)
        self.ddl, self.end = ddl, end

    @property
    def draining(self) -> bool:
        """Tells whether the statement waits for all before it, or for its next attempt."""
        return self.stage is Stage.DRAINING

    @property
    def reshapes(self) -> bool:
        """Tells whether rows from before the statement may not be bound to the table behind it, so that a checkpoint
        behind them is stored first: a run that begins between the statement and its seal would read them again."""
        return self.ddl is not None and self.ddl.kind is DdlKind.ALTERED

    @property
    def sealing(self) -> bool:
        """Did the statement take effect, or pass, and is the checkpoint still before it?"""
        return self.stage is Stage.SEALING

    @property
    def halting(self) -> bool:
        """Tells whether the feed is to halt once the checkpoint is at the drained point."""
        return self.stage is Stage.HALTING

    def resting(self, now: int) -> bool:
        """Was the statement refused a moment ago, so that its next attempt waits?"""
        return now < self._retry_at

    def apply(self, id_: EffectId) -> ApplyDdl:
        """Returns the effect that runs the statement."""
        assert self.ddl is not None and self.end is not None
        self._enter(Stage.APPLYING)
        self._applying = id_
        return ApplyDdl(id_, self.ddl, self.end)

    def halt(self) -> None:
        """Stop for good: the statement is none that is applied by itself."""
        self._enter(Stage.HALTING)

    def answers(self, id_: EffectId) -> bool:
        """Tells whether this is the reply to the statement that runs now."""
        return self.stage is Stage.APPLYING and self._applying == id_

    def again(self, now: int, message: str) -> None:
        """Have the statement run once more, a little later: it did not run, for no fault of its own."""
        self._enter(Stage.DRAINING)
        self.hindrance = Hindrance.after(self.hindrance, now, message)
        self._retry_at = now + _RETRY_US

    def applied(self) -> Position:
        """Note that the statement took effect; returns the position after it, which must be saved next."""
        assert self.end is not None
        self._enter(Stage.SEALING)
        self.hindrance = None
        return self.end

    def saved(self, position: Position) -> None:
        """Note that a checkpoint is stored; rows flow again if it is behind the statement."""
        if self.sealing and position == self.end:
            self._enter(Stage.OPEN)
            self.ddl = self.end = self._applying = None

    def _enter(self, stage: Stage) -> None:
        assert stage in NEXT[self.stage], f"the barrier goes from {self.stage.value} to {stage.value}"
        self.stage = stage
