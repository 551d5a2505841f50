"""Updates that the log holds as parts of JSON documents: what the reader makes of them is what the server has."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from bench.harness.decode import read
from bench.harness.servers import MySql
from tidelock.adapters.mysql import connection as server
from tidelock.adapters.mysql.binlog import log_ends
from tidelock.adapters.mysql.binlog.json_diff import patched
from tidelock.adapters.mysql.connection import Address
from tidelock.engine.model.records import Position, RowChange, TableName


class Source:
    def __init__(self, origin: MySql) -> None:
        self.endpoint = Address(origin.host, origin.port, origin.user, origin.password)
        self.database = origin.database("partial_json")
        self.session = server.connect(self.endpoint)
        self.run(f"USE {self.database}")
        self.run(
            "CREATE TABLE j (id INT PRIMARY KEY, first JSON, name VARCHAR(20), other JSON, nothing JSON,"
            " last DECIMAL(9,2))"
        )
        self.run("SET SESSION binlog_row_value_options=PARTIAL_JSON")

    def run(self, sql: str, *args: object) -> list[tuple[Any, ...]]:
        return server.rows(self.session, sql, *args)

    def here(self) -> Position:
        return log_ends.current_position(self.session)

    def changes(self, start: Position, wanted: str = "j") -> list[RowChange]:
        found = read(self.endpoint, start, self.here(), wanted=lambda t: t == TableName(self.database, wanted))
        return [row for chunk in found for transaction in chunk.transactions for row in transaction.rows]


@pytest.fixture
def source(mysql: MySql) -> Iterator[Source]:
    made = Source(mysql)
    yield made
    made.session.close()


DOCUMENT: dict[str, Any] = {
    "id": 7, "a b": {"ä": 1, "\"q\"\\": [1, 2.5, "x" * 40, None, True]}, "list": [[1], {"k": "v"}, "three", -1e300],
    "long": "y" * 300, "größer": {"": 0, "1st": 1}, "$": {"deep": {"deeper": {"deepest": ["z", {}]}}},
}  # fmt: skip

PATHS = [
    "$.id", '$."a b"', '$."a b"."ä"', '$."a b"."\\"q\\"\\\\"[1]', '$."a b"."\\"q\\"\\\\"[2]', "$.list[0]",
    "$.list[1].k", "$.list[3]", "$.list[7]", "$.list[0][0]", "$.list[1].fresh", "$.list[last]", "$.long",
    '$."größer".""',
    '$."größer"."1st"', '$."$".deep.deeper.deepest[0]', '$."$".deep.deeper', "$.fresh", "$.a", "$.zz", "$.id[0]",
    "$.id[last]", "$.list[last-1]", "$.list[last-9]", "$.list[last][last]",
]  # fmt: skip
VALUES = [
    "1", "'x'", "NULL", "TRUE", "CAST('{\"n\": [1, {\"m\": 2}]}' AS JSON)", "CAST('2020-01-02' AS DATE)", "1.50",
    "1e25", "'ö\\\\\"'", "CAST('[]' AS JSON)", "REPEAT('w', 200)", "CAST(NOW(6) AS DATETIME(6))", "X'00ff'", "-3",
]  # fmt: skip
FUNCTIONS = ["JSON_SET", "JSON_REPLACE", "JSON_REMOVE"]


def expression(random_: random.Random, column: str) -> str:
    for _ in range(random_.randint(1, 3)):
        path = "'" + random_.choice(PATHS).replace("\\", "\\\\") + "'"
        function = random_.choice(FUNCTIONS)
        value = "" if function == "JSON_REMOVE" else f", {random_.choice(VALUES)}"
        column = f"{function}({column}, {path}{value})"
    return column


@pytest.mark.parametrize("seed", range(3))
def test_documents_become_what_the_server_has(source: Source, seed: int) -> None:
    random_ = random.Random(seed)
    text = json.dumps(DOCUMENT)
    for n in range(4):
        source.run("INSERT INTO j VALUES (%s, %s, 'n', %s, NULL, 1.25)", n, text, text)
    start = source.here()
    expected: list[tuple[Any, ...]] = []
    for _ in range(60):
        columns = random_.choice([["first"], ["other"], ["first", "other"], ["first", "name"]])
        sets = [f"{c} = {expression(random_, c) if c != 'name' else 'REVERSE(id)'}" for c in columns]
        row = random_.randrange(4)
        before = source.run("SELECT * FROM j")
        source.run(f"UPDATE j SET {', '.join(sets)}, last = last + 1 WHERE id >= {row}")
        after = source.run("SELECT id, first, name, other, nothing, CAST(last AS CHAR) FROM j WHERE id >= %s", row)
        assert len(before) == 4
        expected += after
    found = source.changes(start)
    assert [row.after for row in found] == expected
    parts = len(_partial_events(source, start))
    assert parts > 20, "the server logged parts"


def _partial_events(source: Source, start: Position) -> list[Any]:
    events = source.run(f"SHOW BINLOG EVENTS IN '{start.file}' FROM {start.offset}")
    return [event for event in events if "partial" in str(event[2]).lower()]


def test_nobodys_rows_are_counted(source: Source) -> None:
    for n in (1, 2):
        source.run("INSERT INTO j VALUES (%s, %s, '', NULL, NULL, 0)", n, json.dumps(DOCUMENT))
    source.run("CREATE TABLE t (id INT PRIMARY KEY)")
    start = source.here()
    source.run("BEGIN")
    source.run("UPDATE j SET first = JSON_SET(first, '$.id', 8)")
    source.run("INSERT INTO t VALUES (1)")
    source.run("COMMIT")
    assert [(row.after, row.ordinal) for row in source.changes(start, "t")] == [((1,), 2)]


@pytest.mark.parametrize(
    ("before", "diff", "message"),
    [
        ('{"a": 1}', b"\x00\x03$.b\x03\x05\x01\x00", "no value"),
        ("[1]", b"\x02\x04$[3]", "no value"),
        ('{"a": 1}', b"\x09\x03$.a", "operation 9"),
        ('{"a": 1}', b"\x00\x03a.b\x03\x05\x01\x00", "path"),
        ('{"a": 1}', b"\x00\x03$.a\x30\x05", "ends"),
    ],
)
def test_a_part_that_does_not_fit_is_refused(before: str, diff: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        patched(before, diff)
