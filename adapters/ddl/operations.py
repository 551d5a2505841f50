"""Operations: what a statement of MySQL or MariaDB does to the schema, one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias, cast

import msgspec

from tidelock.adapters.ddl.parser import NewColumn
from tidelock.adapters.ports.definition import Default, IndexPart, PlainIndex
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.engine.model.records import TableName

Kind: TypeAlias = Literal[
    "create_table", "drop_table", "rename_table", "truncate", "add_column", "drop_column", "rename_column",
    "change_column", "keys", "indexes", "set_default", "other",
]  # fmt: skip
"""The kinds of which the feed's `ddl` says what becomes of them; OTHER always halts."""

IndexSort: TypeAlias = Literal["", "FULLTEXT", "SPATIAL", "VECTOR"]
"""Sort of an index that is not unique; '' for a plain one."""

Dropped: TypeAlias = Literal["index", "foreign key", "check", "constraint"]
"""Kinds of things that go by a name; a constraint is a foreign key, a CHECK or a unique index."""


class DropTable(msgspec.Struct, frozen=True):
    """A table goes with its rows."""

    table: TableName
    kind: Kind = "drop_table"


class RenameTable(msgspec.Struct, frozen=True):
    """A table gets another name.  `if_exists`: the source logs it also where it had no such table."""

    table: TableName
    to: TableName
    if_exists: bool = False
    kind: Kind = "rename_table"


class CreateTable(msgspec.Struct, frozen=True):
    """A table is made without rows, of the columns that it names.  `indexes`: those that are not unique.  `defaults`:
    by column, where they are understood."""

    made: SourceTable
    indexes: tuple[AddIndex, ...] = ()
    defaults: Mapping[str, Default] = {}
    kind: Kind = "create_table"

    @property
    def table(self) -> TableName:
        """The table's name."""
        return self.made.name


class CreateLike(msgspec.Struct, frozen=True):
    """A table is made without rows, in the form of another one."""

    table: TableName
    like: TableName
    kind: Kind = "create_table"


class AddColumn(msgspec.Struct, frozen=True):
    """A column is added, whose value in rows that are there is certain."""

    new: NewColumn
    kind: Kind = "add_column"


class AddComputed(msgspec.Struct, frozen=True):
    """A column is added that the source computes: what rows that are there have in it is not told.  `expression`: ''
    where what it says is not certain.  `place`: the column behind which it goes, '' for the first place; None: it goes
    last."""

    column: SourceColumn
    expression: str = ""
    place: str | None = None
    kind: Kind = "add_column"


class DropColumn(msgspec.Struct, frozen=True):
    """A column goes."""

    name: str
    kind: Kind = "drop_column"


class RenameColumn(msgspec.Struct, frozen=True):
    """A column gets another name, and stays as it is."""

    name: str
    to: str
    kind: Kind = "rename_column"


class ChangeColumn(msgspec.Struct, frozen=True):
    """A column gets another definition, and another name where `new` has one.

    `nullable`: as the definition says; None: it does not say.  `words`: the definition's default, comment and the like,
    for MySQL and MariaDB.  `place`: the column behind which it goes, '' for the first place; None: it stays.
    """

    name: str
    new: SourceColumn
    nullable: bool | None = None
    automatic: bool = False
    words: str = ""
    place: str | None = None
    kind: Kind = "change_column"


class ConvertTexts(msgspec.Struct, frozen=True):
    """All texts of the table get a character set, and new columns too.  `collation`: '' for the set's own."""

    charset: str
    collation: str
    kind: Kind = "change_column"


class AddPrimaryKey(msgspec.Struct, frozen=True):
    """The table gets a primary key."""

    columns: tuple[str, ...]
    kind: Kind = "keys"


class DropPrimaryKey(msgspec.Struct, frozen=True):
    """The table loses its primary key."""

    kind: Kind = "keys"


class AddUnique(msgspec.Struct, frozen=True):
    """A unique index is made over whole columns.  `name`: as the server chooses it where the statement does not."""

    name: str
    columns: tuple[str, ...]
    kind: Kind = "keys"


class AddIndex(msgspec.Struct, frozen=True):
    """An index is made that is not unique.  `name`: '' where the server chooses it.  `what`: '' for a plain one."""

    name: str
    parts: tuple[IndexPart, ...]
    what: IndexSort = ""
    kind: Kind = "indexes"


def indexing(index: PlainIndex) -> AddIndex:
    """Returns the operation that makes an index of the source's."""
    sort = "" if index.method == "btree" else index.method.upper()
    return AddIndex(index.name, index.parts, cast("IndexSort", sort))


class SetDefault(msgspec.Struct, frozen=True):
    """A column gets another default for rows to come.  `default`: None where it gets none."""

    name: str
    default: Default | None
    kind: Kind = "set_default"


class DropIndex(msgspec.Struct, frozen=True):
    """An index, a foreign key, a CHECK or whatever else bears the name goes; `what`: says which of them.  So does a
    CHECK that is not enforced any more."""

    name: str
    what: Dropped = "index"
    kind: Kind = "keys"


class RenameIndex(msgspec.Struct, frozen=True):
    """An index gets another name."""

    name: str
    to: str
    kind: Kind = "keys"


class Rowless(msgspec.Struct, frozen=True):
    """A clause that changes nothing that rows at the target depend on; `what`: in words.  `charset`, `collation`: that
    texts have from now on which are defined without their own."""

    what: str
    charset: str = ""
    collation: str = ""
    kind: Kind = "other"


class NotCarried(msgspec.Struct, frozen=True):
    """A clause that is understood, and which the target does not follow by itself; `why`: in words."""

    what: str
    why: str
    kind: Kind = "other"


Clause: TypeAlias = (
    AddColumn | AddComputed | DropColumn | RenameColumn | ChangeColumn | ConvertTexts | AddPrimaryKey | DropPrimaryKey
    | AddUnique | AddIndex | SetDefault | DropIndex | RenameIndex | Rowless | NotCarried
)  # fmt: skip
"""What one clause of ALTER TABLE does."""
OPTIONAL: Final = (AddIndex, SetDefault, Rowless)
"""Clauses that no row depends on: a target may go without them."""


class AlterTable(msgspec.Struct, frozen=True):
    """The clauses of one statement about one table, in its order."""

    table: TableName
    clauses: tuple[Clause, ...]


Operation: TypeAlias = DropTable | RenameTable | CreateTable | CreateLike | AlterTable


def reused(clauses: Sequence[Clause]) -> str:
    """Returns a column's name that one clause gives away and another one takes; '' where none is."""
    given: set[str] = set()
    taken: list[str] = []
    for clause in clauses:
        match clause:
            case DropColumn():
                given.add(clause.name.lower())
            case RenameColumn() if clause.name.lower() != clause.to.lower():
                given.add(clause.name.lower())
                taken.append(clause.to)
            case ChangeColumn() if clause.name.lower() != clause.new.name.lower():
                given.add(clause.name.lower())
                taken.append(clause.new.name)
            case AddColumn():
                taken.append(clause.new.column.name)
            case AddComputed():
                taken.append(clause.column.name)
    return next((name for name in taken if name.lower() in given), "")


def touched(clauses: Sequence[Clause]) -> set[str]:
    """Returns the columns that clauses make, change or drop, in lower case."""
    names: set[str] = set()
    for clause in clauses:
        match clause:
            case AddColumn():
                names.add(clause.new.column.name)
            case AddComputed():
                names.add(clause.column.name)
            case DropColumn() | SetDefault():
                names.add(clause.name)
            case RenameColumn():
                names |= {clause.name, clause.to}
            case ChangeColumn():
                names |= {clause.name, clause.new.name}
    return {name.lower() for name in names}
