"""Comparisons of a target column with a value of a before-image, as SQL, and the words where they differ.

NULL equals NULL.  Texts are compared by their bytes, whatever the column's collation says, and so is `json`, which
keeps its spelling; `jsonb` by what it says.  A value is rounded as an assignment to the column rounds it; what an
assignment refuses (a text that is too long) is not cut.
"""

from __future__ import annotations

import re

import asyncpg

from tidelock.adapters.postgres.target.values import base_type
from tidelock.engine.model.errors import DIFFERS
from tidelock.engine.model.records import Column, Kind

MARK = "tidelock: differs: "
"""A number is read from a text that begins so, which the error repeats."""
SHOWN_CHARACTERS = 60

_FOUND = re.compile(f'"{MARK}(.*)"', re.DOTALL)
_TEXTS = frozenset(("text", "character varying", "varchar", "name"))
_ROUNDED = ("numeric", "timestamp", "time", "interval")
# Types without an `=`, or whose `=` is coarser than their text.
_BY_TEXT = frozenset(("json", "xml", "citext", "point", "line", "lseg", "box", "path", "polygon", "circle"))


def comparison(column: Column, type: str, old: str, new: str) -> str:
    """SQL that is true where `old`, of a target column of `type`, is what an assignment of `new` makes of it."""
    base = base_type(type).rpartition(".")[2]
    if column.kind is Kind.OTHER or type.endswith("[]"):
        # 1.0 and 1.00 are equal, as are a day and 24 hours; a composite of NULLs `IS NULL` and is none.
        same_null = f"({old} IS DISTINCT FROM NULL) = ({new} IS DISTINCT FROM NULL)"
        return f"(format('%s', {old}) = format('%s', {new}) AND {same_null})"
    if base in _BY_TEXT:
        return f"{old}::text IS NOT DISTINCT FROM {new}::text"
    if base in _TEXTS:
        return f'{old}::text COLLATE "C" IS NOT DISTINCT FROM {new}::text'
    if base.startswith(_ROUNDED):
        return f"{old} IS NOT DISTINCT FROM {new}::{type}"
    return f"{old} IS NOT DISTINCT FROM {new}"


def shown(name: str, old: str, new: str) -> str:
    """SQL for words about a column whose value differs."""
    found, expected = (f"coalesce(left({text}::text, {SHOWN_CHARACTERS}), 'NULL')" for text in (old, new))
    quoted = name.replace("'", "''")
    return f"'{quoted} is ' || {found} || ' where ' || {expected} || ' was expected'"


def difference(error: BaseException) -> str:
    """Returns the words about a row that is not as its before-image; '' for any other error."""
    if not isinstance(error, asyncpg.InvalidTextRepresentationError):
        return ""
    found = _FOUND.search(str(error))
    return f"{DIFFERS}: {found[1]}" if found else ""
