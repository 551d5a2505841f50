"""Definition of a table besides columns and keys: defaults, counters, plain indexes, checks, comments.

Nothing of it decides which rows are written, so the engine never asks for it: `init` makes it at a target.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Default(msgspec.Struct, frozen=True):
    """Default of a column: the literal `value`, None where it is none, and the source's own `expression`, '' where a
    literal is told by its value alone."""

    value: str | None = None
    expression: str = ""

    @property
    def text(self) -> str:
        """Text for people."""
        return self.expression if self.value is None else repr(self.value)


class IndexPart(msgspec.Struct, frozen=True):
    """A part of an index: a column, of which the first `prefix` characters (0: all), or an expression."""

    column: str = ""
    prefix: int = 0
    descending: bool = False
    expression: str = ""


class PlainIndex(msgspec.Struct, frozen=True):
    """An index that is not unique.

    `method`: how it is kept, lower case: `btree`, `hash`, `fulltext`, `spatial`, `gin`, ….  `tail`: what PostgreSQL
    writes behind the table's name, '' elsewhere.  `condition`: its WHERE.  `columns`: all that it mentions.
    """

    name: str
    parts: tuple[IndexPart, ...]
    method: str = "btree"
    tail: str = ""
    condition: str = ""
    columns: tuple[str, ...] = ()


class Definition(msgspec.Struct, frozen=True):
    """Definition of a table, without what `SourceTable` has.

    `counters`: columns that the server counts (AUTO_INCREMENT, identity, a sequence of their own).  `on_update`:
    columns that the server sets to the time of a row's change.  `checks`: (name, clause).  `comments`: by column.
    `partitioned`: how its rows are divided, '' for a table in one.  `domains`: checks of the types of columns, which
    users have made (PostgreSQL).
    """

    defaults: Mapping[str, Default] = {}
    counters: tuple[str, ...] = ()
    on_update: tuple[str, ...] = ()
    indexes: tuple[PlainIndex, ...] = ()
    checks: tuple[tuple[str, str], ...] = ()
    comment: str = ""
    comments: Mapping[str, str] = {}
    partitioned: str = ""
    domains: Mapping[str, str] = {}
