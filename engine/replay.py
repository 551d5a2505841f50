"""A recorded run again, as text: the same events give the same effects, so a transcript needs no log of decisions.

One line an event (`time  event`), then one line an effect (`→ effect`).  `tests/scenarios` and `tidelock replay` are
both made of these lines.  Rows are spelled in full: keep a transcript as safe as the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from tidelock.engine.apply.machine import ApplyMachine, Options
from tidelock.engine.log import receipts
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Row
from tidelock.engine.protocol import effects, events, steps

_FAILED = {
    events.BatchFailed: "failed",
    events.CheckpointFailed: "checkpoint failed",
    events.DdlFailed: "ddl failed",
    events.CopyFailed: "copy failed",
}


class Replay:
    """Steps a machine and tells what it does."""

    def __init__(self, options: Options) -> None:
        self.machine = ApplyMachine(options)

    def step(self, now: int, arrived: Sequence[events.ApplyEvent]) -> list[str]:
        """Step the machine; returns the lines of the transcript."""
        return tell(now, arrived, self.machine.step(now, arrived))


def tell(now: int, arrived: Sequence[events.ApplyEvent], ordered: Sequence[effects.ApplyEffect]) -> list[str]:
    """Returns the transcript of one step: its events, then the effects they had together."""
    told = [f"{now / 1_000_000:.6f}  {line}" for event in arrived for line in spell_event(event)]
    return told + [f"  → {spell_effect(effect)}" for effect in ordered]


def spell_id(id_: effects.EffectId) -> str:
    """Spell an effect's id, as transcripts do."""
    return f"{id_.epoch}.{id_.counter}"


def spell_event(event: events.ApplyEvent) -> Iterator[str]:
    """Spell an event: one line, or one a batch of the log."""
    match event:
        case events.TakenOver():
            yield (
                f"taken over: epoch {event.epoch}, checkpoint {event.checkpoint}, {len(event.receipts)} receipts, "
                f"{len(event.parked)} parked, {len(event.tables)} tables"
            )
        case events.LogArrived():
            yield from map(_spell_log, event.batches)
        case events.BatchReady():
            yield f"ready {spell_id(event.id)}"
        case events.BatchCommitted():
            yield f"committed {spell_id(event.id)}"
        case events.BatchRolledBack():
            yield f"rolled back {spell_id(event.id)}"
        case events.CheckpointSaved():
            yield f"checkpoint saved {spell_id(event.id)}"
        case events.DdlApplied():
            yield f"ddl applied {spell_id(event.id)}"
        case events.BatchFailed() | events.CheckpointFailed() | events.DdlFailed() | events.CopyFailed():
            yield f"{_FAILED[type(event)]} {spell_id(event.id)} {event.failure.kind}: {event.failure.message}"
        case events.ChunksPlanned():
            yield f"to be copied: {', '.join(f'{s.table} in {s.chunks} chunks' for s in event.splits)}"
        case events.CopyBegun():
            yield f"copy begun {spell_id(event.id)}"
        case events.ChunkStaged():
            refused = f", {len(event.refused)} refused" if event.refused else ""
            yield f"staged {spell_id(event.id)}: {event.rows} rows{refused}, up to {event.high}"
        case events.RefusedFound():
            rows = ", ".join(f"{_spell_row(r.row)} ({r.error})" for r in event.rows)
            yield f"refused by the merge {spell_id(event.id)}: {rows or 'nothing'}"
        case events.ChunkFailed():
            yield f"not staged {spell_id(event.id)}"
        case events.ParkedWished():
            yield f"wished {', '.join(f'{r.wish} {r.source}:{r.number}:{r.ordinal}' for r in event.rows)}"
        case events.GoalSet():
            yield f"goal {event.position}"
        case events.Paused():
            yield "paused" if event.paused else "resumed"
        case events.SourceFailed():
            yield f"source failed{'' if event.retryable else ' for good'}: {event.alarm}"
        case events.Tick():
            yield "tick"
        case _:
            assert_never(event)


def spell_effect(effect: effects.ApplyEffect) -> str:
    """Spell an effect, in one line."""
    match effect:
        case effects.ApplyBatch():
            return _spell_batch(effect)
        case effects.ApplyPiece():
            return _spell_piece(effect)
        case effects.CommitBatch():
            return f"commit {spell_id(effect.id)}"
        case effects.RollbackBatch():
            return f"roll back {spell_id(effect.id)}"
        case effects.SaveCheckpoint():
            drop = f", drop {' '.join(map(spell_id, effect.drop))}" if effect.drop else ""
            return f"save checkpoint {spell_id(effect.id)} {effect.position}{drop}"
        case effects.ApplyDdl():
            return f"apply ddl {spell_id(effect.id)}: {effect.ddl.statement}"
        case effects.BeginCopy():
            tables = ", ".join(f"{split.table} in {split.chunks} chunks" for split in effect.splits)
            return f"begin copy {spell_id(effect.id)} at {effect.position}: {tables}"
        case effects.ReadChunk():
            chunk = f"chunk {effect.chunk} of {effect.split.table}"
            return f"read {chunk} {spell_id(effect.id)}, once {effect.after} is visible"
        case effects.MergeChunk():
            return _spell_merge(effect)
        case effects.FindRefused():
            return f"find what is refused {spell_id(effect.id)}: {_spell_merge(effect.merge)}"
        case effects.DropStaged():
            return f"drop staged {spell_id(effect.staged)}"
        case effects.RefuseCopy():
            return f"refuse copy: {effect.alarm}"
        case effects.RequestResend():
            return f"resend from {effect.position}"
        case effects.Halt():
            return f"halt ({effect.alarm.kind}): {effect.alarm}"
        case effects.StepDown():
            return f"step down{', take over again' if effect.again else ''}: {effect.reason}"
        case effects.CaughtUp():
            return "caught up"
        case _:
            assert_never(effect)


def _spell_log(batch: LogBatch) -> str:
    what = f"ddl {batch.ddl.statement}" if batch.ddl is not None else f"{len(batch.rows)} rows"
    return f"log {batch.prev} to {batch.last}{' resent' if batch.resent else ''}: {what}"


def _spell_batch(batch: effects.ApplyBatch) -> str:
    parts = [*(_spell_step(step) for step in batch.steps), *_spell_parked(batch)]
    covered = " ".join(f"{s}:{n}:{o}" for s, n, o in receipts.decode(batch.covered))
    held = " held" if batch.held else ""
    return f"apply {spell_id(batch.id)} lane {batch.lane}{held} [{covered}]: {'; '.join(parts) or 'nothing'}"


def _spell_piece(piece: effects.ApplyPiece) -> str:
    parts = [*(_spell_step(step) for step in piece.steps), *_spell_parked(piece)]
    if piece.covered is not None:
        parts.append(
            "receipt ["
            + " ".join(
                f"{source}:{number}:{first}" + (f"-{last}" if last > first else "")
                for source, number, first, last in receipts.stretches(piece.covered)
            )
            + "]"
        )
    return f"piece {spell_id(piece.id)} of {spell_id(piece.batch)}: {'; '.join(parts) or 'nothing'}"


def _spell_merge(merge: effects.MergeChunk) -> str:
    parts = [f"delete {_spell_rows(merge.gone)}"] if merge.gone else []
    parts.append(f"{merge.rows} staged rows of {spell_id(merge.staged)}")
    if merge.without:
        parts.append(f"without {_spell_rows(merge.without)}")
    parts += [*(_spell_step(step) for step in merge.steps), *_spell_parked(merge)]
    parts += [f"leave {key} as it is ({why})" for key, why in merge.unrepaired]
    chunk = f"chunk {merge.chunk} of {merge.split.table}"
    return f"merge {chunk} {spell_id(merge.id)} at {merge.position}: {'; '.join(parts)}"


def _spell_parked(effect: effects.ApplyBatch | effects.ApplyPiece | effects.MergeChunk) -> Iterator[str]:
    if effect.parked:
        places = (f"{p.source}:{p.number}:{p.ordinal} of {p.schema}.{p.table} ({p.error})" for p in effect.parked)
        yield f"park {', '.join(places)}"
    if not isinstance(effect, effects.ApplyPiece) and effect.unparked:
        yield f"unpark {', '.join(f'{s}:{n}:{o}' for s, n, o in effect.unparked)}"


def _spell_step(step: steps.Step) -> str:
    match step:
        case steps.DeleteRows():
            return f"delete {step.table.name} {_spell_rows(step.keys)}"
        case steps.UpsertRows():
            return f"{'insert' if step.fresh else 'upsert'} {step.table.name} {_spell_rows(step.rows)}"
        case steps.UpdateRows():
            rows = (f"{_spell_row(k)} to {_spell_row(r)}" for k, r in zip(step.keys, step.rows, strict=True))
            return f"{'move' if step.moves else 'update'} {step.table.name} {', '.join(rows)}"
        case _:
            assert_never(step)


def _spell_rows(rows: Iterable[Row]) -> str:
    return ", ".join(map(_spell_row, rows))


def _spell_row(row: Row) -> str:
    return f"({', '.join('NULL' if value is None else str(value) for value in row)})"
