"""Values for a row of a table that a statement has made, whatever its columns are."""

from __future__ import annotations

import re
from typing import Final

_VALUES: Final = {
    "bit": "b'1'", "enum": "1", "set": "1", "date": "'2024-01-02'", "datetime": "'2024-01-02 03:04:05'",
    "timestamp": "'2024-01-02 03:04:05'", "time": "'01:02:03'", "year": "2024", "json": "'{}'", "inet6": "'::1'",
    "uuid": "'123e4567-e89b-12d3-a456-426614174000'", "inet4": "'10.0.0.1'",
}  # fmt: skip
_GEOMETRIES: Final = {
    "geometry": "POINT(1 1)", "point": "POINT(1 1)", "linestring": "LINESTRING(0 0,1 1)",
    "polygon": "POLYGON((0 0,0 1,1 1,0 0))", "multipoint": "MULTIPOINT((0 0),(1 1))",
    "multilinestring": "MULTILINESTRING((0 0,1 1))", "multipolygon": "MULTIPOLYGON(((0 0,0 1,1 1,0 0)))",
    "geometrycollection": "GEOMETRYCOLLECTION(POINT(1 1))", "geomcollection": "GEOMETRYCOLLECTION(POINT(1 1))",
}  # fmt: skip


def sample(kind: str, type_: str, number: int) -> str:
    """Returns a value of a column, by its DATA_TYPE and COLUMN_TYPE: `number`, where the type takes one."""
    if kind in _GEOMETRIES:
        return f"ST_GeomFromText('{_GEOMETRIES[kind]}')"
    if kind == "vector":
        size = int(re.sub(r"\D", "", type_))
        return f"STRING_TO_VECTOR('[{','.join(['1'] * size)}]')"
    return _VALUES.get(kind, f"'{number}'")
