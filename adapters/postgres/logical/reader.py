"""Reads a PostgreSQL source's log and has chunks of decoded transactions put together.

The reader is synchronous and meant for a process of its own.  It does not reconnect: after any SourceError the caller
starts a new one from the `last` position of the last chunk it took; what was in between is read again, nothing is lost.

*What the server is told.*  That it need keep nothing before the checkpoint that the target has stored, and never more:
what was received but not stored must be there to be read again.  The last transaction before the checkpoint is kept
too, as it is what shows, the next time, that the log is still the same (`last_read`).  The server is told
as often as `wal_sender_timeout` wants to hear of us, also while nobody takes the chunks (`tend`): a slow target would
else lose its source again and again.

*A server that shuts down* waits until we have confirmed all that it has sent, and asks for that again and again.  A
checkpoint may be a minute away, so we leave, and connect again.  While nobody takes the chunks we do not hear it ask:
so we look now and then whether it lets new sessions in.
"""

from __future__ import annotations

import contextlib
import functools
import re
import select
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.source_errors import Busy, SourceError, Unreachable, UnsuitableLog
from tidelock.adapters.ports.table_form import TableForm, in_force
from tidelock.adapters.postgres.ddl_trigger import message_prefix
from tidelock.adapters.postgres.logical.assembly import Assembly
from tidelock.adapters.postgres.logical.catalogue_session import CatalogueSession
from tidelock.adapters.postgres.logical.chunk_assembly import CHUNK_BYTES
from tidelock.adapters.postgres.logical.earlier_reader import free
from tidelock.adapters.postgres.logical.form_notices import FormNotices, Look
from tidelock.adapters.postgres.logical.history import confirm, require_slot
from tidelock.adapters.postgres.logical.last_read import SPEAK_BYTES, LastRead, kept_from
from tidelock.adapters.postgres.logical.overview import suitable, tables
from tidelock.adapters.postgres.logical.positions import Identity, lsn_of, record_end
from tidelock.adapters.postgres.logical.published_places import placed
from tidelock.adapters.postgres.logical.relation_catalogue import read_relation
from tidelock.adapters.postgres.logical.relation_changes import Form
from tidelock.adapters.postgres.logical.relations import Relations
from tidelock.adapters.postgres.logical.session import Session, connect, session
from tidelock.adapters.postgres.logical.slots import find_slot, require_publication, slot_of
from tidelock.adapters.postgres.logical.stream import DATA, KEEPALIVE, Keepalive, Stream
from tidelock.adapters.postgres.logical.table_forms import former, is_there, read_forms
from tidelock.adapters.postgres.silent_partitions import require_told_partitions
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.log_batch import SourceChunk
from tidelock.engine.model.records import Position, TableName

NAME: Final = "tidelock capture"
_LONGEST_SILENCE_OF_OURS: Final = 10.0
_TOLD_PER_TIMEOUT: Final = 4
_FAREWELLS: Final = 5  # questions on end, with nothing new: the server shuts down
_FAREWELL_SECONDS: Final = 1.0
_GATHER_SECONDS: Final = 0.002  # between two chunks that are handed out before they are full
_LOOK_SECONDS: Final = 5.0
FORMS_SECONDS: Final = 30.0
"""So often the catalogue is asked whether a table was changed of which no row tells."""
_PUBLISHED: Final = "SELECT schemaname::text, tablename::text FROM pg_publication_tables WHERE pubname = $1"
_UNITS: Final = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class Errand(Protocol):
    """Something else that is waited for while the log says nothing: ready to be read, `run` is called."""

    def fileno(self) -> int: ...

    def run(self) -> None: ...


class LogicalReader:
    """`patterns`: of the feed's tables, all of which the publication must have.  `stored`: the checkpoint that the
    target is known to have; None: nothing is confirmed until `note_stored`.  `further`: places that the log must hold
    besides `start` (`engine.protocol.effects.RequestResend`).  `reader_name`: as `CaptureOrder` has it.  `forms`: all
    that are kept of the tables (`adapters.ports.table_form`); those that the reader learns are in `notices` with the
    first step that needs them.  `images`: rows may be row images (`row_layout`).
    `commands`: the feed's event triggers are listened to, where there are any.
    """

    def __init__(
        self,
        place: Endpoint,
        *,
        patterns: Sequence[str],
        wanted: Callable[[TableName], bool],
        is_marker: Callable[[TableName], bool],
        start: Position,
        stored: Position | None = None,
        chunk_rows: int = 500,
        chunk_bytes: int = CHUNK_BYTES,
        heartbeat_seconds: float = 1.0,
        further: Sequence[Position] = (),
        reader_name: str = "",
        forms: Sequence[TableForm] = (),
        images: bool = False,
        commands: bool = True,
    ) -> None:
        self.ready: list[SourceChunk] = []
        self.notices: FormNotices | None = None
        self._place = place
        self._patterns = patterns
        self._wanted = wanted
        self._is_marker = is_marker
        self._start = start
        self._stored = kept_from(stored) if stored is not None else 0
        self._chunk_rows = chunk_rows
        self._chunk_bytes = chunk_bytes
        self._heartbeat = heartbeat_seconds
        self._further = further
        self._name = reader_name
        self._forms = forms
        self._images = images
        self._commands = commands
        self._session: Session | None = None
        self._stream: Stream | None = None
        self._period = _LONGEST_SILENCE_OF_OURS
        self._told_at = self._asked_at = self._heard_at = self._looked_at = time.monotonic()
        self._spoke = start.offset  # the end of the log when we wrote into it
        self._passed: Position | None = None  # the place behind which notices stand, when we did
        self._catalogue = CatalogueSession(place)
        self._questions: list[tuple[int, float]] = []

    # ------------------------------------------------------------------ reading

    def chunks(self) -> Iterator[SourceChunk]:
        """Chunks for ever, in log order.  Raises SourceError."""
        with contextlib.closing(self.steps()) as steps:
            for _ in steps:
                yield from self.ready
                self.ready.clear()

    def steps(self, errand: Errand | None = None) -> Generator[None, None, None]:
        """Reads for ever; at each step there are chunks in `ready`, to be taken out before the next.  Raises
        SourceError, and what the errand raises."""
        try:
            yield from self._steps(errand)
        finally:
            self.close()

    def close(self) -> None:
        """Ends the stream; the iterator of `chunks` must not be used any more."""
        self._catalogue.close()
        opened, self._session, self._stream = self._session, None, None
        if opened is not None:
            opened.close()

    def _steps(self, errand: Errand | None) -> Iterator[None]:
        stream, assembly, again = self._begin()
        made, notices = assembly.ready, assembly.notices
        self.ready, self.notices = made, notices
        usual = assembly.usual if stream.takes_usual else None
        went_on = looked_at = flushed_at = time.monotonic()
        while True:
            if usual is not None and again is None and not notices.due:
                taken, message = stream.take(usual)
            else:
                taken, message = 0, stream.next()
            now = time.monotonic()
            if not taken and message is None:
                if assembly.holds and now - flushed_at < _GATHER_SECONDS:
                    self._gather(errand, flushed_at + _GATHER_SECONDS - now)
                    continue
                assembly.flush()
                flushed_at = now
                if made:
                    yield
                self._wait(stream, errand)
                continue
            self._heard_at = now
            if taken:
                self._questions.clear()
            if message is None:
                pass
            elif message[0] == DATA:
                payload, place = stream.data(message)
                if again is None or not again.take(payload):
                    assembly.take(payload, place)
                if again is not None and again.over:
                    again = None
                self._questions.clear()
            elif message[0] == KEEPALIVE:
                told = stream.keepalive(message)
                if again is not None:
                    again.keepalive(told.end)
                self._keepalive(told, assembly)
            else:
                raise stream.unknown(message)
            if (notices.look is not None or notices.outrun) and notices.settle():
                self._look_at_forms(assembly)
            if now - self._told_at >= self._period:
                self._tell()
            if now - went_on >= self._heartbeat:
                assembly.go_on()
                went_on = now
                if notices.look is None and now - looked_at >= FORMS_SECONDS:
                    looked_at = now
                    with contextlib.suppress(Unreachable):  # what is wrong shows in the stream
                        self._look_at_forms(assembly)
            if made:
                yield

    def _begin(self) -> tuple[Stream, Assembly, LastRead | None]:
        """Asks whose log it is, asks for it, and makes what understands it, and what compares the first of it."""
        opened = self._session = connect(self._place, replication=True, application=self._name or NAME)
        suitable(opened)
        identity = confirm(opened, self._start, self._further, slot=False)
        if self._name:
            free(opened, slot_of(self._place), self._name)
        slot = require_slot(opened, self._start)
        require_publication(opened, slot_of(self._place), tables(opened, self._patterns))
        self._period = _period(str(opened.rows("SHOW wal_sender_timeout")[0][0]))
        here = self._here(identity)
        relations = Relations(functools.partial(read_relation, self._catalogue.ask), self._former())
        assembly = Assembly(
            identity.source,
            here,
            relations,
            self._wanted,
            self._is_marker,
            self._chunk_rows,
            self._chunk_bytes,
            images=self._images,
            commands=message_prefix(slot_of(self._place)) if self._commands else "",
        )
        again = LastRead(self._place, self._start, slot.confirmed, relations)
        stream = self._stream = Stream(opened, slot_of(self._place), again.begins)
        self._look_at_forms(assembly)  # meanwhile the server begins to send
        self._told_at = self._asked_at = self._heard_at = time.monotonic()
        return stream, assembly, None if again.over else again

    def _former(self) -> dict[int, Form]:
        try:
            return former(in_force(self._forms, self._start))
        except msgspec.MsgspecError as error:
            raise UnsuitableLog(
                f"the forms of the feed's tables, as they are kept, cannot be read: {error}",
                f"A later version of Tidelock kept them: run that version, or {RESYNC}",
            ) from None

    def _look_at_forms(self, assembly: Assembly) -> None:
        """Asks the catalogue for the forms of the feed's tables, to be compared once the log is read up to now.  Raises
        SourceError."""
        ask, relations = self._catalogue.ask, assembly.relations
        told = self._commands and is_there(ask, slot_of(self._place))
        if not told:
            relations.doubt()
        published = ask(_PUBLISHED, (slot_of(self._place),))
        require_told_partitions(ask, slot_of(self._place), self._wanted)
        names = [name for schema, table in published if self._wanted(name := TableName(schema, table))]
        known = {oid: form for oid, form in relations.forms.items() if self._wanted(form.name)}
        forms = placed(ask, slot_of(self._place), read_forms(ask, names, known, told=told))
        ((end,),) = ask("SELECT pg_current_wal_insert_lsn()::text", ())
        assembly.notices.look = Look(record_end(lsn_of(end)), forms, known)
        assembly.notices.outrun = False

    def _here(self, identity: Identity) -> Position:
        """The start as a place of the timeline that the server is on now."""
        place = identity.place(self._start.offset, self._start.rows)
        return msgspec.structs.replace(place, proof=self._start.proof) if self._start.proof else place

    # ------------------------------------------------------------------ what the server is told

    def note_stored(self, position: Position) -> None:
        """Tells the server that the target has stored this checkpoint.  Raises SourceError."""
        kept = kept_from(position)
        if kept > self._stored:
            self._stored = kept
            if self._stream is not None:
                self._tell()

    def tend(self) -> None:
        """Lets the server hear of us while nobody takes the chunks; to be called every `seconds_left`.  Raises
        SourceError."""
        if self._stream is None:
            return
        now = time.monotonic()
        if now - self._told_at >= self._period:
            self._tell()
        if now - max(self._heard_at, self._looked_at) >= _LOOK_SECONDS + self._heartbeat:
            self._looked_at = now
            self._leave_if_it_refuses()

    @property
    def seconds_left(self) -> float:
        """Seconds until `tend` has something to do."""
        return min(max(0.0, self._told_at + self._period - time.monotonic()), _LOOK_SECONDS)

    def _tell(self, *, ask: bool = False) -> None:
        assert self._stream is not None, "the stream is told of while it is read"
        self._stream.tell(self._stored, ask=ask)
        self._told_at = time.monotonic()
        if ask:
            self._asked_at = self._told_at

    def _keepalive(self, keepalive: Keepalive, assembly: Assembly) -> None:
        """Each place counts: a copy's merge waits for the one where its reading ended.  How often the checkpoint of an
        idle source follows is the apply machine's to say (`Options.idle_checkpoint_us`, `.idle_checkpoint_bytes`)."""
        if keepalive.asks:
            self._leave_if_it_ends(keepalive.end, time.monotonic())
            self._tell()
        assembly.keepalive(keepalive.end, keepalive.clock_us)
        silent = not assembly.open and keepalive.end - max(assembly.last_end, self._spoke) >= SPEAK_BYTES
        if silent or (assembly.behind_notices and self._passed != assembly.place):
            self._spoke, self._passed = keepalive.end, assembly.place
            self._speak()

    def _speak(self) -> None:
        """Writes a message into the log where it has had nothing of the feed's tables for long: that is then the last
        transaction.  A server that does not let us is left with a place that nothing proves.

        So it does where notices stand at the log's end: they belong to the next transaction, and whoever waits for a
        place between two would wait for that one.
        """
        with contextlib.suppress(SourceError):
            self._catalogue.ask("SELECT pg_logical_emit_message(true, 'tidelock', '')", ())

    def _leave_if_it_ends(self, end: int, now: float) -> None:
        self._questions = [(at, when) for at, when in self._questions if at == end and now - when < _FAREWELL_SECONDS]
        self._questions.append((end, now))
        if len(self._questions) >= _FAREWELLS:
            raise self._shuts_down()

    def _leave_if_it_refuses(self) -> None:
        """Raises Unreachable where the server lets nobody in because it shuts down."""
        try:
            with session(self._place):
                pass
        except Busy as error:
            if "shutting down" in error.message:
                raise self._shuts_down() from None
        except SourceError:
            pass  # what is wrong with the stream itself shows there

    def _shuts_down(self) -> Unreachable:
        return Unreachable(f"{self._place} shuts down", "Start a new reader from the last position")

    def _gather(self, errand: Errand | None, seconds: float) -> None:
        """Lets more of the log come, so that a busy source's transactions are not handed out one by one."""
        readable, _, _ = select.select([] if errand is None else [errand], [], [], seconds)
        if errand is not None and readable:
            errand.run()

    def _wait(self, stream: Stream, errand: Errand | None) -> None:
        """Waits for more of the log, and asks the server for a sign of life when nothing has come for a while."""
        now = time.monotonic()
        quiet = now - max(self._heard_at, self._asked_at)
        if quiet >= self._heartbeat:
            self._tell(ask=True)
        if now - self._heard_at >= self._longest_silence:
            self._look_after()
        left = min(self.seconds_left, max(0.0, self._heartbeat - quiet) or self._heartbeat)
        waits: list[Stream | Errand] = [stream] if errand is None else [stream, errand]
        readable, _, _ = select.select(waits, [stream] if stream.push() else [], [], left)
        if errand is not None and errand in readable:
            errand.run()
        self.tend()

    @property
    def _longest_silence(self) -> float:
        return max(self._place.read_seconds, 4 * self._heartbeat + 10.0)

    def _look_after(self) -> None:
        """The server may be reading much that is not ours; then the slot is in use by this session.  Raises
        Unreachable."""
        assert self._session is not None
        with session(self._place) as other:
            slot = find_slot(other, slot_of(self._place))
        if slot is None or slot.active_pid != self._session.connection.backend_pid:
            raise Unreachable(
                f"{self._place} sent nothing for {self._longest_silence:.0f} s, and does not know of this session",
                "Start a new reader from the last position",
            )
        self._heard_at = time.monotonic()


def _period(timeout: str) -> float:
    """How often the server must hear of us, by its `wal_sender_timeout` (`1min`; `0`: it waits for ever)."""
    found = re.fullmatch(r"(\d+)([a-z]*)", timeout)
    seconds = int(found[1]) * _UNITS.get(found[2], 0.001) if found else 0.0
    return min(_LONGEST_SILENCE_OF_OURS, seconds / _TOLD_PER_TIMEOUT) if seconds else _LONGEST_SILENCE_OF_OURS
