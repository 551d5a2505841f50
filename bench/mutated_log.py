"""Logs of real servers with bytes changed, and what both forms of the reader make of them.

    python -m bench.mutated_log --inputs 1000000 --jobs 2

A base is a few small transactions that a server wrote (bench/micro/data), some compressed as that server would.  An
input is a base with one to three changes: bits, bytes, numbers, events cut short, left out, doubled.  It comes *raw*,
as damage comes, with the checksums that the server wrote; *sealed*, with checksums that fit; or *bare*, from a server
that writes none.  The rules:

- raw: rows are those of the base, up to where the reader stops with an error of its own (`SourceError`);
- sealed, bare: whatever the bytes say, or such an error; never another exception, a hang, or memory without bound;
- both forms, compiled with row images and Python with tuples, say the same, at the same place.

Each input is made from its number alone, so that one that fails can be looked at: `--first N --inputs 1`.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import functools
import itertools
import json
import random
import resource
import signal
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec
import zstandard

from bench.micro.recording import SERVERS, recorded
from tidelock.adapters.mysql.binlog import events
from tidelock.adapters.mysql.binlog.assembly import Assembly
from tidelock.adapters.mysql.binlog.decoder import LogDecoder
from tidelock.adapters.mysql.binlog.table_map import lenenc
from tidelock.adapters.mysql.binlog.tables import Tables
from tidelock.adapters.mysql.gtid import MariaDbGtids, MySqlGtids
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.row_image import row_image
from tidelock.adapters.row_image.row_image import RowImage
from tidelock.engine.model.log_batch import SourceChunk
from tidelock.engine.model.records import Position

FORMS: Final = ("raw", "raw", "sealed", "bare")
LONGEST_BASE: Final = 6_000
TABLES_LAST: Final = 1_000  # inputs, until tables that only damage named are forgotten
CHUNK: Final = 20_000
SECONDS: Final = 30.0
MEMORY: Final = 1 << 30
_HEADER: Final = struct.Struct("<IBIIIH")
_GTIDS: Final = (events.GTID, events.MARIADB_GTID)
_ROWS: Final = {
    events.WRITE_ROWS_V1: events.WRITE_ROWS_COMPRESSED_V1,
    events.UPDATE_ROWS_V1: events.UPDATE_ROWS_COMPRESSED_V1,
    events.DELETE_ROWS_V1: events.DELETE_ROWS_COMPRESSED_V1,
    events.WRITE_ROWS: events.WRITE_ROWS_COMPRESSED,
    events.UPDATE_ROWS: events.UPDATE_ROWS_COMPRESSED,
    events.DELETE_ROWS: events.DELETE_ROWS_COMPRESSED,
}
_NUMBERS: Final = (0, 1, 0x7F, 0x80, 0xFB, 0xFC, 0xFE, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 64) - 1)


class Wrong(AssertionError):
    """A rule was broken."""


# ------------------------------------------------------------------------------------------------------------- bases


class Base(msgspec.Struct, frozen=True):
    """`head`: the events that a stream begins with.  `groups`: events of whole transactions.  All without checksums."""

    server: str
    start: Position
    head: list[bytes]
    groups: list[list[bytes]]


def _events(packets: bytes) -> Iterator[bytes]:
    """Without packet header, status and checksum."""
    at = 0
    while at < len(packets):
        end = at + 4 + int.from_bytes(packets[at : at + 3], "little")
        yield packets[at + 5 : end - 4]
        at = end


@functools.cache
def base(server: str) -> Base:
    stretches = recorded(server)
    start = stretches["account/mix"].span.start
    head = [*itertools.islice(_events(stretches["account/mix"].packets), 2)]
    groups: list[list[bytes]] = []
    for stretch in stretches.values():
        groups += [_short(group) for group in itertools.islice(_groups(stretch.packets), 4)]
    groups = [group for group in groups if sum(map(len, group)) < LONGEST_BASE]
    groups += [_compressed(server, group) for group in groups[::3]]
    return Base(server, start, head, groups)


def _groups(packets: bytes) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    for event in _events(packets):
        if event[4] in _GTIDS:
            group = []
        group.append(event)
        if event[4] == events.XID:
            yield group


def _short(group: list[bytes]) -> list[bytes]:
    """The first rows alone, and no text of the statement."""
    tables = _tables()
    short = []
    table = None
    for event in group:
        if event[4] == events.TABLE_MAP:
            table = tables.get(event[27:])
        if event[4] in _ROWS and table is not None and len(event) > 600:
            start = 27 + (0 if event[4] in (23, 24, 25) else int.from_bytes(event[27:29], "little"))
            images = 2 if event[4] in (events.UPDATE_ROWS, events.UPDATE_ROWS_V1) else 1
            ends = []
            for end in range(start + 4, min(len(event), start + 3_000)):
                try:
                    table.skip(event, start, end, images, 0)
                except (ValueError, IndexError):
                    continue
                ends.append(end)
                if len(ends) == 3:
                    break
            event = event[: ends[-1]] if ends else event
        if event[4] not in (events.ANNOTATE_ROWS, events.ROWS_QUERY) or len(event) < 300:
            short.append(event)
    return short


def _compressed(server: str, group: list[bytes]) -> list[bytes]:
    """As the server has it with binlog_transaction_compression or log_bin_compress."""
    if server == "mysql":
        inner = b"".join(_sized(event) for event in group[1:])
        packed = zstandard.ZstdCompressor(write_checksum=len(inner) % 2 == 0).compress(inner)
        fields = b"\2\1\0" + b"\3\3\xfc" + struct.pack("<H", len(inner)) + b"\1\3\xfc" + struct.pack("<H", len(packed))
        head = _HEADER.pack(1_700_000_000, events.TRANSACTION_PAYLOAD, 1, 0, 0, 0)
        return [group[0], head + fields + b"\0" + packed]
    found = []
    for event in group:
        if event[4] in _ROWS:
            version_2 = event[4] not in (23, 24, 25)
            start = 27 + (int.from_bytes(event[27:29], "little") if version_2 else 0)
            count, rows = lenenc(event, start)
            rows += (count + 7) // 8 * (2 if event[4] in (events.UPDATE_ROWS, events.UPDATE_ROWS_V1) else 1)
            plain = event[rows:]
            event = event[:4] + bytes([_ROWS[event[4]]]) + event[5:rows]
            event += b"\x82" + len(plain).to_bytes(2, "big") + zlib.compress(plain)
        found.append(event)
    return found


def _sized(event: bytes) -> bytes:
    return event[:9] + struct.pack("<I", len(event)) + event[13:]


# ------------------------------------------------------------------------------------------------------------ inputs


class Input(msgspec.Struct, frozen=True):
    number: int
    form: str
    server: str
    start: Position
    whole: bytes  # what the server sent
    changed: bytes


def made(number: int) -> Input:
    rng = random.Random(number)
    form = rng.choice(FORMS)
    server = rng.choice(list(SERVERS))
    from_ = base(server)
    chosen = [event for _ in range(rng.choice((1, 1, 2))) for event in rng.choice(from_.groups)]
    plain = placed(from_.head, chosen, from_.start.offset, checksums=form != "bare")
    sent = [_with_checksum(event) if form != "bare" or n == 1 else event for n, event in enumerate(plain)]
    changed = [*sent]
    for _ in range(rng.choice((1, 1, 2, 3))):
        _change(rng, changed, form)
    return Input(number, form, server, from_.start, packets(sent), packets(changed))


def placed(head: Sequence[bytes], events_: Sequence[bytes], offset: int, checksums: bool) -> list[bytes]:
    """Without checksums; sizes and places as with them or without."""
    tail = 4 if checksums else 0
    found = []
    for n, event in enumerate((*head, *events_)):
        if n == 1 and not checksums:  # FORMAT_DESCRIPTION: the algorithm is its last byte
            event = event[:-1] + b"\0"
        size = len(event) + (tail if n != 1 else 4)
        if n >= len(head):
            offset += size
        end = offset if n >= len(head) else int.from_bytes(event[13:17], "little")
        found.append(event[:9] + struct.pack("<II", size, end) + event[17:])
    return found


def _with_checksum(event: bytes) -> bytes:
    return event + struct.pack("<I", zlib.crc32(event))


def packets(events_: Sequence[bytes]) -> bytes:
    return b"".join((len(event) + 1).to_bytes(3, "little") + b"\0\0" + event for event in events_)


def _change(rng: random.Random, sent: list[bytes], form: str) -> None:
    at = rng.randrange(len(sent)) if rng.random() < 0.1 or len(sent) < 3 else rng.randrange(2, len(sent))
    if form != "raw" and sent[at][4:5] == bytes([events.TABLE_MAP]) and rng.random() < 0.7:
        at = rng.randrange(len(sent))  # a table that no other input has costs more than ten inputs
    event = bytearray(sent[at])
    body = len(event) - (0 if form == "bare" else 4)
    place = rng.randrange(max(body, 1)) if form != "raw" else rng.randrange(max(len(event), 1))
    if form == "sealed" and place < 19 and rng.random() < 0.8 and body > 20:
        place = rng.randrange(19, body)
    what = rng.random()
    if what < 0.3 and event:
        event[place] ^= 1 << rng.randrange(8)
    elif what < 0.55 and event:
        event[place] = rng.randrange(256)
    elif what < 0.75:
        size = rng.choice((1, 2, 4, 8))
        number = rng.choice(_NUMBERS) & (1 << 8 * size) - 1
        event[place : place + size] = number.to_bytes(size, rng.choice(("little", "big")))[: len(event) - place]
    elif what < 0.8:
        del event[place : place + rng.randint(1, 8)]
    elif what < 0.85:
        event[place:place] = rng.randbytes(rng.randint(1, 8))
    elif what < 0.9:
        other = rng.randrange(max(body, 1))
        size = rng.randint(1, 16)
        event[place : place + size] = event[other : other + size]
    elif what < 0.94 and len(sent) > 3:
        del sent[at]
        return
    elif what < 0.97:
        sent.insert(at, sent[at])
        return
    else:
        del event[place:]
    if form != "raw" and len(event) > 23:
        if len(event) != len(sent[at]):
            event[9:13] = struct.pack("<I", len(event))
        if form == "sealed":
            event[-4:] = struct.pack("<I", zlib.crc32(event[:-4]))
    sent[at] = bytes(event)


# ----------------------------------------------------------------------------------------------------------- reading


class Outcome(msgspec.Struct):
    """Returns what a reader handed out, and the error that it ended with."""

    chunks: list[SourceChunk]
    error: SourceError | None = None


def _tables(images: bool = False) -> Tables:
    return Tables(lambda table: True, lambda table: False, lambda table: {}, images)


def read(given: Input, raw: bytes, tables: Tables, compiled: bool) -> Outcome:
    gtids = MariaDbGtids() if given.server == "mariadb" else MySqlGtids()
    assembly = Assembly(tables, given.start, gtids, 2)
    decoder = LogDecoder(tables, assembly, checksums=given.form != "bare")
    if not compiled:
        decoder._usual = None
    outcome = Outcome([])
    ready, at = assembly.ready, 0
    try:
        while at < len(raw) and not decoder.due:
            at = decoder.run(raw, at)
            if not ready and at < len(raw):
                end = at + 4 + int.from_bytes(raw[at : at + 3], "little")
                if end > len(raw):
                    break
                if raw[at + 9] == events.TRANSACTION_PAYLOAD if end > at + 9 else False:
                    for _ in decoder.payload(raw, at + 5, end):
                        outcome.chunks += ready
                        ready.clear()
                else:
                    decoder.event(raw, at + 5, end)
                at = end
            outcome.chunks += ready
            ready.clear()
        assembly.flush()
    except SourceError as error:
        outcome.error = error
    outcome.chunks += ready
    return outcome


def changes(outcome: Outcome) -> list[Any]:
    """Every row and statement, with the transaction that it is of."""
    return [
        (transaction.source, transaction.number, change.before, change.after, change.ordinal)
        for chunk in outcome.chunks
        for transaction in chunk.transactions
        for change in transaction.rows
    ]


class Judge:
    """Reads inputs; `counts`: how they ended."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self._seen = 0
        self._renew()

    def _renew(self) -> None:
        self._images = {server: _tables(images=True) for server in SERVERS}
        self._tuples = {server: _tables() for server in SERVERS}

    def judge(self, number: int) -> str:
        """Raises Wrong, or whatever the reader should not have raised."""
        self._seen += 1
        if self._seen % TABLES_LAST == 0:
            self._renew()
        given = made(number)
        compiled = read(given, given.changed, self._images[given.server], True)
        python = read(given, given.changed, self._tuples[given.server], False)
        found, expected = changes(compiled), changes(python)
        _same(found, expected)
        if type(compiled.error) is not type(python.error):
            raise Wrong(f"compiled: {compiled.error!r}; Python: {python.error!r}")
        _written(found)
        said = self._verdict(given, found, compiled)
        self.counts[f"{given.form}: {said}"] += 1
        return said

    def _verdict(self, given: Input, found: list[Any], outcome: Outcome) -> str:
        if (error := outcome.error) is not None and not (error.position and error.hint):
            raise Wrong(f"an error without a place: {error}")
        whole = changes(read(given, given.whole, self._images[given.server], True))
        if given.form == "raw" and found != whole[: len(found)]:
            raise Wrong("damage was accepted")
        if error is not None:
            return type(error).__name__
        return "equal" if found == whole else "prefix" if found == whole[: len(found)] else "other rows"


def _same(found: list[Any], expected: list[Any]) -> None:
    if found != expected and repr(found) != repr(expected):  # NaN is not equal to itself
        for one, other in itertools.zip_longest(found, expected):
            if repr(one) != repr(other):
                raise Wrong(f"compiled: {one!r}\nPython:   {other!r}"[:4000])


def _written(found: list[Any]) -> None:
    """Images are written as a target's texts, and come through a pipe, without reading beside their bytes."""
    for *_, before, after, _ in found:
        for row in (before, after):
            if isinstance(row, RowImage):
                places = range(len(row))
                row_image.copy_lines([row], places)
                row_image.values([row], places)
                row_image.literals([row], places, [row_image.LITERALS["quoted"]] * len(row))
                row_image.literals([row], places, [row_image.LITERALS["hex"]] * len(row))


# ----------------------------------------------------------------------------------------------------------- running


def run(first: int, inputs: int) -> collections.Counter[str]:
    """Raises Wrong, with the input's number."""
    judge = Judge()
    for number in range(first, first + inputs):
        try:
            judge.judge(number)
        except Exception as error:
            given = made(number)
            raise Wrong(f"input {number} ({given.server}, {given.form}): {type(error).__name__}: {error}") from error
    return judge.counts


def in_processes(inputs: int, jobs: int, first: int = 0) -> collections.Counter[str]:
    """Runs them in processes, so that a crash, too, is told with the numbers that it can be found by.  Raises Wrong."""
    counts: collections.Counter[str] = collections.Counter()
    parts = [(at, min(CHUNK, first + inputs - at)) for at in range(first, first + inputs, CHUNK)]
    with ThreadPoolExecutor(jobs) as pool:
        for part in pool.map(_in_process, parts):
            counts += part
    return counts


def _in_process(part: tuple[int, int]) -> collections.Counter[str]:
    first, inputs = part
    command = [sys.executable, "-m", "bench.mutated_log", "--first", str(first), "--inputs", str(inputs), "--here"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode:
        raise Wrong(f"inputs {first} to {first + inputs - 1}: exit code {done.returncode}\n{done.stderr[-4000:]}")
    return collections.Counter(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=CHUNK)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--here", action="store_true", help="in this process, with bounded memory and time")
    options = parser.parse_args()
    if options.here:
        faulthandler.enable()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        counts = _watched(options.first, options.inputs)
    else:
        counts = in_processes(options.inputs, options.jobs, options.first)
    print(json.dumps(dict(sorted(counts.items()))))


def _watched(first: int, inputs: int) -> collections.Counter[str]:
    """A hang, by the processor's clock, ends the process with a traceback."""
    faulthandler.register(signal.SIGPROF, chain=True)
    counts: collections.Counter[str] = collections.Counter()
    for at in range(first, first + inputs, TABLES_LAST):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        counts += run(at, min(TABLES_LAST, first + inputs - at))
    signal.setitimer(signal.ITIMER_PROF, 0)
    return counts


if __name__ == "__main__":
    main()
