"""Moves partitions of the metastore's tables, many in one call: SQL knows one `SET LOCATION` at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Partitions:
    """The partitions of tables, through the catalogue behind Spark's own statements."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._session: Any = spark._jsparkSession

    def move(self, table: str, column: str, places: Mapping[str, str]) -> None:
        """Sets the places of partitions that are there.  `places`: by their value of the partition column."""
        schema, _, name = table.lower().partition(".")
        catalogue = self._session.sharedState().externalCatalog()
        like = catalogue.getPartition(schema, name, self._spec(column, next(iter(places))))
        moved = [self._moved(like, self._spec(column, part), place) for part, place in places.items()]
        catalogue.alterPartitions(schema, name, self._jvm.PythonUtils.toSeq(moved))

    def _spec(self, column: str, part: str) -> Any:
        return self._jvm.PythonUtils.toScalaMap({column: part})

    def _moved(self, like: Any, spec: Any, place: str) -> Any:
        """Returns a partition as `like` is, of another value at another place."""
        catalog = self._jvm.org.apache.spark.sql.catalyst.catalog
        stored = like.storage()
        at = self._jvm.scala.Option.apply(self._jvm.java.net.URI(place))
        rest = (stored.productElement(n) for n in range(1, stored.productArity()))
        storage = catalog.CatalogStorageFormat(at, *rest)
        rest = (like.productElement(n) for n in range(2, like.productArity()))
        return catalog.CatalogTablePartition(spec, storage, *rest)
