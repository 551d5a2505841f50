"""The journal: what happened to an apply machine, step by step, so that `tidelock replay` can step it again.

A file of msgpack records, each behind its 4-byte little-endian length: first the machine's `Options`, then one
`Recorded` per step, last an end with the reason.  Written unbuffered by the step, so a killed run leaves a journal that
ends at its last whole step, and lacks the end.  Rows are in it as they were in the log: only its owner can read it, and
it is to be kept as safe as the database.

A machine is stepped from its beginning, so a file holds one life of it, whole.  A run that begins moves the files of
earlier ones out of its way (`FILE.1` is the last one's); one whose file is full takes the feed over anew (`Shell`).

A worker keeps one for each table group that it owns (`path_of_group`): each has a machine of its own.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import typing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from tidelock.engine.apply.machine import Options
from tidelock.engine.model.records import read_extension
from tidelock.engine.protocol.events import ApplyEvent

log = logging.getLogger(__name__)

_EVENTS: dict[str, type] = {cls.__name__: cls for cls in typing.get_args(ApplyEvent)}
_END = "End"
ENDED = "the run ended"
_OPTIONS: Final = msgspec.msgpack.Decoder(Options)


class Recorded(msgspec.Struct, array_like=True):
    """One step.  `now`: microseconds; `events`: (type name, msgpack of the event).  The last record's only event is
    `End`, with the reason.
    """

    now: int
    events: list[tuple[str, bytes]]


_RECORDED: Final = msgspec.msgpack.Decoder(Recorded)


class Recorder(Protocol):
    """Records the steps of a machine."""

    @property
    def records(self) -> bool:
        """Tells whether steps are to be told at all."""
        ...

    @property
    def full(self) -> bool:
        """Tells whether the file has reached its limit: the feed is better taken over anew, with a new file."""
        ...

    def record(self, now: int, events: Sequence[ApplyEvent]) -> None:
        """Records one step at `now` (microseconds)."""

    def close(self) -> None:
        """Ends the record with its reason."""


class NoJournal:
    """Records nothing, and wants to be told nothing."""

    records: Final = False

    @property
    def full(self) -> bool:
        """Is never full."""
        return False

    def record(self, now: int, events: Sequence[ApplyEvent]) -> None:
        """Is not called."""
        raise AssertionError("nothing is recorded")

    def close(self) -> None:
        """Does nothing."""


class Journal:
    """A journal in a file.

    `failed` is called once with the reason where the disk does not take a record, or the file has become twice as large
    as it may; nothing is recorded from then on.
    """

    def __init__(
        self,
        path: Path | str,
        options: Options,
        failed: Callable[[str], None] = log.warning,
        most_bytes: int = 1 << 30,
        keep: int = 3,
    ) -> None:
        """Opens the file.  Raises JournalError where there can be no such file."""
        self._path = Path(path)
        self._encode = msgspec.msgpack.Encoder(enc_hook=tuple).encode  # a row image is read back as a tuple
        self._failed = failed
        self._most = most_bytes
        self._size = 0
        try:
            rotate(self._path, keep)
            self._file: int | None = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise JournalError(
                f"journal {path}: {error.strerror or error}", "Correct the feed's `journal`, or leave it out"
            ) from None
        self._write(self._encode(options))

    @property
    def records(self) -> bool:
        """Tells whether steps are written still."""
        return self._file is not None

    @property
    def full(self) -> bool:
        """Tells whether the file has reached its limit."""
        return self._file is not None and self._size >= self._most

    def record(self, now: int, events: Sequence[ApplyEvent]) -> None:
        """Writes one step at `now` (microseconds)."""
        if self._file is None:
            return
        if self._size >= 2 * self._most:
            self._end("it was full")
            self._failed(f"journal {self._path} has become too large ({self._size:,} bytes)")
            return
        self._write(self._encode(Recorded(now, [(type(e).__name__, self._encode(e)) for e in events])))

    def close(self) -> None:
        """Writes the end and closes the file."""
        if self._file is not None:
            self._end(ENDED)

    def _end(self, why: str) -> None:
        self._write(self._encode(Recorded(0, [(_END, why.encode())])))
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _write(self, body: bytes) -> None:
        assert self._file is not None
        record = memoryview(len(body).to_bytes(4, "little") + body)
        written = 0
        try:
            while written < len(record):
                written += os.write(self._file, record[written:])
        except OSError as error:
            file, self._file = self._file, None
            with contextlib.suppress(OSError):
                os.ftruncate(file, self._size)  # what is there stays whole
            os.close(file)
            self._failed(f"journal {self._path} cannot be written: {error.strerror or error}")
            return
        self._size += written


def path_of_group(path: str, group: int) -> str:
    """Returns the path of a table group's journal, at the worker that owns the group."""
    return f"{path}.group{group}"


def rotate(path: Path, keep: int) -> None:
    """Moves the file to `path.1`, that to `path.2` and so on; of older files `keep` stay.  Raises OSError."""
    if not path.exists() or not stat.S_ISREG(path.stat().st_mode):
        return
    names = [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, keep + 1))]
    names[-1].unlink(missing_ok=True)
    for older, newer in zip(reversed(names), list(reversed(names))[1:], strict=False):
        if newer.exists():
            newer.replace(older)
            older.chmod(0o600)  # an earlier version's were everybody's to read


class JournalError(Exception):
    """A file is no journal of this version, or cannot be one; `args[0]` says where."""

    def __init__(self, message: str, hint: str = "Read it with the version of Tidelock that wrote it") -> None:
        super().__init__(message)
        self.hint = hint


class JournalEnding(msgspec.Struct, frozen=True):
    """The end of a journal.  `cut`: the last record is incomplete, at byte `at`."""

    why: str
    cut: bool = False
    at: int = 0

    def __str__(self) -> str:
        if self.cut:
            return f"the journal is cut off: the record at byte {self.at:,} is not whole"
        return self.why or f"the journal has no end at byte {self.at:,}: the run was killed, or its disk was full"


def read(path: Path | str) -> Iterator[Options | tuple[int, list[ApplyEvent]] | JournalEnding]:
    """Yields the options, then each step's time and events, then how it ends.  Raises JournalError."""
    with open(path, "rb") as file:
        first = True
        while True:
            at = file.tell()
            head = file.read(4)
            body = file.read(int.from_bytes(head, "little")) if len(head) == 4 else b""
            if len(head) < 4 or len(body) < int.from_bytes(head, "little"):
                yield JournalEnding("", cut=bool(head), at=at)
                return
            try:
                if first:
                    yield _OPTIONS.decode(body)
                else:
                    step = _RECORDED.decode(body)
                    if step.events and step.events[0][0] == _END:
                        yield JournalEnding(step.events[0][1].decode(), at=at)
                        return
                    yield step.now, [_event(name, body) for name, body in step.events]
            except (msgspec.MsgspecError, KeyError, UnicodeDecodeError) as error:
                raise JournalError(f"{path}: not a journal of this version (byte {at}: {error})") from None
            first = False


def _event(name: str, body: bytes) -> ApplyEvent:
    event: ApplyEvent = msgspec.msgpack.decode(body, type=_EVENTS[name], ext_hook=read_extension)
    return event


def replay(path: Path | str) -> Iterator[str]:
    """Steps a new machine through the journal; yields the transcript, line by line, and how it ends.  Raises
    JournalError.
    """
    from tidelock.engine.replay import Replay

    steps = read(path)
    options = next(steps, None)
    if not isinstance(options, Options):
        raise JournalError(f"{path}: an empty journal")
    machine = Replay(options)
    for step in steps:
        if isinstance(step, JournalEnding):
            if step.why != ENDED:
                yield f"-- {step}"
        elif isinstance(step, tuple):
            yield from machine.step(*step)
