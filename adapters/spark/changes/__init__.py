"""The changes of a feed as a Spark data source (`docs/how-to/spark.md`): register `TidelockSource` with the session."""

from adapters.spark.changes.source import TidelockSource

__all__ = ["TidelockSource"]
