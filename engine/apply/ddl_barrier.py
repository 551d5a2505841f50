"""The barrier: a statement that changes the schema drains everything before it and runs alone.

FLOWING ─ddl→ DRAINING(ddl) ─nothing in flight→ APPLYING(ddl) ─applied→ SEALING(ddl) ─checkpoint behind it→ FLOWING.
No receipt covers a statement: until a checkpoint does, a restart would apply it again, and a TRUNCATE would take rows
with it that came after it and whose receipts say that they are there.  A statement that cannot be applied
exactly halts the feed at the drained point, so the operator finds the target exactly as before the statement; after
`tidelock ddl done|skip` the same statement passes.
"""

from __future__ import annotations

import enum

from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Ddl, DdlKind, Position
from tidelock.engine.protocol.effects import EffectId


class Passage(enum.Enum):
    """What becomes of a statement once everything before it is committed."""

    PASS = "pass"
    APPLY = "apply"
    HALT = "halt"


_APPLIED = (DdlKind.CREATE_TABLE, DdlKind.ADD_COLUMN, DdlKind.TRUNCATE)


def judge(ddl: Ddl, passed: tuple[str, int] | None) -> Passage:
    """`passed`: (source, number) of the statement that the operator declared done or skipped."""
    if ddl.kind is DdlKind.UNRELATED or passed == (ddl.source, ddl.number):
        return Passage.PASS
    return Passage.APPLY if ddl.kind in _APPLIED else Passage.HALT


_DONE = (
    "then `tidelock ddl done FEED`; or `tidelock ddl skip FEED` if the target needs no change; then `tidelock run FEED`"
)


def alarm(ddl: Ddl, position: str) -> Alarm:
    hint = f"Everything before it is applied. Change the target to match, {_DONE}"
    if ddl.databases:
        told = f"a statement drops database {', '.join(ddl.databases)}, from which the feed takes tables"
        hint = (
            "Everything before it is applied. Drop the tables of that database at the target, or empty them (rows that "
            f"stay clash with those of a database made anew), {_DONE}"
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


class Barrier:
    """`ddl`: the statement everything waits for, and where the log stands after it; None while rows flow."""

    __slots__ = ("_applying", "ddl", "end", "sealing")

    def __init__(self) -> None:
        self.ddl: Ddl | None = None
        self.end: Position | None = None
        self.sealing = False  # applied, and the checkpoint is still before it
        self._applying: EffectId | None = None

    def raise_for(self, ddl: Ddl, end: Position) -> None:
        assert self.ddl is None, "one statement at a time"
        self.ddl, self.end = ddl, end

    @property
    def draining(self) -> bool:
        return self.ddl is not None and self._applying is None

    def apply(self, id_: EffectId) -> None:
        assert self.draining
        self._applying = id_

    def answers(self, id_: EffectId) -> bool:
        """Is this the reply to the statement that runs now?"""
        return self._applying == id_ and not self.sealing

    def again(self) -> None:
        """The statement did not run, for no fault of its own."""
        self._applying = None

    def applied(self) -> Position:
        """The statement took effect; returns the position after it, which must be saved next."""
        assert self.end is not None
        self.sealing = True
        return self.end

    def saved(self, position: Position) -> None:
        """A checkpoint is stored; rows flow again if it is behind the statement."""
        if self.sealing and position == self.end:
            self.ddl = self.end = self._applying = None
            self.sealing = False
