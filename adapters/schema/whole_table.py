"""Whole tables: what a target's table gets besides columns and keys, so that it may take over from the source.

What can be told exactly is made; the rest is left out with the reason, and never changes which rows are equal.  What a
row passes through (defaults, counters, comments) is part of CREATE TABLE.  What slows down the writing of many rows or
needs them (plain indexes, checks) are statements of their own, which may run once the rows are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ports.definition import Definition, IndexPart, PlainIndex
from tidelock.adapters.schema.create_table import column_type, identifier, qualified
from tidelock.adapters.schema.defaults import same_server, translated
from tidelock.adapters.schema.not_made import parts_not_made
from tidelock.adapters.schema.not_translated import NotTranslated
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.adapters.schema.type_map import POSTGRES_INTEGERS, postgres_type, quoted
from tidelock.engine.model.records import Kind, TableName
from tidelock.engine.model.schema import Equality

POSTGRES_INDEX_BYTES: Final = 2_700
"""Bytes of an entry of a B-tree that PostgreSQL takes, about."""
MYSQL_INDEX_CHARACTERS: Final = 191
"""Characters of a long text that an index of MySQL or MariaDB gets."""


class Server(msgspec.Struct, frozen=True):
    """Kind of a server: MariaDB and MySQL have one dialect, and are not the same."""

    dialect: Dialect
    mariadb: bool = False


class LeftOut(msgspec.Struct, frozen=True):
    """A part of a table that the target does not get.  `what`: it, as the source spells it."""

    table: TableName
    what: str
    why: str


class WholeTable(msgspec.Struct, frozen=True):
    """Statements and clauses for one table.

    `clauses`: text behind a column's type in CREATE TABLE, by the target's name.  `comment`: literal of MySQL's table.
    `at_once`: statements behind CREATE TABLE.  `indexes`, `checks`: (name, statement), for rows that are there.
    """

    clauses: Mapping[str, str]
    comment: str
    at_once: tuple[str, ...]
    indexes: tuple[tuple[PlainIndex, str], ...]
    checks: tuple[tuple[str, str], ...]
    left_out: tuple[LeftOut, ...]


class WholeTableMaker:
    """Finds what one table of a target gets.

    `source`: the table.  `made`: as it is made at the target, under the target's names.  `servers`: source, target.
    `equalities`: how the source compares its texts.  `names`: of the columns at the target.
    """

    def __init__(
        self,
        source: SourceTable,
        made: SourceTable,
        definition: Definition,
        target: TableName,
        servers: tuple[Server, Server],
        equalities: Mapping[str, Equality],
        names: Mapping[str, str],
    ) -> None:
        from tidelock.adapters.schema.expressions import Translation  # sqlglot is slow to import

        self._source, self._made, self._definition, self._table = source, made, definition, target
        self._servers, self._names = servers, names
        self._from, self._to = servers[0].dialect, servers[1].dialect
        self._columns = {c.name: c for c in source.columns}
        self._made_columns = {c.name: c for c in made.columns}
        self._place = qualified(self._to, target)
        self._translation = Translation(self._from, self._to, self._columns, names, equalities)
        dialects = self._from, self._to
        parts = parts_not_made(source, made, definition, dialects, names, equalities)
        self._left_out = [LeftOut(source.name, what, why) for what, why in parts]

    def table(self) -> WholeTable:
        """Returns it."""
        clauses = {name: self._clause(old, name) for old, name in self._names.items() if name in self._made_columns}
        return WholeTable(
            clauses={name: text for name, text in clauses.items() if text},
            comment=self._mysql_comment("the table's comment", self._definition.comment) if self._to == "mysql" else "",
            at_once=tuple(self._comments()),
            indexes=tuple(self._indexes()),
            checks=tuple(self._checks()),
            left_out=tuple(self._left_out),
        )

    # ------------------------------------------------------------------ columns

    def _clause(self, old: str, name: str) -> str:
        """Returns a column's default or counter, and MySQL's comment."""
        column = self._made_columns[name]
        words = [self._counter(column) if old in self._definition.counters else self._default(old, column)]
        if old in self._definition.on_update:
            self._leave_out(f"{old} ON UPDATE CURRENT_TIMESTAMP", "the source's log has the time of each change")
        if self._to == "mysql" and (comment := self._mysql_comment(old, self._definition.comments.get(old, ""))):
            words.append(f"COMMENT {comment}")
        return " ".join(filter(None, words))

    def _default(self, old: str, column: SourceColumn) -> str:
        default = self._definition.defaults.get(old)
        if default is None or column.generated:
            return ""
        try:
            if self._same and (default.value is not None or self._own_functions(default.expression)):
                text = same_server(column, default, self._to)
            else:
                text = translated(column, default, self._from, self._to)
        except NotTranslated as reason:
            self._leave_out(f"{old} DEFAULT {default.text}", str(reason))
            return ""
        return f"DEFAULT {text}"

    def _own_functions(self, expression: str) -> bool:
        """Tells whether an expression needs nothing but what every server of the kind has."""
        return self._servers[0] == self._servers[1] and not ("." in expression and "(" in expression)

    def _counter(self, column: SourceColumn) -> str:
        if self._to == "postgres":
            if postgres_type(column.column) in POSTGRES_INTEGERS:
                return "GENERATED BY DEFAULT AS IDENTITY"
            self._leave_out(f"{column.name} AUTO_INCREMENT", "PostgreSQL counts no numbers above those of a bigint")
        elif any(u.columns[0] == column.name for u in self._made.uniques if u.columns and not u.opaque):
            return "AUTO_INCREMENT"
        else:
            self._leave_out(f"{column.name} as a counter", "MySQL counts only the first column of a key")
        return ""

    def _mysql_comment(self, of: str, text: str) -> str:
        """Returns a comment as a literal of MySQL, whose mode decides what a backslash is."""
        if "\\" in text:
            self._leave_out(f"COMMENT of {of}", "a text with a backslash is read in different ways")
            return ""
        return quoted(text) if text else ""

    def _comments(self) -> list[str]:
        if self._to != "postgres":
            return []
        made = [f"COMMENT ON TABLE {self._place} IS {_postgres_text(self._definition.comment)}"]
        of_columns = [
            f"COMMENT ON COLUMN {self._place}.{identifier('postgres', self._names[c])} IS {_postgres_text(text)}"
            for c, text in self._definition.comments.items()
            if c in self._names
        ]
        return (made if self._definition.comment else []) + of_columns

    # ------------------------------------------------------------------ indexes and checks

    def _indexes(self) -> list[tuple[PlainIndex, str]]:
        made: list[tuple[PlainIndex, str]] = []
        for index in self._definition.indexes:
            try:
                wanted, statement = self._index(index)
            except NotTranslated as reason:
                self._leave_out(f"INDEX {index.name}", str(reason))
                continue
            if not _has(self._made, wanted):
                made.append((wanted, statement))
        return made

    def _index(self, index: PlainIndex) -> tuple[PlainIndex, str]:
        """Returns the index as the target is to have it, and its statement.  Raises NotTranslated."""
        if missing := [c for c in index.columns if c and c not in self._names]:
            raise NotTranslated(f"{missing[0]} is not carried over")
        if self._same and self._to == "postgres" and self._unrenamed(index.columns):
            return index, f"CREATE INDEX {identifier('postgres', index.name)} ON {self._place} {index.tail}"
        words = {"fulltext": "FULLTEXT ", "spatial": "SPATIAL "} if self._same else {}
        if index.method not in ("btree", "hash", *words):
            raise NotTranslated(f"the target has no {index.method} index")
        if index.condition:
            raise NotTranslated("it is of some rows alone")
        parts = tuple(self._part(index, part) for part in index.parts)
        if self._to == "postgres":
            self._check_length(parts)
            name = identifier("postgres", _short(f"{self._table.table}_{index.name}"))
        else:
            name = identifier("mysql", index.name)
        listed = ", ".join(map(self._spelled, parts))
        made = PlainIndex(name.strip('"`'), parts, index.method if self._same else "btree")
        return made, f"CREATE {words.get(index.method, '')}INDEX {name} ON {self._place} ({listed})"

    def _part(self, index: PlainIndex, part: IndexPart) -> IndexPart:
        if part.expression:
            if self._servers[0] == self._servers[1] and self._unrenamed(self._columns):
                return part
            if self._servers[1].mariadb:
                raise NotTranslated("MariaDB has no index over an expression")
            return msgspec.structs.replace(part, expression=self._translation.value(part.expression))
        column = self._made_columns.get(self._names[part.column])
        if column is None:
            raise NotTranslated(f"{part.column} is not carried over")
        prefix = part.prefix
        if not self._same and self._to == "mysql" and column_type(column, "mysql").startswith(("longtext", "longblob")):
            prefix = MYSQL_INDEX_CHARACTERS
        if self._to == "postgres" and prefix and column.column.kind is not Kind.TEXT:
            raise NotTranslated("the first bytes of a binary value are no key there")
        if self._to == "postgres" and column.column.kind in (Kind.GEOMETRY, Kind.VECTOR):
            raise NotTranslated(f"{part.column} is kept as bytes there")
        down = part.descending and not (self._servers[1].mariadb and not self._servers[0].mariadb)
        return IndexPart(column.name, prefix, down)

    def _spelled(self, part: IndexPart) -> str:
        down = " DESC" if part.descending else ""
        if part.expression:
            return f"({part.expression}){down}"
        name = identifier(self._to, part.column)
        if part.prefix:
            name = f"left({name}, {part.prefix})" if self._to == "postgres" else f"{name}({part.prefix})"
            name = f"({name})" if self._to == "postgres" else name
        return f"{name}{down}"

    def _check_length(self, parts: tuple[IndexPart, ...]) -> None:
        """Raises NotTranslated where PostgreSQL would refuse a row for the length of its entry."""
        lengths = [part.prefix or _characters(self._made_columns[part.column]) for part in parts if part.column]
        if sum(lengths) * 4 > POSTGRES_INDEX_BYTES:
            raise NotTranslated("a row may have more bytes in it than PostgreSQL takes in an index")

    def _checks(self) -> list[tuple[str, str]]:
        made: list[tuple[str, str]] = []
        for name, clause in self._definition.checks:
            try:
                whole = self._servers[0] == self._servers[1] and self._unrenamed(self._columns)
                made.append((name, clause if whole else self._translation.condition(clause)))
            except NotTranslated as reason:
                self._leave_out(f"CHECK {name} ({clause})", str(reason))
        if self._to == "postgres" and self._from != "postgres":
            made += [
                (label_check_name(self._table, c.name), labels_check(c))
                for c in self._made.columns
                if c.column.kind is Kind.ENUM and c.column.labels and not c.generated
            ]
        return [(name, self._check(name, clause)) for name, clause in made]

    def _check(self, name: str, clause: str) -> str:
        valid = " NOT VALID" if self._to == "postgres" else ""  # so that it needs no look at the rows under a lock
        return f"ALTER TABLE {self._place} ADD CONSTRAINT {identifier(self._to, _short(name))} CHECK ({clause}){valid}"

    # ------------------------------------------------------------------ all

    @property
    def _same(self) -> bool:
        return self._from == self._to

    def _unrenamed(self, columns: Mapping[str, object] | tuple[str, ...]) -> bool:
        return all(not c or self._names.get(c) == c for c in columns)

    def _leave_out(self, what: str, why: str) -> None:
        self._left_out.append(LeftOut(self._source.name, what, why))


def _has(table: SourceTable, index: PlainIndex) -> bool:
    """Tells whether a key of the table serves for an index."""
    columns = tuple(part.column for part in index.parts)
    plain = all(part.column and not part.prefix for part in index.parts)
    return plain and any(u.columns[: len(columns)] == columns and not u.opaque for u in table.uniques)


def label_check_name(table: TableName, column: str) -> str:
    """Returns what the check of an ENUM is named at PostgreSQL."""
    return _short(f"{table.table}_{column}_label")


def labels_check(column: SourceColumn) -> str:
    """Returns PostgreSQL's check of an ENUM; its error value is '', which a server without strict mode stores."""
    labels = ", ".join(quoted(label) for label in ("", *column.column.labels))
    return f"{identifier('postgres', column.name)} IN ({labels})"


def serves(there: PlainIndex, wanted: PlainIndex) -> bool:
    """Tells whether an index that is there is the one that is wanted, whatever its name."""
    if there.tail and wanted.tail:
        return there.tail == wanted.tail
    if any(part.expression or part.prefix for part in wanted.parts):
        return there.name == wanted.name
    return there.parts == wanted.parts and not there.condition


def _characters(column: SourceColumn) -> int:
    """Returns how many characters of 4 bytes a value may have."""
    match column.column.kind:
        case Kind.TEXT:
            return column.column.length or POSTGRES_INDEX_BYTES
        case Kind.BINARY:
            return column.column.length // 4 or POSTGRES_INDEX_BYTES
        case Kind.JSON | Kind.OTHER | Kind.SET:
            return POSTGRES_INDEX_BYTES
    return 16


def _short(name: str) -> str:
    """Returns a name that PostgreSQL does not cut."""
    return name.encode()[:63].decode(errors="ignore")


def _postgres_text(text: str) -> str:
    return "E" + quoted(text.replace("\\", "\\\\")) if "\\" in text else quoted(text)
