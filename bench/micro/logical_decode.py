"""Decoding a recorded log of PostgreSQL: per shape of transaction and per column type.

*pgoutput*: from messages in memory to chunks, whole rows as images, in the compiled form where it was built; *pgoutput,
plain*: in the Python form, as tuples.  *pgoutput column*: of one value, in rows with eight columns of its type.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Final

from bench.micro.case import Case, Factory
from bench.micro.logical_recording import COLUMNS_OF_A_TYPE, TYPES, recorded
from tidelock.adapters.postgres.logical.assembly import Assembly
from tidelock.adapters.postgres.logical.relations import Relations

CHUNK_ROWS: Final = 500
PASSES: Final = 10
COLUMN_PASSES: Final = 20
SHAPES: Final = (
    "whole/bulk inserts",
    "whole/bulk updates",
    "whole/bulk deletes",
    "whole/one-row transactions",
    "by_key/bulk inserts",
    "by_key/bulk updates",
    "by_key/bulk deletes",
    "unwanted/bulk inserts",
)


def _case(name: str, *, passes: int = PASSES, values: int = 1, compiled: bool = True) -> Case:
    """`values`: of a row, where it is they that are counted."""
    stretch = recorded()[name]
    messages = [(memoryview(data), lsn) for lsn, data in stretch.messages]

    def work(_: object) -> None:
        for _ in range(passes):
            assembly = Assembly(
                "7012345678901234567/bench",
                stretch.start,
                Relations(stretch.catalogue),
                lambda table: table.table != "unwanted",
                lambda table: False,
                CHUNK_ROWS,
                compiled=compiled,
                images=compiled,
            )
            take, ready = assembly.take, assembly.ready
            for message, lsn in messages:
                take(message, lsn)
                if ready:
                    ready.clear()
            assembly.flush()

    octets = sum(len(data) for _, data in stretch.messages)
    return Case(stretch.rows * passes * values, work, octets=octets * passes * values)


def _cases() -> Iterator[tuple[str, Factory]]:
    for group, compiled in (("pgoutput", True), ("pgoutput, plain", False)):
        for shape in SHAPES:
            yield f"{group}/{shape.replace('/', ', ')}", functools.partial(_case, shape, compiled=compiled)
    for type_ in TYPES:
        make = functools.partial(_case, f"column/{type_}", passes=COLUMN_PASSES, values=COLUMNS_OF_A_TYPE)
        yield f"pgoutput column/{type_}", make


CASES: Final[dict[str, Factory]] = dict(_cases())
