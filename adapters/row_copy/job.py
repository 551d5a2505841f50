"""Reads chunks of one table by Spark: one task a chunk, which asks the source and fills the chunk's staging table.

A chunk by NUMBERS or ORDERED, and a whole table, is one query and one task.  Chunks by BUCKET or DIGEST share a scan
of the table: it is read in pieces, in parallel, and each row goes to the task of its chunk.  MySQL's pieces lie along
its key and are read at different moments, as chunks are; the ledger handles rows that change meanwhile.  PostgreSQL's
are ranges of its blocks, all read in one snapshot, which other sessions are let into: a row that moves to a block that
was read before is in none of them else, and where the log does not tell all of a changed row nothing would make up for
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from tidelock.adapters.ports.staging import Staged, Staging
from tidelock.adapters.row_copy.columns import asked
from tidelock.adapters.row_copy.selection import condition, listed, place
from tidelock.adapters.row_copy.source import CopySource
from tidelock.adapters.row_copy.task import ANSWER, Task
from tidelock.adapters.spark.jdbc import Database, Form
from tidelock.engine.model.chunk_ranges import ChunkSplit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FETCH_BYTES: Final = 8 << 20
MOST_ROWS: Final = 10_000
PART: Final = "part"
_STAGED: Final = msgspec.msgpack.Decoder(Staged)


class Job(msgspec.Struct, frozen=True):
    """One job.

    `chunks`: of `split`, all read at once; `places`: where each is staged.  `pieces`: predicates over the columns `p0`,
    …, which share out a scan; none: it is one query.  `cuts`: SQL of those columns.  `snapshot`: which all read in.
    """

    source: CopySource
    split: ChunkSplit
    chunks: tuple[int, ...]
    places: tuple[Staging, ...]
    pieces: tuple[str, ...] = ()
    cuts: tuple[str, ...] = ()
    snapshot: str = ""

    def run(self, spark: SparkSession, database: Database) -> list[Staged]:
        """Returns the result of each chunk, in order.  Raises what Spark raises: then nothing that is staged counts."""
        frame = self._parted(self.frame(spark, database))
        task = Task(self.places, self.source.reading)
        answers = {row.part: row.staged for row in _mapped(frame, task).collect()}
        return [_STAGED.decode(answers[part]) for part in range(len(self.chunks))]

    def frame(self, spark: SparkSession, database: Database) -> DataFrame:
        """Returns the rows as a DataFrame: `c0`, …; of several chunks also the column of the chunk."""
        columns = self.source.read
        types = [f"c{n} {asked(column).wire}" for n, column in enumerate(columns)]
        parts = [listed(columns)]
        if len(self.chunks) > 1:
            parts.append(f"{place(self.split, self.source.columns.__getitem__)} AS {PART}")
            types.append(f"{PART} BIGINT")
        cuts = [f"{sql} AS p{n}" for n, sql in enumerate(self.cuts)]
        chosen = " OR ".join(f"({condition(self.split, n, self.source.columns.__getitem__)})" for n in self.chunks)
        query = f"SELECT {', '.join([*parts, *cuts])} FROM {self.source.place} t WHERE {chosen}"
        form = Form(", ".join(types), batch_rows(self.source), self.snapshot)
        frame = database.read(spark, query, self.pieces, form)
        return frame.drop(*(f"p{n}" for n in range(len(cuts))))

    def _parted(self, frame: DataFrame) -> DataFrame:
        if len(self.chunks) == 1:
            return frame
        from pyspark.sql import functions as F

        numbers = F.array(*(F.lit(n) for n in self.chunks))
        part = (F.array_position(numbers, F.col(PART).cast("int")) - 1).cast("int")
        return frame.repartitionById(len(self.chunks), part).drop(PART)


def batch_rows(source: CopySource) -> int:
    """Returns how many of a table's rows are held at once."""
    return max(1, min(MOST_ROWS, FETCH_BYTES // (source.row_bytes + 1)))


def _mapped(frame: DataFrame, task: Task) -> DataFrame:
    """Calls `DataFrame.mapInArrow`, without the Pandas that it asks for and does not use."""
    from pyspark.sql import DataFrame
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    function = UserDefinedFunction(task, ANSWER, name="stage", evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = function(*(frame[name] for name in frame.columns))
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)
