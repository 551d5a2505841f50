"""The log's records: whatever goes in comes out, what is documented holds, and what was written stays readable."""

from __future__ import annotations

import contextlib
import math
import random
from pathlib import Path

import msgspec
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from tidelock.adapters.kafka.wire import VERSION, WireError, decode, encode
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import UNKNOWN, Column, Kind, Position, RowChange, Shape, TableName, Transaction
from tidelock.engine.model.schema_change import Ddl, DdlKind

GOLDEN = Path(__file__).parent / "data" / "changes-1.hex"

ACCOUNT = Shape(
    TableName("shop", "account"),
    (
        Column("id", Kind.INT, unsigned=True, length=8),
        Column("email", Kind.TEXT, length=64, charset="utf8mb4"),
        Column("balance", Kind.DECIMAL, precision=12, scale=2),
        Column("mood", Kind.ENUM, charset="utf8mb4", labels=("happy", "sad")),
        Column("photo", Kind.BINARY, length=255),
        Column("ratio", Kind.DOUBLE),
    ),
    ("id",),
)
BATCH = LogBatch(
    prev=Position("binlog.000007", 1234, 0, "0-101-17"),
    last=Position("binlog.000007", 5678, 2, "0-101-18"),
    transactions=(Transaction("0-101", 18, 0, True, 1_700_000_000_123_456), Transaction("0-101", 19, 2, False)),
    rows=(
        RowChange(3, None, (1, "ann@example.com", "-12.30", "happy", b"\x00\xff", 0.5), 0),
        RowChange(3, (2, "bob", "0.00", "", None, None), (2, "bœb", "0.01", "sad", b"", 1e300), 1),
        RowChange(3, (2**64 - 1, None, "1.00", "sad", b"x", -0.0), None, 1),
    ),
    shapes={3: ACCOUNT},
    end_us=1_700_000_000_123_456,
)
STATEMENT = LogBatch(
    prev=BATCH.last,
    last=Position("binlog.000007", 6000),
    ddl=Ddl("shop", "TRUNCATE account", "0-101", 20, DdlKind.TRUNCATE, (TableName("shop", "account"),)),
    end_us=7,
)

texts = st.text(st.characters(exclude_categories=("Cs",)))
integers = st.integers(-(2**63), 2**64 - 1)
values = st.none() | integers | st.floats(allow_nan=False) | texts | st.binary()
perhaps_unknown = values | st.just(UNKNOWN)
positions = st.builds(Position, texts, st.integers(0, 2**63), st.integers(0, 2**32), texts)
names = st.builds(TableName, texts, texts)
columns = st.builds(
    Column,
    texts,
    st.sampled_from(Kind),
    st.booleans(),
    st.integers(0, 2**32),
    st.integers(0, 65),
    st.integers(0, 38),
    texts,
    st.lists(texts, max_size=3).map(tuple),
)
shapes = st.builds(
    Shape,
    names,
    st.lists(columns, max_size=4).map(tuple),
    st.lists(texts, max_size=2).map(tuple),
    st.sampled_from(("full", "key", "nothing")),
)
rows = st.lists(perhaps_unknown, max_size=5).map(tuple)
changes = st.builds(RowChange, st.integers(0, 2**31), st.none() | rows, st.none() | rows, st.integers(0, 2**40))
transactions = st.builds(
    Transaction, texts, st.integers(0, 2**63), st.integers(0, 500), st.booleans(), st.integers(0, 2**62)
)
statements = st.builds(
    Ddl, texts, texts, texts, st.integers(0, 2**63), st.sampled_from(DdlKind), st.lists(names, max_size=2).map(tuple)
)
batches = st.builds(
    LogBatch,
    positions,
    positions,
    st.lists(transactions, max_size=3).map(tuple),
    st.lists(changes, max_size=5).map(tuple),
    st.dictionaries(st.integers(0, 2**31), shapes, max_size=2),
    st.none() | statements,
    st.integers(0, 2**62),
)


@given(batches, texts, st.integers(1, 2**31))
def test_what_goes_in_comes_out(batch, origin, plan):
    record = decode(encode(batch, origin=origin, plan=plan))
    assert record.batch == batch
    assert (record.origin, record.plan) == (origin, plan)
    assert [[type(v) for v in row.after or ()] for row in record.batch.rows] == [
        [type(v) for v in row.after or ()] for row in batch.rows
    ]


def test_a_float_is_its_own_bits():
    for number in (math.nan, math.inf, -math.inf, -0.0, 5e-324):
        batch = msgspec.structs.replace(BATCH, rows=(RowChange(3, None, (number,), 0),))
        ((back,),) = (row.after for row in decode(encode(batch, origin="", plan=1)).batch.rows)
        assert (math.isnan(back) and math.isnan(number)) or (back, math.copysign(1, back)) == (
            number,
            math.copysign(1, number),
        )


def test_the_documented_bytes():
    """docs/reference/changes-topic.md, read by a plain msgpack decoder."""
    value = encode(BATCH, origin="db1:3306", plan=4, topic="tidelock.shop.changes")
    assert value[0] == 1
    prev, last, transactions, rows, shapes, ddl, end_us, origin, plan, schema, topic = msgspec.msgpack.decode(value[1:])
    assert prev == ["binlog.000007", 1234, 0, "0-101-17", ""]
    assert last == ["binlog.000007", 5678, 2, "0-101-18", ""]
    assert transactions == [["0-101", 18, 0, True, 1_700_000_000_123_456, 0], ["0-101", 19, 2, False, 0, 0]]
    assert rows[0] == [3, None, [1, "ann@example.com", "-12.30", "happy", b"\x00\xff", 0.5], 0]
    assert rows[2][2:] == [None, 1]
    name, described, key, identity = shapes[3]
    assert (name, key, identity) == (["shop", "account"], ["id"], "full")
    assert described[0] == ["id", "int", True, 8, 0, 0, "", [], ""]
    assert described[3] == ["mood", "enum", False, 0, 0, 0, "utf8mb4", ["happy", "sad"], ""]
    assert (ddl, end_us, origin, plan) == (None, 1_700_000_000_123_456, "db1:3306", 4)
    assert topic == "tidelock.shop.changes"
    assert schema == xxhash.xxh3_64_intdigest(msgspec.msgpack.encode(shapes))
    ddl = msgspec.msgpack.decode(encode(STATEMENT, origin="", plan=4)[1:])[5]
    told = ["shop", "TRUNCATE account", "0-101", 20, "truncate", [["shop", "account"]], [], [], False]
    assert ddl == [*told, [], False, None, None, None, None, [], False, None, ""]


def test_a_record_of_another_topic_is_foreign_and_one_that_says_none_is_not():
    value = encode(BATCH, origin="", plan=4, topic="tidelock.shop.changes")
    assert decode(value, "tidelock.shop.changes").topic == "tidelock.shop.changes"
    assert decode(encode(BATCH, origin="", plan=4), "tidelock.shop.changes").topic == ""
    with pytest.raises(WireError, match=r"of tidelock\.shop\.changes, which somebody has copied to tidelock\.copy"):
        decode(value, "tidelock.copy.changes")


def test_a_record_written_by_version_1_stays_readable():
    values = [bytes.fromhex(line) for line in GOLDEN.read_text().split()]
    assert [decode(value).batch for value in values] == [BATCH, STATEMENT]
    assert [(record.origin, record.plan) for record in map(decode, values)] == [("db1:3306", 4)] * 2


def test_a_value_that_the_log_does_not_tell_is_an_extension_of_version_2():
    """A program that knows version 1 alone would write what it decodes there into a column."""
    keyed = msgspec.structs.replace(ACCOUNT, identity="key")
    change = RowChange(3, (2, *[UNKNOWN] * 5), (2, "bob", UNKNOWN, "sad", None, 0.5), 0)
    partial = msgspec.structs.replace(BATCH, rows=(change,), shapes={3: keyed})
    value = encode(partial, origin="db1", plan=4)
    assert value[0] == 2 == VERSION
    rows, shapes = msgspec.msgpack.decode(value[1:])[3:5]
    assert rows[0][2][2] == msgspec.msgpack.Ext(1, b"")
    assert shapes[3][3] == "key"
    (back,) = decode(value).batch.rows
    assert back == change
    assert back.after[2] is UNKNOWN
    assert back.before[1] is UNKNOWN


def test_an_extension_that_no_row_holds_is_damage():
    value = bytes(encode(BATCH, origin="db1:3306", plan=4))
    (known,) = (msgspec.msgpack.encode(v) for v in ("ann@example.com",))
    for ext in (msgspec.msgpack.Ext(2, b""), msgspec.msgpack.Ext(1, b"x")):
        with pytest.raises(WireError, match="version 1 is damaged: a MessagePack extension"):
            decode(value.replace(known, msgspec.msgpack.encode(ext)))


def test_records_of_equal_schema_number_have_equal_shapes():
    renamed = msgspec.structs.replace(ACCOUNT, primary_key=())
    schemas = [
        decode(encode(msgspec.structs.replace(BATCH, shapes=shapes), origin="", plan=1)).schema
        for shapes in ({3: ACCOUNT}, {3: ACCOUNT}, {3: renamed}, {4: ACCOUNT}, {})
    ]
    assert schemas[0] == schemas[1]
    assert len(set(schemas)) == 4


def test_what_cannot_be_read_says_why():
    with pytest.raises(WireError, match="version 9; this program reads up to version 2") as refused:
        decode(b"\x09" + encode(BATCH, origin="", plan=1)[1:])
    assert "newest version" in refused.value.hint
    with pytest.raises(WireError, match="version 1 is damaged"):
        decode(encode(BATCH, origin="", plan=1)[:-3])
    with pytest.raises(WireError, match="version 1 is damaged"):
        decode(b"\x01\x91\x01")
    with pytest.raises(WireError, match="without a value"):
        decode(b"")


def test_a_damaged_record_is_one_error():
    """Bytes changed anywhere, text that is none among them; Kafka's own checksum has let them pass."""
    whole = bytes(encode(BATCH, origin="db1:3306", plan=7))
    with pytest.raises(WireError, match="version 1 is damaged"):
        decode(whole.replace("bœb".encode(), b"b\xff\xffb"))
    rng = random.Random(1)
    for _ in range(5_000):
        changed = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(1, len(changed))] = rng.randrange(256)
        with contextlib.suppress(WireError):
            decode(bytes(changed))
    with pytest.raises(WireError, match="version 1 is damaged"):
        decode(b"\x01\x9a" + b"\x91" * 100_000)
