"""Real messages of `pgoutput`, read by SQL and without a replication connection, and tables in memory to which decoded
chunks are applied by key."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bench.harness.servers import Postgres
from tidelock.adapters.postgres.column_types import OUTPUT_SETTINGS
from tidelock.adapters.postgres.logical.assembly import Assembly
from tidelock.adapters.postgres.logical.messages import BEGIN
from tidelock.adapters.postgres.logical.relation_catalogue import read_relation
from tidelock.adapters.postgres.logical.relation_changes import Form
from tidelock.adapters.postgres.logical.relations import Catalogue, Relations
from tidelock.adapters.postgres.logical.row_values import code, reading
from tidelock.adapters.postgres.logical.table_forms import read_forms
from tidelock.engine.model.log_batch import SourceChunk
from tidelock.engine.model.records import UNKNOWN, Position, Row, RowChange, Shape, TableName
from tidelock.engine.model.schema_change import DdlKind

FILE: Final = "7012345678901234567/1"
_READ: Final = """
SELECT (lsn - '0/0'::pg_lsn)::bigint, data FROM pg_logical_slot_{}_binary_changes(
    $1::text::name, NULL, NULL, 'proto_version', '1', 'publication_names', $1::text, 'messages', 'true')"""


_TABLES: Final = """
SELECT n.nspname::text, c.relname::text, ARRAY(
    SELECT a.attname::text FROM pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname = 'public'"""


class Message(NamedTuple):
    lsn: int
    data: bytes


class Log:
    """The log of one database from now on, as the stream of a slot has it.

    `publication`: what follows its name in CREATE PUBLICATION.
    """

    def __init__(self, server: Postgres, database: str, publication: str = "FOR ALL TABLES") -> None:
        self._writer = server.connect(database)
        self._session = server.connect(database)
        for name, value in OUTPUT_SETTINGS.items():
            self._session.execute("SELECT set_config($1, $2, false)", (name, value))
        via_root = "WITH (publish_via_partition_root = true)" if "WITH" not in publication else ""
        self._slot = f"tidelock_{database}"
        self._writer.execute_script(f"CREATE PUBLICATION {self._slot} {publication} {via_root}")
        made = self._session.execute(
            "SELECT (lsn - '0/0'::pg_lsn)::bigint FROM pg_create_logical_replication_slot($1, 'pgoutput')",
            (self._slot,),
        )
        self.start = Position(FILE, made[0][0])
        self.ask = self._session.execute
        self.catalogue: Catalogue = functools.partial(read_relation, self.ask)

    def run(self, statements: Iterable[str]) -> None:
        """Run statements, each in a transaction of its own; one that holds several says itself where they begin."""
        for statement in statements:
            self._writer.execute_script(statement)

    def messages(self, *, keep: bool = False) -> list[Message]:
        """Returns what was logged since the last call; with `keep` it is not taken away."""
        way = "peek" if keep else "get"
        return [Message(*row) for row in self._session.execute(_READ.format(way), (self._slot,))]

    def rows(self, table: TableName, shape: Shape, where: str = "") -> list[Row]:
        """The rows of a table now, as its columns' kinds have them."""
        columns = ", ".join(_text_of(column.name) for column in shape.columns)
        chosen = f" WHERE {where}" if where else ""
        made = self._session.execute(f'SELECT {columns} FROM "{table.schema}"."{table.table}"{chosen}', ())
        readings = [reading(code(column)) for column in shape.columns]
        return [
            tuple(None if text is None else read(text.encode()) for read, text in zip(readings, row, strict=True))
            for row in made
        ]

    def forms(self) -> dict[int, Form]:
        """What is known of the tables that are there, as where a feed begins."""
        names = [TableName(schema, name) for schema, name, _ in self._session.execute(_TABLES, ())]
        return {form.oid: form for form in read_forms(self.ask, names)}

    def texts(self) -> dict[TableName, list[dict[str, str | None]]]:
        """All rows of all tables now, as texts by column."""
        found: dict[TableName, list[dict[str, str | None]]] = {}
        for schema, name, columns in self._session.execute(_TABLES, ()):
            chosen = ", ".join(map(_text_of, columns))
            rows = self._session.execute(f'SELECT {chosen} FROM "{schema}"."{name}"', ())
            found[TableName(schema, name)] = [dict(zip(columns, row, strict=True)) for row in rows]
        return found

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._session.execute("SELECT pg_drop_replication_slot($1)", (self._slot,))
        self._session.close()
        self._writer.close()


@contextlib.contextmanager
def log(server: Postgres, database: str, publication: str = "FOR ALL TABLES") -> Iterator[Log]:
    """The log of a database from now on."""
    made = Log(server, database, publication)
    try:
        yield made
    finally:
        made.close()


def decoded(
    messages: Sequence[Message],
    start: Position,
    catalogue: Catalogue,
    *,
    former: dict[int, Form] | None = None,
    wanted: Callable[[TableName], bool] = lambda table: True,
    is_marker: Callable[[TableName], bool] = lambda table: False,
    chunk_rows: int = 500,
    compiled: bool = True,
    origins: bool = False,
    images: bool = False,
) -> tuple[list[SourceChunk], Relations]:
    """The chunks of these messages, as a reader that begins at `start` makes them, and what it knows of tables then."""
    relations = Relations(catalogue, former or {})
    assembly = Assembly(
        "7012345678901234567/shop",
        start,
        relations,
        wanted,
        is_marker,
        chunk_rows,
        compiled=compiled,
        origins=origins,
        images=images,
    )
    for message in behind(messages, start):
        assembly.take(memoryview(message.data), message.lsn)
    assembly.flush()
    return assembly.ready, relations


def behind(messages: Sequence[Message], start: Position) -> list[Message]:
    """Returns what a server sends from a place on: transactions whose commit stands at or behind it.

    Tables are told anew in each connection, so those that were told before are told first here.
    """
    found: list[Message] = []
    told: dict[bytes, Message] = {}
    sent: set[bytes] = set()
    begun = False
    for message in messages:
        kind, key = message.data[:1], message.data[:5]
        if message.data[0] == BEGIN:
            begun = int.from_bytes(message.data[1:9]) >= start.offset
        if kind == b"R":
            told[key[1:]] = message
        if not begun:
            continue
        if kind in b"IUD" and key[1:] not in sent and key[1:] in told and told[key[1:]] not in found:
            found.append(told[key[1:]])
        if kind == b"T":
            oids = [message.data[at : at + 4] for at in range(6, len(message.data), 4)]
            found += [told[oid] for oid in oids if oid not in sent and oid in told and told[oid] not in found]
            sent.update(oids)
        if kind in b"IUDR":
            sent.add(key[1:])
        found.append(message)
    return found


class Replica:
    """Tables in memory, to which chunks are applied by key, as a target would.

    `before`: what the tables held before.  `statements`: what the barrier was raised for, in order.
    """

    def __init__(self, before: Mapping[TableName, list[dict[str, str | None]]] = {}) -> None:
        self.shapes: dict[int, Shape] = {}
        self._before = before
        self.tables: dict[TableName, list[list[Any]]] = {}
        self.statements: list[tuple[DdlKind, str]] = []

    def apply(self, chunks: Iterable[SourceChunk]) -> None:
        for chunk in chunks:
            for number, shape in chunk.shapes.items():
                self.shapes[number] = shape
                self.tables.setdefault(shape.name, self._seed(shape))
            for transaction in chunk.transactions:
                if (ddl := transaction.ddl) is not None:
                    self.statements.append((ddl.kind, ddl.statement))
                    if ddl.kind is DdlKind.TRUNCATE:
                        for name in ddl.tables:
                            self.tables[name] = []
                    for added in ddl.added:
                        for row in self.tables.get(ddl.tables[0], []):
                            row.append(added.fill)
                for change in transaction.rows:
                    self._change(change)

    def _seed(self, shape: Shape) -> list[list[Any]]:
        return [
            [None if (text := row.get(c.name)) is None else reading(code(c))(text.encode()) for c in shape.columns]
            for row in self._before.get(shape.name, ())
        ]

    def _change(self, change: RowChange) -> None:
        rows = self.tables[self.shapes[change.table].name]
        if change.before is None:
            assert change.after is not None and UNKNOWN not in change.after
            rows.append(list(change.after))
            return
        place = next(place for place, row in enumerate(rows) if _agrees(change.before, row))
        if change.after is None:
            del rows[place]
        else:
            rows[place] = [was if now is UNKNOWN else now for was, now in zip(rows[place], change.after, strict=True)]

    def rows(self, table: TableName) -> list[Row]:
        return [tuple(row) for row in self.tables.get(table, [])]


def _text_of(column: str) -> str:
    """An expression for a column's text by its type's output function, which a cast to text is not for every type."""
    quoted = '"' + column.replace('"', '""') + '"'
    return f"CASE WHEN {quoted} IS NOT NULL THEN format('%s', {quoted}) END"


def _agrees(before: Row, row: Sequence[Any]) -> bool:
    return all(value is UNKNOWN or value == found for value, found in zip(before, row, strict=True))
