"""Rows of tables without a key: which one at the target is the very row that a change of the log had before it.

`=` may take different values for one: by a collation that is not deterministic, 1.0 and 1 in a document, the two
zeros.  Among rows that differ in such a value alone the wrong one would go.  So where `=` says too little the text is
compared as well; an index serves for `=`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from tidelock.adapters.postgres.target.values import base_type
from tidelock.engine.model.records import Column, Kind, Row
from tidelock.engine.model.schema import signed

FLOATS = (Kind.FLOAT, Kind.DOUBLE)
_TEXTS = frozenset(("text", "character varying"))
# Types whose `=` is missing, is not equality, or is coarser than the text.
_AS_TEXT = frozenset(("xml", "citext", "point", "line", "lseg", "box", "path", "polygon", "circle"))


def output_text(expression: str) -> str:
    """SQL for a value's text as its type writes it, `''` for NULL.  A cast may write another: `10.0.0.1/32` of an inet.
    """
    return f"format('%s', {expression})"


def counted(rows: Sequence[Row], floats: Collection[int]) -> Iterable[tuple[Row, int]]:
    """Counts equal rows.  `floats`: positions of floating point numbers, of which a row may have another zero."""
    if not floats:
        return Counter(rows).items()
    told = [tuple([signed(value) for value in row]) for row in rows]
    of = dict(zip(told, rows, strict=True))
    return [(of[row], copies) for row, copies in Counter(told).items()]


def equal(column: Column, type: str, name: str, literal: str) -> str:
    """Returns SQL that tells whether a target's column of this type and (quoted) name has the literal's value."""
    base = base_type(type).rpartition(".")[2]
    if column.kind is Kind.OTHER:
        # 1.0 and 1.00 are equal, as are a day and 24 hours; a composite of NULLs `IS NULL` and is none.
        if literal == "NULL":
            return f"{name} IS NOT DISTINCT FROM NULL"
        return f"({name} IS DISTINCT FROM NULL AND {output_text(name)} = {literal})"
    if literal == "NULL":
        return f"{name} IS NULL"
    if base in _AS_TEXT or (base == "json" and column.type == "json"):
        return f"{name}::text = {literal}"
    if base == "json":
        return f"{name}::jsonb = {literal}"
    if base in _TEXTS:
        return f'{name} = {literal} AND {name}::text COLLATE "C" = {literal}'
    if base == "jsonb":
        return f"{name} = {literal} AND {name}::text = {literal}::jsonb::text"
    if column.kind in FLOATS and float(literal.strip("'")) == 0:
        sign = "-" if literal.startswith("'-") else ""
        return f"{name} = {literal} AND {name}::text = '{sign}0'"
    return f"{name} = {literal}"
