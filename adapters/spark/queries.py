"""What each side is asked: for all rows their key and one text, and for the rows of some buckets every value.

A *bucket* is a share of a table's rows, by their key; the same rows at both ends.  The columns of a query are
`k`: the bucket, where the key is one integer, or else the text that the bucket is a hash of; `p0`, `p1`, …: what pieces
are cut by; and, of digests, `r`: the row's text, `d0`, …: its doubles; of rows, `i`: what a row can be asked for by
(the integer, or that text), `c0`, …: its values.
"""

from __future__ import annotations

from collections.abc import Iterable

from adapters.bookkeeping import quote
from adapters.mysql.literals import blob
from adapters.spark.canonical import Cell, row_text
from adapters.spark.forms import Form
from adapters.spark.pairing import Pair, Side
from adapters.types import quoted

# Equal values of these are not always equal texts, and a row must be in the same bucket at both ends.
_LOOSE = (Form.DOUBLE, Form.JSON, Form.ADDRESS)


def digest_query(side: Side, pair: Pair, buckets: int) -> str:
    doubles = [f"{cell.text} AS d{n}" for n, cell in enumerate(doubles_of(side.cells))]
    return _select(side, pair, buckets, [f"{row_text(side.dialect, side.cells)} AS r", *doubles])


def rows_query(side: Side, pair: Pair, buckets: int) -> str:
    values = [f"{_as_text(side, cell)} AS c{n}" for n, cell in enumerate(side.cells)]
    return _select(side, pair, buckets, [f"{_identity(side, pair)} AS i", *values])


def named(side: Side, pair: Pair, names: Iterable[str]) -> str:
    """SQL over `i` that holds for the rows of these names, and perhaps for some whose names a server takes as equal."""
    if pair.integer:
        return f"i IN ({', '.join(names)})"
    if side.dialect == "mysql":
        return f"i IN ({', '.join('_utf8mb4 ' + blob(name.encode()) for name in names)})"
    possible = (quoted(name) for name in names if "\0" not in name)
    return f"i IN ({', '.join(possible) or 'NULL'})"


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
