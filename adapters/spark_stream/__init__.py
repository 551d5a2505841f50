"""The changes of a feed as a Spark data source (`docs/how-to/spark.md`): register `TidelockSource` with the session."""

from tidelock.adapters.spark_stream.source import TidelockSource

__all__ = ["TidelockSource"]
