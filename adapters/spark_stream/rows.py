"""Turns records of the log into rows of the stream, in batches of Arrow."""

from __future__ import annotations

import bisect
import datetime
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal, TypeAlias

import pyarrow
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidelock.adapters.spark_stream.columns import reader, text_of
from tidelock.adapters.spark_stream.log import ChangesError, UntoldValue
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import UNKNOWN, Row, Shape, Value

Misfits: TypeAlias = Literal["fail", "null"]
_Image: TypeAlias = Callable[[Row | None], Any]
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_ROWS: Final = 5000  # of a batch of Arrow, about


class Rows:
    """The conversion of records.

    `table`: whose rows (`schema.table`), in its own columns; '': all tables', as maps of text.  `schema`: of the stream
    (`adapters.spark_stream.columns`).  Statements are always among the rows.
    """

    def __init__(self, schema: StructType, table: str, misfits: Misfits) -> None:
        self._arrow = to_arrow_schema(schema, timezone="UTC")
        self._table = table
        image = schema["after"].dataType
        self._columns = {f.name: f.dataType for f in image.fields} if isinstance(image, StructType) else {}
        self._misfits = misfits
        self._images: dict[Shape, _Image] = {}

    def batches(self, records: Iterable[tuple[int, LogBatch]], partition: int) -> Iterator[pyarrow.RecordBatch]:
        """Yields the rows.  Raises ChangesError."""
        rows: list[tuple[Any, ...]] = []
        for number, batch in records:
            rows += self._rows(batch, partition, number)
            if len(rows) >= _ROWS:
                yield self._batch(rows)
                rows = []
        if rows:
            yield self._batch(rows)

    def _batch(self, rows: list[tuple[Any, ...]]) -> pyarrow.RecordBatch:
        columns = zip(zip(*rows, strict=True), self._arrow.types, strict=True)
        try:
            arrays = [pyarrow.array(values, type) for values, type in columns]
        except (pyarrow.ArrowException, OverflowError, TypeError) as error:
            raise ChangesError(
                f"{self._table}: a value does not fit its column of the stream: {error}",
                "The table's columns have changed since the stream was started: start it again",
            ) from None
        return pyarrow.RecordBatch.from_arrays(arrays, schema=self._arrow)

    def _rows(self, batch: LogBatch, partition: int, number: int) -> Iterator[tuple[Any, ...]]:
        place = str(batch.last)
        if batch.ddl is not None:
            ddl = batch.ddl
            told = (ddl.statement, f"{ddl.source}:{ddl.number}", None, _moment(batch.end_us))
            yield "statement", None, None, None, None, *told, place, partition, number, 0
        firsts = [transaction.first for transaction in batch.transactions]
        for index, row in enumerate(batch.rows):
            shape = batch.shapes[row.table]
            name = str(shape.name)
            if self._table and name != self._table:
                continue
            image = self._images.get(shape) or self._image(shape)
            op = "insert" if row.before is None else "delete" if row.after is None else "update"
            transaction = batch.transactions[bisect.bisect_right(firsts, index) - 1]
            if self._table and row.after is not None and shape.identity == "key" and UNKNOWN in row.after:
                raise _untold(shape, row.after, place)
            try:
                images = image(row.before), image(row.after)
            except ValueError as error:
                raise _misfit(shape, row.after or row.before or (), place, error) from None
            origin = (None, f"{transaction.source}:{transaction.number}", row.ordinal, _moment(transaction.commit_us))
            yield op, name, shape.primary_key, *images, *origin, place, partition, number, index

    def _image(self, shape: Shape) -> _Image:
        image = self._images[shape] = self._struct(shape) if self._table else self._map(shape)
        return image

    def _map(self, shape: Shape) -> _Image:
        readers = [(column.name, self._kind(text_of(column.kind))) for column in shape.columns]

        def image(row: Row | None) -> Any:
            if row is None:
                return None
            told = zip(readers, row, strict=True)
            return [(name, read(value)) for (name, read), value in told if value is not UNKNOWN]

        return image

    def _struct(self, shape: Shape) -> _Image:
        """Returns a row as a struct; columns that the record does not have yet, or of a row before does not tell, are
        NULL."""
        places = {column.name: index for index, column in enumerate(shape.columns)}
        unknown = [name for name in places if name not in self._columns]
        if unknown:
            raise ChangesError(
                f"{shape.name} has columns that the stream does not: {', '.join(unknown)}",
                "They were added since it was started: start it again",
            )
        readers = [
            (places[name], self._kind(reader(shape.columns[places[name]], type))) if name in places else (-1, _nothing)
            for name, type in self._columns.items()
        ]

        def image(row: Row | None) -> Any:
            return None if row is None else tuple(read(row[place]) for place, read in readers)

        return image

    def _kind(self, read: Callable[[Value], Any]) -> Callable[[Value], Any]:
        if self._misfits == "null":
            return lambda value: None if value is None or value is UNKNOWN else _fitting(read, value)
        return lambda value: None if value is None or value is UNKNOWN else read(value)


def _fitting(read: Callable[[Value], Any], value: Value) -> Any:
    try:
        return read(value)
    except ValueError:
        return None


def _nothing(value: Value) -> None:
    return None


def _moment(micros: int) -> datetime.datetime | None:
    return _EPOCH + datetime.timedelta(microseconds=micros) if micros else None


def _untold(shape: Shape, row: Row, place: str) -> UntoldValue:
    column = next(c.name for c, v in zip(shape.columns, row, strict=True) if v is UNKNOWN)
    return UntoldValue(
        f"{shape.name}, before {place}: an update left {column} as it was, and the log does not tell what that is",
        "ALTER TABLE … REPLICA IDENTITY FULL at the source has later updates logged whole; begin behind this one. "
        "Or read the whole stream, where such a column is not among those of `after`",
    )


def _misfit(shape: Shape, row: Row, place: str, error: ValueError) -> ChangesError:
    key = [f"{c.name}={v}" for c, v in zip(shape.columns, row, strict=True) if c.name in shape.primary_key]
    return ChangesError(
        f"{shape.name}, row {', '.join(key) or '?'}, before {place}: a value that its column cannot hold here: {error}",
        'Let such values be NULL: .option("misfits", "null"); or read the whole stream, where dates are text',
    )
