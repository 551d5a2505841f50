"""Rows that refer to one which goes, without a server."""

from __future__ import annotations

from tidelock.adapters.target.referring_rows import image
from tidelock.engine.model.schema import TargetColumn


def test_values_are_read_by_their_columns_types() -> None:
    columns = [
        TargetColumn("id", "bigint(20) unsigned", False),
        TargetColumn("n", "integer"),
        TargetColumn("span", "interval"),
        TargetColumn("raw", "bytea"),
        TargetColumn("none", "integer"),
    ]
    read = image(columns, ["7", "-1", "01:00:00", "00ff", None], lambda column: column.type == "bytea")
    assert read == {"id": 7, "n": -1, "span": "01:00:00", "raw": b"\x00\xff", "none": None}
