"""Shadow tables that a feed knows of (`adapters.ddl.shadows`), as rows of `tidelock_shadows` in SQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from tidelock.engine.model.records import TableName

OF: Final = "of_schema, of_table"


class Shadow(msgspec.Struct, frozen=True):
    """A shadow table.  `of`: the table in whose form it was made.  `altered`: the default database and the text of each
    statement that has altered it since.  `doubt`: why that does not say what it is by now; '' where it does.
    `uniques`: columns of unique indexes that it was made with by a whole CREATE TABLE, to be those of `of`."""

    table: TableName
    of: TableName
    altered: tuple[tuple[str, str], ...] = ()
    doubt: str = ""
    uniques: tuple[tuple[str, ...], ...] = ()


Shadows = dict[TableName, Shadow]
_SHADOW: Final = msgspec.json.Decoder(Shadow)


class ShadowsSql:
    """`place`: the table, quoted.  `literal`: writes a text as the database reads it."""

    def __init__(self, place: str, feed: str, literal: Callable[[str], str]) -> None:
        self._place, self._feed, self._literal = place, literal(feed), literal

    @property
    def select(self) -> str:
        """The query whose rows `read` takes."""
        return f"SELECT shadow FROM {self._place} WHERE feed = {self._feed}"

    def keep(self, before: Mapping[TableName, Shadow], after: Mapping[TableName, Shadow]) -> list[str]:
        """Returns what makes those that are kept of `before` those of `after`."""
        gone = [name for name, shadow in before.items() if after.get(name) != shadow]
        new = [shadow for name, shadow in after.items() if before.get(name) != shadow]
        return [*map(self._delete, gone), *map(self._insert, new)]

    def _delete(self, name: TableName) -> str:
        schema, table = map(self._literal, (name.schema, name.table))
        mine = f"feed = {self._feed} AND table_schema = {schema} AND table_name = {table}"
        return f"DELETE FROM {self._place} WHERE {mine}"

    def _insert(self, shadow: Shadow) -> str:
        kept = json.dumps(msgspec.to_builtins(shadow))  # nothing but ASCII, whatever the database's encoding
        words = (shadow.table.schema, shadow.table.table, shadow.of.schema, shadow.of.table, kept)
        values = ", ".join((self._feed, *map(self._literal, words)))
        return f"INSERT INTO {self._place} (feed, table_schema, table_name, {OF}, shadow) VALUES ({values})"


def read(rows: Iterable[tuple[Any, ...]]) -> Shadows:
    """Returns the shadows of rows that `ShadowsSql.select` found."""
    found = [_SHADOW.decode(str(row[0])) for row in rows]
    return {shadow.table: shadow for shadow in found}
