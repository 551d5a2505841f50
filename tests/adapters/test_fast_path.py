"""The compiled form of usual events holds to the Python form: same chunks at the same places, same errors.

Logs are made of groups that real servers wrote (bench/micro/data), put together anew and damaged: events dropped,
doubled, moved, statements between them, bytes overwritten with and without a checksum that still fits; they arrive in
pieces of any size.
"""

from __future__ import annotations

import functools
import itertools
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.micro import decode
from bench.micro.recording import SERVERS, recorded
from tidelock.adapters.mysql.binlog import assembly as assembly_module
from tidelock.adapters.mysql.binlog import decoder as decoder_module
from tidelock.adapters.mysql.binlog import events
from tidelock.adapters.mysql.binlog.assembly import CHUNK_BYTES, QUIET_TRANSACTIONS, Assembly
from tidelock.adapters.mysql.binlog.decoder import LogDecoder
from tidelock.adapters.mysql.binlog.fast_path import LogState, UsualEvents
from tidelock.adapters.mysql.binlog.log_state import PlainLogState
from tidelock.adapters.mysql.binlog.tables import Tables
from tidelock.adapters.mysql.gtid import MariaDbGtids, MySqlGtids
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.engine.model.records import Position, TableName

KIND_AT, SIZE_AT, LOG_END_AT, BODY_AT = 9, 14, 18, 24
GROUPS_OF_A_STRETCH = 12
SMALL_GROUPS = 30
GTIDS = (events.GTID, events.MARIADB_GTID)
INSERTS = (events.WRITE_ROWS_V1, events.WRITE_ROWS)
STATEMENTS = (
    "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT a", "ROLLBACK TO a", "DROP TABLE bench.gone", "INSERT INTO x VALUES (1)",
    "XA START X'78',X'',1", "XA END X'78',X'',1", "XA COMMIT X'78',X'',1", "FLUSH TABLES",
)  # fmt: skip
KINDS = (*decoder_module._HOT, events.XA_PREPARE, events.ANONYMOUS_GTID, events.HEARTBEAT, events.ROTATE, 99)


def packets_of(raw: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(raw):
        end = at + 4 + int.from_bytes(raw[at : at + 3], "little")
        found.append(raw[at:end])
        at = end
    return found


class Recorded:
    """A server's log: what a stream of it begins with, and whole groups of many kinds of tables."""

    def __init__(self, server: str) -> None:
        stretches = recorded(server)
        self.start = stretches["account/mix"].span.start
        self.head = packets_of(stretches["account/mix"].packets)[:2]
        self.groups: list[list[bytes]] = []
        for stretch in stretches.values():
            self.groups += itertools.islice(_groups(packets_of(stretch.packets)), GROUPS_OF_A_STRETCH)
        self.groups.sort(key=lambda group: sum(map(len, group)))  # small ones are drawn more often


def _groups(packets: list[bytes]) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    for packet in packets:
        if packet[KIND_AT] in GTIDS:
            group = []
        group.append(packet)
        if packet[KIND_AT] == events.XID:
            yield group


@functools.cache
def log_of(server: str) -> Recorded:
    return Recorded(server)


def as_group(group: list[bytes], form: str, text: str) -> list[bytes]:
    """`form`: "whole" as it is, "statement" in place of its rows, "xa": said to be prepared in two phases."""
    gtid, *others = group
    flags = {"whole": 0, "statement": events.MARIADB_STANDALONE, "xa": events.MARIADB_PREPARED_XA}[form]
    if gtid[KIND_AT] == events.MARIADB_GTID:
        gtid = gtid[: BODY_AT + 12] + bytes([gtid[BODY_AT + 12] | flags]) + gtid[BODY_AT + 13 :]
    elif form == "xa":
        others[0] = statement("XA START X'78',X'',1")
    return [gtid, statement(text)] if form == "statement" else [gtid, *others]


def statement(text: str) -> bytes:
    """A QUERY event of no session in particular."""
    body = struct.pack("<IIBHH", 1, 0, 5, 0, 0) + b"bench\0" + text.encode() + bytes(4)
    event = struct.pack("<IBIIIH", 1_700_000_000, events.QUERY, 1, 19 + len(body), 0, 0) + body
    return (len(event) + 1).to_bytes(3, "little") + b"\0\0" + event


def continuous(packets: list[bytes], offset: int, gap: int | None = None) -> list[bytes]:
    """Each event begins where the one before it ended; something is left out before the one at `gap`."""
    placed = []
    for index, packet in enumerate(packets):
        offset += 100 if index == gap else 0
        offset += int.from_bytes(packet[SIZE_AT : SIZE_AT + 4], "little")
        placed.append(sealed(packet[:LOG_END_AT] + struct.pack("<I", offset) + packet[LOG_END_AT + 4 :]))
    return placed


def sealed(packet: bytes) -> bytes:
    """With the checksum that its event's bytes give."""
    return packet[:-4] + zlib.crc32(packet[5:-4]).to_bytes(4, "little")


class Reading(msgspec.Struct, frozen=True):
    """How a log is read."""

    images: bool
    role: str
    chunk_rows: int
    chunk_bytes: int
    skipped_rows: int
    unreached: bool


READINGS = st.builds(
    Reading,
    images=st.booleans(),
    role=st.sampled_from(["wanted", "wanted", "some", "marker", "unwanted"]),
    chunk_rows=st.sampled_from([1, 2, 5, 500]),
    chunk_bytes=st.sampled_from([1, 300, CHUNK_BYTES, CHUNK_BYTES]),
    skipped_rows=st.sampled_from([0, 0, 0, 1, 3]),
    unreached=st.booleans(),
)


def tables_of(reading: Reading) -> Tables:
    def some(table: TableName) -> bool:
        return sum(table.table.encode()) % 2 == 0

    wanted = {"wanted": lambda table: True, "some": some}.get(reading.role, lambda table: False)
    return Tables(wanted, lambda table: reading.role == "marker" and some(table), lambda table: {}, reading.images)


class Reader:
    """As `BinlogReader`, without a server: what came out, and after how much of the log."""

    def __init__(self, start: Position, reading: Reading, mariadb: bool) -> None:
        self.start = msgspec.structs.replace(start, rows=reading.skipped_rows)
        tables = tables_of(reading)
        gtids = MariaDbGtids("0-1-5") if mariadb else MySqlGtids()
        self.assembly = Assembly(
            tables, self.start, gtids, reading.chunk_rows, reading.chunk_bytes, settled=not reading.unreached
        )
        unreached = {0} if reading.unreached and mariadb else None
        self.decoder = LogDecoder(
            tables, self.assembly, checksums=True, by_gtid=reading.unreached, unreached=unreached
        )
        self.taken = 0
        self.seen: list[Any] = []

    def read(self, pieces: list[bytes]) -> list[Any]:
        try:
            rest = b""
            for piece in pieces:
                rest = self._piece(rest + piece)
            self.assembly.flush()
            self._drain()
        except SourceError as error:
            self.seen.append((type(error), str(error), error.position, error.hint))
        return self.seen

    def _piece(self, buffer: bytes) -> bytes:
        """Returns the part of the buffer that is not a whole packet yet."""
        at = 0
        while True:
            then = self.decoder.run(buffer, at)
            self.taken += then - at
            at = then
            self._bring()
            if self._drain():
                continue
            end = at + 4 + int.from_bytes(buffer[at : at + 3], "little")
            if len(buffer) < at + BODY_AT or len(buffer) < end:
                self.assembly.flush()
                self._drain()
                return buffer[at:]
            if buffer[at + 4]:
                raise SourceError("the server refuses", "")
            self.decoder.event(buffer, at + 5, end)
            self.taken += end - at
            at = end
            self._bring()
            self._drain()

    def _bring(self) -> None:
        """Nobody can find a transaction that was prepared elsewhere: it has no rows here."""
        if self.decoder.due:
            self.seen.append(("due", self.decoder.due[0]))
            self.decoder.settle()

    def _drain(self) -> bool:
        ready = self.assembly.ready
        self.seen += [(self.taken, chunk) for chunk in ready]
        drained = bool(ready)
        ready.clear()
        return drained


def read(form: str, start: Position, reading: Reading, mariadb: bool, pieces: list[bytes]) -> list[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder_module, "UsualEvents", UsualEvents if form == "compiled" else None)
        patch.setattr(assembly_module, "LogState", LogState if form == "compiled" else PlainLogState)
        return Reader(start, reading, mariadb).read(pieces)


PLACES = st.integers(0, 10_000)  # modulo what there is


class Damage:
    """Draws a log and its damage."""

    def __init__(self, data: st.DataObject, server: str) -> None:
        self.draw = data.draw
        self.log = log_of(server)
        place = st.integers(0, SMALL_GROUPS) | st.integers(0, len(self.log.groups) - 1)
        form = st.sampled_from(["whole"] * 6 + ["statement", "xa"])
        chosen = self.draw(st.lists(st.tuples(place, form, st.sampled_from(STATEMENTS)), min_size=1, max_size=12))
        self.packets = [packet for at, *how in chosen for packet in as_group(self.log.groups[at], *how)]

    def edit(self) -> None:
        for what, place, other in self.draw(
            st.lists(st.tuples(st.sampled_from(["drop", "double", "move", "statement"]), PLACES, PLACES), max_size=3)
        ):
            at = place % len(self.packets)
            match what:
                case "drop" if len(self.packets) > 1:
                    del self.packets[at]
                case "double":
                    self.packets.insert(other % len(self.packets), self.packets[at])
                case "move":
                    self.packets.insert(other % len(self.packets), self.packets.pop(at))
                case "statement":
                    self.packets.insert(at, statement(STATEMENTS[other % len(STATEMENTS)]))

    def overwrite(self) -> None:
        """Kinds, GTID flags, and bytes anywhere behind a packet's length."""
        change = st.tuples(st.sampled_from(["kind", "flags", "any"]), PLACES, PLACES, st.integers(0, 255))
        for what, place, offset, value in self.draw(st.lists(change, max_size=2)):
            index = place % len(self.packets)
            packet = bytearray(self.packets[index])
            whole = self.draw(st.sampled_from([True, True, True, False]))
            if what == "kind":
                packet[KIND_AT] = KINDS[value % len(KINDS)]
            elif what == "flags" and len(packet) > BODY_AT + 12:
                packet[BODY_AT + 12] = value
            else:
                packet[4 + offset % (len(packet) - 4)] = value
            self.packets[index] = sealed(bytes(packet)) if whole else bytes(packet)

    def pieces(self) -> list[bytes]:
        if self.draw(st.booleans()):
            starts = [index for index, packet in enumerate(self.packets) if packet[KIND_AT] in GTIDS]
            gap = self.draw(st.none() | st.sampled_from(starts or [0]))
            self.packets = continuous(self.packets, self.log.start.offset, gap)
            self.overwrite()
        else:
            self.overwrite()
            self.packets = continuous(self.packets, self.log.start.offset)
        raw = b"".join((*self.log.head, *self.packets))
        cuts = sorted(cut % len(raw) for cut in self.draw(st.lists(st.integers(0, 200_000), max_size=4)))
        return [raw[a:z] for a, z in itertools.pairwise((0, *cuts, len(raw)))]


def same(start: Position, reading: Reading, mariadb: bool, pieces: list[bytes]) -> list[Any]:
    """Returns what both forms make of a log.  (A difference in all of it would take an hour to show.)"""
    python, compiled = (read(form, start, reading, mariadb, pieces) for form in ("python", "compiled"))
    for expected, found in itertools.zip_longest(python, compiled):
        assert found == expected
    return compiled


def both_forms_read_the_same(data: st.DataObject) -> None:
    server = data.draw(st.sampled_from(list(SERVERS)))
    damage, reading = Damage(data, server), data.draw(READINGS)
    damage.edit()
    pieces = damage.pieces()
    same(damage.log.start, reading, server == "mariadb", pieces)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_both_forms_read_the_same(data: st.DataObject) -> None:
    both_forms_read_the_same(data)


@pytest.mark.proof
@settings(max_examples=20_000, deadline=None)
@given(st.data())
def test_both_forms_read_the_same_at_length(data: st.DataObject) -> None:
    both_forms_read_the_same(data)


@pytest.mark.parametrize("server", SERVERS)
def test_whole_stretches_of_real_logs_read_the_same(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for stretch in recorded(server).values():
        compiled = list(decode.decoded(stretch, decode.tables(images=True)))
        with monkeypatch.context() as patch:
            patch.setattr(decoder_module, "UsualEvents", None)
            patch.setattr(assembly_module, "LogState", PlainLogState)
            assert list(decode.decoded(stretch, decode.tables(images=True))) == compiled


@pytest.mark.parametrize("server", SERVERS)
def test_a_statement_between_usual_groups_is_a_group_of_its_own(server: str) -> None:
    log = log_of(server)
    before, group, then = log.groups[:3]
    packets = [*before, *as_group(group, "statement", "DROP TABLE bench.gone"), *then]
    pieces = [b"".join(log.head + continuous(packets, log.start.offset))]
    seen = same(log.start, Reading(True, "wanted", 500, CHUNK_BYTES, 0, False), server == "mariadb", pieces)
    found = [(part.ddl is None, part.complete) for _, chunk in seen for part in chunk.transactions]
    assert found == [(True, True), (False, True), (True, True)]


@pytest.mark.parametrize("server", SERVERS)
def test_undecodable_text_behind_rows_that_decode_reads_the_same(server: str) -> None:
    log, found = log_of(server), packets_of(recorded(server)["column/varchar(40)"].packets)
    group = next(_groups(found))
    rows = next(index for index, packet in enumerate(group) if packet[KIND_AT] in INSERTS)
    group[rows] = b"\xff".join(group[rows].rsplit(b"u", 1))
    pieces = [b"".join(log.head + continuous(group, log.start.offset))]
    for images in (True, False):
        reading = Reading(images, "wanted", 500, CHUNK_BYTES, 0, False)
        (_, chunk), *_ = same(log.start, reading, server == "mariadb", pieces)
        values = [type(value) for change in chunk.transactions[0].rows for value in change.after]
        assert values.count(bytes) == 1


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("images", [True, False])
def test_usual_events_never_come_to_python(server: str, images: bool) -> None:
    """All that do are those of a table map that is new."""
    log = log_of(server)
    reader = Reader(log.start, Reading(images, "wanted", 500, CHUNK_BYTES, 0, False), server == "mariadb")
    handled: list[int] = []
    for kind, handler in reader.decoder._hot.items():

        def noted(b: bytes, p: int, end: int, kind: int = kind, handler: Any = handler) -> None:
            handled.append(kind)
            handler(b, p, end)

        reader.decoder._hot[kind] = noted
    groups = [group for group in log.groups if len(group) < 8][:60]
    tables = {packet[BODY_AT + 8 : -4] for group in groups for packet in group if packet[KIND_AT] == events.TABLE_MAP}
    seen = reader.read([b"".join(log.head + continuous([p for group in groups for p in group], log.start.offset))])
    assert sum(len(chunk.transactions) for _, chunk in seen) == len(groups)
    assert handled == [events.TABLE_MAP] * len(tables)


@pytest.mark.parametrize("server", SERVERS)
def test_many_transactions_without_wanted_rows_tell_their_place_alike(server: str) -> None:
    log = log_of(server)
    packets = continuous(log.groups[0] * (2 * QUIET_TRANSACTIONS + 1), log.start.offset)
    pieces = [b"".join((*log.head, *packets))]
    reading = Reading(True, "unwanted", 500, CHUNK_BYTES, 0, False)
    compiled = same(log.start, reading, server == "mariadb", pieces)
    assert len(compiled) == 3, "twice so many, and the last one"
