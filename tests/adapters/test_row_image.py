"""Row images behave as the tuples of their values.  (Equal values of every type, from real servers: test_binlog_values;
whole feeds, with images wherever they can be: test_run_exact and its neighbours.)"""

from __future__ import annotations

import contextlib
import struct
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.harness.servers import MariaDb, Postgres
from tests.engine.world import shape_of, table
from tidelock.adapters.mysql.binlog import codecs
from tidelock.adapters.mysql.binlog.batch_frames import BATCH, IMAGES, FrameDecoder, FrameEncoder
from tidelock.adapters.mysql.binlog.codecs import WireColumn
from tidelock.adapters.mysql.binlog.row_compiler import RowOverrun, compile_rows
from tidelock.adapters.mysql.binlog.row_layout import Columns, layout
from tidelock.adapters.mysql.target import literals as mysql_literals
from tidelock.adapters.postgres.target import copy_text, literals
from tidelock.adapters.row_image import row_image
from tidelock.adapters.row_image.row_image import Layout, PackedRows, RowImage, array, copy_lines, values
from tidelock.engine.log.bound_batch import BoundBatch
from tidelock.engine.log.coalescer import Coalescer
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.options import Options
from tidelock.engine.model.records import Position, RowChange, TableName, Transaction
from tidelock.engine.model.schema import Binding
from tidelock.engine.parallel.segments import Change

COLUMNS: Columns = (
    (WireColumn(codecs.LONGLONG), None),
    (WireColumn(codecs.VARCHAR, 1020, charset="utf8mb4"), None),
    (WireColumn(codecs.BLOB, 2, charset="latin1"), None),
    (WireColumn(codecs.TINY, unsigned=True), None),
)
ROWS = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1) | st.none(),
        st.text(st.characters(codec="utf-8"), max_size=30) | st.none(),
        st.text(st.characters(codec="latin-1", exclude_categories=["Cc"], max_codepoint=126), max_size=9) | st.none(),
        st.integers(0, 255) | st.none(),
    ),
    min_size=1,
    max_size=60,
)

ITEM, NOTE, NOTE_TOO = (
    Binding(number, shape_of(target), target)
    for number, target in ((3, table("item", ["id"], ["id"])), *[(n, table("note", ["id"], ["id"])) for n in (4, 5)])
)


def bytes_of(row: tuple[Any, ...]) -> bytes:
    """The row as a server logs it."""
    nulls = sum(1 << i for i, value in enumerate(row) if value is None)
    key, text, note, flag = row
    parts = [
        b"" if key is None else struct.pack("<q", key),
        b"" if text is None else struct.pack("<H", len(text.encode())) + text.encode(),
        b"" if note is None else struct.pack("<H", len(note)) + note.encode("latin1"),
        b"" if flag is None else bytes([flag]),
    ]
    return bytes([nulls]) + b"".join(parts)


def made(columns: Columns = COLUMNS, number: int = 3) -> Layout:
    found = layout(number, columns)
    assert found is not None
    return found


def images_of(rows: list[tuple[Any, ...]]) -> list[RowImage]:
    changes: list[RowChange] = []
    body = b"".join(map(bytes_of, rows))
    assert made().inserts(body, 0, len(body), 0, changes.append) == len(rows)
    return [change.after for change in changes]  # type: ignore[misc]


@given(ROWS)
def test_an_image_is_its_tuple(rows: list[tuple[Any, ...]]) -> None:
    images = images_of(rows)
    for image, row in zip(images, rows, strict=True):
        assert tuple(image) == row
        assert image == row
        assert row == image
        assert hash(image) == hash(row)
        assert [image[i] for i in range(-4, 4)] == [row[i] for i in range(-4, 4)]
        assert (image[1:3], len(image), repr(image)) == (row[1:3], 4, repr(row))
        with pytest.raises(IndexError):
            image[4]
    assert len({*images}) == len({*rows})


@given(ROWS)
def test_updates_and_deletes_hold_both_images(rows: list[tuple[Any, ...]]) -> None:
    changes: list[RowChange] = []
    body = b"".join(bytes_of(row) for row in rows for _ in range(2))
    assert made().updates(body, 0, len(body), 5, changes.append) == 5 + len(rows)
    assert [(c.table, c.before, c.after, c.ordinal) for c in changes] == [
        (3, row, row, 5 + i) for i, row in enumerate(rows)
    ]
    changes.clear()
    assert made().deletes(body, 0, len(body), 0, changes.append) == 2 * len(rows)
    assert [(c.before, c.after) for c in changes] == [(row, None) for row in rows for _ in range(2)]


@given(ROWS, st.data())
def test_a_cut_row_is_refused_as_by_the_compiled_reader(rows: list[tuple[Any, ...]], data: st.DataObject) -> None:
    body = b"".join(map(bytes_of, rows))
    cut = body[: data.draw(st.integers(1, len(body)))]
    taken: list[RowChange] = []
    try:
        made().inserts(cut, 0, len(cut), 0, taken.append)
        whole = True
    except row_image.RowOverrun:
        whole = False
    python = compile_rows([codecs.codec(wire, kind, True) for wire, kind in COLUMNS], 3)[0]
    other: list[RowChange] = []
    try:
        python(cut, 0, len(cut), 0, other.append)
        assert whole
        assert [c.after for c in taken] == [c.after for c in other]
    except (RowOverrun, struct.error, IndexError):
        assert not whole


def test_what_would_make_no_value_is_refused_where_it_is_read() -> None:
    colours = made(((WireColumn(codecs.ENUM, 1, labels=("red", "blue")), None),))
    taken: list[RowChange] = []
    colours.inserts(b"\0\1\0\2\0\0", 0, 6, 0, taken.append)
    assert [tuple(c.after or ()) for c in taken] == [("red",), ("blue",), ("",)]
    with pytest.raises(IndexError, match="no label"):
        colours.inserts(b"\0\3", 0, 2, 0, taken.append)
    members = made(((WireColumn(codecs.SET, 1, labels=("a", "b")), None),))
    with pytest.raises(ValueError, match="more members"):
        members.inserts(b"\0\4", 0, 2, 0, taken.append)


def test_tables_with_columns_that_fail_late_have_tuples() -> None:
    for wire in (WireColumn(codecs.JSON, 4), WireColumn(codecs.DATETIME), WireColumn(codecs.BLOB_COMPRESSED, 2)):
        assert layout(0, [(WireColumn(codecs.LONG), None), (wire, None)]) is None


@pytest.mark.parametrize(
    "wire",
    [
        WireColumn(codecs.ENUM, 200, labels=("a",)),
        WireColumn(codecs.SET, 9, labels=("a",)),
        WireColumn(codecs.BLOB, 200),
        WireColumn(codecs.GEOMETRY, 0),
        WireColumn(codecs.BIT, 65),
        WireColumn(codecs.DATETIME2, 7),
        WireColumn(codecs.NEWDECIMAL, 255 << 8 | 200),
        WireColumn(codecs.NEWDECIMAL, 5 << 8 | 6),
    ],
    ids=str,
)
def test_sizes_that_no_server_has_are_left_to_the_readers_that_refuse_them(wire: WireColumn) -> None:
    """A damaged table map, else: a compiled reader has no room for them."""
    assert layout(0, [(WireColumn(codecs.LONG), None), (wire, None)]) is None


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@given(st.lists(st.tuples(st.integers(-9, 9), TEXTS | st.none(), st.none(), st.none()), min_size=1, max_size=20))
def test_an_array_is_read_back_by_the_server(postgres: Postgres, rows: list[tuple[Any, ...]]) -> None:
    images = images_of(rows)
    numbers, texts = array(images, 0), array(images, 1)
    found = postgres.execute(f"SELECT {numbers}::bigint[], {texts}::text[]")
    assert found == [([row[0] for row in rows], [row[1] for row in rows])]


@given(st.lists(st.tuples(st.integers(-9, 9), TEXTS | st.none(), st.none(), st.none()), min_size=1, max_size=20))
def test_values_are_read_back_by_the_server(postgres: Postgres, rows: list[tuple[Any, ...]]) -> None:
    written = values(images_of(rows), [0, 1])
    found = postgres.execute(f"SELECT n::bigint, t FROM (VALUES {written}) AS v(n, t)")
    assert found == [(row[0], row[1]) for row in rows]


@given(st.lists(st.tuples(st.integers(-9, 9), st.text(st.characters(codec="utf-8"))), min_size=1, max_size=20))
def test_literals_are_read_back_by_the_server(mariadb: MariaDb, rows: list[tuple[int, str]]) -> None:
    forms = [row_image.LITERALS["bare"], row_image.LITERALS["quoted"], row_image.LITERALS["quoted"]]
    texts = row_image.literals(images_of([(*row, None, None) for row in rows]), [0, 1, 2], forms)
    assert texts is not None
    with contextlib.closing(mariadb.connect()) as session:
        session.execute("SET sql_mode='NO_BACKSLASH_ESCAPES'", ())
        found = session.execute(f"SELECT * FROM (VALUES {','.join(texts)}) v", ())
    assert found == [(*row, None) for row in rows]


@pytest.mark.parametrize("text", [b"a\0b", b"\xff", b"\xed\xa0\x80"])
def test_what_no_text_of_the_target_may_hold_is_left_to_the_caller(text: bytes) -> None:
    body = b"\x0d" + struct.pack("<H", len(text)) + text
    taken: list[RowChange] = []
    made().inserts(body, 0, len(body), 0, taken.append)
    images: list[Any] = [taken[0].after]
    assert (copy_lines(images, [1]), array(images, 1), values(images, [1])) == (None, None, None)
    assert (copy_lines(images, [0]), values(images, [0])) == (b"\\N\n", "(NULL)")
    literals = row_image.literals(images, [1], [row_image.LITERALS["quoted"]])
    assert literals == (["('a\0b')"] if text == b"a\0b" else None)


@given(st.text(st.sampled_from("abcdefgh \\\t\n\r\"'\x01\x0b\x0c\x0e\x7fé潮😀"), max_size=40))
def test_texts_are_written_as_the_python_forms_write_them(text: str) -> None:
    """Eight bytes are looked at in one, so each that is escaped must be found wherever it stands."""
    images: list[Any] = images_of([(1, text, "b", 2)])
    assert copy_lines(images, [1]) == copy_text.lines(["a"], [[text]])
    assert array(images, 1) == literals.array("a", [text])
    assert values(images, [1]) == literals.tuples(["a"], [[text]])
    quoted = row_image.literals(images, [1], [row_image.LITERALS["quoted"]])
    assert quoted == [f"({mysql_literals.text(text)})"]
    odd: list[Any] = images_of([(1, f"{text[:9]}\0{text[9:]}", "b", 2)])
    assert (copy_lines(odd, [1]), array(odd, 1), values(odd, [1])) == (None, None, None)


def test_rows_that_are_no_images_are_left_to_the_caller() -> None:
    mixed: list[Any] = [*images_of([(1, "a", "b", 2)]), (2, "a", "b", 2)]
    assert (copy_lines(mixed, [0]), array(mixed, 0), values(mixed, [0])) == (None, None, None)
    assert row_image.literals(mixed, [0], [row_image.LITERALS["bare"]]) is None
    assert row_image.sizes(mixed) is None and row_image.sizes(mixed[:1]) == [len(bytes_of((1, "a", "b", 2)))]


def batch(rows: list[RowChange]) -> LogBatch:
    return LogBatch(Position("log.1", 4), Position("log.1", 9), (Transaction("0-1", 7, 0),), tuple(rows))


def test_batches_travel_with_their_images_or_as_tuples() -> None:
    """A table that was announced in a batch of tuples is known when its first image comes."""
    (image,) = images_of([(1, "ä", "b", None)])
    columns = {3: COLUMNS}
    encoder, decoder = FrameEncoder(lambda: columns), FrameDecoder()
    plain = batch([RowChange(3, image, None, 0), RowChange(4, None, (1, "x"), 1)])
    kind, body = encoder.frame(plain)
    assert kind == BATCH
    assert decoder.batch(kind, memoryview(body)) == plain
    columns[5] = COLUMNS
    for rows in ([RowChange(3, None, image, 0)], [RowChange(5, image, image, 2**33), RowChange(3, image, None, 1)]):
        kind, body = encoder.frame(batch(rows))
        assert kind == IMAGES
        got = decoder.batch(kind, memoryview(body))
        assert got == batch(rows)
        assert all(isinstance(row, RowImage) for c in got.rows for row in (c.before, c.after) if row is not None)


def test_an_image_is_stored_as_its_tuple() -> None:
    (image,) = images_of([(1, "a", None, 2)])
    stored = msgspec.msgpack.Encoder(enc_hook=tuple).encode(RowChange(3, None, image, 0))
    assert msgspec.msgpack.decode(stored, type=RowChange) == RowChange(3, None, (1, "a", None, 2), 0)
    assert TableName("a", "b") != image


def packed(rows: list[RowChange], layouts: dict[int, Layout]) -> PackedRows:
    body = row_image.pack(rows)
    assert body is not None
    return PackedRows(body, layouts)


SPREAD = st.lists(
    st.tuples(st.sampled_from([3, 4, 5]), st.booleans(), st.booleans(), st.integers(0, 2**40), st.booleans()),
    min_size=1,
    max_size=60,
)


@given(SPREAD, st.sets(st.sampled_from([3, 4, 5])))
def test_packed_rows_are_lined_up_and_wait_as_tuples_do(
    drawn: list[tuple[int, bool, bool, int, bool]], wait: set[int]
) -> None:
    """Some tables wait on piles over two batches, the others go on; numbers 4 and 5 are two shapes of one table."""
    layouts = {number: made(number=number) for number in (3, 4, 5)}
    rows: list[RowChange] = []
    transactions: list[Transaction] = []
    for at, (number, inserts, deletes, ordinal, begins) in enumerate(drawn):
        before, after = images_of([(at, "ä" * (at % 3), None, 1), (at, None, "b", 2)])
        after = None if deletes and not inserts else after
        rows.append(RowChange(number, None if inserts else before, after, ordinal))
        if begins or not transactions:
            transactions.append(Transaction(f"0-{at % 2}", 2**40 + at, at))
    plain = LogBatch(Position("log.1", 4), Position("log.1", 9), tuple(transactions), tuple(rows))
    images = msgspec.structs.replace(plain, rows=packed(rows, layouts))
    assert images == plain
    bindings = {3: ITEM, 4: NOTE, 5: NOTE_TOO}
    numbers = dict.fromkeys(row.table for row in rows)
    lined = [BoundBatch(batch, lambda asked: {n: bindings[n] for n in asked}) for batch in (plain, images)]
    assert lined[1].packed and tuple(lined[1].bindings) == tuple(numbers) and len(images.rows) == len(rows)
    changes = [list(map(told, one.changes())) for one in lined]
    assert changes[0] == changes[1]
    found = []
    for one in lined:
        shared = one.pile()
        piles = {ITEM: one.pile(), NOTE: shared, NOTE_TOO: shared}
        piles = {bindings[number]: piles[bindings[number]] for number in wait}
        rest = [*one.pour(piles), *one.pour(piles)]
        waited = {pile: list(map(told, pile.changes(Change))) for pile in piles.values()}
        assert all(pile.rows == len(those) for pile, those in waited.items())
        assert all((pile.size > 0) == bool(those) for pile, those in waited.items())
        found.append((list(map(told, rest)), *waited.values()))
    assert found[0] == found[1]


def told(change: Change) -> tuple[Any, ...]:
    return change.binding, change.before, change.after, change.source, change.number, change.ordinal


def test_rows_on_a_pile_keep_no_message_and_come_of_it_as_images() -> None:
    (image,) = images_of([(1, "ä", None, 2)])
    layouts = {3: made()}
    body = row_image.pack([RowChange(3, image, image, 7)] * 9)
    assert body is not None
    held = sys.getrefcount(body)
    one = BoundBatch(batch([]), lambda _: {3: ITEM})
    one._batch.rows = PackedRows(body, layouts)  # type: ignore[assignment]
    pile = one.pile()
    assert one.pour({ITEM: pile}) == [] and pile.size < 3 * len(body)
    one._batch.rows = ()
    assert sys.getrefcount(body) == held
    changes = pile.changes(Change)
    del pile
    assert [(c.before, c.after, c.ordinal) for c in changes] == [(image, image, 7)] * 9
    assert all(isinstance(c.before, RowImage) and isinstance(c.after, RowImage) for c in changes)


def test_packed_rows_that_are_not_whole_or_have_no_transaction_are_refused() -> None:
    (image,) = images_of([(1, "ä", None, 2)])
    layouts = {3: made()}
    body = row_image.pack([RowChange(3, None, image, 7)] * 2)
    assert body is not None
    for cut in (1, len(body) // 2 + 1, len(body) - 1):
        with pytest.raises(ValueError, match="end within a row"):
            PackedRows(body[:cut], layouts)
    rows = PackedRows(body, layouts)
    for ask in (lambda: rows.changes(Change, {3: ITEM}, ()), lambda: rows.pour({}, Change, {3: ITEM}, ())):
        with pytest.raises(ValueError, match="without a transaction"):
            ask()
    with pytest.raises(KeyError):
        PackedRows(body, {})


def test_a_pile_keeps_the_name_of_a_source_once() -> None:
    (image,) = images_of([(1, "a", None, 2)])
    layouts = {3: made()}
    body = row_image.pack([RowChange(3, None, image, 7)] * 2)
    assert body is not None
    pile = PackedRows(body, layouts).pile()
    names = [f"0-{number}" for number in (1, 1, 1)]  # as messages bring them, each anew
    held = [sys.getrefcount(name) for name in names]
    for name in names:
        assert PackedRows(body, layouts).pour({ITEM: pile}, Change, {3: ITEM}, (Transaction(name, 1, 0),)) == []
    assert [sys.getrefcount(name) for name in names][1] == held[1]
    assert [(c.source, c.number) for c in pile.changes(Change)] == [("0-1", 1)] * 6


def test_what_waits_keeps_its_order_whatever_form_it_comes_in() -> None:
    layouts = {3: made(), 4: made(number=4)}
    lot = Coalescer(Options(lanes=1, coalesce_rows=99))
    batches: list[BoundBatch] = []
    for number in range(6):
        rows = [RowChange(n, None, image, 0) for n, image in enumerate(images_of([(number, "a", "b", 2)] * 2), 3)]
        came = LogBatch(Position("log.1", 4), Position("log.1", 9), (Transaction("0-1", number, 0),), tuple(rows))
        if number not in (2, 5):
            came.rows = packed(rows, layouts)  # type: ignore[assignment]
        batches.append(BoundBatch(came, lambda _: {3: ITEM, 4: NOTE}))
    for windows in ([[one] for one in batches], [batches], [batches[:4], batches[4:]]):
        for number, window in enumerate(windows):
            assert lot.take_window(window, number, 0) == []
        assert lot.rows == 12 and lot.size > 0
        left = lot.release(99, 0)
        assert [(c.binding, c.number) for c in left] == [(table, n) for table in (ITEM, NOTE) for n in range(6)]
        assert (lot.rows, lot.size) == (0, 0)

