"""Messages of `pgoutput`: whatever arrives ends in what it says or in the one named error, in both forms alike.

Streams are made of transactions that a real server sent (bench/micro/logical_recording.py), put together anew and
damaged: messages dropped, doubled and moved, cut anywhere, bytes overwritten.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.micro.logical_recording import recorded
from tidelock.adapters.ports.source_errors import LogGap, SourceError, UnsuitableLog
from tidelock.adapters.postgres.logical import assembly as assembly_module
from tidelock.adapters.postgres.logical import messages
from tidelock.adapters.postgres.logical.assembly import NOTICES, Assembly
from tidelock.adapters.postgres.logical.damage import DamagedMessage
from tidelock.adapters.postgres.logical.relation_catalogue import RelationCatalogue
from tidelock.adapters.postgres.logical.relations import Relations
from tidelock.adapters.postgres.logical.row_decoder import StreamState, UsualMessages
from tidelock.adapters.postgres.logical.stream_state import PlainStreamState
from tidelock.engine.model.log_batch import SourceChunk
from tidelock.engine.model.records import Position, TableName

FILE = "7012345678901234567/1"
START = Position(FILE, 1_000)
NOW = 10**15  # microseconds since the epoch
STEP = 1_000  # between the commits of two transactions
NAMES = ("kinds/whole", "kinds/by_key", "whole/one-row transactions", "by_key/bulk updates", "unwanted/bulk inserts")
LONGEST = 40  # messages of a transaction
MARKER = TableName("public", "by_key")


@functools.cache
def transactions_of(name: str) -> list[list[bytes]]:
    """Whole transactions of a stretch, each with the tables that it names told in it."""
    found: list[list[bytes]] = []
    told: dict[bytes, bytes] = {}
    for _, data in recorded()[name].messages:
        if data[0] in (messages.RELATION, messages.TYPE):
            told[data[:5]] = data
        elif data[0] == messages.BEGIN:
            found.append([data])
        else:
            found[-1].append(data)
    return [[one[0], *told.values(), *one[1:LONGEST], *one[LONGEST:][-1:]] for one in found[:30]]


def transactions() -> list[list[bytes]]:
    """Transactions of all stretches."""
    return [one for name in NAMES for one in transactions_of(name)]


@functools.cache
def facts() -> dict[int, RelationCatalogue]:
    return {oid: fact for stretch in recorded().values() for oid, fact in stretch.facts.items()}


def catalogue(oid: int, types: Sequence[int]) -> RelationCatalogue:
    return facts().get(oid, RelationCatalogue())


def numbered(stream: Sequence[Sequence[bytes]], repeated: bool) -> list[bytes]:
    """Commits follow each other; `repeated`: tables are told in each transaction, else in the first alone."""
    placed: list[bytes] = []
    told: set[bytes] = set()
    for number, transaction in enumerate(stream, 1):
        commit = START.offset + number * STEP
        for data in transaction:
            if data[0] == messages.BEGIN:
                data = data[:1] + commit.to_bytes(8) + data[9:]
            elif data[0] == messages.COMMIT:
                data = data[:2] + commit.to_bytes(8) + (commit + 10).to_bytes(8) + data[18:]
            elif data[0] == messages.RELATION and data in told and not repeated:
                continue
            told.add(data)
            placed.append(data)
    return placed


def machine(
    *,
    compiled: bool,
    start: Position = START,
    chunk_rows: int = 500,
    marker: bool = False,
    origins: bool = False,
    images: bool = False,
) -> Assembly:
    made = Assembly(
        "7012345678901234567/bench",
        start,
        Relations(catalogue),
        lambda table: table.table != "unwanted",
        lambda table: marker and table == MARKER,
        chunk_rows,
        compiled=compiled,
        origins=origins,
        images=images,
    )
    assert type(made.state) is (StreamState if compiled else PlainStreamState)
    return made


def outcome(assembly: Assembly, stream: Sequence[bytes]) -> tuple[list[SourceChunk], str, object]:
    """Chunks, the error that ended the reading, and the state at the end.  Any other exception is a failure."""
    error = ""
    try:
        for at, data in enumerate(stream):
            assembly.take(memoryview(data), at)
        assembly.flush()
    except SourceError as found:
        error = f"{type(found).__name__}: {found}"
    state = () if error else tuple(getattr(assembly.state, name) for name in PlainStreamState.__slots__)
    return assembly.ready, error, state


_HEAD = Struct(">cQQq")


class Received:
    """Messages as libpq has received them: its two functions, by their addresses."""

    def __init__(self, stream: Sequence[bytes]) -> None:
        self.held: dict[int, ctypes.Array[ctypes.c_char]] = {}
        self._waiting = deque(_HEAD.pack(b"w", at, 0, 0) + data for at, data in enumerate(stream))
        self._functions = (
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int)(self._next),
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._free),
        )

    def addresses(self) -> tuple[int, int]:
        take, free = (ctypes.cast(one, ctypes.c_void_p).value for one in self._functions)
        assert take and free
        return take, free

    def _next(self, connection: int, place: Any, is_async: int) -> int:
        assert (connection, is_async) == (7, 1)
        if not self._waiting:
            return -1
        data = self._waiting.popleft()
        made = ctypes.create_string_buffer(data, len(data))
        place[0] = address = ctypes.addressof(made)
        self.held[address] = made
        return len(data)

    def _free(self, address: int) -> None:
        del self.held[address]


def outcome_received(assembly: Assembly, stream: Sequence[bytes], most: int) -> tuple[list[SourceChunk], str, object]:
    """As `outcome`, of messages that the compiled form takes from libpq."""
    received, chunks, error, said = Received(stream), [], "", 1
    assert assembly.usual is not None
    try:
        while said >= 0:
            taken, place, said, left = assembly.usual.take_received(7, *received.addresses(), most)
            assert taken <= most and place < len(stream)
            if left is not None:
                assembly.take(memoryview(left)[_HEAD.size :], _HEAD.unpack_from(left)[1])
            chunks += assembly.ready
            assembly.ready.clear()
        assembly.flush()
    except SourceError as found:
        error = f"{type(found).__name__}: {found}"
    assert not received.held, "each message is freed"
    state = () if error else tuple(getattr(assembly.state, name) for name in PlainStreamState.__slots__)
    return [*chunks, *assembly.ready], error, state


def take_all(assembly: Assembly, stream: Sequence[bytes], lsn: int = 0) -> None:
    for data in stream:
        assembly.take(memoryview(data), lsn)


@st.composite
def streams(draw: Any) -> list[bytes]:
    any_table = st.sampled_from(NAMES).flatmap(lambda name: st.sampled_from(transactions_of(name)))
    drawn = draw(st.lists(any_table, min_size=1, max_size=6))
    stream = numbered(drawn, draw(st.booleans()))
    places = st.integers(0, len(stream) - 1)
    for _ in range(draw(st.integers(0, 2))):
        at = draw(places)
        data = stream[at]
        match draw(st.sampled_from(("cut", "overwrite", "overwrite", "lengthen", "drop", "double", "move", "empty"))):
            case "cut":
                stream[at] = data[: draw(st.integers(0, len(data)))]
            case "overwrite" if data:
                place = draw(st.integers(0, len(data) - 1))
                stream[at] = data[:place] + bytes([draw(st.integers(0, 255))]) + data[place + 1 :]
            case "lengthen":
                stream[at] = data + draw(st.binary(min_size=1, max_size=3))
            case "drop":
                stream[at] = b"Y\0\0\0\1s\0t\0"
            case "double":
                stream.insert(at, data)
            case "move":
                stream.insert(draw(places), stream.pop(at))
            case _:
                stream[at] = b""
    return stream


@settings(max_examples=150)
@given(
    streams(), st.sampled_from((1, 3, 500)), st.sampled_from((0, 1, NOTICES, NOTICES + 2)), st.booleans(), st.booleans()
)
def test_both_forms_make_the_same_of_a_stream(
    stream: list[bytes], chunk_rows: int, skip: int, marker: bool, images: bool
) -> None:
    start = msgspec.structs.replace(START, rows=skip)
    made = functools.partial(machine, start=start, chunk_rows=chunk_rows, marker=marker, images=images)
    plain, compiled = (outcome(made(compiled=form), stream) for form in (False, True))
    assert compiled == plain and repr(compiled) == repr(plain)
    assert outcome_received(made(compiled=True), stream, most=1 + len(stream) // 3) == plain


def test_usual_messages_are_not_left_to_the_python_form(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    stream = numbered(transactions(), repeated=False)
    assembly = machine(compiled=True)

    class Left(Assembly):
        def take_plain(self, payload: Any, lsn: int) -> None:
            left.append(payload[0])
            super().take_plain(payload, lsn)

    assembly.__class__ = Left
    taking = UsualMessages(assembly)
    for at, data in enumerate(stream):
        taking.take(data, at)
    rows = [kind for kind in left if kind in (messages.INSERT, messages.UPDATE, messages.DELETE)]
    assert messages.BEGIN not in left and messages.COMMIT not in left
    assert len(rows) <= len({data[:5] for data in stream if data[0] == messages.RELATION}), "the first of each table"


@settings(max_examples=200)
@given(st.binary(max_size=60), st.booleans())
def test_bytes_that_are_no_message_are_the_named_error(data: bytes, is_open: bool) -> None:
    for compiled in (False, True):
        assembly = machine(compiled=compiled)
        if is_open:
            assembly.take(numbered([transactions()[0]], repeated=True)[0], 0)
        found = outcome(assembly, [data])
        assert found[1] == "" or found[1].startswith(("DamagedMessage", "LogGap", "UnsuitableLog")), found[1]


READERS = {
    messages.BEGIN: messages.begin,
    messages.COMMIT: messages.commit,
    messages.RELATION: messages.relation,
    messages.TYPE: messages.type_,
    messages.TRUNCATE: messages.truncate,
    messages.MESSAGE: messages.logical_message,
    messages.INSERT: messages.row,
    messages.UPDATE: messages.row,
    messages.DELETE: messages.row,
}


def kinds() -> Iterator[bytes]:
    """A message of each kind, and of each mark of a row."""
    seen = set()
    for data in itertools.chain.from_iterable(transactions()):
        mark = (data[0], data[5] if data[0] in (messages.INSERT, messages.UPDATE, messages.DELETE) else 0)
        if mark not in seen:
            seen.add(mark)
            yield data


def test_a_message_of_each_kind_was_recorded() -> None:
    found = {(data[0], data[5]) if chr(data[0]) in "IUD" else data[0] for data in kinds()}
    i, u, d = messages.INSERT, messages.UPDATE, messages.DELETE
    n, o, k = messages.NEW, messages.OLD, messages.KEY
    rows = {(i, n), (u, n), (u, o), (u, k), (d, o), (d, k)}
    others = {messages.BEGIN, messages.COMMIT, messages.RELATION, messages.TRUNCATE, messages.MESSAGE}
    assert rows | others <= found


def test_a_message_that_is_cut_anywhere_is_no_message() -> None:
    for data in kinds():
        read = READERS[data[0]]
        read(data)
        for end in range(1, len(data)):
            with pytest.raises(assembly_module.MALFORMED):
                read(data[:end])
        with pytest.raises(assembly_module.MALFORMED):
            read(data + b"\0")


@pytest.mark.parametrize("step", [41, pytest.param(1, marks=pytest.mark.proof)])
def test_each_flipped_bit_ends_in_a_message_or_the_named_error(step: int) -> None:
    """Not one ends otherwise, and both forms agree on each."""
    whole = [data for _, data in recorded()["by_key/bulk updates"].messages]
    begin, told, update = whole[0], *(next(d for d in whole if d[0] == kind) for kind in b"RU")
    stream = numbered([[begin, told, update, whole[-1]]], repeated=True)
    for at, data in enumerate(stream):
        for bit in range(at % step, 8 * len(data), step):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            damaged = [*stream[:at], bytes(flipped), *stream[at + 1 :]]
            plain = outcome(machine(compiled=False), damaged)
            assert outcome(machine(compiled=True), damaged) == plain


def test_the_error_names_the_place_and_no_value() -> None:
    one = next(one for one in transactions() if one[-2][0] == messages.INSERT)
    stream = numbered([one], repeated=True)
    insert = next(data for data in stream if data[0] == messages.INSERT)
    size = int.from_bytes(insert[9:13])  # of the first column
    broken = insert[:9] + (6).to_bytes(4) + b"secret" + insert[13 + size :]
    for compiled in (False, True):
        with pytest.raises(DamagedMessage) as raised:
            take_all(machine(compiled=compiled), [broken if data is insert else data for data in stream], 0x16_B374D848)
        assert raised.value.position == f"{FILE}:16/B374D848"
        assert "secret" not in str(raised.value) and "column id of type" in str(raised.value)


@pytest.mark.parametrize("kind", [b"S", b"E", b"c", b"A", b"b", b"P", b"K", b"r", b"p", b"\0", b"w"])
def test_a_message_that_protocol_1_has_not_ends_the_reading(kind: bytes) -> None:
    for compiled in (False, True):
        with pytest.raises(DamagedMessage, match="protocol 1 has not"):
            machine(compiled=compiled).take(kind + bytes(20), 5)


ORIGIN = b"O" + bytes(8) + b"upstream\0"


def test_a_transaction_of_another_origin_ends_the_reading_unless_that_was_said() -> None:
    begin, *rest = numbered([transactions()[0]], repeated=True)
    for compiled in (False, True):
        with pytest.raises(UnsuitableLog, match="from its origin upstream"):
            take_all(machine(compiled=compiled), [begin, ORIGIN, *rest])
        told = machine(compiled=compiled, origins=True)
        take_all(told, [begin, ORIGIN, *rest])
        assert not told.open


def test_a_row_of_a_table_that_was_not_told_is_refused() -> None:
    stream = [data for data in numbered([transactions()[0]], repeated=True) if data[0] != messages.RELATION]
    for compiled in (False, True):
        with pytest.raises(DamagedMessage, match="not told before"):
            take_all(machine(compiled=compiled), stream)


def test_a_stream_that_goes_back_is_refused() -> None:
    stream = numbered([transactions()[0]], repeated=True)
    late = machine(compiled=True, start=Position(FILE, START.offset + 5 * STEP))
    with pytest.raises(LogGap, match="before this place"):
        late.take(stream[0], 0)


def test_a_transaction_shorter_than_what_was_read_of_it_is_refused() -> None:
    stream = numbered([transactions()[0]], repeated=True)
    for compiled in (False, True):
        found = outcome(machine(compiled=compiled, start=Position(FILE, START.offset, NOTICES + 99)), stream)
        assert found[1].startswith("LogGap: the transaction committed at 0/7D0 has")


# -- keepalives --------------------------------------------------------------------------------------------------------


def test_an_idle_source_tells_its_place_and_never_goes_back() -> None:
    """How often that becomes a checkpoint is the apply machine's to say."""
    for compiled in (False, True):
        assembly = machine(compiled=compiled)
        assembly.keepalive(START.offset + 100, NOW)
        assert taken(assembly) == [(START.offset + 100, NOW)]
        assembly.keepalive(START.offset, NOW + 1)
        assert taken(assembly) == [(START.offset + 100, NOW + 1)], "the time is told, the place stays"


def test_a_keepalive_before_a_transaction_that_was_read_in_part_is_no_place() -> None:
    for compiled in (False, True):
        assembly = machine(compiled=compiled, start=Position(FILE, START.offset, NOTICES + 1))
        assembly.keepalive(START.offset + 100, NOW)
        assert taken(assembly) == [(START.offset, NOW)]


def test_a_keepalive_inside_a_transaction_is_no_place() -> None:
    begin, *rest = numbered([transactions()[0]], repeated=True)
    for compiled in (False, True):
        assembly = machine(compiled=compiled)
        assembly.take(begin, 0)
        assembly.keepalive(START.offset + 100, NOW)
        assert taken(assembly) == [] and assembly.open
        for data in rest:
            assembly.take(data, 0)
        assembly.flush()
        assert taken(assembly)[-1][0] == START.offset + STEP + 10


def taken(assembly: Assembly) -> list[tuple[int, int]]:
    found = [(chunk.last.offset, chunk.server_us) for chunk in assembly.ready]
    assembly.ready.clear()
    return found


# -- large transactions ------------------------------------------------------------------------------------------------

ROWS = 100_000


@pytest.mark.parametrize("compiled", [False, True])
def test_a_large_transaction_comes_in_parts_at_flat_memory(compiled: bool) -> None:
    stretch = recorded()["whole/bulk inserts"]
    begin, *told = [data for _, data in stretch.messages if data[0] in (messages.BEGIN, messages.RELATION)]
    inserts = [data for _, data in stretch.messages if data[0] == messages.INSERT]
    end = next(data for _, data in stretch.messages if data[0] == messages.COMMIT)
    assembly = machine(compiled=compiled, start=stretch.start)
    assembly.take(begin, 0)
    assembly.take(told[0], 0)
    parts: list[tuple[int, int, int, bool]] = []
    most = 0
    for insert in itertools.islice(itertools.cycle(inserts), ROWS):
        assembly.take(insert, 0)
        most = max(most, len(assembly.state.rows))
        if assembly.ready:
            for chunk in assembly.ready:
                (part,) = chunk.transactions
                parts.append((part.first_ordinal, part.ordinals, len(part.rows), part.complete))
                assert chunk.last == Position(FILE, stretch.start.offset, part.first_ordinal + part.ordinals)
            assembly.ready.clear()
    assembly.take(end, 0)
    assembly.flush()
    (last,) = assembly.ready
    assert last.transactions[0].complete and last.last.rows == 0 and last.last.offset > stretch.start.offset
    assert most < 500 and len(parts) == ROWS // 500
    assert parts[0] == (0, NOTICES + 500, 500, False)
    assert parts[1:] == [(NOTICES + at, 500, 500, False) for at in range(500, ROWS, 500)]
