"""What each side is asked: for all rows their key and one text, and for the rows of some buckets every value.

A *bucket* is a share of a table's rows, by their key; the same rows at both ends.  The columns of a query are
`k`: the bucket, where the key is one integer, or else the text that the bucket is a hash of; `p0`, `p1`, …: what pieces
are cut by; and, of digests, `r`: the row's text, `d0`, …: its doubles; of rows, `c0`, …: its values, and, where they
are asked for by key, `q0`, …: the key's columns as they are, so that an index serves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from adapters.bookkeeping import quote
from adapters.spark.canonical import Cell, row_text
from adapters.spark.forms import Form
from adapters.spark.keys import predicates
from adapters.spark.pairing import Pair, Side
from engine.records import Row

# Equal values of these are not always equal texts, and a row must be in the same bucket at both ends.
_LOOSE = (Form.DOUBLE, Form.JSON, Form.ADDRESS)


def digest_query(side: Side, pair: Pair, buckets: int) -> str:
    doubles = [f"{cell.text} AS d{n}" for n, cell in enumerate(doubles_of(side.cells))]
    return _select(side, pair, buckets, [f"{row_text(side.dialect, side.cells)} AS r", *doubles])


def rows_query(side: Side, pair: Pair, buckets: int, *, by_key: bool = False) -> str:
    values = [f"{_as_text(side, cell)} AS c{n}" for n, cell in enumerate(side.cells)]
    key = [f"t.{quote(side.dialect, column.name)} AS q{n}" for n, column in enumerate(side.columns[: pair.key])]
    return _select(side, pair, buckets, [*values, *(key if by_key else [])])


def keyed(side: Side, pair: Pair, keys: Sequence[Row]) -> list[str]:
    """Predicates over `q0`, … that together hold for the rows of these keys."""
    return predicates(side.dialect, side.columns[: pair.key], [f"q{n}" for n in range(pair.key)], keys)


def _as_text(side: Side, cell: Cell) -> str:
    """Of a number too: Spark has no integers as large as MySQL's, and decimals of 38 digits."""
    return f"CAST({cell.text} AS CHAR)" if side.dialect == "mysql" and cell.form is Form.NUMBER else cell.text


def doubles_of(cells: Iterable[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.form is Form.DOUBLE]


def _select(side: Side, pair: Pair, buckets: int, parts: list[str]) -> str:
    cuts = ["t.ctid AS p0"] if side.dialect == "postgres" else []
    cuts += [f"t.{quote(side.dialect, name)} AS p{n}" for n, name in enumerate(side.keys)]
    where = f" WHERE {side.where}" if side.where else ""
    return f"SELECT {', '.join([f'{_key(side, pair, buckets)} AS k', *parts, *cuts])} FROM {side.table} t{where}"


def _key(side: Side, pair: Pair, buckets: int) -> str:
    name = _identity(side, pair)
    if not pair.integer:
        return name
    return f"MOD({name}, {buckets})" if side.dialect == "mysql" else f"mod({name}, {buckets})::bigint"


def _identity(side: Side, pair: Pair) -> str:
    if pair.integer:
        return f"t.{quote(side.dialect, side.cells[0].name)}"
    identity = side.cells[: pair.key] or side.cells
    return row_text(side.dialect, [cell for cell in identity if cell.form not in _LOOSE])
