"""Puts what a manifest names onto the disk, before a source is told that it need not keep the log before it.

A file system writes files back when it sees fit.  The manifest is written through at once (`adapters.hive.files`), the
parts that it names are not: a run that begins anew could read the log again.  PostgreSQL keeps its log only until it is
told, so the parts must be safe from a loss of power by then.
"""

from __future__ import annotations

import os
from pathlib import Path

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.hive.manifest import Manifest
from tidelock.adapters.hive.ownership import merge_of
from tidelock.adapters.hive.warehouse import tables_of


def secure(target: Endpoint, manifest: Manifest, since: int) -> None:
    """Writes through all parts that merges behind number `since` have made, in a warehouse of this machine.

    Another file system keeps copies of its own (HDFS).
    """
    if target.host:
        return
    root = Path(target.database)
    above = {root, *root.glob("_*/*/manifests")}
    for table, stored in tables_of(manifest).items():
        schema, _, name = table.partition(".")
        place = root / f"{schema}.db" / name
        for merge in set(stored.parts.values()):
            if merge_of(merge) > since:
                _write_all_through(place / merge)
                above |= {place, place.parent}
    for folder in above:
        _write_through(folder)


def _write_all_through(place: Path) -> None:
    for found in (place, *place.rglob("*")):
        _write_through(found)


def _write_through(place: Path) -> None:
    opened = os.open(place, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
