"""The task that Spark runs for a chunk, on any machine: makes rows of the source canonical, then stages them.

The rows come as Arrow batches, one column after the other, and leave so; only a row filter looks at whole rows.  The
task of partition n fills the n-th staging table and answers one row: how many rows are staged, and those that are
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.staging import Columns, Staged, Staging
from tidelock.adapters.row_copy.columns import AskedColumn, reader
from tidelock.engine.capture.mapping import Rule, TableMapping
from tidelock.engine.model.records import Row, Shape, TableName, Value

if TYPE_CHECKING:
    import pyarrow

ANSWER: Final = "part int, staged binary"


class Filter(msgspec.Struct, frozen=True):
    """Selects the rows of a source table of this shape that belong to the target, and their columns."""

    rule: Rule
    shape: Shape
    target: TableName


class RowReading(msgspec.Struct, frozen=True):
    """The conversion of what came to rows of the target.

    `asked`: how each column was read; with a filter the columns are those of the source's table, else the target's.
    """

    asked: tuple[AskedColumn, ...]
    filter: Filter | None

    def columns(self) -> Callable[[list[list[Value]]], Columns]:
        """Returns a function from what came, by column, to the target's rows, by column."""
        readers = [reader(one) for one in self.asked]

        def canonical(came: list[list[Value]]) -> Columns:
            return [values if read is None else read(values) for read, values in zip(readers, came, strict=True)]

        if self.filter is None:
            return canonical
        mapping = TableMapping(self.filter.rule, self.filter.shape, self.filter.target)

        def chosen(came: list[list[Value]]) -> Columns:
            images = (mapping.image(row) for row in zip(*canonical(came), strict=True))
            return by_column([row for row in images if row is not None], len(mapping.kept))

        return chosen


def by_column(rows: list[Row], width: int) -> Columns:
    """Turns rows into columns."""
    return [list(values) for values in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


class Task(msgspec.Struct, frozen=True):
    """The work of all partitions.  `places`: the staging table of each."""

    places: tuple[Staging, ...]
    reading: RowReading

    def __call__(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "Spark runs this"
        part = context.partitionId()
        columns = self.reading.columns()
        staged = stage(self.places[part], (columns([c.to_pylist() for c in batch.columns]) for batch in batches))
        body = msgspec.msgpack.encode(staged)
        yield pyarrow.RecordBatch.from_pydict({"part": pyarrow.array([part], pyarrow.int32()), "staged": [body]})


def stage(place: Staging, batches: Iterable[Columns]) -> Staged:
    """Stages rows in the target's own way.  Raises what that raises."""
    return stager(place.endpoint)(place, batches)


def stager(target: Endpoint) -> Callable[[Staging, Iterable[Columns]], Staged]:
    """Returns the function that stages rows at this kind of target."""
    if target.dialect == "postgres":
        from tidelock.adapters.postgres.target.staging import stage as into_postgres

        return into_postgres
    from tidelock.adapters.mysql.target.staging import stage as into_mysql

    return into_mysql
