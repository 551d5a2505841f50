"""Types that users of a PostgreSQL source have made, as statements that make them at a PostgreSQL target.

Enums, composites and ranges are made alike, and extensions are created where a column needs a type of theirs.  A domain
is not: its column has the type that the domain is made of, so that the target is never stricter than the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.postgres.catalogue import Server
from tidelock.adapters.postgres.column_types import TYPE_FACTS, PostgresType, spelled_type, types_of
from tidelock.adapters.schema.source_table import UserType

# Of a composite the attributes, of a range its subtype: what types are made of beside bases and elements.
_PARTS: Final = """
SELECT t.oid::bigint, coalesce(a.attname::text, ''), coalesce(a.atttypid, r.rngsubtype)::bigint,
    coalesce(a.atttypmod, -1)
FROM pg_type t
LEFT JOIN pg_attribute a ON a.attrelid = t.typrelid AND t.typtype = 'c' AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_range r ON r.rngtypid = t.oid OR r.rngmultitypid = t.oid
WHERE t.oid = ANY ($1::oid[]) AND (a.attrelid IS NOT NULL OR r.rngtypid IS NOT NULL)
ORDER BY 1, a.attnum"""
_EXTENSIONS: Final = """
SELECT d.objid::bigint, e.extname::text, n.nspname::text
FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid JOIN pg_namespace n ON n.oid = e.extnamespace
WHERE d.classid = 'pg_type'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
    AND d.objid = ANY ($1::oid[])"""
_MULTIRANGES: Final = """
SELECT r.rngmultitypid::bigint, r.rngtypid::bigint FROM pg_range r WHERE r.rngmultitypid = ANY ($1::oid[])"""
_BUILT_IN: Final = "pg_catalog"


class _Part(msgspec.Struct, frozen=True):
    """`name`: of an attribute; '' of a range's subtype."""

    name: str
    type: int
    modifier: int


class UserTypes:
    """The types of a database's columns, with what they are made of."""

    def __init__(
        self,
        types: dict[int, PostgresType],
        parts: dict[int, list[_Part]],
        extensions: dict[int, tuple[str, str]],
        ranges: dict[int, int],
    ) -> None:
        self._types = types
        self._parts = parts
        self._extensions = extensions
        self._ranges = ranges

    def needed(self, types: Sequence[PostgresType]) -> tuple[UserType, ...]:
        """Types that a target needs for columns of these types, each behind those that it is made of."""
        found: dict[str, UserType] = {}
        for type in types:
            self._add(type, found)
        return tuple(found.values())

    def _add(self, type: PostgresType, found: dict[str, UserType]) -> None:
        inner = type.base or type.element
        if inner is not None:
            return self._add(inner, found)
        if type.schema == _BUILT_IN:
            return None
        if type.oid in self._ranges:  # made with its range
            return self._add(self._types[self._ranges[type.oid]], found)
        name = spelled_type(type, -1)
        if type.oid in self._extensions:
            extension, schema = self._extensions[type.oid]
            statement = f"CREATE EXTENSION IF NOT EXISTS {_quoted(extension)} SCHEMA {_quoted(schema)}"
            found.setdefault(name, UserType(type.schema, type.name, statement))
            return None
        parts = self._parts.get(type.oid, [])
        for part in parts:
            self._add(self._types[part.type], found)
        found.setdefault(name, UserType(type.schema, type.name, self._statement(type, parts)))
        return None

    def _statement(self, type: PostgresType, parts: Sequence[_Part]) -> str:
        name = f"{_quoted(type.schema)}.{_quoted(type.name)}"
        if type.form == "e":
            labels = ", ".join("'" + label.replace("'", "''") + "'" for label in type.labels)
            return f"CREATE TYPE {name} AS ENUM ({labels})"
        if type.form == "r":
            return f"CREATE TYPE {name} AS RANGE (subtype = {spelled_type(self._types[parts[0].type], -1)})"
        attributes = ", ".join(
            f"{_quoted(p.name)} {spelled_type(_plain(self._types[p.type]), _modifier(self._types[p.type], p.modifier))}"
            for p in parts
        )
        return f"CREATE TYPE {name} AS ({attributes})"


async def user_types(server: Server, types: Iterable[PostgresType]) -> UserTypes:
    """Read what these types are made of."""
    known = {type.oid: type for type in types}
    parts: dict[int, list[_Part]] = {}
    ranges: dict[int, int] = {}
    asked: set[int] = set()
    while wanted := [t.oid for t in known.values() if t.oid not in asked and t.schema != _BUILT_IN]:
        asked.update(wanted)
        ranges |= dict(await server.ask(_MULTIRANGES, wanted))
        for oid, name, type, modifier in await server.ask(_PARTS, wanted):
            parts.setdefault(oid, []).append(_Part(name, type, modifier))
        inner = {p.type for oid in wanted for p in parts.get(oid, ())} | set(ranges.values())
        known |= types_of(await server.ask(TYPE_FACTS, sorted(inner - known.keys())))
    extensions = {oid: (name, schema) for oid, name, schema in await server.ask(_EXTENSIONS, sorted(known))}
    return UserTypes(known, parts, extensions, ranges)


def _plain(type: PostgresType) -> PostgresType:
    """Returns the type that a domain is made of."""
    return type if type.base is None else _plain(type.base)


def _modifier(type: PostgresType, modifier: int) -> int:
    return modifier if type.base is None or modifier >= 0 else _modifier(type.base, type.base_modifier)


def _quoted(name: str) -> str:
    return quote("postgres", name)
