"""Makes the queries to each side: for all rows their key and one text, and for the rows of some buckets every value.

A *bucket* is a share of a table's rows, by their key; the same rows at both ends.  The columns of a query are `k`: the
bucket, where the key is one integer, or else the text that the bucket is a hash of; `p0`, `p1`, …: the columns that
pieces are cut by; and, of digests, `r`: the row's text, `d0`, …: its doubles; of rows, `c0`, …: its values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.spark.comparable_values import Form
from tidelock.adapters.spark.keys import predicates
from tidelock.adapters.verify.canonical import Cell, row_text
from tidelock.adapters.verify.table_pairs import ComparedTable, Side
from tidelock.engine.model.records import Row

# Equal values of these are not always equal texts, and a row must be in the same bucket at both ends.
_LOOSE = (Form.DOUBLE, Form.JSON, Form.ADDRESS)


def digest_query(side: Side, pair: ComparedTable, buckets: int) -> str:
    """Returns the query for digests of all rows."""
    doubles = [f"{cell.text} AS d{n}" for n, cell in enumerate(doubles_of(side.cells))]
    return _select(side, pair, buckets, [f"{row_text(side.dialect, side.cells)} AS r", *doubles])


def rows_query(side: Side, pair: ComparedTable, buckets: int, where: str = "") -> str:
    """Returns the query for values of rows.  `where`: SQL over `t`."""
    values = [f"{_as_text(side, cell)} AS c{n}" for n, cell in enumerate(side.cells)]
    return _select(side, pair, buckets, values, where)


def keyed_queries(side: Side, pair: ComparedTable, buckets: int, keys: Sequence[Row]) -> list[str]:
    """Returns `rows_query`s that together give the rows of these keys, some perhaps twice: a server may take two keys
    for one.

    Conditions stand inside, on the columns as they are, so that an index serves and Spark need not know their types.
    """
    columns = side.columns[: pair.key]
    names = [f"t.{quote(side.dialect, column.name)}" for column in columns]
    return [rows_query(side, pair, buckets, where) for where in predicates(side.dialect, columns, names, keys)]


def _as_text(side: Side, cell: Cell) -> str:
    """Returns SQL of a text, of a number too: Spark has no integers as large as MySQL's, and decimals of 38 digits."""
    return f"CAST({cell.text} AS CHAR)" if side.dialect == "mysql" and cell.form is Form.NUMBER else cell.text


def doubles_of(cells: Iterable[Cell]) -> list[Cell]:
    """Returns the cells that are doubles."""
    return [cell for cell in cells if cell.form is Form.DOUBLE]


def _select(side: Side, pair: ComparedTable, buckets: int, parts: list[str], more: str = "") -> str:
    cuts = ["t.ctid AS p0"] if side.dialect == "postgres" else []
    cuts += [f"t.{quote(side.dialect, name)} AS p{n}" for n, name in enumerate(side.keys)]
    both = " AND ".join(f"({condition})" for condition in (side.where, more) if condition)
    where = f" WHERE {both}" if both else ""
    return f"SELECT {', '.join([f'{_key(side, pair, buckets)} AS k', *parts, *cuts])} FROM {side.table} t{where}"


def _key(side: Side, pair: ComparedTable, buckets: int) -> str:
    name = _identity(side, pair)
    if not pair.integer:
        return name
    return f"MOD({name}, {buckets})" if side.dialect == "mysql" else f"mod({name}, {buckets})::bigint"


def _identity(side: Side, pair: ComparedTable) -> str:
    if pair.integer:
        return f"t.{quote(side.dialect, side.cells[0].name)}"
    identity = side.cells[: pair.key] or side.cells
    return row_text(side.dialect, [cell for cell in identity if cell.form not in _LOOSE])
