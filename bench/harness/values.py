"""Values that broke others: for each column type its extremes and oddities, and which of them a target cannot hold.

They are SQL for a MySQL or MariaDB source, to be stored with `sql_mode=''` and in the session zone `ZONE`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from bench.harness.session import Flavor

ZONE = "+05:30"
ANY = (Flavor.MARIADB, Flavor.MYSQL)
MARIADB, MYSQL = (Flavor.MARIADB,), (Flavor.MYSQL,)


@dataclasses.dataclass(frozen=True)
class Refused:
    """A value that some targets cannot hold: words of the error with which its row is parked there."""

    sql: str
    postgres: str = ""
    mysql: str = ""
    mariadb: str = ""

    def reason(self, target: Flavor) -> str:
        return {Flavor.POSTGRES: self.postgres, Flavor.MYSQL: self.mysql, Flavor.MARIADB: self.mariadb}[target]


@dataclasses.dataclass(frozen=True)
class ColumnValues:
    """A column of type `type` in a table of all.  `key`: it can be a primary key.  `at`: the sources that have it."""

    name: str
    type: str
    values: tuple[Refused, ...]
    key: bool = False
    at: tuple[Flavor, ...] = ANY


def column_values(source: Flavor) -> list[ColumnValues]:
    """Columns that a source of that flavor can hold."""
    return [column for column in _ALL if source in column.at]


def _of(name: str, type_: str, *values: str | Refused, key: bool = False, at: tuple[Flavor, ...] = ANY) -> ColumnValues:
    return ColumnValues(name, type_, tuple(v if isinstance(v, Refused) else Refused(v) for v in values), key, at)


def _integers() -> Iterable[ColumnValues]:
    for name, bits in (("tinyint", 8), ("smallint", 16), ("mediumint", 24), ("int", 32), ("bigint", 64)):
        half = 1 << bits - 1
        yield _of(f"{name}_", name, *map(str, (-half, -1, 0, 1, half - 1)), key=True)
        yield _of(f"{name}_unsigned", f"{name} unsigned", *map(str, (0, 1, half, 2 * half - 1)), key=True)


_ZERO = "a zero date"
_NUL = "NUL"
_NO_TEXT = "bytes that are no text in the column's character set"
_POINT = "ST_GeomFromText('POINT(1.5 -2)')"
_ALL: tuple[ColumnValues, ...] = (
    *_integers(),
    _of("truth", "tinyint(1)", "0", "1", "-128", "127", key=True),
    _of("filled", "int(6) unsigned zerofill", "0", "42", "4294967295"),
    _of("decimal_long", "decimal(65,30)", "'0'", "'-0.000000000000000000000000000001'",
        "'99999999999999999999999999999999999.999999999999999999999999999999'",
        "'-99999999999999999999999999999999999.999999999999999999999999999999'", key=True),
    _of("decimal_whole", "decimal(65,0)", f"'{'9' * 65}'", f"'-{'9' * 65}'", "1", key=True),
    _of("decimal_fraction", "decimal(30,30)", f"'0.{'9' * 30}'", f"'-0.{'9' * 30}'", "'-0.0'"),
    _of("decimal_unsigned", "decimal(12,2) unsigned", "'0.01'", "'9999999999.99'"),
    _of("float_", "float", "0.1", "'-0.0'", "1e-45", "1.17549435e-38", "3.4028235e38", "-3.4028235e38", "16777217",
        key=True),
    _of("double_", "double", "0.1", "'-0.0'", "5e-324", "2.2250738585072014e-308", "1.7976931348623157e308",
        "-1.7976931348623157e308", "1e0/3e0", "9007199254740993", "1e15", "123456789012345680000", key=True),
    _of("float_digits", "float(7,3)", "1234.567", "-0.001"),
    _of("double_digits", "double(20,4)", "1234567890123.4567", "-0.0001"),
    _of("bit1", "bit(1)", "b'0'", "b'1'", key=True),
    _of("bit7", "bit(7)", "0", "b'1010101'", "127", key=True),
    _of("bit64", "bit(64)", "0", "1", "9223372036854775808", "18446744073709551615", key=True),
    _of("year_", "year", "'0000'", "1901", "2155", key=True),
    _of("date_", "date", "'1000-01-01'", "'9999-12-31'", "'2024-02-29'", "'0001-01-01'",
        Refused("'0000-00-00'", _ZERO), Refused("'2024-00-15'", _ZERO), Refused("'2024-05-00'", _ZERO), key=True),
    _of("datetime0", "datetime", "'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'",
        Refused("'0000-00-00 00:00:00'", _ZERO), Refused("'2024-00-00 01:02:03'", _ZERO), key=True),
    _of("datetime6", "datetime(6)", "'2024-02-29 23:59:59.999999'", "'2024-02-29 00:00:00.000001'",
        "'9999-12-31 23:59:59.999999'", Refused("'0000-00-00 00:00:00'", _ZERO), key=True),
    _of("datetime3", "datetime(3)", "'2024-03-31 02:30:00.123'", "'1969-12-31 23:59:59.999'"),
    _of("timestamp0", "timestamp", "'1970-01-01 05:30:01'", "'2038-01-19 08:44:07'", "'2024-03-31 02:30:00'",
        Refused("'0000-00-00 00:00:00'", _ZERO), key=True),
    _of("timestamp6", "timestamp(6)", "'1970-01-01 05:30:01.000001'", "'2038-01-19 08:44:07.999999'",
        "'2024-10-27 02:30:00.5'", Refused("'0000-00-00 00:00:00'", _ZERO), key=True),
    _of("time0", "time", "'838:59:59'", "'-838:59:59'", "'00:00:00'", "'-00:00:01'", "'24:00:00'", key=True),
    _of("time6", "time(6)", "'838:59:58.999999'", "'-838:59:58.999999'", "'-00:00:00.000001'", "'23:59:59.999999'",
        "'-01:00:00.5'", key=True),
    _of("char_", "char(10)", "''", "'a'", "'trail   '", "'日本語'", "'0123456789'", key=True),
    _of("varchar_", "varchar(60)", "''", "' '", "'trail   '", "'Ünï ✓ 😀'", r"'back\\slash \'quotes\' \"double\"'",
        r"'line\nfeed\ttab\rreturn'", r"'\\N'", "'NULL'", "'{\"a\",b}'", Refused(r"'a\0b'", _NUL), key=True),
    _of("ascii_", "varchar(60) character set ascii", "'plain'", "''"),
    _of("latin1_", "varchar(60) character set latin1", "'café €'", "x'80'", "x'a0ff'",
        Refused("x'610062'", _NUL), key=True),
    _of("gbk_", "varchar(60) character set gbk", "'漢字 中文'", "''",
        Refused("_gbk x'41FEFE42'", _NO_TEXT, "gbk", "gbk")),
    _of("utf8mb3_", "varchar(60) character set utf8mb3", "'ÿ 日本 ﷽'", "''", key=True),
    _of("utf16_", "varchar(60) character set utf16", "'日本 😀'"),
    _of("ucs2_", "varchar(60) character set ucs2", "'日本 é'"),
    _of("cp1256_", "varchar(60) character set cp1256", "'مرحبا'"),
    _of("armscii8_", "varchar(60) character set armscii8", "'plain'",
        Refused("_armscii8 x'b2'", _NO_TEXT, "armscii8", "armscii8")),
    _of("binary_text", "varchar(60) collate utf8mb4_bin", "'A'", "'a'", "'á'", "'ß'", "'ss'", key=True),
    _of("tinytext_", "tinytext", "''", "REPEAT('é', 127)", Refused(r"'\0'", _NUL)),
    _of("text_", "text", "'line\nfeed'", "REPEAT('x', 65535)"),
    _of("binary_", "binary(5)", "''", "x'00'", "'abcde'", "x'ff00000000'", key=True),
    _of("varbinary_", "varbinary(60)", "''", "x'00'", "x'275c00ff0a0d09'", "x'61'", "x'6100'", key=True),
    _of("tinyblob_", "tinyblob", "''", "REPEAT(x'00', 255)"),
    _of("blob_", "blob", "x'00ff5c27220a'", "REPEAT(x'ff', 65535)"),
    _of("enum_", "enum('a','B','it''s','é','with space','c,d')", "'a'", "2", "'it''s'", "'é'", "'with space'", "'c,d'",
        Refused("'unknown'", mysql="truncated", mariadb="truncated"), key=True),
    _of("enum_empty", "enum('x','')", "''", "'x'"),
    _of("enum_latin1", "enum('é','ñ') character set latin1", "'é'", "'ñ'"),
    _of("set_", "set('a','b','c d','é')", "''", "'a'", "'é,a'", "15", key=True),
    _of("set_long", "set(" + ",".join(f"'m{n}'" for n in range(64)) + ")", "18446744073709551615", "1",
        "9223372036854775808"),
    _of("geometry_", "geometry", _POINT, "ST_GeomFromText('LINESTRING(0 0, 1 1, 2.5 -3)')",
        "ST_GeomFromText('POLYGON((0 0,10 0,10 10,0 0))')",
        "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(0 0,1 1))')"),
    _of("point_", "point", _POINT, "ST_GeomFromText('POINT(1 2)', 4326)"),
    _of("multi", "multipolygon", "ST_GeomFromText('MULTIPOLYGON(((0 0,1 0,1 1,0 0)))')"),
    _of("json_text", "json", "'{\"b\": 1, \"a\": 2, \"b\": 3}'", "'123456789012345678901234567890.5'", "'[]'",
        r"""'"\\u0000"'""", "'{\"é\": \"😀\"}'", at=MARIADB),
    _of("json_", "json", "'{\"bb\": 1, \"a\": 2, \"\": {\"z\": [1, {\"n\": null}, true]}}'", "'[]'", "'{}'", "'null'",
        "'\"\"'",
        "'\"é 😀 \\\\u00e9 \\\\n \\\\\" \\\\\\\\ \\\\u0001\"'", "'[18446744073709551615, -9223372036854775808]'",
        "'[1.7976931348623157e308, 5e-324, 0.1, -0.0, 1e15, 1.0]'", "'123456789012345678901234567890'",
        "CAST(1.10 AS JSON)", "JSON_OBJECT('d', CAST('2024-02-29' AS DATE), 't', CAST('-10:11:12.5' AS TIME(6)))",
        "JSON_ARRAY(CAST('2024-02-29 23:59:59.999999' AS DATETIME(6)))", "JSON_ARRAY(x'00ff', b'101')",
        f"'{'[' * 90}{']' * 90}'", "JSON_OBJECT('k', REPEAT('long', 20000))",
        Refused("JSON_ARRAY(CAST('12345678901234567890.1234567891' AS DECIMAL(40,10)))", mysql="more digits"),
        Refused(r"""'{"a": "x\\u0000y"}'""", "a NUL character in JSON"), at=MYSQL),
    _of("vector_", "vector(3)", "STRING_TO_VECTOR('[1,-2.5,3e38]')", "STRING_TO_VECTOR('[0,0,0]')",
        "STRING_TO_VECTOR('[1]')", at=MYSQL),
    _of("uuid_", "uuid", "'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
        "'123e4567-e89b-12d3-a456-426655440000'", key=True, at=MARIADB),
    _of("inet4_", "inet4", "'0.0.0.0'", "'255.255.255.255'", "'10.0.0.1'", key=True, at=MARIADB),
    _of("inet6_", "inet6", "'::'", "'::1'", "'::ffff:1.2.3.4'", "'::1.2.3.4'", "'1:0:0:2::'",
        "'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'", key=True, at=MARIADB),
    _of("text_compressed", "varchar(300) compressed", "REPEAT('é', 300)", "''", at=MARIADB),
    _of("blob_compressed", "blob compressed", "REPEAT(x'00', 3000)", "''", at=MARIADB),
)  # fmt: skip
