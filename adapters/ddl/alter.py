"""Reads the clauses of ALTER TABLE, and CREATE and DROP INDEX, as operations.

What is not known raises `NotPlain`, as everywhere in this grammar.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from tidelock.adapters.ddl.changed_columns import changed, converted
from tidelock.adapters.ddl.changed_defaults import read_default
from tidelock.adapters.ddl.lexer import NotPlain, Reader
from tidelock.adapters.ddl.operations import (
    AddColumn,
    AddComputed,
    AddPrimaryKey,
    AddUnique,
    AlterTable,
    Clause,
    DropColumn,
    DropIndex,
    Dropped,
    DropPrimaryKey,
    NotCarried,
    RenameColumn,
    RenameIndex,
    Rowless,
    indexing,
)
from tidelock.adapters.ddl.parser import keyed_column, placed, read_column, table_name
from tidelock.adapters.ddl.table_options import begins_option, options
from tidelock.adapters.ddl.table_parts import (
    PLAIN_INDEXES,
    foreign_key,
    index_behind,
    index_method,
    is_column,
    past_check,
    past_wait,
    plain_index,
    primary_key,
    unique_key,
)
from tidelock.adapters.ports.definition import PlainIndex

_NOT_COMPARED: Final = "a unique index that a target cannot compare by, and which is left out there"
_ROWLESS_PARTS: Final = frozenset(("ANALYZE", "CHECK", "OPTIMIZE", "REBUILD", "REORGANIZE", "COALESCE"))


def altered(reader: Reader, schema: str) -> AlterTable:
    """Reads a statement after `ALTER TABLE`.  Raises NotPlain."""
    reader.take("IF", "EXISTS")
    table = table_name(reader, schema)
    past_wait(reader)
    clauses: list[Clause] = []
    while True:
        clauses += _clause(reader)
        if reader.ended:
            break
        reader.expect(",")
    return AlterTable(table, tuple(clauses))


def index_made(reader: Reader, schema: str) -> AlterTable:
    """Reads a statement after `CREATE`, about an index.  Raises NotPlain."""
    unique = reader.take("UNIQUE")
    method = index_method(reader)
    reader.expect("INDEX")
    reader.take("IF", "NOT", "EXISTS")
    name = reader.name()
    if reader.take("USING"):
        reader.name()
    reader.expect("ON")
    table = table_name(reader, schema)
    clause = _unique(reader, name) if unique else _index(index_behind(reader, name, method))
    for option in ("ALGORITHM", "LOCK"):
        if reader.take(option):
            reader.take("=")
            reader.name()
    return AlterTable(table, (clause,))


def index_dropped(reader: Reader, schema: str) -> AlterTable:
    """Reads a statement after `DROP INDEX`.  Raises NotPlain."""
    reader.take("IF", "EXISTS")
    name = reader.name()
    reader.expect("ON")
    table = table_name(reader, schema)
    past_wait(reader)
    while not reader.ended:
        if not (reader.take("ALGORITHM") or reader.take("LOCK")):
            raise NotPlain(reader.rest())
        reader.take("=")
        reader.name()
    clause = DropPrimaryKey() if name.upper() == "PRIMARY" else DropIndex(name)
    return AlterTable(table, (clause,))


def _clause(reader: Reader) -> list[Clause]:
    word = reader.peek()
    read = _CLAUSES.get(word)
    if read is not None:
        reader.next()
        return read(reader)
    if word in _ROWLESS_PARTS and reader.peek(1) == "PARTITION":
        _past(reader, groups=True)
        return [Rowless("a partition's storage")]
    if begins_option(word):
        return [*options(reader)]
    if word in ("ENABLE", "DISABLE") and reader.peek(1) == "KEYS":
        _past(reader)
        return [Rowless("an option of the table")]
    if word == "FORCE":
        reader.next()
        return [Rowless("an option of the table")]
    raise NotPlain(reader.rest())


# ------------------------------------------------------------------ ADD


def _add(reader: Reader) -> list[Clause]:
    if reader.peek() == "PARTITION":
        _past(reader, groups=True)
        return [Rowless("a partition")]
    reader.take("COLUMN")
    reader.take("IF", "NOT", "EXISTS")
    if not reader.take("("):
        added = _added(reader)
        place = placed(reader)
        return [_at(clause, place) for clause in added]
    added = _added(reader)
    while reader.take(","):
        added += _added(reader)
    reader.expect(")")
    return added


def _added(reader: Reader) -> list[Clause]:
    """Reads one column, index or constraint."""
    if reader.peek() in PLAIN_INDEXES and not is_column(reader):
        return [_index(plain_index(reader))]
    name = ""
    if reader.take("CONSTRAINT") and reader.peek() not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
        reader.take("IF", "NOT", "EXISTS")
        name = reader.name()
    if reader.take("PRIMARY", "KEY"):
        key = primary_key(reader)
        return [NotCarried("a primary key", key.opaque) if key.opaque else AddPrimaryKey(key.columns)]
    if reader.take("UNIQUE"):
        reader.take("KEY") or reader.take("INDEX")
        reader.take("IF", "NOT", "EXISTS")
        if reader.peek() not in ("(", "USING"):
            name = reader.name()
        return [_unique(reader, name)]
    if reader.take("FOREIGN", "KEY"):
        reader.take("IF", "NOT", "EXISTS")
        foreign_key(reader)
        return [Rowless("a foreign key that only refuses")]
    if reader.take("CHECK"):
        past_check(reader)
        return [Rowless("a CHECK")]
    mark = reader.mark()
    column, definition = read_column(reader)
    if definition.generated and not definition.primary:
        left_out = [Rowless(_NOT_COMPARED)] if definition.unique else []
        return [AddComputed(column, definition.expression), *left_out]
    reader.return_to(mark)
    new, keyed = keyed_column(reader)
    columns = (new.column.name,)
    keys: list[Clause] = [AddPrimaryKey(columns)] if keyed == "primary" else []
    return [AddColumn(new), *keys, *([AddUnique(columns[0], columns)] if keyed == "unique" else [])]


def _index(found: PlainIndex | None) -> Clause:
    return indexing(found) if found is not None else Rowless("an index that is not understood")


def _unique(reader: Reader, name: str) -> Clause:
    key = unique_key(reader, name)
    if key.opaque:
        return Rowless(_NOT_COMPARED)
    return AddUnique(name or key.columns[0], key.columns)


# ------------------------------------------------------------------ DROP


def _drop(reader: Reader) -> list[Clause]:
    if reader.take("PRIMARY", "KEY"):
        return [DropPrimaryKey()]
    if reader.take("PARTITION"):
        _past(reader)
        return [NotCarried("DROP PARTITION", "it removes rows, and the log does not tell which")]
    what = next((words for words in _DROPPED if reader.take(*words)), None)
    if what is None:
        reader.take("COLUMN")
    reader.take("IF", "EXISTS")
    name = reader.name()
    if what is None:
        reader.take("RESTRICT") or reader.take("CASCADE")
        return [DropColumn(name)]
    if name.upper() == "PRIMARY" and what != ("FOREIGN", "KEY"):
        return [DropPrimaryKey()]
    return [DropIndex(name, _DROPPED[what])]


_DROPPED: Final[dict[tuple[str, ...], Dropped]] = {
    ("INDEX",): "index", ("KEY",): "index", ("FOREIGN", "KEY"): "foreign key",
    ("CHECK",): "check", ("CONSTRAINT",): "constraint",
}  # fmt: skip


# ------------------------------------------------------------------ all others


def _rename(reader: Reader) -> list[Clause]:
    if reader.take("COLUMN"):
        reader.take("IF", "EXISTS")
        name = reader.name()
        reader.expect("TO")
        return [RenameColumn(name, reader.name())]
    if reader.take("INDEX") or reader.take("KEY"):
        reader.take("IF", "EXISTS")
        name = reader.name()
        reader.expect("TO")
        return [RenameIndex(name, reader.name())]
    raise NotPlain("RENAME among other clauses")


def _modify(reader: Reader) -> list[Clause]:
    reader.take("COLUMN")
    reader.take("IF", "EXISTS")
    return [changed(reader)]


def _change(reader: Reader) -> list[Clause]:
    reader.take("COLUMN")
    reader.take("IF", "EXISTS")
    return [changed(reader, reader.name())]


def _alter(reader: Reader) -> list[Clause]:
    if reader.take("CHECK") or reader.take("CONSTRAINT"):
        name = reader.name()
        loosened = reader.take("NOT")
        reader.expect("ENFORCED")
        return [DropIndex(name, "check") if loosened else Rowless("a CHECK")]
    mark = reader.mark()
    if reader.peek() not in ("INDEX", "KEY"):
        reader.take("COLUMN")
        reader.take("IF", "EXISTS")
        clause = read_default(reader, reader.name())
        if clause is not None and (reader.ended or reader.peek() == ","):
            return [clause]
    reader.return_to(mark)
    _past(reader)
    return [Rowless("whether an index or a column is used")]


def _convert(reader: Reader) -> list[Clause]:
    return [converted(reader)]


def _partition(reader: Reader) -> list[Clause]:
    _past(reader, groups=True)
    return [Rowless("how the table is partitioned")]


def _moved_partition(reader: Reader) -> list[Clause]:
    _past(reader, groups=True)
    return [NotCarried("a change of a partition", "it removes or brings rows, and the log does not tell which")]


def _removed(reader: Reader) -> list[Clause]:
    reader.expect("PARTITIONING")
    return [Rowless("how the table is partitioned")]


_CLAUSES: Final[dict[str, Callable[[Reader], list[Clause]]]] = {
    "ADD": _add, "DROP": _drop, "RENAME": _rename, "MODIFY": _modify, "CHANGE": _change, "ALTER": _alter,
    "CONVERT": _convert, "PARTITION": _partition, "TRUNCATE": _moved_partition, "EXCHANGE": _moved_partition,
    "DISCARD": _moved_partition, "IMPORT": _moved_partition, "REMOVE": _removed, "REPAIR": _moved_partition,
}  # fmt: skip


def _at(clause: Clause, place: str | None) -> Clause:
    """Returns a clause that adds a column with the column's place among the others."""
    match clause:
        case AddColumn():
            return replace(clause, new=replace(clause.new, place=place))
        case AddComputed():
            return replace(clause, place=place)
    return clause


def _past(reader: Reader, *, groups: bool = False) -> None:
    """Goes to the end of the clause; `groups`: which is that of the statement."""
    while not reader.ended and (groups or reader.peek() != ","):
        if reader.peek() == "(":
            reader.skip_group()
        else:
            reader.next()
