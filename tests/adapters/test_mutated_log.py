"""Damaged logs and documents: both forms of the reader refuse them alike, with one error, in bounded memory."""

from __future__ import annotations

import os
import random
import struct
import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from bench import mutated_log
from tidelock.adapters.mysql.binlog import fast_path as usual_events
from tidelock.adapters.mysql.binlog.damage import checked
from tidelock.adapters.mysql.binlog.events import FORMAT_DESCRIPTION, mysql_gtid, rotation, tagged_gtid
from tidelock.adapters.mysql.binlog.json_binary import json_text
from tidelock.adapters.mysql.binlog.payloads import inflated, transaction_events
from tidelock.adapters.mysql.binlog.table_map import parse
from tidelock.adapters.mysql.errors import DamagedLog

SMALL, LARGE = 1_000, 1_000_000


def test_a_changed_log_is_refused_or_read_alike() -> None:
    counts = mutated_log.in_processes(SMALL, jobs=2)
    assert sum(counts.values()) == SMALL
    assert counts["raw: DamagedLog"] > SMALL / 4, counts


@pytest.mark.proof
def test_a_changed_log_is_refused_or_read_alike_a_million_times() -> None:
    counts = mutated_log.in_processes(LARGE, jobs=os.cpu_count() or 1)
    print(counts)
    assert sum(counts.values()) == LARGE


def test_damage_that_is_taken_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge can tell: with checksums that are not looked at, a changed value comes through."""
    monkeypatch.setattr("tidelock.adapters.mysql.binlog.decoder.checked", lambda b, p, end, tail: tail)
    monkeypatch.setattr("zlib.crc32", lambda data: struct.unpack("<I", b"\0\0\0\0")[0])
    read = mutated_log.read

    def unchecked(given: mutated_log.Input, raw: bytes, tables: object, compiled: bool) -> mutated_log.Outcome:
        return read(given, raw, tables, False)  # type: ignore[arg-type]

    monkeypatch.setattr(mutated_log, "read", unchecked)
    with pytest.raises(mutated_log.Wrong, match="damage was accepted"):
        mutated_log.run(0, 3_000)


@pytest.mark.parametrize("way", range(usual_events.best_crc32_way() + 1))
def test_the_compiled_checksum_is_that_of_zlib_in_each_way(way: int) -> None:
    for size in (*range(1100), 4097, 8192, 70_001):
        for seed in range(3):
            raw = (zlib.compress(bytes([seed])) * (size // 9 + 1))[:size]
            assert usual_events.crc32(raw, way) == zlib.crc32(raw), size


def packets(sizes: list[int], draw: random.Random) -> tuple[bytes, list[int]]:
    """Events of these sizes with their checksums, each in a packet; and where each packet begins, and the end."""
    stream, places = bytearray(), []
    for number, size in enumerate(sizes):
        event = draw.randbytes(4) + b"\2" + draw.randbytes(4) + struct.pack("<I", size) + draw.randbytes(size - 17)
        places.append(len(stream))
        stream += struct.pack("<IB", size + 1 | number % 256 << 24, 0) + event + struct.pack("<I", zlib.crc32(event))
    return bytes(stream), [*places, len(stream)]


EVENT_SIZES = [*range(23, 460), 1100, 4097, 70_000]


@pytest.mark.parametrize("sizes", ["each size", "one size", "drawn", "more than a stretch"])
def test_a_stretch_of_events_is_checked_like_each_of_them(sizes: str) -> None:
    draw = random.Random(sizes)
    drawn = {
        "each size": EVENT_SIZES,
        "one size": [64] * 64,
        "drawn": draw.choices(EVENT_SIZES, k=200),
        "more than a stretch": draw.choices(EVENT_SIZES[:400], k=12_000),
    }[sizes]
    stream, places = packets(drawn, draw)
    assert usual_events.checked_end(stream) == len(stream)
    assert usual_events.checked_end(stream[:-1]) == places[-2]

    def damaged(*faults: tuple[int, int, int]) -> bytes:
        """Some bits of a byte of an event are turned: (event, byte from its end, bits)."""
        changed = bytearray(stream)
        for event, byte, bits in faults:
            changed[places[event + 1] - 1 - byte] ^= bits
        return bytes(changed)

    events = range(len(drawn)) if len(drawn) < 1000 else draw.sample(range(len(drawn)), 30)
    for one in events:
        byte, bits = draw.randrange(drawn[one] - 17), draw.randrange(1, 256)
        assert usual_events.checked_end(damaged((one, byte, bits))) == places[one]
        for other in draw.sample(range(len(drawn)), 40):  # the same damage twice, at the same place of two events
            byte = draw.randrange(min(drawn[one], drawn[other]) - 17)
            if other != one:
                found = usual_events.checked_end(damaged((one, byte, bits), (other, byte, bits)))
                assert found == places[min(one, other)]


def array(entries: bytes, count: int) -> bytes:
    """A small binary JSON array."""
    return b"\2" + struct.pack("<HH", count, 4 + len(entries)) + entries


DOCUMENTS = {
    "refers to itself": array(b"\2" + struct.pack("<H", 0), 1),
    "an object refers to itself": b"\0" + struct.pack("<HHHHBH", 1, 12, 11, 0, 0, 0),
    "says everything many times": array((b"\2" + struct.pack("<H", 4)) * 20, 20) * 9,
    "one text many times": array((b"\x0c" + struct.pack("<H", 3004)) * 1000, 1000) + b"\xff\x7f" + b"x" * 16383,
    "an absurd count": b"\3" + struct.pack("<II", 0xFFFFFFFF, 0xFFFFFFFF) + b"\0" * 20,
    "an object with an absurd count": b"\1" + struct.pack("<II", 0x7FFFFFFF, 0) + b"\0" * 20,
    "a length without end": b"\x0c" + b"\xff" * 100_000,
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_damaged_json_is_refused_in_bounded_memory(name: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises((ValueError, IndexError, struct.error)):
            json_text(DOCUMENTS[name])
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_a_hundred_containers_deep_is_read() -> None:
    raw = b"\2"
    for _ in range(99):
        raw += struct.pack("<HHBH", 1, 7, 2, 7)
    # Offsets count from the container that they are in, and each begins seven bytes behind the one before.
    assert json_text(raw + struct.pack("<HH", 0, 4)) == "[" * 100 + "]" * 100


def mysql_gtid_of(number: int) -> bytes:
    return b"\0" + bytes(16) + struct.pack("<Q", number) + bytes(17) + bytes(8)


def tagged(tag: bytes) -> bytes:
    varied = bytes([2, 0, 12]) + b"\0\0" + b"\2" + bytes(16) + b"\4\2" + b"\6" + bytes([len(tag) << 1]) + tag
    return varied + b"\x0c\2"


def bomb() -> bytes:
    """64 MB of zeros, which claim to be five bytes."""
    packed = zlib.compressobj()
    return b"\x81\x05" + b"".join([*(packed.compress(bytes(1 << 20)) for _ in range(64)), packed.flush()])


REFUSED: dict[str, Callable[[], object]] = {
    "more than it claims": lambda: inflated(raw := bomb(), 0, len(raw)),
    "an absurd claim": lambda: inflated(b"\x84\xff\xff\xff\xff" + zlib.compress(b"x"), 0, 30),
    "an event of no size": lambda: [*transaction_events(bytes(60), 0, 60)],
    "no payload": lambda: [*transaction_events(b"\2\1\0" * 9, 0, 27)],
    "no columns": lambda: parse(b"\1s\0\1t\0" + b"\0\0\0", described=True, by_mariadb=True),
    "absurdly many columns": lambda: parse(b"\1s\0\1t\0\xfe" + b"\xff" * 8, described=True, by_mariadb=True),
    "a decimal of 255 digits": lambda: parse(b"\1s\0\1t\0\1\xf6\2\xff\xff\0", described=False, by_mariadb=True),
    "an absurd offset": lambda: rotation(b"\xff" * 8 + b"binlog.000001", 0, 21),
    "an absurd number": lambda: mysql_gtid(mysql_gtid_of(1 << 63), 0),
    "a tag that is none": lambda: tagged_gtid(tagged(b"a:1,b"), 0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_damage_is_refused_in_bounded_memory(name: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises((ValueError, IndexError, DamagedLog)):
            REFUSED[name]()
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_one_byte_does_not_turn_the_checks_of_a_file_off() -> None:
    head = struct.pack("<IBIIIH", 1, FORMAT_DESCRIPTION, 1, 0, 0, 0) + bytes(60) + b"\1"
    head = head[:9] + struct.pack("<I", len(head) + 4) + head[13:]
    whole = head + struct.pack("<I", zlib.crc32(head))
    assert checked(whole, 0, len(whole), 0) == 4
    for algorithm in (0, 2, 255):
        changed = whole[:-5] + bytes([algorithm]) + whole[-4:]
        with pytest.raises(DamagedLog):
            checked(changed, 0, len(changed), 4)
    none = head[:-1] + b"\0"
    assert checked(none + bytes(4), 0, len(none) + 4, 4) == 0
