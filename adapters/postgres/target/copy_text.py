"""Rows as COPY's text format: for plain inserts a third less work at the server than arrays (`tidelock bench micro`).

Escaping goes over a whole column at once: joined with NUL, which no value may hold, and split again only if changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelock.adapters.postgres.target.literals import checked_text, refuse_unsound


class CopyCommand(msgspec.Struct, frozen=True):
    """`command`: COPY … FROM STDIN.  `data`: one line a row.  Stands among a batch's statements."""

    command: str
    data: bytes


def lines(names: Sequence[str], columns: Sequence[Sequence[str | None]]) -> bytes:
    """Write rows, given by column.  Raises Unwritable."""
    rows = zip(*map(_fields, names, columns), strict=True)
    return ("\n".join(map("\t".join, rows)) + "\n").encode()


def _fields(name: str, values: Sequence[str | None]) -> Sequence[str]:
    present: Sequence[str]
    try:
        present = values  # type: ignore[assignment]
        joined = "\0".join(present)
    except TypeError:  # a NULL, or bytes where text should be
        present = [checked_text(name, v) for v in values if v is not None]
        joined = "\0".join(present)
    refuse_unsound(joined, max(len(present) - 1, 0), f"column {name}")
    escaped = joined.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    if len(escaped) != len(joined):
        present = escaped.split("\0")
    if len(present) == len(values):
        return present
    rest = iter(present)
    return ["\\N" if v is None else next(rest) for v in values]
