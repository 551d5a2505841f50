"""Words failures of a copy for the operator."""

from __future__ import annotations

import importlib.util

from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.process.host import Missing, java
from tidelock.adapters.row_copy.source import NotCopied
from tidelock.adapters.spark.causes import cause
from tidelock.adapters.spark.drivers import drivers
from tidelock.engine.model.errors import Alarm


def look_for_spark() -> None:
    """Raises Missing where Spark cannot start, which a copy would otherwise find only when it has begun."""
    if any(importlib.util.find_spec(name) is None for name in ("pyspark", "pyarrow")):
        raise Missing("pyspark is not installed: run `make setup`, or `pip install 'tidelock[bulk]'`")
    java("Spark")
    drivers().there()


def alarm(error: Exception) -> Alarm:
    """Returns the alarm about an error."""
    match error:
        case NotCopied():
            return Alarm("copy", str(error), error.hint)
        case SourceError():
            return Alarm("copy", f"tables are not copied: {error.message}", error.hint)
        case Missing():
            return Alarm("copy", f"tables are not copied: {error}", "Then `tidelock copy` again")
        case _:
            return Alarm("copy", f"tables are not copied: {told(error)}", "Correct that, then `tidelock copy` again")


def told(error: Exception) -> str:
    """Returns the last cause of an error, in one line where it is Spark's."""
    if isinstance(error, NotCopied):
        return f"{error}. {error.hint}"
    return cause(error)
