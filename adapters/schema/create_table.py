"""Makes CREATE TABLE for a target from a source table; every word of it comes from `schema.type_map` or is checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.adapters.schema.type_map import is_text, mysql_type, postgres_type
from tidelock.engine.model.records import Kind, TableName
from tidelock.engine.model.schema import ForeignKey, UniqueKey

NAME_BYTES = 63
_TEXTS = (Kind.TEXT, Kind.ENUM, Kind.SET)


def identifier(dialect: Dialect, name: str) -> str:
    """Returns a quoted name.  Raises TargetError for a name that PostgreSQL would cut."""
    if dialect == "postgres" and len(name.encode()) > NAME_BYTES:
        raise TargetError(
            f"the name {name} has {len(name.encode())} bytes, and PostgreSQL cuts names at {NAME_BYTES}",
            "give it another name in the feed (tables: target, columns: rename) and make the table by hand",
        )
    return quote(dialect, name)


def qualified(dialect: Dialect, name: TableName) -> str:
    """Returns the quoted schema and table."""
    return f"{identifier(dialect, name.schema)}.{identifier(dialect, name.table)}"


def column_type(column: SourceColumn, dialect: Dialect, json: str = "") -> str:
    """Returns a column's type, with character set and collation for MySQL, where the source names them.  `json`: the
    type of JSON columns.
    """
    if json and column.column.kind is Kind.JSON:
        return json
    if dialect == "postgres":
        return postgres_type(column.column)
    if column.column.type:  # of a PostgreSQL source
        made = mysql_type(column.column)
        collated = is_text(made) and column.collation
        return f"{made} CHARACTER SET utf8mb4 COLLATE {column.collation}" if collated else made
    spelled = column.type or mysql_type(column.column)
    if column.column.kind not in _TEXTS:
        return spelled
    charset = f" CHARACTER SET {column.column.charset}" if column.column.charset else ""
    return spelled + charset + (f" COLLATE {column.collation}" if column.collation else "")


def create_table(
    source: SourceTable,
    target: TableName,
    dialect: Dialect,
    json: str = "",
    clauses: Mapping[str, str] = {},
    comment: str = "",
    others: Collection[TableName] = (),
    indexes: Sequence[str] = (),
) -> list[str]:
    """Returns one statement, which does nothing where the table exists.  Raises TargetError.

    `clauses`: defaults and the like, by column; `comment`: of MySQL's table (`schema.whole_table`).  `others`: tables
    of the target, whose names no index takes from them.  `indexes`: MySQL's words of those that are not unique.

    Left out: generated expressions (their values are written as they come, where the log has them), unique indexes
    whose equality is not the target's (a prefix, an expression): a target that is less strict than the source never
    refuses a row.  Foreign keys are added once all tables are there (`schema.foreign_keys`).
    """
    lines = [
        f"{identifier(dialect, c.name)} {column_type(c, dialect, json)}{_nullability(c, dialect)}{_computed(c)}"
        + (f" {clauses[c.name]}" if c.name in clauses else "")
        for c in source.columns
    ]
    for unique in source.uniques:
        if not takes(source, unique):
            continue
        columns = ", ".join(identifier(dialect, c) for c in unique.columns)
        if unique.name == "PRIMARY":
            lines.append(f"PRIMARY KEY ({columns})")
        else:
            lines.append(f"{unique_words(dialect, target, unique.name, others)} ({columns})")
    lines += indexes
    engine = "" if dialect == "postgres" else " ENGINE=InnoDB"
    if comment and dialect == "mysql":
        engine += f" COMMENT={comment}"
    body = ",\n  ".join(lines)
    return [f"CREATE TABLE IF NOT EXISTS {qualified(dialect, target)} (\n  {body}\n){engine}"]


def takes(table: SourceTable, unique: UniqueKey) -> bool:
    """Tells whether a table that is made from `table` gets its unique key."""
    if not unique.opaque:
        return True
    generated = {c.name for c in table.columns if c.generated}
    return unique.name == "PRIMARY" and "prefix" not in unique.opaque and not generated & {*unique.columns}


def index_name(dialect: Dialect, table: TableName, name: str) -> str:
    """Returns what an index of the source is named: PostgreSQL's names are of a whole schema, so the table's comes
    first."""
    return name if dialect == "mysql" else f"{table.table}_{name}"


def unique_words(dialect: Dialect, table: TableName, name: str, others: Collection[TableName] = ()) -> str:
    """Returns the words before the columns of a unique index.  PostgreSQL chooses a name where ours would be cut, or
    is that of one of the `others`: tables and indexes share one namespace there."""
    made = index_name(dialect, table, name)
    if dialect == "mysql":
        return f"UNIQUE KEY {identifier(dialect, made)}"
    if len(made.encode()) > NAME_BYTES or TableName(table.schema, made) in others:
        return "UNIQUE"
    return f"CONSTRAINT {identifier(dialect, made)} UNIQUE"


def _nullability(column: SourceColumn, dialect: Dialect) -> str:
    if not column.nullable and not column.generated:
        return " NOT NULL"
    # Without NULL, older servers make a TIMESTAMP column NOT NULL with an automatic value.
    stamp = column.column.kind is Kind.TIMESTAMP and not column.column.type
    return " NULL" if dialect == "mysql" and stamp else ""


def full_identity(table: SourceTable) -> str:
    """Returns the statements by which a PostgreSQL source logs whole old rows: each partition has its own identity."""
    places = (*table.partitions, table.name)
    return " ".join(f"ALTER TABLE {qualified('postgres', name)} REPLICA IDENTITY FULL;" for name in places)


def _computed(column: SourceColumn) -> str:
    """Returns the expression of a column that the log does not have, so that the target computes it."""
    return "" if column.logged else f" GENERATED ALWAYS AS ({column.expression}) STORED"


def acting(rules: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Returns (event, rule) of ON UPDATE and ON DELETE where they do more than refuse."""
    events = zip(("UPDATE", "DELETE"), rules, strict=True)
    return tuple((event, rule) for event, rule in events if rule in ("CASCADE", "SET NULL", "SET DEFAULT"))


def foreign_key(dialect: Dialect, key: ForeignKey, parent: TableName, rules: tuple[tuple[str, str], ...]) -> str:
    """Returns the text after ADD in ALTER TABLE; without a name, which would be unique in a whole MySQL database."""
    own, theirs = (", ".join(identifier(dialect, c) for c in names) for names in (key.columns, key.parent_columns))
    events = "".join(f" ON {event} {rule}" for event, rule in rules)
    return f"FOREIGN KEY ({own}) REFERENCES {qualified(dialect, parent)} ({theirs}){events}"
