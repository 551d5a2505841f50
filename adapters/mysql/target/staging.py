"""Fills a chunk's staging table at a MySQL or MariaDB target (`ports.staging`), on the machine that read the rows.

The table is made by `CREATE TABLE … SELECT … WHERE FALSE`: the columns have the target's own types, character sets and
collations, and nothing else of it comes along.  The target's key, where there is one, is its primary key: `merge_chunk`
takes rows out by it, the merge then inserts in its order, and some servers have no table without one.

Rows go in by the stream's own INSERTs (`TableStatements`), so a value is the same however it came.  LOAD DATA is not
used: with LOCAL the server makes warnings of the errors that strict mode gives an INSERT, and passes over duplicates.

An INSERT that the server refuses for its data, it undoes as a whole.  Then each half of the rows is tried alone, down
to the single row, which is refused with the server's words; where nothing is wrong that costs nothing.

Who stages holds a user lock as long as the session lives: an attempt that is begun again waits for its forerunner, of
which the caller may know nothing, and a takeover finds and ends it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import pymysql
from msgspec.structs import replace

from tidelock.adapters.mysql.connection import connect, explained, reader_endpoint, rows
from tidelock.adapters.mysql.target.chunk_merge_sql import NUMBER
from tidelock.adapters.mysql.target.failures import failure_of
from tidelock.adapters.mysql.target.literals import Unwritable
from tidelock.adapters.mysql.target.session import settings
from tidelock.adapters.mysql.target.statements import Dialect, TableStatements, identifier, key_index, qualified
from tidelock.adapters.ports.source_errors import Unreachable
from tidelock.adapters.ports.staging import Columns, Staged, Staging
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.events import RefusedRow

LOCK_TIMEOUT_SECONDS = 60
INDEXED_CHARACTERS = 8
MOST_INDEXED = 8
_SHORT = ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "date", "time", "year", "float", "double")
_LONG = ("varchar", "varbinary", "tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob")
ROWS_EACH = 250
"""In one INSERT: with more, MySQL's parser takes longer a row."""


def stager_lock(schema: str, name: str) -> str:
    """The user lock of who stages into the table `name` of `schema`."""
    return f"tidelock:stage:{blake2b(f'{schema}/{name}'.encode(), digest_size=16).hexdigest()}"


def stage(place: Staging, batches: Iterable[Columns]) -> Staged:
    """Make the table anew and fill it in one transaction.

    Raises SourceError, for a row of the wrong shape SchemaMismatch, and what `batches` raises: nothing is staged then.
    """
    server = reader_endpoint(place.endpoint)
    connection = connect(server)
    try:
        stager = _Stager(connection, place)
        stager.make()
        for batch in batches:
            stager.add(list(zip(*batch, strict=True)))
        return stager.end()
    except pymysql.MySQLError as error:
        raise explained(error, server) from error
    finally:
        with contextlib.suppress(pymysql.MySQLError):
            connection.close()


def _indexed(type_: str) -> int:
    """Number of characters of a column that an index begins with; a prefix may not be longer than the column."""
    length = re.search(r"\((\d+)\)", type_)
    return min(INDEXED_CHARACTERS, int(length[1])) if length else INDEXED_CHARACTERS


class _Stager:
    def __init__(self, connection: pymysql.Connection[Any], place: Staging) -> None:
        self._connection = connection
        self._place = place
        mariadb = "mariadb" in str(connection.get_server_info()).lower()  # type: ignore[no-untyped-call]
        dialect = Dialect.MARIADB if mariadb else Dialect.MYSQL
        for statement in settings(dialect, LOCK_TIMEOUT_SECONDS):
            self._run(statement)
        ((packet_bytes,),) = rows(connection, "SELECT @@max_allowed_packet")
        self._staged = Binding(0, place.shape, replace(place.table, name=TableName(place.schema, place.name)))
        self._statements = TableStatements(self._staged, dialect, int(packet_bytes) - 1024)
        self._rows = 0
        self._refused: list[RefusedRow] = []

    def make(self) -> None:
        """Make the table.  Raises Unreachable where the forerunner does not end."""
        lock = stager_lock(self._place.schema, self._place.name)
        ((got,),) = rows(self._connection, "SELECT GET_LOCK(%s, %s)", lock, LOCK_TIMEOUT_SECONDS)
        if got != 1:
            raise Unreachable(
                f"another session at {self._place.endpoint} still fills {self._place.name}", "It is tried again"
            )
        place = qualified(TableName(self._place.schema, self._place.name))
        columns = [c.name for c in self._staged.columns if c is not None]
        key = f" (PRIMARY KEY ({self._key()}))" if self._place.table.key else f" ({', '.join(self._number())})"
        self._run(f"DROP TABLE IF EXISTS {place}".encode())
        self._run(
            f"CREATE TABLE {place}{key} ENGINE=InnoDB SELECT {','.join(identifier(c) for c in columns)} "
            f"FROM {qualified(self._place.table.name)} WHERE FALSE".encode()
        )

    def _number(self) -> Iterator[str]:
        """Spell what rows without a key have here: a number, by which one of equal rows can be named, and an index, as
        the merge looks up those that are gone: over columns of few bytes and the beginnings of texts."""
        yield f"{NUMBER} BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY"
        parts = [
            identifier(c.name) + ("" if c.type.startswith(_SHORT) else f"({_indexed(c.type)})")
            for c in self._staged.columns
            if c is not None and c.type.startswith((*_SHORT, *_LONG)) and _indexed(c.type)
        ]
        if parts:
            yield f"KEY ({','.join(parts[:MOST_INDEXED])})"

    def _key(self) -> str:
        """Spell the key with the lengths of its prefixes, which a catalogue as the engine knows it has not."""
        parts = rows(
            self._connection,
            "SELECT COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS "
            "WHERE TABLE_SCHEMA=%s AND TABLE_NAME=%s AND INDEX_NAME=%s ORDER BY SEQ_IN_INDEX",
            self._place.table.name.schema,
            self._place.table.name.table,
            key_index(self._place.table),
        )
        return ",".join(identifier(name) + (f"({length:d})" if length else "") for name, length in parts)

    def add(self, batch: Sequence[Row]) -> None:
        for first in range(0, len(batch), ROWS_EACH):
            self._refused += self._store(batch[first : first + ROWS_EACH])

    def end(self) -> Staged:
        self._run(b"COMMIT")
        return Staged(self._rows, tuple(self._refused))

    def _store(self, batch: Sequence[Row]) -> Iterator[RefusedRow]:
        error = self._insert(batch)
        if not error:
            self._rows += len(batch)
        elif len(batch) == 1:
            yield RefusedRow(self._place.shape, batch[0], f"{self._place.table.name}: {error}")
        else:
            half = len(batch) // 2
            yield from self._store(batch[:half])
            yield from self._store(batch[half:])

    def _insert(self, batch: Sequence[Row]) -> str:
        """Insert all of it or, with the reason returned, nothing; also where it takes more than one packet."""
        try:
            sqls = list(self._statements.insert(batch))
            if len(sqls) > 1:
                return "more than one packet"
            self._run(sqls[0])
        except Unwritable as error:
            return str(error)
        except pymysql.MySQLError as error:
            failure = failure_of(error)
            if failure.kind is not ErrorKind.ROW:
                raise
            return failure.message
        return ""

    def _run(self, sql: bytes) -> None:
        self._connection.query(sql)
