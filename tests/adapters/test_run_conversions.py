"""Each conversion of a column that is followed, over the edge values of its old type: both ends are the same behind it,
with the values that the source has then."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until

# old type, its edge values, new definition
CONVERSIONS = [
    ("tinyint", "-128, 127", "smallint"),
    ("smallint unsigned", "0, 65535", "mediumint unsigned"),
    ("int", "-2147483648, 2147483647", "bigint"),
    ("int unsigned", "0, 4294967295", "bigint"),
    ("bigint", "0, 9223372036854775807", "bigint unsigned"),
    ("bigint unsigned", "0, 9223372036854775807", "bigint"),
    ("int", "-32768, 32767", "smallint"),
    ("int", "-2147483648, 2147483647, 0", "decimal(12,2)"),
    ("bigint unsigned", "18446744073709551615, 0", "decimal(20,0)"),
    ("decimal(6,2)", "-9999.99, 9999.99, 0.01, 0", "decimal(9,4)"),
    ("decimal(6,2)", "-99.99, 99.99", "decimal(4,2)"),
    ("decimal(6,0)", "-999999, 999999", "int"),
    ("float", "0.1, -3.4e38, 1.17e-38, 16777217", "double"),
    ("varchar(4)", "'', ' ', 'a   ', 'é𝄞ß '", "varchar(6)"),
    ("char(4)", "'', 'a', 'é𝄞ßx'", "varchar(4)"),
    ("char(4)", "'', 'a', 'ab'", "char(2)"),
    ("char(4)", "'', 'a', 'é𝄞ßx'", "char(6)"),
    ("varchar(4)", "'', ' ', 'a   '", "text"),
    ("tinytext", "'', ' ', REPEAT('x', 255)", "varchar(255)"),
    ("tinytext", "'', REPEAT('x', 255)", "longtext"),
    ("varchar(9) CHARACTER SET latin1", "'', 'é', '€', 'ÿ ', _latin1 x'818D8F909D'",
     "varchar(9) CHARACTER SET utf8mb4"),
    ("varchar(9) CHARACTER SET ascii", "'', 'a ~'", "varchar(9) CHARACTER SET latin1"),
    ("varchar(9) CHARACTER SET utf16", "'', '𝄞 '", "varchar(9) CHARACTER SET utf8mb4"),
    ("varchar(9) CHARACTER SET utf8mb3", "'', '￿', 'é'", "varchar(9) CHARACTER SET utf8mb4"),
    ("text CHARACTER SET latin1", "'', REPEAT('é', 65535)", "mediumtext CHARACTER SET utf8mb4"),
    ("varchar(9) COLLATE utf8mb4_bin", "'a', 'A', 'a '", "varchar(9) COLLATE utf8mb4_general_ci"),
    ("enum('a','b c')", "'a', 'b c', 1", "enum('a','b c','d')"),
    ("enum('a','b c')", "'a', 'b c'", "varchar(3)"),
    ("set('a','b')", "'', 'a', 'a,b'", "set('a','b','c')"),
    ("datetime", "'1000-01-01 00:00:00', '9999-12-31 23:59:59'", "datetime(6)"),
    ("timestamp NULL", "'1970-01-01 00:00:01', '2038-01-19 03:14:07'", "timestamp(3) NULL"),
    ("date", "'1000-01-01', '9999-12-31', '2024-02-29'", "datetime"),
    ("time", "'-838:59:59', '838:59:59', '00:00:00'", "time(3)"),
    ("varbinary(4)", "'', x'00', x'61000000', x'ff20'", "varbinary(6)"),
    ("binary(4)", "x'00', x'61', x'61620020', x'ffffffff'", "varbinary(4)"),
    ("varbinary(4)", "'', x'00ff20'", "blob"),
    ("tinyblob", "'', x'00ff20'", "mediumblob"),
    ("int", "1, 2", "int NOT NULL"),
]  # fmt: skip
PAIRS = [("mysql", "postgres"), ("mysql", "mariadb"), ("mariadb", "postgres")]


@pytest.fixture(params=PAIRS, ids=["-".join(pair) for pair in PAIRS])
def rig(request: pytest.FixtureRequest, make_rig: Callable[..., Rig]) -> Rig:
    source, target = (request.getfixturevalue(name) for name in request.param)
    made = make_rig(source, target, "converted", lanes=2)
    made.rules = [{"source": f"{made.schema}.*"}]
    return made


@pytest.mark.proof
def test_edge_values_stay(rig: Rig) -> None:
    rig.at_source("SET time_zone = '+00:00'")
    for number, (old, values, _) in enumerate(CONVERSIONS):
        rig.at_source(f"CREATE TABLE c{number} (id int PRIMARY KEY, v {old}) CHARACTER SET utf8mb4")
        rows = [f"({place}, {value})" for place, value in enumerate(_whole(values))]
        null = [] if "NOT NULL" in CONVERSIONS[number][2] else ["(99, NULL)"]
        rig.at_source(f"INSERT INTO c{number} VALUES {', '.join([*rows, *null])}")
    rig.tables = [f"c{number}" for number in range(len(CONVERSIONS))]
    made = rig.command("init", "--apply")
    assert made.code == 0, made.err
    rig.catch_up()
    process = rig.run()
    rig.at_source(*(f"ALTER TABLE c{number} MODIFY v {new}" for number, (*_, new) in enumerate(CONVERSIONS)))
    rig.at_source(*(f"INSERT INTO c{number} SELECT 100 + id, v FROM c{number}" for number in range(len(CONVERSIONS))))
    until(rig.equal, "equal ends", 300)
    process.stop()
    rig.assert_exact()


def _whole(values: str) -> list[str]:
    """The values, of which functions have commas."""
    made: list[str] = []
    for part in values.split(", "):
        if made and made[-1].count("(") > made[-1].count(")"):
            made[-1] += f", {part}"
        else:
            made.append(part)
    return made
