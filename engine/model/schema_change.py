"""Schema changes as a source's log tells them: statements, or what has become of a table and its columns."""

from __future__ import annotations

import enum

import msgspec

from tidelock.engine.model.records import Column, TableName, Value


class DdlKind(enum.StrEnum):
    """Kind of statement to the barrier: it applies the first five, passes UNRELATED, halts on OTHER.

    ALTERED: tables are dropped or renamed, or their columns and keys changed in a way that the target can follow.
    SHADOW: it is about a table that the feed leaves out, and which may take the place of one that it takes: it is noted
    at the target, and changes no table there."""

    CREATE_TABLE = "create table"
    ADD_COLUMN = "add column"
    TRUNCATE = "truncate"
    ALTERED = "altered"
    SHADOW = "shadow"
    UNRELATED = "unrelated"
    OTHER = "other"


class AddedColumn(msgspec.Struct, frozen=True, array_like=True):
    """A column that a table of a PostgreSQL source has got.  `fill`: the value that its old rows have; `spelled`: the
    same as the source spells it."""

    column: Column
    fill: Value = None
    spelled: str = ""


class ToldColumn(msgspec.Struct, frozen=True, array_like=True):
    """A column of a table that a PostgreSQL source has made.  `expression`: the server computes it by this, and the log
    has no values of it; '' of any other."""

    column: Column
    nullable: bool = True
    expression: str = ""


class ToldTable(msgspec.Struct, frozen=True, array_like=True):
    """A table that a PostgreSQL source has made, without rows.  `uniques`: names and columns of its unique indexes."""

    columns: tuple[ToldColumn, ...]
    primary_key: tuple[str, ...] = ()
    uniques: tuple[tuple[str, tuple[str, ...]], ...] = ()


class ToldUnique(msgspec.Struct, frozen=True, array_like=True):
    """A unique index that a table of a PostgreSQL source has got, lost, or has under another name.  `before`, `after`:
    its name then; '': there is none."""

    before: str
    after: str
    columns: tuple[str, ...]


class ToldChange(msgspec.Struct, frozen=True, array_like=True):
    """Changes that a PostgreSQL source's log tells of a table beside the columns that it has got, without a statement.

    `dropped`, `renamed` (from, to): columns.  `gone`: the table itself was dropped.  `name`: it has this one now.
    What only an event trigger tells: `retyped`: columns under the names that they have now, with the type of before
    and of now, where no value has changed; the same type twice: it may be NULL now.  `rekeyed`: the columns of the
    primary key before, and now.  `uniques`: in this order.  `made`: the table is new.
    """

    dropped: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    gone: bool = False
    name: TableName | None = None
    retyped: tuple[tuple[ToldColumn, ToldColumn], ...] = ()
    rekeyed: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    uniques: tuple[ToldUnique, ...] = ()
    made: ToldTable | None = None


class FormerColumn(msgspec.Struct, frozen=True, array_like=True):
    """A column of a MySQL or MariaDB source as it was at a place of the log.

    `type`: as the server spells it (COLUMN_TYPE).  `automatic`: AUTO_INCREMENT.  `generated`: the server computes it.
    A text's `charset` is '' where it is whatever the table had as its default when the column was made.
    """

    column: Column
    type: str
    nullable: bool = True
    collation: str = ""
    automatic: bool = False
    generated: bool = False


class FormerTable(msgspec.Struct, frozen=True, array_like=True):
    """A table of a MySQL or MariaDB source as it was at a place of the log.  `charset`, `collation`: its default.

    `columns` are in the order of its rows, and `primary_key` has the names of the key's, where that is not None: then
    the order was not known either (forms that Tidelock kept before it followed both).
    """

    columns: tuple[FormerColumn, ...]
    charset: str = ""
    collation: str = ""
    primary_key: tuple[str, ...] | None = None


class Ddl(msgspec.Struct, frozen=True, array_like=True):
    """A statement in the log that changes no rows; `schema` is the session's default database.

    `source`, `number`: its identity, as a transaction's.  `kind`, `tables` (source names) and `databases` (all of
    whose tables go with them): filled in by the classifier.  Neither, and not UNRELATED: it may concern any table.
    `added`: what an ADD_COLUMN or ALTERED adds, where the log tells columns and not a statement.
    `untold`: rows that were there before may hold other values since, or be others, and the log does not tell them.
    `path`: the sites by which feeds have brought it to the source, none where it was made there; behind the capture
    machine of a feed with sites the source is one of them.  `back`: so is the target: the statement has run there.
    `elsewhere`: it was made at another site than the one whose statements are taken: at which, and which one that is.
    `told`: what an ALTERED does besides, where the log tells it and not a statement.
    `sql_mode`: of the session, as MySQL's bits; None: the log does not tell.  `former`: the table of an ALTER TABLE as
    it was before that, of a CREATE TABLE as it is; None: that is not known.  `targets`: the target's names of `tables`,
    none where they are not known.
    `optional`: no row depends on what an ALTERED does, so that a target may go without it.
    `moment_us`: when it began at a MySQL or MariaDB source, in whole seconds, as µs since the epoch; None: not known.
    `zone`: its session's time zone; '': the log does not tell.
    """

    schema: str
    statement: str
    source: str
    number: int
    kind: DdlKind = DdlKind.OTHER
    tables: tuple[TableName, ...] = ()
    databases: tuple[str, ...] = ()
    added: tuple[AddedColumn, ...] = ()
    untold: bool = False
    path: tuple[str, ...] = ()
    back: bool = False
    elsewhere: tuple[str, str] | None = None
    told: ToldChange | None = None
    sql_mode: int | None = None
    former: FormerTable | None = None
    targets: tuple[TableName, ...] = ()
    optional: bool = False
    moment_us: int | None = None
    zone: str = ""
