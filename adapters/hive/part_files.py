"""Reads and writes parts of a table in this process, as Parquet files like Spark's own.

Moments are stored as Spark and Hive store them (INT96, UTC), decimals as integers where they fit.  On a local disk the
files are where they belong; of another file system they are fetched to a scratch folder and sent from there.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pyarrow
from pyarrow import compute, parquet

from tidelock.adapters.hive.files import Files
from tidelock.adapters.hive.manifest import Stored
from tidelock.adapters.process.own_folder import own_folder

FORMAT: Final = "parquet"
_MOMENT: Final = pyarrow.timestamp("us")
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_TYPES: Final = {
    "boolean": pyarrow.bool_(),
    "tinyint": pyarrow.int8(),
    "smallint": pyarrow.int16(),
    "int": pyarrow.int32(),
    "bigint": pyarrow.int64(),
    "float": pyarrow.float32(),
    "double": pyarrow.float64(),
    "string": pyarrow.string(),
    "binary": pyarrow.binary(),
    "date": pyarrow.date32(),
    "timestamp": _MOMENT,
}


def known(stored: Stored) -> bool:
    """Tells whether a table's parts can be read and written here."""
    return stored.format == FORMAT and all(type_of(type) is not None for _, type in stored.columns)


def type_of(type: str) -> pyarrow.DataType | None:
    """Returns the type of Arrow for one of Hive's."""
    if found := _DECIMAL.fullmatch(type):
        return pyarrow.decimal128(int(found[1]), int(found[2]))
    return _TYPES.get(type)


def schema_of(stored: Stored) -> pyarrow.Schema:
    """Returns the columns of a table that is `known`."""
    return pyarrow.schema([(name, type_of(type)) for name, type in stored.columns])


def conformed(rows: pyarrow.Table, schema: pyarrow.Schema) -> pyarrow.Table:
    """Returns the rows in these columns; a column that they lack is NULL."""
    there = {name.lower(): number for number, name in enumerate(rows.column_names)}
    columns = []
    for field in schema:
        number = there.get(field.name.lower())
        if number is None:
            columns.append(pyarrow.nulls(rows.num_rows, field.type))
            continue
        column = rows.column(number)
        if pyarrow.types.is_timestamp(column.type) and column.type.tz is not None:
            column = compute.cast(column, pyarrow.timestamp(column.type.unit, "UTC")).cast(_MOMENT)
        columns.append(column.cast(field.type))
    return pyarrow.Table.from_arrays(columns, schema=schema)


class PartFiles:
    """The parts of tables whose folders are given by place."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def read(self, place: str, schema: pyarrow.Schema) -> pyarrow.Table:
        """Returns the rows of a part's folder."""
        with self._here(place) as folder:
            found = [
                conformed(parquet.ParquetFile(path, coerce_int96_timestamp_unit="us").read(), schema)
                for path in sorted(folder.glob("*.parquet"))
            ]
        return pyarrow.concat_tables(found) if found else schema.empty_table()

    def write(self, place: str, rows: pyarrow.Table) -> int:
        """Writes a part's folder, which is new, and returns its bytes."""
        name = f"part-00000-{uuid.uuid4().hex}.parquet"
        local = local_path(place)
        if local is not None:
            local.mkdir(parents=True, exist_ok=True)
            return _written(local / name, rows)
        with own_folder("parts") as scratch:
            path = scratch / name
            size = _written(path, rows)
            self._files.upload(path, f"{place}/{name}")
        return size

    @contextmanager
    def _here(self, place: str) -> Iterator[Path]:
        local = local_path(place)
        if local is not None:
            yield local
            return
        with own_folder("parts") as scratch:
            yield self._files.download(place, scratch / "part")


def local_path(place: str) -> Path | None:
    """Returns the folder of this machine that a place is; None: it is of another file system."""
    found = urlsplit(place)
    if found.scheme not in ("", "file") or found.netloc:
        return None
    return Path(unquote(found.path) if found.scheme else place)


def _written(path: Path, rows: pyarrow.Table) -> int:
    parquet.write_table(
        rows, path, compression="snappy", use_deprecated_int96_timestamps=True, store_decimal_as_integer=True
    )
    return path.stat().st_size
