"""Names that stamps have in users' tables (`engine.two_way.stamp`): two columns, and a table of tombstones for each."""

from __future__ import annotations

from typing import Final

import msgspec

from tidelock.engine.model.records import TableName

TOMBSTONES: Final = "_tombstones"


class StampColumns(msgspec.Struct, frozen=True):
    """Columns that hold a row's stamp, by their names, which are the same at all sites."""

    time: str = "tl_time"
    site: str = "tl_site"


def tombstones_of(table: TableName) -> TableName:
    """Returns the table with the tombstones of a table's rows: columns of its key, and the stamp's."""
    return TableName(table.schema, table.table + TOMBSTONES)


def holds_tombstones(table: TableName) -> bool:
    """Tells whether this is a table of tombstones."""
    return table.table.endswith(TOMBSTONES)


def rows_of(tombstones: TableName) -> TableName:
    """Returns the table whose rows these are the tombstones of."""
    return TableName(tombstones.schema, tombstones.table.removesuffix(TOMBSTONES))
