"""A way through the lock model as a transcript: the log as `simulations.scenario` spells it, then move by move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelock.engine.log import receipts
from tidelock.engine.model.records import Row
from tidelock.engine.parallel.segments import Segment
from tidelock.engine.protocol.effects import ApplyBatch, EffectId
from tidelock.engine.replay import spell_effect
from tidelock.simulations.explore.histories import Draft, Scope
from tidelock.simulations.explore.locks import LockModel, numbers_of
from tidelock.simulations.explore.search import Move


def told(model: LockModel, way: Sequence[Move]) -> list[str]:
    """`model`: at its start.  It takes the moves, of which the last, or what comes after it, may break it."""
    lines = [*_life(model)]
    try:
        for move in way:
            for part in _parts(move):
                lines.append(" ".join(map(str, part)))
                model.take(part)
                lines += [f"  → {line}" for line in _seen(model, part)]
        model.moves()
    except AssertionError as error:
        lines.append(f"  ✗ {str(error) or repr(error)}")
    return lines


def _parts(move: Move) -> list[Move]:
    """A commit with its send is told as two."""
    return [("send", *move[1:]), ("commit", move[1])] if move[0] == "commit" and len(move) == 3 else [move]


def _life(model: LockModel) -> Iterator[str]:
    scope = model.world.scope
    for table, row in model.contents:
        yield f"at the target: {scope.specs[table].table.name.table} {_row(row)}"
    for n, draft in enumerate(model.log.drafts, 1):
        yield f"log {n}: {_change(scope, draft)}"
    yield f"lanes {len(model.lanes)}"


def _seen(model: LockModel, move: Move) -> Iterator[str]:
    match move:
        case ("plan", int(count)):
            queued = [segment for lane in model.lanes for segment in lane.queue]
            for segment in sorted(queued, key=lambda s: s.order):
                if min(numbers_of([segment])) > model.taken - count:
                    yield _planned(model, segment)
        case ("send", int(lane), _):
            changes = [change for segment in model.lanes[lane].running for change in segment.changes]
            id_ = EffectId(1, changes[0].number)
            covered = receipts.encode([(c.source, c.number, c.ordinal) for c in changes])
            yield spell_effect(ApplyBatch(id_, lane, model.world.steps(changes), covered, len(changes)))
        case ("crash",):
            yield from _life(model)


def _planned(model: LockModel, segment: Segment) -> str:
    behind = [s for lane in model.lanes for s in (*lane.running, *lane.queue) if segment.holder in s.holder.successors]
    waits = f", after {' '.join(map(str, sorted(numbers_of(behind))))}" if behind else ""
    return f"lane {segment.lane}: {' '.join(map(str, numbers_of([segment])))}{waits}"


def _change(scope: Scope, draft: Draft) -> str:
    number, before, after = draft
    table = scope.specs[number].table.name.table
    if before is None or after is None:
        return f"{'insert' if before is None else 'delete'} {table} {_row(after or before or ())}"
    return f"update {table} {_row(before)} to {_row(after)}"


def _row(row: Row) -> str:
    return " ".join("-" if value is None else str(value) for value in row)
