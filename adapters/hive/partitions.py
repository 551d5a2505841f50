"""Partitions of the metastore's tables: where they are, and moving many in one call.  SQL knows one `SET LOCATION` at a
time.  Properties of tables are asked for here too, as SQL takes many times as long for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Partitions:
    """The partitions of tables, through the catalogue behind Spark's own statements."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._catalogue: Any = spark._jsparkSession.sharedState().externalCatalog()
        self._catalog = jvm.org.apache.spark.sql.catalyst.catalog
        self._storages: dict[str, Any] = {}

    def properties(self, table: str, keys: Iterable[str]) -> dict[str, str] | None:
        """Returns those of the properties that the table has; None: there is no such table."""
        if not self._catalogue.tableExists(*_names(table)):
            return None
        there = self._catalogue.getTable(*_names(table)).properties()
        return {key: str(there.apply(key)) for key in keys if there.contains(key)}

    def places(self, table: str, column: str) -> dict[str, str]:
        """Returns the places of a table's partitions by their value of the partition column."""
        found = self._catalogue.listPartitions(*_names(table), self._none())
        parts = [found.apply(number) for number in range(found.length())]
        path = self._catalog.CatalogUtils.URIToString
        return {str(part.spec().apply(column)): path(part.location()) for part in parts}

    def move(self, table: str, column: str, places: Mapping[str, str]) -> None:
        """Sets the places of partitions that are there, all at once: a reader sees none or all of them moved."""
        if table not in self._storages:
            like = self._catalogue.getPartition(*_names(table), self._spec(column, next(iter(places))))
            self._storages[table] = like.storage()
        moved = [self._moved(self._storages[table], self._spec(column, part), place) for part, place in places.items()]
        self._catalogue.alterPartitions(*_names(table), self._jvm.PythonUtils.toSeq(moved))

    def forget(self, table: str) -> None:
        """Forgets how a table stores its rows: it may be another one of that name."""
        self._storages.pop(table, None)

    def _spec(self, column: str, part: str) -> Any:
        return self._jvm.PythonUtils.toScalaMap({column: part})

    def _none(self) -> Any:
        return self._jvm.scala.Option.empty()

    def _moved(self, like: Any, spec: Any, place: str) -> Any:
        """Returns a partition that stores rows as `like`.  It has no statistics, so the metastore takes them anew:
        Spark chooses by them how to join.
        """
        at = self._jvm.scala.Option.apply(self._catalog.CatalogUtils.stringToURI(place))
        rest = (like.productElement(n) for n in range(1, like.productArity()))
        storage = self._catalog.CatalogStorageFormat(at, *rest)
        nothing = self._jvm.PythonUtils.toScalaMap({})
        return self._catalog.CatalogTablePartition(spec, storage, nothing, 0, 0, self._none())


def _names(table: str) -> tuple[str, str]:
    schema, _, name = table.lower().partition(".")
    return schema, name
