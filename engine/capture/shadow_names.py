"""Names of shadow tables: those that tools for online schema changes fill beside a table and then put in its place.

| tool                                | shadow of `t`                                                     |
|-------------------------------------|-------------------------------------------------------------------|
| gh-ost                              | `_t_gho`                                                          |
| pt-online-schema-change, Spirit     | `_t_new`, with more underscores before it where that one is taken |
| Vitess                              | `_vt_vrp_…`, `_…_vrepl`: it does not say whose                    |

A name is no proof: what such a table is, its statements say (`adapters.ddl.shadows`).
"""

from __future__ import annotations

import re
from typing import Final

from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.model.records import TableName

_OF_TABLE: Final = re.compile(r"_(.+)_gho|_{1,11}(.+)_new", re.DOTALL)
_OF_ANY: Final = re.compile(r"_vt_vrp_[0-9a-f]+_\d+_|_[0-9a-f]{8}_(?:[0-9a-f]{4}_){3}[0-9a-f]{12}_\d+_vrepl")


def shadowed(name: TableName) -> TableName | None:
    """Returns the table whose shadow the name says it is; None where it says none."""
    found = _OF_TABLE.fullmatch(name.table)
    return TableName(name.schema, found[1] or found[2]) if found is not None else None


def may_shadow(name: TableName, mapping: Mapping) -> bool:
    """Tells whether a table that the feed leaves out may take the place of one that it takes."""
    if mapping.selects(name):
        return False
    of = shadowed(name)
    if of is not None:
        return mapping.selects(of)
    return _OF_ANY.fullmatch(name.table) is not None and mapping.draws_on(name.schema)
