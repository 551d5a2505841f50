"""Parts of a source's index as a target has them, in its own words; or why the target goes without the index.

An index that is not unique refuses a row for its length alone, and no target is to refuse a row that its source took.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.operations import AddIndex
from tidelock.adapters.ports.definition import IndexPart
from tidelock.adapters.schema.create_table import identifier
from tidelock.adapters.schema.dialects import INDEX_BYTES
from tidelock.adapters.schema.whole_table import POSTGRES_INDEX_BYTES
from tidelock.engine.model.records import Column, Kind

_LENGTH: Final = re.compile(r"\((\d+)")
_TEXTS: Final = ("character varying", "character", "text", "varchar", "char")
_POSTGRES_SIZES: Final = {
    "smallint": 2, "integer": 4, "bigint": 8, "real": 4, "double precision": 8, "boolean": 1, "date": 4, "time": 8,
    "timestamp": 8, "uuid": 16, "inet": 19, "numeric": 64, "bit": 16, "bit varying": 16, "?": 16,
}  # fmt: skip
"""Bytes of the types whose values PostgreSQL orders, but for texts and bytes."""
_WIDTHS: Final = {"utf8": 3, "utf8mb3": 3, "ucs2": 2, "latin1": 1, "ascii": 1, "binary": 1}
_WIDEST = 4
_LONG: Final = ("text", "blob")
_SHAPES: Final = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geomcollection",
    "geometrycollection",
)  # fmt: skip


class NotIndexed(Exception):
    """Error of an index that the target goes without; `args[0]` says why."""


class IndexedColumn(msgspec.Struct, frozen=True):
    """A column of the target that an index is made over.  `former`: the source's, where that is known."""

    name: str
    type: str
    nullable: bool = True
    collation: str = ""
    former: Column | None = None

    @property
    def head(self) -> str:
        """The type without its bounds."""
        return self.type.partition("(")[0].partition(" with")[0].strip().lower()

    @property
    def length(self) -> int:
        """The length that the type says; 0 for none."""
        found = _LENGTH.search(self.type)
        return int(found[1]) if found else 0


def parts_at(index: AddIndex, column: Callable[[str], IndexedColumn], dialect: Dialect) -> tuple[str, ...]:
    """Returns the parts of an index in a target's words.  `column`: finds the target's column of one of the source's.
    Raises NotIndexed."""
    if any(part.expression for part in index.parts):
        raise NotIndexed("it is over an expression")
    found = [(part, column(part.column)) for part in index.parts]
    if dialect == "postgres":
        return _of_postgres(index, found)
    if index.what == "VECTOR":
        raise NotIndexed("not every target has an index of vectors")
    if index.what == "FULLTEXT" and any(one.head not in _TEXTS and not one.head.endswith("text") for _, one in found):
        raise NotIndexed("the target has something else than a text there")
    if index.what == "SPATIAL" and any(one.head not in _SHAPES or one.nullable for _, one in found):
        raise NotIndexed("the target has not a geometry there that is NOT NULL")
    if index.what:
        return tuple(identifier("mysql", one.name) for _, one in found)
    if sum(_mysql_bytes(part, one) for part, one in found) > INDEX_BYTES:
        raise NotIndexed("its columns are longer at the target than an index takes")
    return tuple(_of_mysql(part, one) for part, one in found)


def _of_mysql(part: IndexPart, column: IndexedColumn) -> str:
    is_long = column.head.endswith(_LONG) or column.length > part.prefix
    prefix = f"({part.prefix})" if part.prefix and is_long else ""
    return f"{identifier('mysql', column.name)}{prefix}{' DESC' if part.descending else ''}"


def _mysql_bytes(part: IndexPart, column: IndexedColumn) -> int:
    head = column.head
    is_text = head in _TEXTS or head.endswith("text")
    width = _WIDTHS.get(column.collation.partition("_")[0], _WIDEST) if is_text else 1
    if head.endswith(_LONG):
        if not part.prefix:
            raise NotIndexed(f"the target has {column.name} as {column.type}, of which it indexes a beginning alone")
        return part.prefix * width
    if head == "json" or head in _SHAPES:
        raise NotIndexed(f"the target has {column.name} as {column.type}")
    if is_text or head.endswith("binary"):
        return min(part.prefix or column.length, column.length) * width
    if part.prefix and head != "?":
        raise NotIndexed(f"the target has {column.name} as {column.type}, which has no beginning")
    return 8


def _of_postgres(index: AddIndex, found: Sequence[tuple[IndexPart, IndexedColumn]]) -> tuple[str, ...]:
    if index.what:
        raise NotIndexed(f"PostgreSQL has no {index.what} index")
    if sum(_postgres_bytes(part, one) for part, one in found) > POSTGRES_INDEX_BYTES:
        raise NotIndexed("a row may have more bytes in it than PostgreSQL takes in an index")
    made = []
    for part, one in found:
        name = identifier("postgres", one.name)
        text = f"(left({name}, {part.prefix}))" if part.prefix else name
        made.append(f"{text}{' DESC' if part.descending else ''}")
    return tuple(made)


def _postgres_bytes(part: IndexPart, column: IndexedColumn) -> int:
    head = column.head
    if part.prefix:
        if head not in (*_TEXTS, "?"):
            raise NotIndexed(f"the target has {column.name} as {column.type}, whose beginning is no key there")
        return part.prefix * _WIDEST
    if head in _TEXTS and column.length:
        return column.length * _WIDEST
    if head in (*_TEXTS, "bytea"):
        return _bytes(column.former) or POSTGRES_INDEX_BYTES + 1
    if head not in _POSTGRES_SIZES:
        raise NotIndexed(f"the target has {column.name} as {column.type}")
    return _POSTGRES_SIZES[head]


def _bytes(column: Column | None) -> int:
    """Returns how many bytes a value of the source's may have, as text of UTF-8; 0 where that is not known."""
    if column is None:
        return 0
    match column.kind:
        case Kind.TEXT:
            return column.length * _WIDEST
        case Kind.BINARY:
            return column.length
        case Kind.ENUM:
            return max(map(len, column.labels), default=0) * _WIDEST
        case Kind.SET:
            return (sum(map(len, column.labels)) + len(column.labels)) * _WIDEST
        case Kind.INT | Kind.TIME | Kind.YEAR:
            return 16
    return 0
