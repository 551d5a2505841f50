"""Every value, read from a real log, is what the server itself says it is; a second oracle is mysql-replication."""

import json
import math
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import pymysql
import pymysqlreplication
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymysqlreplication.row_event import WriteRowsEvent

from bench.harness.decode import read
from bench.harness.servers import MariaDb, MySql
from tidelock.adapters.mysql import connection as server
from tidelock.adapters.mysql.binlog import log_ends
from tidelock.adapters.mysql.charsets import CHARSETS
from tidelock.adapters.mysql.connection import Address
from tidelock.adapters.mysql.target import literals
from tidelock.adapters.postgres.target.copy_text import lines
from tidelock.adapters.postgres.target.literals import tuples
from tidelock.adapters.row_image import row_image
from tidelock.adapters.row_image.row_image import RowImage, copy_lines, values
from tidelock.engine.model.log_batch import SourceChunk
from tidelock.engine.model.records import Kind, Position, Row, RowChange, Shape

LIVE = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
SECOND_ORACLE_ID = 990_101


class Type(NamedTuple):
    """A column type: its definition, values to insert, and what to select so that the answer is canonical."""

    definition: str
    values: st.SearchStrategy[Any]
    select: str = "CAST({} AS CHAR)"
    is_bytes: bool = False


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=30)
BYTES = st.binary(max_size=40)
PLAIN, AS_BYTES, AS_DOUBLE = "{}", "HEX({})", "CAST({} AS DOUBLE)"
AS_TEXT = "CONVERT({} USING utf8mb4)"


def integers(name: str, bits: int) -> list[Type]:
    half = 1 << bits - 1
    return [
        Type(name, st.integers(-half, half - 1), PLAIN),
        Type(f"{name} UNSIGNED", st.integers(0, 2 * half - 1), PLAIN),
    ]


def decimals(precision: int, scale: int) -> Type:
    limit = 10**precision - 1
    values = st.integers(-limit, limit).map(
        lambda number: f"{number // 10**scale}" if scale == 0 else _point(number, scale)
    )
    return Type(f"DECIMAL({precision},{scale})", values)


def _point(number: int, scale: int) -> str:
    digits = f"{abs(number):0{scale + 1}d}"
    return f"{'-' if number < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def _clock(fraction: int) -> st.SearchStrategy[str]:
    parts = st.tuples(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999_999))
    return parts.map(lambda p: f"{p[0]:02d}:{p[1]:02d}:{p[2]:02d}.{p[3]:06d}"[: 8 + bool(fraction) + fraction])


DATES = st.one_of(
    st.dates().map(lambda day: f"{day.year:04d}-{day.month:02d}-{day.day:02d}"),
    st.sampled_from(["0000-00-00", "2023-00-15", "2023-05-00", "9999-12-31", "1000-01-01", "0001-01-01"]),
)
SOME_DATES = st.integers(0, 24_000).map(lambda day: f"{1971 + day // 400:04d}-{1 + day % 12:02d}-{1 + day % 28:02d}")


def temporal(fraction: int) -> list[Type]:
    digits = f"({fraction})"
    hours = st.tuples(st.sampled_from(["", "-"]), st.integers(0, 837), _clock(fraction))
    return [
        Type(f"DATETIME{digits}", st.tuples(DATES, _clock(fraction)).map(" ".join)),
        Type(
            f"TIMESTAMP{digits} NULL",
            st.one_of(st.just("0000-00-00 00:00:00"), st.tuples(SOME_DATES, _clock(fraction)).map(" ".join)),
        ),
        Type(f"TIME{digits}", hours.map(lambda t: f"{t[0]}{t[1]:02d}{t[2][2:]}")),
    ]


def texts(charset: str) -> list[Type]:
    return [
        Type(f"VARCHAR(40) CHARACTER SET {charset}", TEXTS, AS_TEXT),
        Type(f"CHAR(70) CHARACTER SET {charset}", TEXTS, AS_TEXT),
        Type(f"TEXT CHARACTER SET {charset}", TEXTS, AS_TEXT),
    ]


DOCUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=20,
).map(lambda value: json.dumps(value, ensure_ascii=False))
POINTS = st.tuples(st.integers(-90, 90), st.integers(-90, 90)).map(lambda p: struct.pack("<IBIdd", 0, 1, 1, *p))
LABELS = ["a", "b", "it's", "", "long label", "é"]

COMMON = [
    *(kind for name, bits in (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64))
      for kind in integers(name, bits)),
    *(decimals(*size) for size in ((65, 30), (12, 2), (10, 0), (5, 5), (30, 0), (1, 0), (9, 9), (18, 9), (20, 10))),
    *(kind for fraction in range(7) for kind in temporal(fraction)),
    *(kind for charset in ("utf8mb4", "utf8mb3", "latin1", "ascii", "gbk", "ucs2", "utf16", "utf32", "sjis", "cp1251")
      for kind in texts(charset)),
    *(Type(f"BIT({bits})", st.integers(0, 2**bits - 1), "{}+0") for bits in (1, 7, 8, 9, 33, 64)),
    Type("YEAR", st.sampled_from([0, 1901, 2000, 2155]), "{}+0"),
    Type("DATE", DATES),
    Type("FLOAT", st.floats(width=32, allow_nan=False, allow_infinity=False), AS_DOUBLE),
    Type("DOUBLE", st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x == 0 or abs(x) > 1e-300), PLAIN),
    Type("BINARY(5)", st.binary(max_size=5), AS_BYTES, True),
    Type("BINARY(16)", st.binary(max_size=16), AS_BYTES, True),
    Type("VARBINARY(300)", BYTES, AS_BYTES, True),
    *(Type(name, BYTES, AS_BYTES, True) for name in ("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB")),
    Type("TINYTEXT", TEXTS, AS_TEXT),
    Type("VARCHAR(300) CHARACTER SET utf8mb4", st.integers(0, 300).map("é".__mul__), AS_TEXT),
    Type("CHAR(255) CHARACTER SET utf8mb4", st.integers(0, 255).map("é".__mul__), AS_TEXT),
    Type("MEDIUMTEXT CHARACTER SET utf8mb4", st.integers(0, 90_000).map("x".__mul__), AS_TEXT),
    Type("ENUM('a','b','it''s','','long label','é') CHARACTER SET utf8mb4", st.sampled_from([*LABELS, "other"])),
    Type("SET('a','b','c d','é','e')", st.sets(st.sampled_from(["a", "b", "c d", "é", "e"])).map(",".join), AS_TEXT),
    Type("POINT", POINTS, AS_BYTES, True),
    Type("JSON", DOCUMENTS),
]  # fmt: skip
ONLY_MYSQL = [
    Type("VECTOR(3)", st.tuples(*[st.floats(width=32, allow_nan=False, allow_infinity=False)] * 3).map(
        lambda numbers: struct.pack("<3f", *numbers)), AS_BYTES, True),
    Type("VARCHAR(40) CHARACTER SET gb18030", TEXTS, AS_TEXT),
]  # fmt: skip
IPV6 = st.one_of(
    st.ip_addresses(v=6).map(str), st.sampled_from(["::", "::1", "::1.2.3.4", "::ffff:1.2.3.4", "1::", "1:0:0:2::"])
)
ONLY_MARIADB = [
    Type("UUID", st.uuids().map(str)),
    Type("INET6", IPV6),
    Type("INET4", st.ip_addresses(v=4).map(str)),
    Type("VARCHAR(300) COMPRESSED CHARACTER SET utf8mb4", st.integers(0, 300).map("é".__mul__), AS_TEXT),
    Type("TEXT COMPRESSED CHARACTER SET latin1", TEXTS, AS_TEXT),
    Type("BLOB COMPRESSED", st.integers(0, 400).map(b"z".__mul__), AS_BYTES, True),
]


class Source:
    """A server with a session that takes any value, and one table that each example makes anew."""

    def __init__(self, origin: MariaDb | MySql) -> None:
        self.endpoint = Address(origin.host, origin.port, origin.user, origin.password)
        self.database = origin.database("binlog_values")
        self.session = server.connect(self.endpoint)
        self.run("SET SESSION sql_mode='', timestamp=DEFAULT, innodb_strict_mode=0")
        self.run(f"USE {self.database}")
        self.tables = self.images = 0

    def run(self, sql: str, *args: object) -> list[tuple[Any, ...]]:
        return server.rows(self.session, sql, *args)

    def table(self, definitions: list[str]) -> str:
        self.tables += 1
        columns = "".join(f", c{index} {definition}" for index, definition in enumerate(definitions))
        self.run(f"CREATE TABLE t{self.tables} (pk INT AUTO_INCREMENT PRIMARY KEY{columns}) ROW_FORMAT=DYNAMIC")
        return f"t{self.tables}"

    def changes(self, start: Position) -> tuple[list[RowChange], dict[int, Shape]]:
        """Read twice: the rows are the same as tuples and as images."""
        chunks, images = self._read(start, images=False), self._read(start, images=True)
        rows = [row for chunk in chunks for transaction in chunk.transactions for row in transaction.rows]
        shapes = {number: shape for chunk in chunks for number, shape in chunk.shapes.items()}
        others = [row for chunk in images for transaction in chunk.transactions for row in transaction.rows]
        assert [_plain(row) for row in others] == rows
        for row in others:
            if isinstance(row.after, RowImage):
                self.images += 1
                _assert_own_texts(row.after, shapes[row.table])
                _assert_own_literals(row.after, shapes[row.table])
        return rows, shapes

    def _read(self, start: Position, images: bool) -> list[SourceChunk]:
        end = log_ends.current_position(self.session)
        return list(read(self.endpoint, start, end, wanted=lambda table: table.schema == self.database, images=images))


def _plain(row: RowChange) -> RowChange:
    before, after = (None if image is None else tuple(image) for image in (row.before, row.after))
    return RowChange(row.table, before, after, row.ordinal)


def _assert_own_texts(row: RowImage, shape: Shape) -> None:
    """What an image writes for PostgreSQL is what its value would be written as; or it leaves that to its caller."""
    for at, (value, column) in enumerate(zip(row, shape.columns, strict=True)):
        written = copy_lines([row], [at])
        if written is not None:
            text = value if value is None or isinstance(value, str) else str(value)
            assert written == lines([column.name], [[text]])
            assert values([row], [at]) == tuples([column.name], [[text]])
            assert not isinstance(value, bytes)
        elif isinstance(value, str) and column.kind not in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP):
            assert "\0" in value, "a text that should have been written"


def _assert_own_literals(row: RowImage, shape: Shape) -> None:
    """What an image writes for MySQL is what its values would be written as."""
    for at, column in enumerate(shape.columns):
        for write, forms in (
            (literals.stored(shape.columns, [at]), literals._STORED),
            (literals.keyed(shape.columns, [], [at]), literals._JOINED),
            (literals.keyed(shape.columns, [at], []), literals._COMPARED),
        ):
            form = literals._BY_IMAGE.get(literals._form(column, forms))
            compiled = row_image.literals([row], [at], [row_image.LITERALS[form]]) if form else None
            try:
                expected = write([tuple(row)])
            except (AttributeError, TypeError, ValueError):
                assert compiled is None
            else:
                assert compiled == expected or (form is None and compiled is None)
                assert write([row]) == expected


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def source(request: pytest.FixtureRequest) -> Iterator[Source]:
    made = Source(request.getfixturevalue(request.param))
    yield made
    made.session.close()


def selected(source: Source, table: str, types: list[Type]) -> list[Row]:
    columns = "".join(f", {kind.select.format(f'c{index}')}" for index, kind in enumerate(types))
    return [
        (row[0], *(_canonical(value, kind) for value, kind in zip(row[1:], types, strict=True)))
        for row in source.run(f"SELECT pk{columns} FROM {table} ORDER BY pk")
    ]


def _canonical(value: Any, kind: Type) -> Any:
    if value is None:
        return None
    if kind.is_bytes:
        return bytes.fromhex(value)
    if isinstance(value, Decimal):
        return int(value)
    return value.decode() if isinstance(value, bytes) else value


def insert(source: Source, table: str, row: list[Any]) -> None:
    names = ", ".join(f"c{index}" for index in range(len(row)))
    source.run(f"INSERT INTO {table} ({names}) VALUES ({', '.join(['%s'] * len(row))})", *row)


@LIVE
@given(data=st.data())
def test_rows_are_what_the_server_selects(source: Source, data: st.DataObject) -> None:
    is_mariadb = server.flavor(source.session).is_mariadb
    known = COMMON + (ONLY_MARIADB if is_mariadb else ONLY_MYSQL)
    types = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=12))
    rows = data.draw(st.lists(st.tuples(*(kind.values | st.none() for kind in types)), min_size=1, max_size=5))
    table = source.table([kind.definition for kind in types])
    start = log_ends.current_position(source.session)
    for row in rows:
        insert(source, table, list(row))
    first = selected(source, table, types)
    source.run(f"UPDATE {table} SET pk = pk + 100")
    source.run(f"DELETE FROM {table}")
    changes, shapes = source.changes(start)
    moved = [(row[0] + 100, *row[1:]) for row in first]
    assert [row.after for row in changes if row.before is None] == first
    # TIMESTAMP has no ON UPDATE here, so an update of the key leaves all else alone.
    assert {row.before: row.after for row in changes if row.before and row.after} == dict(
        zip(first, moved, strict=True)
    )
    assert sorted(row.before[0] for row in changes if row.before and row.after is None) == [row[0] for row in moved]
    (shape,) = shapes.values()
    assert [column.name for column in shape.columns] == ["pk", *(f"c{index}" for index in range(len(types)))]
    assert shape.primary_key == ("pk",)


@pytest.mark.parametrize("width", [1, 7, 8, 9, 63, 400])
def test_a_wide_row_with_nulls_anywhere(source: Source, width: int) -> None:
    table = source.table(["SMALLINT"] * (width - 1))
    start = log_ends.current_position(source.session)
    rows = [[index * step % 7 or None for index in range(width - 1)] for step in (1, 2, 3)]
    for row in rows:
        insert(source, table, row) if row else source.run(f"INSERT INTO {table} VALUES ()")
    changes, _ = source.changes(start)
    assert [list((row.after or ())[1:]) for row in changes] == rows


def test_each_type_beside_text_of_another_charset(source: Source) -> None:
    """The log gives charsets by place among the columns that each server counts as text."""
    types = COMMON + (ONLY_MARIADB if server.flavor(source.session).is_mariadb else ONLY_MYSQL)
    texts = ["VARCHAR(9) CHARACTER SET utf8mb4", "VARCHAR(9) CHARACTER SET latin1"]
    tables = {source.table([kind.definition, *texts]): kind.definition for kind in types}
    start = log_ends.current_position(source.session)
    for table in tables:
        source.run(f"INSERT INTO {table} (c1, c2) VALUES ('é', 'é')")
    changes, _ = source.changes(start)
    for definition, change in zip(tables.values(), changes, strict=True):
        assert (change.after or ())[2:] == ("é", "é"), definition


def test_names_with_quotes_spaces_capitals_and_reserved_words(source: Source) -> None:
    source.run(
        'CREATE TABLE `Sélect "x"` (`from` INT, `UPPER case` INT, `quote``d` INT, PRIMARY KEY (`UPPER case`, `from`))'
    )
    start = log_ends.current_position(source.session)
    source.run('INSERT INTO `Sélect "x"` VALUES (1, 2, 3)')
    changes, shapes = source.changes(start)
    (shape,) = shapes.values()
    assert shape.name.table == 'Sélect "x"'
    assert [column.name for column in shape.columns] == ["from", "UPPER case", "quote`d"]
    assert shape.primary_key == ("UPPER case", "from")
    assert changes[0].after == (1, 2, 3)


def test_a_prefix_of_a_column_in_the_primary_key(source: Source) -> None:
    source.run("CREATE TABLE prefixed (a INT, b VARCHAR(50), PRIMARY KEY (b(10), a))")
    start = log_ends.current_position(source.session)
    source.run("INSERT INTO prefixed VALUES (1, 'x')")
    _, shapes = source.changes(start)
    assert [shape.primary_key for shape in shapes.values()] == [("b", "a")]


def test_columns_say_their_type(source: Source) -> None:
    table = source.table(
        ["BIGINT UNSIGNED", "DECIMAL(12,3)", "DATETIME(4)", "VARCHAR(20) CHARACTER SET latin1", "BINARY(7)", "BIT(11)",
         "ENUM('x','y')", "SET('p','q')", "MEDIUMINT", "BLOB", "TEXT CHARACTER SET utf8mb4", "FLOAT"]
    )  # fmt: skip
    start = log_ends.current_position(source.session)
    source.run(f"INSERT INTO {table} () VALUES ()")
    _, shapes = source.changes(start)
    (shape,) = shapes.values()
    big, decimal, datetime, varchar, binary, bit, enum, members, medium, blob, text, single = shape.columns[1:]
    assert (big.kind, big.unsigned, big.length) == (Kind.INT, True, 8)
    assert (decimal.kind, decimal.precision, decimal.scale) == (Kind.DECIMAL, 12, 3)
    assert (datetime.kind, datetime.scale) == (Kind.DATETIME, 4)
    assert (varchar.kind, varchar.length, varchar.charset) == (Kind.TEXT, 20, "latin1")
    assert (binary.kind, binary.length) == (Kind.BINARY, 7)
    assert (bit.kind, bit.length) == (Kind.BIT, 11)
    assert (enum.kind, enum.labels) == (Kind.ENUM, ("x", "y"))
    assert (members.kind, members.labels) == (Kind.SET, ("p", "q"))
    assert (medium.kind, medium.unsigned, medium.length) == (Kind.INT, False, 3)
    assert (blob.kind, text.kind, text.charset, single.kind) == (Kind.BINARY, Kind.TEXT, "utf8mb4", Kind.FLOAT)


def test_undecodable_text_stays_bytes(source: Source) -> None:
    """Other text of the same event still decodes."""
    table = source.table(
        ["VARCHAR(9) CHARACTER SET utf8mb4", "VARCHAR(9) CHARACTER SET cp1256", "VARCHAR(9) CHARACTER SET armscii8"]
    )
    start = log_ends.current_position(source.session)
    source.run(
        f"INSERT INTO {table} (c0, c1, c2)"
        " VALUES ('é', 'a', 'b'), ('x', _cp1256 x'418a42', _armscii8 x'b2'), ('', '', '')"
    )
    changes, _ = source.changes(start)
    assert [row.after for row in changes] == [(1, "é", "a", "b"), (2, "x", b"A\x8aB", b"\xb2"), (3, "", "", "")]
    assert [row.ordinal for row in changes] == [0, 1, 2]


def test_each_charset_decodes_as_the_server_does_or_not_at_all(source: Source) -> None:
    """Characters that the server can write in each charset it has: a letter is right, or all stays bytes."""
    codes = (*range(32, 0x600), *range(0x2000, 0x2400), *range(0x3000, 0x3200), 0x4E00, 0x9F98)
    runs = ["".join(map(chr, codes[at : at + 60])) for at in range(0, len(codes), 60)]
    has = [name for (name,) in source.run("SELECT character_set_name FROM information_schema.character_sets")]
    charsets = sorted(set(CHARSETS) & set(has) - {"binary"})
    tables = {charset: source.table([f"VARCHAR(64) CHARACTER SET {charset}"]) for charset in charsets}
    start = log_ends.current_position(source.session)
    for table in tables.values():
        source.run(f"INSERT INTO {table} (c0) VALUES {','.join(['(%s)'] * len(runs))}", *runs)
    changes, _ = source.changes(start)
    assert len(changes) == len(tables) * len(runs)
    for number, (charset, table) in enumerate(tables.items()):
        answers = source.run(f"SELECT CONVERT(c0 USING utf8mb4), HEX(c0) FROM {table} ORDER BY pk")
        values = [(row.after or ())[1] for row in changes[number * len(runs) : (number + 1) * len(runs)]]
        for value, (text, raw) in zip(values, answers, strict=True):
            assert value == (text if isinstance(value, str) else bytes.fromhex(raw)), charset
        assert sum(isinstance(value, str) for value in values) >= 2, f"ASCII at least is text in {charset}"


def test_a_float_is_widened_exactly(source: Source) -> None:
    table = source.table(["FLOAT"])
    start = log_ends.current_position(source.session)
    source.run(f"INSERT INTO {table} (c0) VALUES (0.1), (16777216), (-3.4028235e38)")
    changes, _ = source.changes(start)
    numbers = [(row.after or ())[1] for row in changes]
    assert numbers == [struct.unpack("<f", struct.pack("<f", number))[0] for number in numbers]
    assert math.isclose(numbers[0], 0.1, rel_tol=1e-7) and numbers[0] != 0.1


SIMPLE = [*integers("INT", 32), *integers("BIGINT", 64), *integers("MEDIUMINT", 24), decimals(20, 6), decimals(65, 30),
          Type("VARCHAR(40) CHARACTER SET utf8mb4", TEXTS), Type("DOUBLE", st.floats(-1e300, 1e300)),
          Type("DATETIME(6)", st.datetimes().filter(lambda at: at.year > 999).map(str)),
          Type("DATE", st.dates().map(str))]  # fmt: skip


@settings(LIVE, max_examples=20)
@given(data=st.data())
def test_mysql_replication_reads_the_same(source: Source, data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(SIMPLE), min_size=1, max_size=8))
    rows = data.draw(st.lists(st.tuples(*(kind.values | st.none() for kind in types)), min_size=1, max_size=5))
    table = source.table([kind.definition for kind in types])
    start = log_ends.current_position(source.session)
    for row in rows:
        insert(source, table, list(row))
    changes, _ = source.changes(start)
    stream = pymysqlreplication.BinLogStreamReader(
        connection_settings={"host": source.endpoint.host, "port": source.endpoint.port, "user": source.endpoint.user,
                             "password": source.endpoint.password},
        server_id=SECOND_ORACLE_ID, log_file=start.file, log_pos=start.offset, resume_stream=True,
        only_events=[WriteRowsEvent], only_tables=[table],
    )  # fmt: skip
    theirs = [tuple(row["values"].values()) for event in stream for row in event.rows]
    stream.close()
    assert [tuple(map(_comparable, row.after or ())) for row in changes] == [
        tuple(map(_comparable, row)) for row in theirs
    ]


def _comparable(value: Any) -> Any:
    """Their numbers and times are Python objects, ours text; both say the same as text."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if value is None or isinstance(value, int | float | str | bytes):
        return value
    text = str(value)
    return f"{text}.000000" if hasattr(value, "hour") and "." not in text else text


def test_the_session_is_utc(source: Source) -> None:
    assert source.run("SELECT @@session.time_zone") == [("+00:00",)]
    with pytest.raises(pymysql.ProgrammingError):
        source.run("SELECT * FROM absent")
