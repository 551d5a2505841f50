"""Spans, in the sense of OpenTelemetry, of what is sent to the target: batches, and chunks of copies.

A span holds numbers, names of tables and places in the log, never a value of a row and never a server's words, which
may quote one.  Of batches at most so many a second have one; the next that has one tells how many came between.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from tidelock.engine.log.receipts import stretches
from tidelock.engine.protocol import effects, events
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.steps import DeleteRows, Step

if TYPE_CHECKING:
    from opentelemetry.trace import Status, Tracer

Values: TypeAlias = dict[str, Any]
_PREFIX: Final = "tidelock."
_ROWS: Final = msgspec.msgpack.Encoder(enc_hook=lambda _: None)


class _Sent:
    """A request that was sent and is not answered: since when, by the system's clock in nanoseconds."""

    def __init__(self, name: str, values: Values) -> None:
        self.name, self.values, self.since = name, values, time.time_ns()


class Spans:
    """The spans of one group of tables, each made when its answer has come."""

    def __init__(self, tracer: Tracer, failed: Status, group: int, per_second: int) -> None:
        """`failed`: the status of what was not committed."""
        self._tracer, self._failed, self._group, self._per_second = tracer, failed, group, per_second
        self._sent: dict[EffectId, _Sent] = {}
        self._free, self._freed = float(per_second), time.monotonic()
        self._left_out = 0

    def begin(self) -> None:
        """Notes that a machine begins: nothing is on its way."""
        self._sent.clear()

    def sent(self, effect: effects.ApplyEffect) -> None:
        """Notes that a batch, a piece of one, or a chunk was sent."""
        match effect:
            case effects.ApplyBatch():
                if self._may():
                    self._sent[effect.id] = _Sent("apply batch", self._of_batch(effect))
                    self._left_out = 0
                else:
                    self._left_out += 1
            case effects.ApplyPiece():
                self._add(effect)
            case effects.ReadChunk():
                self._sent[effect.id] = _Sent("read chunk", self._of_chunk(effect))
            case effects.MergeChunk():
                values = self._of_chunk(effect) | {"rows": effect.rows, "position": str(effect.position)}
                self._sent[effect.id] = _Sent("merge chunk", values)
            case effects.DropStaged():
                self._sent.pop(effect.staged, None)

    def answered(self, event: events.ApplyEvent) -> None:
        """Ends the span that an answer is about."""
        match event:
            case events.BatchCommitted():
                self._end(event.id, {"replaced": event.replaced} if event.replaced else {})
            case events.ChunkStaged():
                self._end(event.id, {"rows": event.rows, "position": str(event.high)})
            case events.BatchFailed():
                self._end(event.id, {"code": event.failure.code}, event.failure.kind.name)
            case events.ChunkFailed():
                self._end(event.id, {}, "not read")
            case events.BatchRolledBack():
                self._end(event.id, {}, "rolled back")

    def _may(self) -> bool:
        """Tells whether one more batch of this second has a span: a token bucket."""
        now = time.monotonic()
        self._free = min(self._free + (now - self._freed) * self._per_second, float(self._per_second))
        self._freed = now
        if self._free < 1.0:
            return False
        self._free -= 1.0
        return True

    def _of_batch(self, batch: effects.ApplyBatch) -> Values:
        values: Values = {"lane": batch.lane, "rows": batch.rows, **_of_steps(batch.steps)}
        places = [(source, number) for source, number, _, _ in stretches(batch.covered)]
        if places:
            values["first_transaction"], values["last_transaction"] = (f"{s}:{n}" for s, n in (places[0], places[-1]))
        if self._left_out:
            values["left_out"] = self._left_out
        return values

    def _add(self, piece: effects.ApplyPiece) -> None:
        if (batch := self._sent.get(piece.batch)) is None:
            return
        added = {"rows": piece.rows, "pieces": 1, **_of_steps(piece.steps)}
        for name in ("rows", "pieces", "bytes"):
            batch.values[name] = batch.values.get(name, 0) + added[name]
        batch.values["tables"] = sorted({*batch.values["tables"], *added["tables"]})

    def _of_chunk(self, effect: effects.ReadChunk | effects.MergeChunk) -> Values:
        return {"table": str(effect.split.table), "chunk": effect.chunk, "chunks": effect.split.chunks}

    def _end(self, id_: EffectId, more: Values, failed: str = "") -> None:
        if (sent := self._sent.pop(id_, None)) is None:
            return
        values = {"group": self._group, "epoch": id_.epoch, "batch": id_.counter, **sent.values, **more}
        if failed:
            values["failure"] = failed
        named = {_PREFIX + name: value for name, value in values.items()}
        span = self._tracer.start_span(sent.name, start_time=sent.since, attributes=named)
        if failed:
            span.set_status(self._failed)
        span.end(time.time_ns())


def _of_steps(steps: Sequence[Step]) -> Values:
    """Returns which tables the steps write to, and how many bytes their rows have in the form that costs least to make.
    """
    rows = [step.keys if isinstance(step, DeleteRows) else step.rows for step in steps]
    tables = {str(step.table.target.name) for step in steps}
    return {"tables": sorted(tables), "bytes": len(_ROWS.encode(rows))}
