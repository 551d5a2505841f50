"""One Spark session for all threads of the process: started when first asked for, its jobs stopped by their tag; and
what is read without it is stopped alike.

Java's second compiler takes eight seconds of a core for code that copies, and gains less than a microsecond a row:
below ten million rows it only takes time from the databases and from the feed, which work on the same machine.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from tidelock.adapters.config.feed import Spark
from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.spark.session import session
from tidelock.adapters.spark.vigil import Vigil, end_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError"

BATCH_BYTES: Final = 8 << 20  # of what Java hands to Python at once; a single row may have more


class Cancelled(Exception):
    """The job was cancelled before it began."""


class Jobs:
    """Spark's jobs of this process.  `source`: the database that Spark reads from."""

    def __init__(self, wanted: Spark, name: str, source: Endpoint) -> None:
        self._wanted, self._name = wanted, name
        self._source = source
        self._vigil: Vigil | None = None
        self._starting = threading.Lock()
        self._stack = contextlib.ExitStack()
        self._spark: SparkSession | None = None
        self._cancelled: set[str] = set()
        self._stops: dict[str, Callable[[], None]] = {}

    def session(self) -> SparkSession:
        """Returns the session, and starts it when first asked.  Raises Missing, SparkFailed."""
        with self._starting:
            if self._spark is None:
                with contextlib.ExitStack() as opening:  # a session that cannot be set up is closed
                    spark = opening.enter_context(session(self._wanted, self._name, JAVA))
                    self._vigil = opening.enter_context(Vigil([self._source], end_java))
                    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", BATCH_BYTES)
                    self._stack = opening.pop_all()
                self._spark = spark
            return self._spark

    @contextlib.contextmanager
    def tagged(self, tag: str) -> Iterator[SparkSession]:
        """Gives the session with a tag by which all that this thread asks of it can be cancelled; a tag is used once.

        Raises Missing, SparkFailed, Cancelled.
        """
        spark = self.session()
        context = spark.sparkContext
        context.addJobTag(tag)
        try:
            if tag in self._cancelled:
                raise Cancelled
            yield spark
        finally:
            context.removeJobTag(tag)
            self._cancelled.discard(tag)

    @contextlib.contextmanager
    def interruptible(self, tag: str, stop: Callable[[], None]) -> Iterator[None]:
        """Gives what this thread does itself such a tag: `stop` is called, by another thread, where it is cancelled.

        Raises Cancelled.
        """
        self._stops[tag] = stop
        try:
            self.require_running(tag)
            yield
        finally:
            del self._stops[tag]
            self._cancelled.discard(tag)

    def require_running(self, tag: str) -> None:
        """Raises Cancelled where what has this tag was cancelled."""
        if tag in self._cancelled:
            raise Cancelled

    def cancel(self, tag: str) -> None:
        """Fails what runs under this tag; nothing more begins under it."""
        self._cancelled.add(tag)
        if (stop := self._stops.get(tag)) is not None:
            stop()
        if self._spark is not None:
            self._spark.sparkContext.cancelJobsWithTag(tag)

    @property
    def lost(self) -> bool:
        """Tells whether Java has ended by itself, so that no session comes back."""
        if self._spark is None:
            return False
        from pyspark import SparkContext

        gateway = SparkContext._gateway
        return gateway is None or gateway.proc.poll() is not None

    @property
    def silent(self) -> str:
        """The reason in words, where Java was ended because the source fell silent; else ''."""
        return self._vigil.silent if self._vigil is not None else ""

    def end(self) -> None:
        """Ends the session and Java."""
        with self._starting:
            self._stack.close()
            self._spark = None
