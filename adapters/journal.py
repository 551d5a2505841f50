"""The journal: what happened to an apply machine, step by step, so that `tidelock replay` can step it again.

A file of msgpack records, each behind its 4-byte little-endian length: first the machine's `Options`, then one
`Recorded` per step.  Written unbuffered by the step, so a killed run leaves a journal that ends at its last whole step.
Rows are in it as they were in the log: keep it as safe as the database.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from engine.apply import Options
from engine.events import ApplyEvent

_EVENTS: dict[str, type] = {cls.__name__: cls for cls in typing.get_args(ApplyEvent)}


class Recorded(msgspec.Struct, array_like=True):
    """`now`: microseconds; `events`: (type name, msgpack of the event)."""

    now: int
    events: list[tuple[str, bytes]]


class Recorder(Protocol):
    def record(self, now: int, events: Sequence[ApplyEvent]) -> None: ...

    def close(self) -> None: ...


class NoJournal:
    def record(self, now: int, events: Sequence[ApplyEvent]) -> None:
        pass

    def close(self) -> None:
        pass


class Journal:
    def __init__(self, path: Path | str, options: Options) -> None:
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115 - closed by `close`
        self._encode = msgspec.msgpack.Encoder(enc_hook=tuple).encode  # a row image is read back as a tuple
        self._write(self._encode(options))

    def record(self, now: int, events: Sequence[ApplyEvent]) -> None:
        self._write(self._encode(Recorded(now, [(type(e).__name__, self._encode(e)) for e in events])))

    def close(self) -> None:
        self._file.close()

    def _write(self, body: bytes) -> None:
        self._file.write(len(body).to_bytes(4, "little") + body)


class JournalError(Exception):
    """The file is no journal of this version; `args[0]` says where it stops making sense."""


def read(path: Path | str) -> Iterator[Options | tuple[int, list[ApplyEvent]]]:
    """The options, then each step's time and events.  A cut-off last record ends it.  Raises JournalError."""
    with open(path, "rb") as file:
        first = True
        while True:
            at = file.tell()
            head = file.read(4)
            body = file.read(int.from_bytes(head, "little")) if len(head) == 4 else b""
            if len(head) < 4 or len(body) < int.from_bytes(head, "little"):
                return
            try:
                if first:
                    yield msgspec.msgpack.decode(body, type=Options)
                else:
                    step = msgspec.msgpack.decode(body, type=Recorded)
                    yield step.now, [msgspec.msgpack.decode(e, type=_EVENTS[name]) for name, e in step.events]
            except (msgspec.MsgspecError, KeyError) as error:
                raise JournalError(f"{path}: not a journal of this version (byte {at}: {error})") from None
            first = False


def replay(path: Path | str) -> Iterator[str]:
    """Step a new machine through the journal; yields the transcript, line by line.  Raises JournalError."""
    from engine.replay import Replay

    steps = read(path)
    options = next(steps, None)
    if not isinstance(options, Options):
        raise JournalError(f"{path}: an empty journal")
    machine = Replay(options)
    for step in steps:
        assert isinstance(step, tuple)
        yield from machine.step(*step)
