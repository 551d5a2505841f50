"""Every value end to end: it arrives as it was, or its row is parked with the table, the column and the reason.

Each value is inserted, updated to and from, left alone by an update, deleted, moved to another key, part of a row
without a key, and a primary key where it can be one.
"""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, Server
from bench.harness.session import Flavor
from bench.harness.value_tables import Cell, Keyed, Keyless, Keys, Long, Named
from bench.harness.values import ZONE, ColumnValues, column_values
from tidelock.adapters.bookkeeping.tables import quote

# Two servers of one kind have the fewest conversions.
PAIRS = [
    ("mariadb", "postgres"),
    ("mysql", "postgres"),
    ("mariadb", "mysql"),
    pytest.param("mysql", "mariadb", marks=pytest.mark.proof),
    pytest.param("mysql", "other_mysql", marks=pytest.mark.proof),
    pytest.param("mariadb", "other_mariadb", marks=pytest.mark.proof),
]
OPERATOR = 4
STATEMENTS = 200
LATER = "an earlier change of this row failed"


@pytest.fixture(scope="module")
def other_mariadb() -> Iterator[Server]:
    with MariaDb() as server:
        yield server


@pytest.mark.parametrize("verify", ["off", pytest.param("image", marks=pytest.mark.proof)])
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_each_value_arrives_or_is_parked(
    source: str, target: str, verify: str, make_rig: Callable[..., Rig], request: pytest.FixtureRequest
) -> None:
    """With `verify: image` too: no value is taken for another at the target."""
    rig = make_rig(request.getfixturevalue(source), request.getfixturevalue(target), "value", lanes=2, verify=verify)
    flavor = Flavor(target.removeprefix("other_"))
    columns = column_values(Flavor(source))
    keyed, keyless, keys = Keyed(columns, flavor), Keyless(columns, flavor), Keys(columns)
    named = Named(rig.name)
    parts = (keyed, keyless, keys, Long(), named)
    rig.rules = [{"source": f"{rig.schema}.*"}, {"source": f"{named.schema}.*"}]
    rig.at_source(f"SET sql_mode = '', time_zone = '{ZONE}'", *(ddl for part in parts for ddl in part.ddl))
    rig.start_at = rig.here()
    made = rig.command("init", "--apply")
    assert made.code == 0, made.err
    for round_ in ("before", "after"):
        send(rig, (statement for part in parts for statement in getattr(part, round_)()))
        assert rig.catch_up_code() == OPERATOR, rig.said()
    print(rig.said()[-1500:])
    check_named(rig, named, flavor)
    check_parked(rig, keyed.cells, columns, flavor)
    remove_parked(rig, keyed.cells, keys.columns, flavor)
    if flavor is not Flavor.MARIADB:
        check_signs(rig)
    if flavor is not Flavor.POSTGRES:
        check_spatial(rig)
    rig.tables = ["keyed", "keyless", *(c.name for c in keys.columns), *Long.tables]
    differences = rig.differences()
    assert differences.matched > len(keyed.cells)
    assert differences.total == 0, [without_nulls(e) for table in differences.tables for e in table.examples]


def send(rig: Rig, statements: Iterator[str]) -> None:
    """Many in a packet, each in its own transaction."""
    while packet := list(itertools.islice(statements, STATEMENTS)):
        rig.at_source(";".join(packet))


def without_nulls(example: Any) -> str:
    shown = ([value for value in row or () if value is not None] for row in (example.source, example.target))
    return " → ".join(str(values)[:300] for values in shown)


def check_named(rig: Rig, named: Named, target: Flavor) -> None:
    """By SQL of its own: `compare` takes plain names only."""
    dialect = "postgres" if target is Flavor.POSTGRES else "mysql"
    columns = ", ".join(f"CONCAT({quote(dialect, c)}, '')" for c in ("primary", "KEY", *named.columns))
    for table in named.tables:
        place = f"{quote(dialect, named.schema)}.{quote(dialect, table)}"
        assert rig.rows(f"SELECT {columns} FROM {place} ORDER BY {quote(dialect, 'KEY')}") == named.expected(), table


def check_parked(rig: Rig, cells: list[Cell], columns: list[ColumnValues], target: Flavor) -> None:
    """Exactly the changes of refused values are parked; the first of each row says which column and why."""
    listed = rig.command("rows", "list", "@", "--json", "--limit", "100000")
    assert listed.code == OPERATOR
    found: Counter[str] = Counter()
    for row in listed.json:
        database, table = row["table"].split(".")
        assert database == rig.schema
        if table in ("keyed", "keyless"):
            number = int(re.match(r"\w+=(\d+)", row["key"])[1])  # type: ignore[index]
            cell = cells[number % 1000 if table == "keyed" else number // 10]
            reasons, name = [cell.reason], cell.column
            found[f"{table} {cell.number}"] += 1
        else:
            (column,) = (c for c in columns if c.name == table)
            reasons, name = [v.reason(target) for v in column.values], "v"
            found[table] += 1
        error = row["error"]
        assert error == LATER or (
            re.match(rf"{row['table']}: .*\bcolumn '?{name}\b", error) and any(r and r in error for r in reasons)
        ), row
    assert found == expected_parked(cells, {column.name for column in columns if column.key})


def expected_parked(cells: list[Cell], keys: set[str]) -> Counter[str]:
    """How many changes of each refused value, and of each table of keys."""
    counts: Counter[str] = Counter()
    for number, column, _, reason in cells:
        if reason:
            counts[f"keyed {number}"] += Keyed.CHANGES
            counts[f"keyless {number}"] += Keyless.CHANGES
            counts[column] += Keys.CHANGES * (column in keys)
    return +counts


def remove_parked(rig: Rig, cells: list[Cell], keys: list[ColumnValues], target: Flavor) -> None:
    """The rows of refused values, at both ends: all others must be the same."""
    refused = ", ".join(str(cell.number) for cell in cells if cell.reason) or "-1"
    statements = [
        f"DELETE FROM keyed WHERE MOD(id, 1000) IN ({refused})",
        f"DELETE FROM keyless WHERE FLOOR(n / 10) IN ({refused})",
    ]
    for column in keys:
        numbers = [100 + number for number, value in enumerate(column.values) if value.reason(target)]
        statements += [f"DELETE FROM {column.name} WHERE n = {number}" for number in numbers]
    rig.at_source(*statements)
    rig.at_target(*statements)


def check_signs(rig: Rig) -> None:
    """`-0.0` equals `0.0`, so that comparing does not tell.  MariaDB stores all zeros as `0.0`."""
    for column in ("float_", "double_"):
        sql = f"SELECT CONCAT(id, ''), CONCAT({column}, '') FROM {rig.schema}.keyed WHERE {column} = 0 ORDER BY id"
        assert rig.rows(sql) == rig.source.execute(sql), column


def check_spatial(rig: Rig) -> None:
    """With the reference system, which `compare` leaves out."""
    sql = f"SELECT id, HEX(point_) FROM {rig.schema}.keyed WHERE point_ IS NOT NULL ORDER BY id"
    assert rig.source.execute(sql) == rig.target.execute(sql)
