"""Packets come out of a stream as they went in, however the socket cuts them into blocks."""

import random
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelock.adapters.mysql.binlog import packets
from tidelock.adapters.mysql.binlog.packets import LONGEST, PacketStream

SILENCE_SECONDS = 20.0


def packet(payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "little") + b"\0" + payload


def taken(stream: PacketStream, rng: random.Random) -> Iterator[bytes]:
    """Takes packets as the reader does: some by the hot loop, which moves `at` itself, the others one by one."""
    while True:
        while rng.random() < 0.7:
            start = stream.at + 4
            end = start + int.from_bytes(stream.buffer[stream.at : start - 1], "little")
            if start > len(stream.buffer) or end > len(stream.buffer) or end - start == LONGEST:
                break
            yield stream.buffer[start:end]
            stream.at = end
        try:
            found = stream.packet()
            if found is None:
                stream.wait()
                continue
        except EOFError:
            return
        b, p, end = found
        yield b[p:end]


def sent(payloads: list[bytes], cuts: list[int], seed: int) -> list[bytes]:
    """Returns the packets that arrive of `payloads`, which are written in pieces that end at `cuts`."""
    data = b"".join(packet(payload) for payload in payloads)
    ours, theirs = socket.socketpair()

    def write() -> None:
        with theirs:
            for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
                theirs.sendall(data[start:end])

    writer = threading.Thread(target=write)
    writer.start()
    with ours:
        connection = cast("pymysql.Connection[Any]", SimpleNamespace(_sock=ours))
        arrived = list(taken(PacketStream(connection, SILENCE_SECONDS), random.Random(seed)))
    writer.join()
    return arrived


@given(st.data())
def test_packets_come_out_as_they_went_in(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.sampled_from([0, 1, 3, 19, 300, 20_000, 400_000]), max_size=12))
    payloads = [random.Random(number).randbytes(size) for number, size in enumerate(sizes)]
    length = sum(map(len, payloads)) + 4 * len(payloads)
    cuts = sorted(data.draw(st.lists(st.integers(0, length), max_size=8)))
    assert sent(payloads, cuts, data.draw(st.integers(0, 99))) == payloads


def test_only_the_packet_in_two_blocks_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of a large block is not: the reader sees the bytes object that the socket gave."""
    blocks: list[bytes] = []
    receive = PacketStream._receive

    def received(stream: PacketStream) -> bytes | None:
        block = receive(stream)
        if block is not None:
            blocks.append(block)
        return block

    monkeypatch.setattr(PacketStream, "_receive", received)
    monkeypatch.setattr(packets, "_BLOCK", 50_000)
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    payloads = [bytes([number]) * 999 for number in range(100)]
    with ours, theirs:
        theirs.sendall(b"".join(map(packet, payloads)))
        stream = PacketStream(cast("pymysql.Connection[Any]", SimpleNamespace(_sock=ours)), SILENCE_SECONDS)
        seen, arrived = set[int](), list[bytes]()
        while (found := stream.packet()) is not None:
            b, p, end = found
            seen.add(id(b))
            arrived.append(b[p:end])
    assert arrived == payloads
    assert len(blocks) >= 2 and {id(block) for block in blocks if len(block) == 50_000} <= seen


def test_a_payload_of_several_packets_is_one() -> None:
    whole = random.Random(1).randbytes(LONGEST + 5)
    parts = [whole[:LONGEST], whole[LONGEST:]]
    around = [b"before", *parts, b"behind"]
    assert sent(around, [LONGEST // 2, LONGEST + 30], 3) == [b"before", whole, b"behind"]
