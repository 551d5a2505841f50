"""Types of a PostgreSQL source, and values of each, as its users write them."""

from __future__ import annotations

from tidelock.engine.model.records import Kind

TYPES = """
CREATE EXTENSION hstore; CREATE EXTENSION citext; CREATE EXTENSION ltree;
CREATE TYPE mood AS ENUM ('sad', 'it''s ok', 'glad');
CREATE DOMAIN cents AS numeric(10,2) CHECK (VALUE >= 0);
CREATE DOMAIN moods AS mood[];
CREATE TYPE pair AS (a int, b text);
CREATE TYPE nest AS (p pair, m mood, c cents);
CREATE TYPE spread AS RANGE (subtype = float8);
"""
# Of each type the kind that it must come as, and values that every target keeps.
HELD: dict[str, tuple[Kind, list[str]]] = {
    "smallint": (Kind.INT, ["-32768", "32767"]),
    "integer": (Kind.INT, ["-2147483648", "0"]),
    "bigint": (Kind.INT, ["-9223372036854775808", "9223372036854775807"]),
    "oid": (Kind.INT, ["4294967295", "0"]),
    "boolean": (Kind.BOOL, ["true", "false"]),
    "real": (Kind.FLOAT, ["0.1", "-3.4028235e38", "1e-37"]),
    "double precision": (Kind.DOUBLE, ["0.30000000000000004", "1.7976931348623157e308", "-1e-300"]),
    "numeric(10,2)": (Kind.DECIMAL, ["-12.3", "99999999.99"]),
    "numeric(3,-2)": (Kind.DECIMAL, ["12345", "-99900"]),
    "numeric(2,4)": (Kind.DECIMAL, ["0.0012", "-0.0099"]),
    "numeric(65,30)": (Kind.DECIMAL, ["12345678901234567890123456789012345.123456789012345678901234567890"]),
    "numeric(80,40)": (Kind.DECIMAL, [f"-{'1234567890' * 4}.{1:040}"]),
    "numeric": (Kind.OTHER, ["1.0", "1.00", "-1e-20", "123456789012345678901234567890.5"]),
    "date": (Kind.DATE, ["2024-02-29", "0001-01-01", "9999-12-31"]),
    "time": (Kind.TIME, ["10:11:12.5", "24:00:00"]),
    "time(0)": (Kind.TIME, ["10:11:12"]),
    "timestamp": (Kind.DATETIME, ["2024-02-29 10:11:12.123456", "1000-01-01 00:00:00", "9999-12-31 23:59:59.999999"]),
    "timestamp(3)": (Kind.DATETIME, ["2024-02-29 10:11:12.1"]),
    "timestamptz": (Kind.TIMESTAMP, ["2024-02-29 10:11:12.5+05:30", "2200-01-01 00:00:00Z"]),
    "timestamptz(0)": (Kind.TIMESTAMP, ["2024-06-29 10:11:12+02"]),
    "timetz": (Kind.OTHER, ["10:11:12.5+02", "00:00:00-15:59:59"]),
    "interval": (Kind.OTHER, ["1 year 2 mons -3 days +04:05:06.7", "1 day", "24:00:00", "-00:00:01"]),
    "interval day to second(3)": (Kind.OTHER, ["1 day 00:00:01.5"]),
    "varchar(20)": (Kind.TEXT, ["it's", "a\\b\"c", "Ü\U0001f600", "  spaces  ", ""]),
    "char(8)": (Kind.TEXT, ["pad", "12345678", ""]),
    "text": (Kind.TEXT, ["tab\tnew\nline\r\\N", "ß'\"", "NULL", "{}"]),
    "name": (Kind.TEXT, ["pg_class"]),
    '"char"': (Kind.OTHER, ["x"]),
    "citext": (Kind.TEXT, ["MiXed", "mixed"]),
    "bytea": (Kind.BINARY, ["\\x00ff5c27", "\\x"]),
    "bit(1)": (Kind.BIT, ["1", "0"]),
    "bit(9)": (Kind.BIT, ["101010101", "000000001"]),
    "bit(64)": (Kind.BIT, ["1" * 64]),
    "bit(70)": (Kind.OTHER, ["01" * 35]),
    "bit varying(12)": (Kind.OTHER, ["1", "01", ""]),
    "uuid": (Kind.UUID, ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"]),
    "json": (Kind.JSON, ['{ "b":1, "a" : [1,2.50], "b":2 }', '"\\u0000"']),
    "jsonb": (Kind.JSON, ['{"b": 1, "a": [1, null, "x\\"y"]}', "null", "12"]),
    "mood": (Kind.ENUM, ["sad", "it's ok"]),
    "cents": (Kind.DECIMAL, ["12.30"]),
    "moods": (Kind.OTHER, ["{sad,\"it's ok\",NULL}"]),
    "int[]": (Kind.OTHER, ["{1,NULL,-3}", "{}", "[2:3]={1,2}", "{{1,2},{3,4}}"]),
    "text[]": (Kind.OTHER, ['{"a,b","c\\"d",NULL,"NULL","",\'\',\\\\}']),
    "bytea[]": (Kind.OTHER, ['{"\\\\x00ff","\\\\x"}']),
    "timestamptz[]": (Kind.OTHER, ['{"2024-02-29 10:11:12+05",infinity}']),
    "mood[]": (Kind.OTHER, ["{sad,glad}"]),
    "numeric(6,2)[]": (Kind.OTHER, ["{1.50,NaN}"]),
    "varchar(3)[]": (Kind.OTHER, ["{abc}"]),
    "int4range": (Kind.OTHER, ["[1,5)", "empty", "(,)"]),
    "numrange": (Kind.OTHER, ["(1.10,2.20]", "[NaN,NaN]"]),
    "tstzrange": (Kind.OTHER, ['["2024-01-01 00:00:00+00",infinity)']),
    "int4multirange": (Kind.OTHER, ["{[1,3),[5,9)}", "{}"]),
    "spread": (Kind.OTHER, ["[0.1,Infinity)"]),
    "pair": (Kind.OTHER, ['(1,"a ""b"", c")', "(,)", '(2,"")']),
    "nest": (Kind.OTHER, ['("(1,\\"x y\\")",glad,1.50)']),
    "inet": (Kind.OTHER, ["192.168.0.1/24", "10.0.0.1", "2001:db8::1/64"]),
    "cidr": (Kind.OTHER, ["10.0.0.0/8"]),
    "macaddr": (Kind.OTHER, ["08:00:2b:01:02:03"]),
    "macaddr8": (Kind.OTHER, ["08:00:2b:01:02:03:04:05"]),
    "money": (Kind.OTHER, ["-1234.56", "92233720368547758.07"]),
    "hstore": (Kind.OTHER, ['"a"=>"1", "b c"=>NULL, "q"=>"x\\"y"']),
    "ltree": (Kind.OTHER, ["Top.Science"]),
    "xml": (Kind.OTHER, ["<a b='1'>x &amp; y</a>", "two <i>nodes</i>"]),
    "tsvector": (Kind.OTHER, ["'a':1A 'it''s':2"]),
    "tsquery": (Kind.OTHER, ["'fat' & !'cat'"]),
    "jsonpath": (Kind.OTHER, ['$."a"[*]']),
    "point": (Kind.OTHER, ["(0.1,-2)", "(NaN,Infinity)"]),
    "polygon": (Kind.OTHER, ["((0,0),(1,1),(2,0))"]),
    "path": (Kind.OTHER, ["[(0,0),(1,1)]"]),
    "circle": (Kind.OTHER, ["<(1,2),3>"]),
    "pg_lsn": (Kind.OTHER, ["16/B374D848"]),
    "regclass": (Kind.OTHER, ["pg_catalog.pg_class"]),
    "xid8": (Kind.OTHER, ["18446744073709551615"]),
}  # fmt: skip
# Values that a PostgreSQL target takes, and that no kind has a form for.
UNHELD: dict[str, list[str]] = {
    "real": ["NaN", "Infinity", "-Infinity"],
    "double precision": ["NaN", "Infinity", "-Infinity"],
    "numeric(10,2)": ["NaN"],
    "date": ["infinity", "-infinity", "0044-03-15 BC", "10000-01-01", "4713-01-01 BC", "5874897-12-31"],
    "timestamp": ["infinity", "0044-03-15 12:00:00.5 BC", "10000-01-01 00:00:00", "294276-12-31 23:59:59"],
    "timestamptz": ["-infinity", "0044-03-15 12:00:00+00 BC", "10000-01-01 00:00:00.25+00"],
}
