"""Makes the lines of `docs/reference/schema-changes.md` about what event triggers of a PostgreSQL source tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.postgres.logical.command_messages import Command
from tidelock.adapters.postgres.logical.commanded import commanded, created
from tidelock.adapters.postgres.logical.form_facts import ColumnState, FormFacts, Partition, UniqueIndex
from tidelock.adapters.postgres.logical.relation_changes import Form, FormChange, FormColumn, removed
from tidelock.adapters.reference.change_outcomes import PASSED, outcomes
from tidelock.engine.model.records import Column, Kind, TableName
from tidelock.engine.model.schema import TargetColumn, TargetTable, UniqueKey

_TYPES: Final[Mapping[str, tuple[int, Column]]] = {
    "integer": (23, Column("", Kind.INT, length=4, type="integer")),
    "bigint": (20, Column("", Kind.INT, length=8, type="bigint")),
    "character varying(9)": (1043, Column("", Kind.TEXT, length=9, type="character varying(9)")),
    "character varying(20)": (1043, Column("", Kind.TEXT, length=20, type="character varying(20)")),
    "character varying(5)": (1043, Column("", Kind.TEXT, length=5, type="character varying(5)")),
    "double precision": (701, Column("", Kind.DOUBLE, type="double precision")),
}
_NAME: Final = TableName("public", "t")
_T: Final = ("id integer", "a integer", "b character varying(9)")
_KEY: Final = UniqueIndex("t_pkey", (1,), primary=True)
_BY_A: Final = UniqueIndex("by_a", (2,))
_PLAIN: Final = Command(1, "ALTER TABLE", plain=True)
_USING: Final = Command(1, "ALTER TABLE", rewritten=(1,))


def _form(*columns: str, uniques: tuple[UniqueIndex, ...] = (_KEY, _BY_A), loose: str = "", has_default: str = "",
          fill: str | None = None, name: TableName = _NAME, partitions: tuple[Partition, ...] = ()) -> Form:
    """Returns a form of columns as `name type`, or `number name type` behind a drop.  `loose`: that may be NULL."""
    states = []
    for place, text in enumerate(columns, 1):
        number, _, rest = text.partition(" ") if text[0].isdigit() else (str(place), "", text)
        column, _, type_ = rest.partition(" ")
        oid, made = _TYPES[type_]
        is_new = column == has_default
        states.append(
            ColumnState(int(number), column, oid, made.length, type_, column in ("b", loose) or is_new, is_new,
                        fill if is_new else None)
        )
    key = next((one.columns for one in uniques if one.primary), ())
    return Form(
        1,
        name,
        tuple(FormColumn(one.name, one.type, one.modifier, one.spelled, one.number) for one in states),
        tuple(one.name for one in states if one.number in key),
        facts=FormFacts(tuple(states), uniques, partitions),
        told=True,
    )


_BEFORE: Final = _form(*_T)
_PARTS: Final = _form(*_T, partitions=(Partition(7, empty=False),))
_CASES: Final[tuple[tuple[str, Form | None, Form | None, Command], ...]] = (
    ("CREATE TABLE", None, _BEFORE, Command(1, "CREATE TABLE")),
    ("CREATE TABLE AS, SELECT INTO", None, _BEFORE, Command(1, "CREATE TABLE AS")),
    ("DROP TABLE, also by DROP SCHEMA … CASCADE", _BEFORE, None, _PLAIN),
    ("ALTER TABLE … RENAME TO, SET SCHEMA; ALTER SCHEMA … RENAME", _BEFORE,
     _form(*_T, name=TableName("public", "n")), _PLAIN),
    ("ADD COLUMN, which may be NULL", _BEFORE, _form(*_T, "d integer", loose="d"), _PLAIN),
    ("ADD COLUMN with a default that is computed once", _BEFORE,
     _form(*_T, "d integer", has_default="d", fill="5"), _PLAIN),
    ("ADD COLUMN with a default of each row's own", _BEFORE, _form(*_T, "d integer", has_default="d"), _PLAIN),
    ("DROP COLUMN", _BEFORE, _form("id integer", "a integer"), _PLAIN),
    ("DROP COLUMN and ADD COLUMN of one name in one ALTER TABLE", _BEFORE, _form(*_T[:2], "4 b integer"), _PLAIN),
    ("RENAME COLUMN, also in an exchange of names", _BEFORE, _form(*_T[:2], "d character varying(9)"), _PLAIN),
    ("ALTER COLUMN … TYPE: integer to bigint", _BEFORE, _form("id integer", "a bigint", _T[2]), _PLAIN),
    ("… varchar(9) to varchar(20)", _BEFORE, _form(*_T[:2], "b character varying(20)"), _PLAIN),
    ("… varchar(9) to varchar(5)", _BEFORE, _form(*_T[:2], "b character varying(5)"), _PLAIN),
    ("… integer to double precision", _BEFORE, _form("id integer", "a double precision", _T[2]), _PLAIN),
    ("… USING, or in a function or beside others in one text, where rows are written anew", _BEFORE,
     _form("id integer", "a bigint", _T[2]), _USING),
    ("another primary key", _BEFORE, _form(*_T, uniques=(replace(_KEY, columns=(1, 2)), _BY_A)), _PLAIN),
    ("DROP CONSTRAINT of the primary key", _BEFORE, _form(*_T, uniques=(_BY_A,)), _PLAIN),
    ("ADD UNIQUE, CREATE UNIQUE INDEX", _BEFORE, _form(*_T, uniques=(_KEY, _BY_A, UniqueIndex("by_b", (3,)))), _PLAIN),
    ("… over an expression, partial, deferrable", _BEFORE,
     _form(*_T, uniques=(_KEY, _BY_A, UniqueIndex("by_b", (3,), plain=False))), _PLAIN),
    ("DROP INDEX, DROP CONSTRAINT of a unique key", _BEFORE, _form(*_T, uniques=(_KEY,)), _PLAIN),
    ("RENAME CONSTRAINT, ALTER INDEX … RENAME", _BEFORE, _form(*_T, uniques=(_KEY, replace(_BY_A, name="u"))), _PLAIN),
    ("DROP NOT NULL", _BEFORE, _form(*_T, loose="a"), _PLAIN),
    ("SET NOT NULL, CHECK, DEFAULT, plain indexes, foreign keys, comments", _BEFORE, _BEFORE, _PLAIN),
    ("ATTACH PARTITION, which has rows", _BEFORE, _PARTS, _PLAIN),
    ("ATTACH PARTITION, which is empty; CREATE TABLE … PARTITION OF", _BEFORE,
     _form(*_T, partitions=(Partition(7, empty=True),)), _PLAIN),
    ("DETACH PARTITION, DROP of a partition", _PARTS, _BEFORE, _PLAIN),
)  # fmt: skip


def told_lines() -> list[tuple[str, str, str, str]]:
    """Returns (change, outcome at PostgreSQL, at MySQL and MariaDB, why it halts)."""
    found = ((name, _change(before, after, command)) for name, before, after, command in _CASES)
    return [(name, *(PASSED if change is None else outcomes(change, _target))) for name, change in found]


def _columns(form: Form) -> dict[int, Column]:
    states = form.facts.columns if form.facts is not None else ()
    return {one.number: replace(_TYPES[one.spelled][1], name=one.name) for one in states}


def _change(before: Form | None, after: Form | None, command: Command) -> FormChange | None:
    if after is None:
        return removed(_BEFORE, None)
    if before is None:
        return created(after, _columns(after), command.tag)
    return commanded(before, after, (_columns(before), _columns(after)), command)


def _target(dialect: Dialect) -> TargetTable:
    types = {"integer": "int", "character varying(9)": "varchar(9)"} if dialect == "mysql" else {}
    columns = tuple(
        TargetColumn(one.name, types.get(one.spelled, one.spelled), one.name == "b") for one in _BEFORE.columns
    )
    key = UniqueKey("PRIMARY" if dialect == "mysql" else "t_pkey", ("id",))
    other = UniqueKey("by_a" if dialect == "mysql" else "t_by_a", ("a",))
    return TargetTable(_NAME, columns, ("id",), (key, other))
