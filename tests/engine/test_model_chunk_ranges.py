"""Chunk that a row belongs to: integers and buckets, the same as SQL says it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelock.engine.model.chunk_ranges import UNKNOWN, By, ChunkSplit, bucket, chunk_of, digest, number_rank
from tidelock.engine.model.records import Column, Kind, Shape, TableName
from tidelock.engine.model.schema import Equality, SchemaMismatch

NAME = TableName("shop", "seat")
SHAPE = Shape(
    NAME,
    (Column("hall", Kind.INT), Column("place", Kind.INT), Column("code", Kind.TEXT), Column("raw", Kind.BINARY)),
    ("hall", "place"),
)


def chunk(split: ChunkSplit, *row: object) -> int:
    return chunk_of(split, SHAPE)(row)


def test_a_table_without_bounds_is_one_chunk() -> None:
    split = ChunkSplit(NAME)
    assert split.chunks == 1 and split.span(0) == (None, None)
    assert chunk(split, 1, 2, "a", b"") == 0


def test_a_chunk_holds_its_first_rank_and_not_the_next_chunks() -> None:
    split = ChunkSplit(NAME, By.NUMBERS, ("hall",), ((5,), (9,)))
    assert [chunk(split, n, 0, "", b"") for n in (-(2**63), 4, 5, 8, 9, 2**64 - 1)] == [0, 0, 1, 1, 2, 2]
    assert [split.span(n) for n in range(3)] == [(None, (5,)), ((5,), (9,)), ((9,), None)]


def listed(equality: Equality, *keys: str) -> list[int]:
    """The chunks of some rows by their `code`."""
    split = ChunkSplit(NAME, By.KEYS, ("code",), keys=tuple((key,) for key in keys))
    of = chunk_of(split, SHAPE, {"code": equality})
    return [of((1, 1, code, b"")) for code in ("a", "A", "a ", "b", "é")]


def test_rows_of_a_list_of_keys_are_told_as_the_target_compares_them() -> None:
    assert listed(Equality.EXACT, "a", "x") == [1, 0, 0, 0, 0]
    assert listed(Equality.PADDED, "a") == [1, 0, 1, 0, 0]
    assert listed(Equality.FOLDED, "A") == [1, 1, 0, 0, UNKNOWN]
    assert listed(Equality.FOLDED_PADDED, "a") == [1, 1, 1, 0, UNKNOWN]


def test_a_listed_key_that_does_not_fold_exactly_may_be_any_row() -> None:
    assert listed(Equality.FOLDED, "ä") == [1, 1, 1, 1, 1]


def test_of_a_list_of_keys_all_other_rows_need_no_copying() -> None:
    split = ChunkSplit(NAME, By.KEYS, ("code",), keys=(("a",),))
    assert (split.chunks, split.merged, split.keeps_target_rows) == (2, (0,), True)
    assert ChunkSplit(NAME, By.KEYS, ("code",)).merged == (0, 1), "of none, nothing does"
    assert ChunkSplit(NAME).merged == () and not ChunkSplit(NAME).keeps_target_rows
    assert ChunkSplit(NAME, keep=True).keeps_target_rows
    assert ChunkSplit(NAME, By.KEYS).fault() == "it names no column to split by"


def test_a_short_bound_is_where_its_number_begins() -> None:
    split = ChunkSplit(NAME, By.NUMBERS, ("hall", "place"), ((5,), (5, 10), (6,)))
    ranks = ((4, 99), (5, -1), (5, 9), (5, 10), (5, 99), (6, 0))
    assert [chunk(split, hall, place, "", b"") for hall, place in ranks] == [0, 1, 1, 2, 2, 3]


@given(st.lists(st.tuples(st.integers(), st.integers()), unique=True, max_size=6), st.integers(), st.integers())
def test_numbers_are_compared_as_sql_compares_rows(bounds: list[tuple[int, int]], hall: int, place: int) -> None:
    split = ChunkSplit(NAME, By.NUMBERS, ("hall", "place"), tuple(sorted(bounds)))
    found = chunk(split, hall, place, "", b"")
    low, high = split.span(found)
    assert low is None or hall > low[0] or (hall == low[0] and place >= low[1])
    assert high is None or hall < high[0] or (hall == high[0] and place < high[1])


def test_a_bucket_is_the_crc_of_what_mysql_concatenates() -> None:
    """`tests/adapters/test_spans_sql.py` asks a server for the same number."""
    at = 1476540495
    assert bucket("7_C3A9_00FF") == (at,)
    split = ChunkSplit(NAME, By.BUCKET, ("hall", "code", "raw"), ((at,), (at + 1,)))
    assert chunk(split, 7, 0, "é", b"\x00\xff") == 1


def test_letters_that_a_collation_takes_for_one_are_two() -> None:
    at = bucket("61")[0]
    split = ChunkSplit(NAME, By.BUCKET, ("code",), ((at,), (at + 1,)))
    assert chunk(split, 0, 0, "a", b"") == 1
    assert chunk(split, 0, 0, "A", b"") != 1 and chunk(split, 0, 0, "a ", b"") != 1


def test_what_cannot_be_ranked_exactly_is_refused() -> None:
    numbers = ChunkSplit(NAME, By.NUMBERS, ("hall",), ((5,),))
    buckets = ChunkSplit(NAME, By.BUCKET, ("code",), ((5,),))
    with pytest.raises(SchemaMismatch, match=r"shop\.seat is being copied in chunks, and a value .* is no integer"):
        chunk(numbers, "5", 0, "", b"")
    with pytest.raises(SchemaMismatch, match="is text that does not decode"):
        chunk(buckets, 0, 0, b"\xff", b"")
    with pytest.raises(SchemaMismatch, match="has no exact spelling"):
        chunk(buckets, 0, 0, 0.5, b"")
    with pytest.raises(SchemaMismatch, match="its column seat, which the log no longer has"):
        chunk_of(ChunkSplit(NAME, By.NUMBERS, ("seat",), ((5,),)), SHAPE)


def test_a_split_that_says_nothing_sensible_tells_why() -> None:
    assert ChunkSplit(NAME).fault() == ""
    assert ChunkSplit(NAME, By.NUMBERS, ("hall",), ((5,), (5, 1), (6,))).fault() == ""
    assert ChunkSplit(NAME, By.NUMBERS, ("hall",), ((5,), (5,))).fault() == "its bounds do not ascend"
    assert ChunkSplit(NAME, By.NUMBERS, (), ((5,),)).fault() == "it names no column to split by"


PARTED = Shape(
    NAME,
    (
        Column("id", Kind.UUID, type="uuid"),
        Column("word", Kind.TEXT, type="text"),
        Column("amount", Kind.DECIMAL, precision=6, scale=2, type="numeric(6,2)"),
        Column("n", Kind.INT, length=4, type="integer"),
    ),
)
DIGITS = Column("amount", Kind.DECIMAL, precision=6, scale=2, type="numeric(6,2)")


def test_values_of_one_order_are_told_by_it() -> None:
    split = ChunkSplit(NAME, By.ORDERED, ("id",), (("7f000000-0000-0000-0000-000000000000",),))
    of = chunk_of(split, PARTED)
    low, high = "0" * 8 + "-0000-0000-0000-" + "0" * 12, "80000000-0000-0000-0000-000000000000"
    assert [of((at, "", "0.00", 1)) for at in (low, split.bounds[0][0], high)] == [0, 1, 1]
    words = chunk_of(ChunkSplit(NAME, By.ORDERED, ("word", "n"), (("Z", 5), ("a",), ("é",))), PARTED)
    rows = (("A", 9), ("Z", 4), ("Z", 5), ("a", 0), ("zz", 0), ("😀", 0))
    found = [words((low, word, "0.00", n)) for word, n in rows]
    assert found == [0, 0, 1, 2, 2, 3], "as their bytes are: upper case first, what is not ASCII last"
    numbers = chunk_of(ChunkSplit(NAME, By.ORDERED, ("amount",), ((-50,), (1050,))), PARTED)
    assert [numbers((low, "", a, 1)) for a in ("-0.51", "-0.50", "0.00", "10.49", "10.50", "NaN")] == [0, 1, 1, 1, 2, 2]


@given(st.lists(st.text(), min_size=2, max_size=2))
def test_texts_are_compared_as_their_bytes_are(two: list[str]) -> None:
    bound, word = two
    chunks = chunk_of(ChunkSplit(NAME, By.ORDERED, ("word",), ((bound,),)), PARTED)
    assert chunks(("", word, "", 0)) == int(word.encode() >= bound.encode())


@given(st.decimals(-9999, 9999, places=2), st.decimals(-9999, 9999, places=2))
def test_a_number_has_the_rank_of_its_digits(one: object, other: object) -> None:
    ranks = [number_rank(DIGITS, f"{number:.2f}") for number in (one, other)]
    assert (ranks[0] < ranks[1]) == (one < other) and max(ranks) < number_rank(DIGITS, "NaN") < 1 << 64  # type: ignore[operator]


def test_a_digest_is_the_sha_of_what_postgresql_concatenates() -> None:
    """`tests/adapters/test_postgres_reading.py` has a server cut tables by such numbers."""
    at = 2477908169
    assert digest("7_C3A9_00FF") == (at,)
    split = ChunkSplit(NAME, By.DIGEST, ("hall", "code", "raw"), ((at,), (at + 1,)))
    assert chunk(split, 7, 0, "é", b"\x00\xff") == 1


def test_what_has_no_order_is_refused() -> None:
    words = chunk_of(ChunkSplit(NAME, By.ORDERED, ("word",), (("a",),)), PARTED)
    with pytest.raises(SchemaMismatch, match="is no text"):
        words(("", b"\xff", "", 0))
    numbers = chunk_of(ChunkSplit(NAME, By.ORDERED, ("amount",), ((1,),)), PARTED)
    for wrong in ("1.5", "Infinity", 3, None):
        with pytest.raises(SchemaMismatch, match="is no number of its column's scale"):
            numbers(("", "", wrong, 0))
