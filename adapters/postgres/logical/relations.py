"""The tables of a stream: their columns by the oid that rows name, and notices of DDL.

A server tells a table's columns before its first row in a connection, and again after anything about the table may have
changed.  What it told is thrown away with the connection (`Relations` is made anew for each); the *forms* of tables
are kept over it, and over the reader's life (`adapters.ports.table_form`), only to be compared with what is told next:
a message that differs from the last one of the same oid is the one notice of DDL that the log gives
(`relation_changes`).  A change of which no row tells is noticed by the catalogue, once the log is read up to where that
stood (`looked_at`).

After each relation message the catalogue is asked anew: REPLICA IDENTITY FULL flags every column as key, so the primary
key is not in the message, and neither is what a type is.  It is asked when the first row comes: a server also tells of
partitions, whose rows then come as their table's.  Rows of tables that nobody wants are counted, and cost no query.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from tidelock.adapters.postgres.column_types import PostgresType, column_of
from tidelock.adapters.postgres.logical.damage import DamagedMessage
from tidelock.adapters.postgres.logical.form_facts import ColumnState
from tidelock.adapters.postgres.logical.messages import Relation, Type
from tidelock.adapters.postgres.logical.published_places import as_placed, left_out
from tidelock.adapters.postgres.logical.relation_catalogue import RelationCatalogue
from tidelock.adapters.postgres.logical.relation_changes import (
    Form,
    FormChange,
    FormColumn,
    changed,
    removed,
)
from tidelock.adapters.postgres.logical.row_reader import RowReader
from tidelock.adapters.postgres.logical.told_relation import form_of, shape_of, shows_gaps, told_as
from tidelock.adapters.postgres.logical.untold_rows import renewed, untold
from tidelock.engine.model.records import Column, Kind, Shape, TableName

Catalogue: TypeAlias = Callable[[int, Sequence[int]], RelationCatalogue]
"""Facts of a table, by its oid, and of these types: `functools.partial(read_relation, ask)`."""


class Role(enum.Enum):
    """MARKER: `tidelock_progress`, whose inserted rows tell that a transaction was replicated (design 6)."""

    WANTED = enum.auto()
    MARKER = enum.auto()
    UNWANTED = enum.auto()


class KnownTable:
    """A table as the last relation message of its oid has it.  `number`: of its shape in the stream; -1 where it is not
    wanted.  `shows_gaps`: as in `told_relation`."""

    __slots__ = ("name", "number", "oid", "reader", "role", "shape", "shows_gaps")

    def __init__(
        self,
        oid: int,
        name: TableName,
        role: Role,
        number: int = -1,
        shape: Shape | None = None,
        shows_gaps: bool = False,
    ) -> None:
        self.oid = oid
        self.name = name
        self.role = role
        self.number = number
        self.shape = shape
        self.shows_gaps = shows_gaps
        self.reader = RowReader(number, shape, shows_gaps) if shape is not None else None


class Relations:
    """The tables of one connection.

    `catalogue`: may ask the server, on another connection.  `former`: forms that an earlier connection left (`forms`).
    `tables`: by oid, of those of which rows may come; `resolve` adds one that was told of and had no row yet.
    `learned`: forms that differ from those that were known, by oid, with the table's name; None: that table is gone.
    Whoever keeps them takes them out.  `is_unsure`: numbers of columns that a row has told of are not certain, so that
    a look is needed; whoever has that done clears it.
    """

    def __init__(self, catalogue: Catalogue, former: Mapping[int, Form] = {}) -> None:
        self.tables: dict[int, KnownTable] = {}
        self.learned: dict[int, tuple[TableName, Form | None]] = {}
        self.is_unsure = False
        self._catalogue = catalogue
        self._forms = dict(former)
        self._oids = {form.name: oid for oid, form in former.items()}
        self._files: dict[int, int] = {}  # those that rows have told of since a form was learned
        self._types: dict[int, Type] = {}
        self._told: dict[int, Relation] = {}  # and no row of it has come
        self._known: dict[int, KnownTable] = {}  # before they were told of again
        self._unannounced: dict[int, Shape] = {}
        self._numbered = 0

    @property
    def forms(self) -> Mapping[int, Form]:
        """Forms of all wanted tables that are known, by oid: to be told to the `Relations` of the next connection."""
        return self._forms

    def announce(self) -> dict[int, Shape]:
        """Returns the shapes numbered since the last call."""
        shapes, self._unannounced = self._unannounced, {}
        return shapes

    def name_type(self, type_: Type) -> None:
        """Note the name of a type; it stands before the relation that uses it, and serves where the catalogue has the
        type no more."""
        self._types[type_.oid] = type_

    def tell(self, relation: Relation) -> None:
        """Note a relation message: what was known of the table holds no more."""
        self._told[relation.oid] = relation
        if (known := self.tables.pop(relation.oid, None)) is not None:
            self._known[relation.oid] = known

    def number_before(self, oid: int) -> int | None:
        """Returns the number that the table's shape had before it was told of again."""
        known = self._known.get(oid)
        return known.number if known is not None else None

    def name_of(self, oid: int) -> TableName:
        """Returns the name that a table was told of by.  Raises DamagedMessage for one that was not."""
        if (known := self.tables.get(oid)) is not None:
            return known.name
        told = self._last(oid)
        return TableName(told.schema, told.name)

    def _last(self, oid: int) -> Relation:
        told = self._told.get(oid)
        if told is None:
            raise DamagedMessage("a row comes of a table that was not told before")
        return told

    def resolve(
        self, oid: int, role_of: Callable[[TableName], Role], *, emptied: bool = False
    ) -> FormChange | None:
        """Make the table known of which a row comes.  Returns what the last relation message says of a change of it.
        `emptied`: it is a TRUNCATE that comes, so what old rows have says nothing.

        Raises DamagedMessage for a table that was not told of, UnsuitableLog, and what the catalogue raises.
        """
        relation = self._last(oid)
        del self._told[oid]
        name = TableName(relation.schema, relation.name)
        role, former = role_of(name), self._forms.get(relation.oid)
        if role is Role.UNWANTED:
            self.tables[relation.oid] = KnownTable(relation.oid, name, role)
            return self.lost(former, name) if former is not None and role_of(former.name) is Role.WANTED else None
        facts = self._catalogue(relation.oid, [column.type for column in relation.columns])
        types = self._all_types(relation, facts)
        if former is not None and role is Role.WANTED and told_as(relation, former):
            facts = replace(facts, primary_key=former.primary_key)
            shape = shape_of(relation, name, facts, types)
            self._note(relation.oid, role, shape, shows_gaps(shape, facts))
            return None
        last = former or self._named(name)
        form, certain = form_of(relation, name, facts, types, last, self._file_of(last))
        shape = shape_of(relation, name, facts, types)
        self._note(relation.oid, role, shape, shows_gaps(shape, facts))
        if role is not Role.WANTED:
            return None
        self.is_unsure = self.is_unsure or not certain
        change = self._compared(form, facts, shape.columns, certain=certain, emptied=emptied)
        if change is not None and change.untold:
            self.written_anew(form.oid)
        return change

    def left_out(self, form: Form) -> FormChange | None:
        """Take the place in the publication that a look has of a wanted table.  Returns the change that some of its
        changes may not be in the log; what else was changed, `looked_at` tells."""
        known = self._forms.get(form.oid)
        if known is None or not form.published:
            return None
        placed = as_placed(known, form.published, form.attributes)
        if placed == known:
            return None
        self.take(placed)
        return left_out(known, form)

    def looked_at(self, form: Form) -> FormChange | None:
        """Take the form that the catalogue has of a wanted table, where the log is read up to that moment.  Returns the
        change of which no row has told.  Raises what the catalogue raises."""
        known = self._forms.get(form.oid) or self._named(form.name)
        if known is None:
            return self._compared(form, RelationCatalogue(), ())
        if known.oid == form.oid and (change := untold(known, form)) is not None:
            self.take(form)
            return change
        if known.parts == form.parts:
            other = (known.told, known.ever, known.file) != (form.told, form.ever, form.file)
            was, seen = known.facts, form.facts
            other = other or was is None or (form.told and was != seen)
            if other or (was is not None and seen is not None and renewed(was, seen)):
                self.take(form)
            return None
        facts = self._catalogue(form.oid, [column.type for column in form.columns])
        return self._compared(form, facts, list(self._columns(form.columns, facts).values()))

    def known(self, oid: int, name: TableName | None = None) -> Form | None:
        """Returns the form of a table, by its oid, or of the one that had its name last."""
        found = self._forms.get(oid)
        return found if found is not None or name is None else self._named(name)

    def take(self, form: Form) -> None:
        """Take a form that the log tells, whatever was known."""
        former = self._forms.get(form.oid)
        if former is not None:
            self._forget(former)
            self._rename(former, form)
            form = _as_published(form, former)
        self._forms[form.oid] = form
        self._oids[form.name] = form.oid
        self.learned[form.oid] = (form.name, form)

    def _rename(self, former: Form, form: Form) -> None:
        """Have rows come under the name that a table has now.  The server tells it anew of a table that got another
        name, and not of those in a schema that did."""
        told, known = self._told.get(form.oid), self.tables.get(form.oid)
        if former.name == form.name:
            return
        if told is not None and TableName(told.schema, told.name) == former.name:
            self._told[form.oid] = told._replace(schema=form.name.schema, name=form.name.table)
        if known is not None and known.shape is not None and known.name == former.name:
            self._known[form.oid] = known
            self._note(form.oid, known.role, replace(known.shape, name=form.name), known.shows_gaps)

    def written_anew(self, oid: int) -> None:
        """Take that a table has other files, of which the log tells by a TRUNCATE, or a change that halts: what they
        are the next look shows."""
        form = self._forms.get(oid)
        if form is not None and form.facts is not None:
            partitions = tuple(replace(one, file=0) for one in form.facts.partitions)
            self.take(replace(form, facts=replace(form.facts, partitions=partitions, file=0)))

    def doubt(self) -> None:
        """Take no form as told any more: nobody tells the changes of tables now."""
        self._forms = {oid: replace(form, told=False) if form.told else form for oid, form in self._forms.items()}

    def columns(self, form: Form) -> dict[int, Column]:
        """Returns the columns of a form by their numbers, with those that the server computes.  Raises what the
        catalogue raises."""
        columns = form.columns if form.facts is None else form.facts.columns
        return self._columns(columns, self._catalogue(form.oid, [column.type for column in columns]))

    def _columns(
        self, columns: Sequence[FormColumn | ColumnState], facts: RelationCatalogue
    ) -> dict[int, Column]:
        """Returns columns by their numbers; of a type that was dropped since, no more than its name is known."""
        return {
            one.number: column_of(one.name, facts.types[one.type], one.modifier)
            if one.type in facts.types
            else Column(one.name, Kind.OTHER, type=one.spelled)
            for one in columns
        }

    def lost(self, former: Form, name: TableName | None) -> FormChange:
        """Take that a table is not there any more, or has a `name` by which it is not wanted."""
        self._forget(former)
        return removed(former, name)

    def _note(self, oid: int, role: Role, shape: Shape, shows_gaps: bool) -> None:
        known = self._known.get(oid)
        if known is None or (known.shape, known.role, known.shows_gaps) != (shape, role, shows_gaps):
            known = KnownTable(oid, shape.name, role, self._numbered, shape, shows_gaps)
            self._unannounced[self._numbered] = shape
            self._numbered += 1
        self.tables[oid] = known

    def _named(self, name: TableName) -> Form | None:
        """The form of the table that had this name last."""
        return self._forms.get(self._oids.get(name, 0))

    def _compared(
        self,
        form: Form,
        facts: RelationCatalogue,
        columns: Sequence[Column],
        *,
        certain: bool = True,
        emptied: bool = False,
    ) -> FormChange | None:
        """Note the form.  Returns how it differs from the last one of this oid, or of this name.  `certain`: the
        numbers of its columns are what they were at its place."""
        former = self._forms.get(form.oid) or self._named(form.name)
        if former is not None and former.parts == form.parts:
            if form.ever:
                self._files[form.oid] = form.file
            return None
        was = self._file_of(former)
        file = was if emptied else facts.file
        if former is not None:
            self._forget(former)
            self._rename(former, form)
            form = _as_published(form, former)
        self._forms[form.oid] = form
        self._oids[form.name] = form.oid
        self.learned[form.oid] = (form.name, form)
        if former is None:
            return None
        certain = certain and former.ever > 0 and _is_numbered(former)
        return changed(former, form, facts.columns, columns, certain=certain, rewritten=file != was)

    def _file_of(self, former: Form | None) -> int:
        """Returns the last file that the rows of a table were in before it got another column."""
        return self._files.get(former.oid, former.file) if former is not None else 0

    def _forget(self, former: Form) -> None:
        del self._forms[former.oid]
        self._files.pop(former.oid, None)
        self.learned[former.oid] = (former.name, None)
        if self._oids.get(former.name) == former.oid:
            del self._oids[former.name]

    def _all_types(self, relation: Relation, facts: RelationCatalogue) -> dict[int, PostgresType]:
        """Types of the columns; one that was dropped since has the name that the stream told, or none."""
        found = dict(facts.types)
        for column in relation.columns:
            if column.type not in found:
                told = self._types.get(column.type)
                schema, name = (told.schema, told.name) if told is not None else ("", f"dropped type {column.type}")
                found[column.type] = PostgresType(column.type, schema, name)
        return found


def _as_published(form: Form, former: Form) -> Form:
    """Returns a form that does not tell its place in the publication with what was known of that."""
    known = form.published or form.oid != former.oid
    return form if known else as_placed(form, former.published, former.attributes)


def _is_numbered(form: Form) -> bool:
    return all(column.number for column in form.columns)
