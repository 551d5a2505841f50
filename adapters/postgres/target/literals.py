"""SQL literals from column texts: few rows as VALUES, many as one array literal a column.

Escaping is done on the joined text, in a few passes of C code, instead of a call per value: quotes are first written
as NUL, which no PostgreSQL text can hold, then the characters that need it are escaped, then NUL becomes the quote.
A value that holds NUL itself shows in the count.  Needs `standard_conforming_strings = on`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelock.adapters.postgres.target.values import Unwritable


def text(value: str) -> str:
    """One literal.  Raises Unwritable."""
    return _quoted(f"\0{value}\0", 1, "a value")


def tuples(names: Sequence[str], columns: Sequence[Sequence[str | None]]) -> str:
    """Write `('1','a'),('2',NULL)`: rows of a VALUES or IN list.  Raises Unwritable."""
    rows = zip(*map(elements, names, columns), strict=True)
    return ",".join([f"({','.join(row)})" for row in rows])


def elements(name: str, values: Sequence[str | None]) -> list[str]:
    """One literal a value; `name` is the column's.  Raises Unwritable."""
    return ["NULL" if v is None else _quoted(f"\0{checked_text(name, v)}\0", 1, f"column {name}") for v in values]


def array(name: str, values: Sequence[str | None]) -> str:
    """Write `'{"1","2",NULL}'`: the values of column `name` as one literal without a type.  Raises Unwritable."""
    try:
        joined, count = "\0" + "\0,\0".join(values) + "\0", len(values)  # type: ignore[arg-type]
    except TypeError:  # a NULL, or bytes where text should be
        joined = ",".join(["NULL" if v is None else f"\0{checked_text(name, v)}\0" for v in values])
        count = sum(v is not None for v in values)
    if not values:
        return "'{}'"
    return "'{" + _quoted(joined.replace("\\", "\\\\").replace('"', '\\"'), count, f"column {name}", '"') + "}'"


def numbers(values: Iterable[int]) -> str:
    """Write the literal of an array of numbers, without a type."""
    return "'{" + ",".join(map(str, values)) + "}'"


def _quoted(marked: str, count: int, where: str, quote: str = "'") -> str:
    refuse_unsound(marked, 2 * count, where)
    return marked.replace("'", "''").replace("\0", quote)


def refuse_unsound(marked: str, marks: int, where: str) -> None:
    """Check a text.

    Raises Unwritable where `marked` holds more NUL characters than our own `marks`, or is no UTF-8.
    """
    if marked.count("\0") != marks:
        raise Unwritable(f"{where}: text with a NUL character, which PostgreSQL cannot hold")
    if not marked.isascii():
        try:
            marked.encode()
        except UnicodeEncodeError:
            raise Unwritable(f"{where}: text with half of a surrogate pair, which is no UTF-8") from None


def checked_text(name: str, value: str | bytes) -> str:
    """Return a text of column `name`.  Raises Unwritable for bytes that are none."""
    if isinstance(value, str):
        return value
    raise Unwritable(f"column {name}: bytes that are no text in the column's character set")
