"""Column types, values and definitions that tests draw at random for MySQL and MariaDB as sources."""

from __future__ import annotations

import random
import re

TYPES = (
    "int", "bigint", "smallint", "tinyint unsigned", "int unsigned", "decimal(8,2)", "decimal(6,0)", "float", "double",
    "varchar(20)", "varchar(9) CHARACTER SET latin1", "char(6)", "text", "tinytext", "enum('x','y')", "set('a','b')",
    "date", "datetime", "datetime(3)", "timestamp NULL", "time", "year", "varbinary(8)", "binary(4)", "blob", "json",
    "bit(5)",
)  # fmt: skip
"""Types of columns that are made or added."""
FOLLOWED = {
    "int": ("bigint", "smallint", "int unsigned", "decimal(12,2)", "mediumint"),
    "bigint": ("int", "decimal(20,0)", "bigint unsigned"),
    "smallint": ("int", "tinyint", "decimal(6,1)"),
    "tinyint unsigned": ("smallint", "int unsigned", "tinyint"),
    "int unsigned": ("bigint", "int"),
    "decimal(8,2)": ("decimal(12,4)", "decimal(6,2)", "decimal(8,2) unsigned"),
    "decimal(6,0)": ("int", "decimal(6,2)"),
    "float": ("double",),
    "varchar(20)": ("varchar(40)", "text", "varchar(20)"),
    "varchar(9) CHARACTER SET latin1": ("varchar(20) CHARACTER SET utf8mb4", "varchar(30) CHARACTER SET latin1"),
    "char(6)": ("varchar(6)", "char(8)", "char(3)", "text"),
    "text": ("mediumtext", "longtext"),
    "tinytext": ("text", "varchar(255)"),
    "enum('x','y')": ("enum('x','y','z')", "varchar(3)"),
    "set('a','b')": ("set('a','b','c')",),
    "date": ("datetime",),
    "datetime": ("datetime(6)",),
    "datetime(3)": ("datetime(6)",),
    "timestamp NULL": ("timestamp(3) NULL",),
    "time": ("time(2)",),
    "varbinary(8)": ("varbinary(20)", "blob"),
    "binary(4)": ("varbinary(4)", "blob"),
    "blob": ("longblob",),
}
"""Types that a column may get, of which each value is told by the two types, or was refused by the source."""
FILLS = {
    "int": ("5", "-7"), "bigint": ("9",), "smallint": ("'3'",), "tinyint unsigned": ("200",), "int unsigned": ("4",),
    "decimal(8,2)": ("1.50", "-2"), "decimal(6,0)": ("12",), "double": ("0.25", "-3"), "float": ("0.5",),
    "varchar(20)": ("'none'", "''"), "date": ("'2020-02-29'",), "datetime": ("'2020-01-01 10:00:00'",),
    "enum('x','y')": ("'y'",), "char(6)": ("'abc'",),
}  # fmt: skip
"""Literal defaults of columns that are added, which rows of before get."""
DOUBTFUL = (
    *TYPES, "varchar(3)", "varchar(5)", "char(2)", "char(20)", "varchar(9) CHARACTER SET ascii", "enum('y','x')",
    "enum('x')", "set('b','a')", "decimal(6,1)", "decimal(5,0)", "tinyint", "bit(2)", "bit(9)", "binary(9)",
    "varbinary(2)", "timestamp", "datetime(1)", "time(1)", "tinyblob", "float(7,3)", "int zerofill", "int NOT NULL",
    "text NOT NULL", "varchar(20) COLLATE utf8mb4_bin", "varchar(20) CHARACTER SET utf16",
    "double unsigned", "timestamp NULL DEFAULT CURRENT_TIMESTAMP", "mediumint unsigned", "longtext", "inet6", "uuid",
)  # fmt: skip
"""Types of which some change values of the column: a feed halts before these, or has the same values behind them."""
DATES = ("date", "datetime", "timestamp")
UNINDEXED = ("text", "tinytext", "mediumtext", "longtext", "blob", "tinyblob", "longblob", "json")


def base(kind: str) -> str:
    """Returns the first word of a type."""
    found = re.match(r"\w+", kind)
    assert found
    return found[0].lower()


def can_be_unique(kind: str) -> bool:
    """Tells whether both kinds of target compare such values as the source does, or less strictly."""
    return base(kind) in ("int", "bigint", "smallint", "mediumint", "tinyint", "decimal", "varchar", "date", "datetime")


def generated(kind: str) -> list[tuple[str, str]]:
    """Returns types of generated columns, and what they are computed by of a column `{}` of a type."""
    match base(kind):
        case "int" | "smallint" | "tinyint" | "mediumint":
            return [
                ("bigint", "`{0}` + 1"), ("bigint", "3 * `{0}` + id"), ("int", "IF(`{0}` > 3, 1, NULL)"),
                ("tinyint", "`{0}` IS NULL OR `{0}` IN (1, 2)"), ("decimal(20,3)", "COALESCE(`{0}`, 0) * 1.125"),
            ]  # fmt: skip
        case "decimal":
            return [("decimal(20,4)", "`{0}` * 2"), ("bigint", "`{0}` * 1.5"), ("tinyint", "`{0}` >= 0.1")]
        case "varchar" | "text" | "tinytext":
            return [("varchar(90)", "CONCAT(`{0}`, '-', `{0}`)"), ("int", "CHAR_LENGTH(`{0}`)"),
                    ("varchar(90)", "CASE WHEN `{0}` IS NULL THEN 'none' ELSE `{0}` END")]  # fmt: skip
        case _:
            return []


def value(rng: random.Random, kind: str) -> str:
    """Returns a value of a type, edges among them, as SQL."""
    if rng.random() < 0.15:
        return "NULL"
    match base(kind):
        case "int" | "bigint" | "smallint" | "mediumint" | "tinyint":
            return str(rng.choice((rng.randint(-40, 40), rng.randint(-40, 40), 127, 32767, -128, 2147483647)))
        case "decimal" | "float" | "double":
            return rng.choice((f"{rng.randint(-40, 40)}.25", "0.1", "9999.99", "-0.5", "12345.5"))
        case "varchar" | "char" | "text" | "tinytext" | "mediumtext" | "longtext":
            return rng.choice((f"'{rng.choice('abcdeABCé ')}{rng.randint(0, 30)}'", "''", "'ab  '", "'7'", "'ÿ€'"))
        case "enum":
            return rng.choice(("'x'", "'y'"))
        case "set":
            return rng.choice(("''", "'a'", "'b'", "'a,b'"))
        case "date":
            return f"'2026-11-{rng.randint(1, 28):02}'"
        case "datetime" | "timestamp":
            return f"'2026-11-{rng.randint(1, 28):02} 10:00:{rng.randint(0, 59):02}.{rng.randint(0, 999999):06}'"
        case "time":
            return rng.choice(("'10:00:00.75'", "'-838:59:59'", "'00:00:01'"))
        case "year":
            return rng.choice(("2026", "1901"))
        case "varbinary" | "binary" | "blob" | "tinyblob" | "longblob":
            return rng.choice(("''", "x'00'", "x'ff20'", "x'61620000'"))
        case "json":
            return rng.choice(("'{\"a\": [1, 2.50]}'", "'[]'", "'\"x\"'"))
        case "bit":
            return rng.choice(("b'1'", "b'10110'", "b'0'"))
        case "inet6":
            return "'::1'"
        case _:
            return f"'{rng.randint(1, 9)}'"
