"""Rows of a PostgreSQL source as images: the same rows as tuples, from the capture process to the engine's."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator, Sequence

import pytest

from bench.micro.logical_recording import recorded
from tidelock.adapters.postgres.logical import batch_frames, messages
from tidelock.adapters.postgres.logical.assembly import Assembly
from tidelock.adapters.postgres.logical.batch_frames import IMAGES, FrameDecoder
from tidelock.adapters.postgres.logical.relation_catalogue import RelationCatalogue
from tidelock.adapters.postgres.logical.relations import Relations
from tidelock.adapters.row_image import images
from tidelock.engine.capture.machine import CaptureMachine
from tidelock.engine.capture.mapping import Mapping, Rule
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.effects import Publish
from tidelock.engine.protocol.events import SourceRead

STEP = 1_000
CHUNK_ROWS = 4


def catalogue(oid: int, types: Sequence[int]) -> RelationCatalogue:
    return next(stretch.facts[oid] for stretch in recorded().values() if oid in stretch.facts)


def stream(*names: str) -> Iterator[bytes]:
    """The stretches' messages, one behind the other."""
    number = itertools.count(1)
    for name in names:
        for _, data in recorded()[name].messages:
            commit = next(number) * STEP if data[0] == messages.BEGIN else 0
            match data[0]:
                case messages.BEGIN:
                    place = commit.to_bytes(8)
                    yield data[:1] + place + data[9:]
                case messages.COMMIT:
                    yield data[:2] + place + (int.from_bytes(place) + 10).to_bytes(8) + data[18:]
                case _:
                    yield data


def batches(data: Iterator[bytes], *, as_images: bool) -> list[LogBatch]:
    start = Position("7012345678901234567/1", 0)
    assembly = Assembly(
        "7012345678901234567/bench",
        start,
        Relations(catalogue),
        lambda table: True,
        lambda table: False,
        CHUNK_ROWS,
        compiled=as_images,
        images=as_images,
    )
    machine = CaptureMachine(Mapping([Rule("public.*", "public.*")]), start)
    for message in data:
        assembly.take(memoryview(message), 0)
    assembly.flush()
    effects = machine.step(0, [SourceRead(assembly.ready)])
    return [effect.batch for effect in effects if isinstance(effect, Publish)]


def sent(found: Sequence[LogBatch]) -> list[tuple[int, LogBatch]]:
    """The batches and the kinds of their frames, as the engine's process has them."""
    ours, theirs = socket.socketpair()
    decoder = FrameDecoder()
    received: list[tuple[int, LogBatch]] = []
    with ours, theirs:
        for batch in found:
            batch_frames.send(batch, ours, lambda: pytest.fail("there is room"))
            frame = theirs.recv(1 << 20)
            assert len(frame) == 4 + int.from_bytes(frame[:4], "little")
            received.append((frame[4], decoder.batch(frame[4], memoryview(frame)[5:])))
    return received


def test_rows_of_every_kind_travel_as_images_and_are_the_same() -> None:
    plain = batches(stream("kinds/whole"), as_images=False)
    found = sent(batches(stream("kinds/whole"), as_images=True))
    kinds = [kind for kind, batch in found if batch.rows]
    assert kinds == [IMAGES] * len(kinds)
    assert any(kind == IMAGES and row.before is not None for kind, batch in found for row in batch.rows)
    for (_, batch), expected in zip(found, plain, strict=True):
        assert repr(tuple(batch.rows)) == repr(expected.rows)
        batch.rows = expected.rows
        assert batch == expected


def test_where_a_table_has_rows_that_are_not_whole_all_rows_are_tuples_from_then_on() -> None:
    """A batch that held both would be told value by value, which costs more than tuples do."""
    names = ("kinds/whole", "kinds/by_key", "kinds/whole")
    found = sent(batches(stream(*names), as_images=True))
    kinds = [kind for kind, batch in found if batch.rows]
    change = len(kinds) - kinds[::-1].index(IMAGES)
    assert kinds[:change] == [IMAGES] * change and len(kinds) - change > change
    plain = batches(stream(*names), as_images=False)
    assert repr([tuple(batch.rows) for _, batch in found]) == repr([batch.rows for batch in plain])


@pytest.mark.parametrize(("place", "text"), [(6, b"NaN"), (-1, b"x" * (1 << 20))], ids=["no number", "large"])
def test_a_row_that_is_no_image_is_a_tuple_beside_them(place: int, text: bytes) -> None:
    def changed(data: bytes) -> bytes:
        values = [*(messages.row(data).new or ())]
        values[place] = text
        told = [b"n" if not isinstance(v, bytes) else b"t" + len(v).to_bytes(4) + v for v in values]
        return data[:8] + b"".join(told)

    data = list(stream("kinds/whole"))
    inserts = [at for at, message in enumerate(data) if message[0] == messages.INSERT]
    data[inserts[8]] = changed(data[inserts[8]])
    plain, found = batches(iter(data), as_images=False), batches(iter(data), as_images=True)
    assert [images.pack(batch.rows) is None for batch in found if batch.rows].count(True) == 1
    assert repr([tuple(batch.rows) for batch in found]) == repr([batch.rows for batch in plain])


def test_an_image_is_one_whole_row() -> None:
    layout = images.Layout(0, [(images.CODES["signed"], 8, 0, 0, None), (images.CODES["text"], 4, 0, 0, None)])
    row = bytes([0]) + (7).to_bytes(8, "little") + (2).to_bytes(4, "little") + b"ab"
    assert tuple(layout.image(row)) == (7, "ab")
    for other in (row + b"c", row[:-1], b""):
        with pytest.raises(ValueError, match="row"):
            layout.image(other)
