"""The feed's tables on disk and in the metastore: parts are written beside the old ones, the metastore follows.

A table's folder holds a folder for each merge that wrote parts of it, `m000000123-ab12cd/tidelock_bucket=7/…`, whose
name no other program uses.  A partition of the metastore is where its part was written last.  Because parts are written
whole, a part has as many files as its size wants and never a small one more: nothing needs to be compacted later.

`settle` makes the metastore equal a manifest, however far an earlier program came, and removes what no kept manifest
refers to.  Tables that a copy fills are not shown before it has ended.  One that another feed has made is taken over at
the end of a copy, and not else (`adapters.hive.ownership`): it is made anew.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow

from tidelock.adapters.hive.files import Files
from tidelock.adapters.hive.manifest import Manifest, Stored
from tidelock.adapters.hive.ownership import PROPERTIES, OfAnother, is_left, merge_folder, owner, owner_of, properties
from tidelock.adapters.hive.part_files import PartFiles, schema_of
from tidelock.adapters.hive.partitions import Partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HISTORY: Final = "_history"
LOOK_SECONDS: Final = 600.0  # then all partitions are asked for again: somebody may have moved or added some
_AT_ONCE: Final = 100
_EMPTY: Final = "_empty"


class Warehouse:
    """The tables of a feed.  They are named `schema.table`, as at the target of any feed; a schema is a database of the
    metastore.  `books`: those of the manifest that is worked on (`Manifest.id`).
    """

    def __init__(self, spark: SparkSession, files: Files, feed: str) -> None:
        self._spark, self._files, self._feed = spark, files, feed
        self.books = ""
        self._folders: dict[str, str] = {}
        self._locations: dict[str, str] = {}
        self._token = uuid.uuid4().hex[:6]
        self._part_files = PartFiles(files)
        self._partitions = Partitions(spark)
        self._shown: dict[str, Stored] = {}
        self._looked: dict[str, float] = {}

    # ------------------------------------------------------------------ files

    def rows(self, table: str, stored: Stored, parts: Iterable[str]) -> DataFrame:
        """Returns the rows of these parts, as far as the parts exist, without the partition column."""
        schema = ", ".join(f"{quoted(name)} {type}" for name, type in stored.columns)
        there = [self._part(table, stored, part) for part in parts if part in stored.parts]
        if not there:
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).format(stored.format).load(there)

    def write(self, table: str, stored: Stored, rows: DataFrame, number: int) -> Stored:
        """Writes the parts that the rows make, each completely, into the folder of merge `number`."""
        folder = self._merge_folder(number)
        place = f"{self._folder(table)}/{folder}"
        placed = rows.repartition(stored.partition).write.mode("append").partitionBy(stored.partition)
        placed.format(stored.format).save(place)
        names = (name.partition("=") for name in self._files.names(place))
        parts = [part for column, _, part in names if column == stored.partition]
        sizes = {part: self._files.size(f"{place}/{stored.partition}={part}") for part in parts}
        return stored.having(sizes, folder)

    def prepare(self, table: str, hidden: bool) -> None:
        """Finds the table's folder, before threads ask for it.  `hidden`: a copy fills the table.  Raises Foreign, and
        OfAnother: nothing is read or written for a table whose name is another feed's."""
        self._folder(table)
        if not hidden:
            self._require_ours(table)

    def parts(self, table: str, number: int) -> WrittenParts:
        """Returns the table's parts, to be read and written in this process by merge `number`."""
        return WrittenParts(self._folder(table), self._merge_folder(number), self._part_files)

    def size(self, table: str, stored: Stored, part: str) -> int:
        """Returns the bytes of a part; 0 where there is no such part."""
        if part not in stored.parts:
            return 0
        known = stored.sizes.get(part)
        return self._files.size(self._part(table, stored, part)) if known is None else known

    def altered(self, table: str, stored: Stored, parts: Iterable[str]) -> str:
        """Returns, in words, which of these parts is not as long as it was written; '' where all are."""
        for part in parts:
            if part in stored.parts:
                place = self._part(table, stored, part)
                held, written = self._files.held(place), stored.sizes.get(part)
                if held is None:
                    return f"{place} is gone"
                if written is not None and held != written:
                    return f"{place} holds {held:,} bytes instead of the {written:,} that were written there"
        return ""

    def _merge_folder(self, number: int) -> str:
        return merge_folder(number, self.books, self._token)

    def location(self, schema: str) -> str:
        """Returns the place of a database of the metastore, and makes the database where it is missing.

        It is made beside the metastore's default one: Spark by itself would put it where *this* machine's settings say.
        """
        if schema not in self._locations:
            if schema not in self._databases():
                place = f"{self._lies('default')}/{schema}.db"
                self._spark.sql(f"CREATE DATABASE IF NOT EXISTS {quoted(schema)} LOCATION '{place}'")
            self._locations[schema] = self._lies(schema)
        return self._locations[schema]

    def _databases(self) -> set[str]:
        return {row[0] for row in self._spark.sql("SHOW DATABASES").collect()}

    def _lies(self, schema: str) -> str:
        rows = self._spark.sql(f"DESCRIBE DATABASE {quoted(schema)}").collect()
        return str({row[0]: row[1] for row in rows}["Location"])

    def _folder(self, table: str) -> str:
        """Returns a table's folder.  Raises Foreign: nothing is written into the folder of another's table."""
        if table not in self._folders:
            schema, _, name = table.partition(".")
            self._folders[table] = f"{self.location(schema)}/{name}"
            self._owner(table)
        return self._folders[table]

    def _part(self, table: str, stored: Stored, part: str) -> str:
        return f"{self._folder(table)}/{stored.parts[part]}/{stored.partition}={part}"

    # ------------------------------------------------------------------ the metastore

    def settle(self, manifest: Manifest, kept: Sequence[Manifest]) -> None:
        """Makes the metastore equal to the manifest, and removes files that no kept manifest refers to."""
        self.books = manifest.id
        hidden = manifest.copy.tables if manifest.copy else ()
        for table, stored in tables_of(manifest).items():
            if table in hidden:  # readers may be at an older feed's table of that name
                continue
            self._settle(table, stored, manifest.number)
            used = {folder for one in kept for folder in _folders(tables_of(one).get(table))}
            for name in self._files.names(self._folder(table)):
                if name not in used and is_left(name, self.books, stored.over, manifest.number):
                    self._files.remove(f"{self._folder(table)}/{name}")

    def _settle(self, table: str, stored: Stored, number: int) -> None:
        """Makes one table of the metastore equal to the manifest.

        What this program has put there is not asked for again before `LOOK_SECONDS`, unless it turns out that somebody
        has taken it away.
        """
        shown = self._shown.pop(table, None)  # asked for again where this fails
        due = time.monotonic() - self._looked.get(table, 0.0) > LOOK_SECONDS
        if shown is None or due or shown.columns != stored.columns:
            self._settle_anew(table, stored, number)
        elif shown.parts != stored.parts:
            self._settle_on(table, stored, shown, number)
        self._shown[table] = stored

    def _settle_on(self, table: str, stored: Stored, shown: Stored, number: int) -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            self._require_ours(table)
            self._show(table, stored, self._places(table, shown))
        except (Py4JError, PySparkException):
            self._settle_anew(table, stored, number)

    def other_owner(self, table: str) -> str:
        """Returns the owner of the metastore's table; '' where there is no such table, or it is ours.  Raises Foreign.
        """
        found = self._owner(table)
        return "" if found == owner(self._feed, self.books) else found

    def _owner(self, table: str) -> str:
        told = self._partitions.properties(table, PROPERTIES)
        return "" if told is None else owner_of(quoted_table(table), told)

    def _require_ours(self, table: str) -> None:
        if other := self.other_owner(table):
            raise OfAnother(table, other, self._feed)

    def _settle_anew(self, table: str, stored: Stored, number: int) -> None:
        self._partitions.forget(table)
        if not self._made(table, stored, number):
            self._widen(quoted_table(table), stored)
        self._show(table, stored, self._partitions.places(table, stored.partition))
        self._looked[table] = time.monotonic()

    def _show(self, table: str, stored: Stored, there: Mapping[str, str]) -> None:
        """Makes the partitions equal to the parts; `there`: where they are.

        All change places in one step: those of new parts come from an empty folder, and those of parts that are no more
        go to it.  So a reader sees no row twice and misses none.
        """
        name, column = quoted_table(table), stored.partition
        wanted = self._places(table, stored)
        empty = ""
        if there and there.keys() != wanted.keys():
            empty = self._files.make(f"{self._folder(table)}/{_EMPTY}")
        fresh = {part: empty if there else place for part, place in wanted.items() if part not in there}
        for some in _at_once(sorted(fresh)):
            added = " ".join(f"PARTITION ({column}='{part}') LOCATION '{fresh[part]}'" for part in some)
            self._spark.sql(f"ALTER TABLE {name} ADD IF NOT EXISTS {added}")
        gone = there.keys() - wanted.keys()
        belong = {**wanted, **dict.fromkeys(gone, empty)}
        moved = {part: place for part, place in belong.items() if {**there, **fresh}[part] != place}
        if moved:
            self._partitions.move(table, column, moved)
        for some in _at_once(sorted(gone)):
            dropped = ", ".join(f"PARTITION ({column}='{part}')" for part in some)
            self._spark.sql(f"ALTER TABLE {name} DROP IF EXISTS {dropped}")

    def _places(self, table: str, stored: Stored) -> dict[str, str]:
        return {part: self._part(table, stored, part) for part in stored.parts}

    def _made(self, table: str, stored: Stored, number: int) -> bool:
        """Makes the metastore's table where this feed has not; tells whether it did.  Raises Foreign, OfAnother."""
        name = quoted_table(table)
        if self._spark.catalog.tableExists(name):
            other = self.other_owner(table)
            if not other:
                return False
            if other != stored.over:
                raise OfAnother(table, other, self._feed)
            self._spark.sql(f"DROP TABLE {name}")
        self._make(table, stored, number)
        return True

    def _make(self, table: str, stored: Stored, number: int) -> None:
        kind = "INT" if stored.partition.endswith("bucket") else "STRING"
        columns = ", ".join(f"{quoted(name)} {type}" for name, type in stored.columns)
        self._spark.sql(
            f"CREATE EXTERNAL TABLE {quoted_table(table)} ({columns}) "
            f"PARTITIONED BY ({stored.partition} {kind}) STORED AS {stored.format} "
            f"LOCATION '{self._folder(table)}' TBLPROPERTIES ({properties(self._feed, self.books, number)})"
        )

    def _widen(self, name: str, stored: Stored) -> None:
        there = {column.lower() for column in self._spark.table(name).columns}
        added = [f"{quoted(column)} {type}" for column, type in stored.columns if column.lower() not in there]
        if added:
            self._spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({', '.join(added)})")


def _at_once(parts: Sequence[str]) -> Iterator[Sequence[str]]:
    return (parts[i : i + _AT_ONCE] for i in range(0, len(parts), _AT_ONCE))


class WrittenParts:
    """One table's parts, read where they lie, and written into a merge's folder."""

    def __init__(self, table: str, folder: str, files: PartFiles) -> None:
        self._table, self._folder, self._files = table, folder, files

    def read(self, stored: Stored, part: str) -> pyarrow.Table:
        """Returns the rows of a part, none where there is no such part."""
        if part not in stored.parts:
            return schema_of(stored).empty_table()
        return self._files.read(self._place(stored, stored.parts[part], part), schema_of(stored))

    def write(self, stored: Stored, part: str, rows: pyarrow.Table) -> Stored:
        """Returns the table with the part written anew; it is dropped where it has no rows."""
        if not rows.num_rows:
            return stored.without([part])
        return stored.having({part: self._files.write(self._place(stored, self._folder, part), rows)}, self._folder)

    def _place(self, stored: Stored, folder: str, part: str) -> str:
        return f"{self._table}/{folder}/{stored.partition}={part}"


def tables_of(manifest: Manifest) -> dict[str, Stored]:
    """Lists all tables in the metastore, those of histories too."""
    found: dict[str, Stored] = {}
    for name, state in manifest.tables.items():
        found[name] = state.current
        if state.history is not None:
            found[name + HISTORY] = state.history
    return found


def quoted(name: str) -> str:
    """Returns a name quoted for Spark."""
    return "`" + name.replace("`", "``") + "`"


def quoted_table(table: str) -> str:
    """Returns `schema.table` with both parts quoted."""
    schema, _, name = table.partition(".")
    return f"{quoted(schema)}.{quoted(name)}"


def _folders(stored: Stored | None) -> set[str]:
    return set(stored.parts.values()) if stored else set()
