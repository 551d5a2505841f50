"""One chunk from its reading to its merge, and where a table's rows lie."""

from tests.engine.world import bind, linked, table
from tidelock.engine.copy.chunk import Chunk, ChunkState, TableCopy
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import Copied

ITEM = table("item", ["id", "note"], ["id"])
SPLIT = ChunkSplit(ITEM.name, By.NUMBERS, ("id",), ((2,), (4,)))
BINDING = bind(linked(ITEM)[ITEM.name])


def test_a_chunk_is_open_from_its_reading_to_its_merge() -> None:
    for state in ChunkState:
        assert Chunk(SPLIT, 1, state).open == (state in (ChunkState.READING, ChunkState.STAGED))


def test_what_the_stream_did_to_a_row_is_remembered_by_its_last_image() -> None:
    chunk = Chunk(SPLIT, 1, ChunkState.READING)
    chunk.note(BINDING, None, (2, "a"))
    chunk.note(BINDING, (2, "a"), (3, "b"))
    chunk.note(BINDING, (3, "b"), None)
    chunk.note(BINDING, None, (2, "c"))
    assert chunk.touched == {(2,): (2, "c"), (3,): None}


def test_a_chunk_that_ends_forgets_what_it_remembered() -> None:
    chunk = Chunk(SPLIT, 1, ChunkState.STAGED)
    chunk.attempt = EffectId(1, 1)
    chunk.note(BINDING, None, (2, "a"))
    chunk.close(ChunkState.PENDING)
    assert (chunk.state, chunk.attempt, chunk.touched, chunk.binding, chunk.refused) == (
        ChunkState.PENDING, None, {}, None, ()
    )  # fmt: skip


def test_a_table_is_done_when_all_its_chunks_are_merged() -> None:
    copy = TableCopy(Copied(SPLIT, merged=(0,)))
    assert copy.chunks[0].state is ChunkState.MERGED and not copy.done
    for chunk in copy.chunks:
        chunk.close(ChunkState.MERGED)
    assert copy.done


def test_a_row_lies_in_the_chunk_of_its_key_also_once_the_tables_have_changed() -> None:
    copy = TableCopy(Copied(SPLIT))
    numbers = [copy.chunk(BINDING, (key, "")).number for key in (0, 2, 3, 4, 9)]
    assert numbers == sorted(numbers) and numbers[0] < numbers[1] == numbers[2] < numbers[3] == numbers[4]
    copy.rebind()
    assert [copy.chunk(BINDING, (key, "")).number for key in (0, 2, 3, 4, 9)] == numbers
