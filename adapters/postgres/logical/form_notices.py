"""Changes of tables' forms: where they stand in the log, and from which place on the new forms hold.

- A change that a row tells stands before the transaction that shows it first, though only some readers can see it
  there.  It takes one of the ordinals that a transaction has for such notices (`NOTICES`).
- One that comes when part of its transaction is handed out, or behind rows of the same table, stands where it was met
  and takes no ordinal; it is never applied by itself.  Its form holds behind the row that showed it: a reader that
  begins at the statement meets it again.
- One that a feed made stands where the feed tells the form, and that message takes an ordinal as a row does.  So does
  one that the feed's event trigger tells, which takes one for each table (`commanded_tables`).
- One of which no row tells is in the catalogue alone.  A *look* at that is compared once the log is read up to where it
  stood then, and what differs stands between two transactions, as notices of the one that comes next.

A reader that begins anew takes forms as they hold at its place, so what is behind it is told once more and nothing else
is.  The identity of such a statement is the table and the change, wherever it is met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

import msgspec

from tidelock.adapters.ports.table_form import TableForm
from tidelock.adapters.postgres.logical.command_messages import read_command
from tidelock.adapters.postgres.logical.commanded_tables import CommandedTables
from tidelock.adapters.postgres.logical.relation_changes import Form, FormChange, as_it_was
from tidelock.adapters.postgres.logical.relations import Relations, Role
from tidelock.adapters.postgres.logical.stream_state import PlainStreamState
from tidelock.adapters.postgres.logical.table_forms import kept, read_told
from tidelock.engine.model.log_batch import SourceTransaction
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind

# Ordinals before a transaction's first row, for changes of tables' forms.
NOTICES: Final = 64


class Teller(Protocol):
    """The assembly, as whoever tells changes in its stream sees it."""

    state: PlainStreamState
    relations: Relations

    def role(self, name: TableName) -> Role: ...
    def flush(self) -> None: ...
    def emit(self, transactions: list[SourceTransaction], rows: int) -> None: ...
    def statement(self, ddl: Ddl, rows: int) -> None: ...
    def hand_out_part(self) -> None: ...


class Look(msgspec.Struct):
    """A look at the catalogue: the forms of tables there, when the log ended before `end`.

    `known`: what was known then of the tables that were asked for, by oid.
    """

    end: int
    forms: list[Form]
    known: Mapping[int, Form]


class FormNotices:
    """Tells changes of forms for an assembly, in its state.

    `learned`: forms to be kept before a checkpoint passes their places; whoever keeps them takes them out.  `look`: the
    one that is to be compared, if any.  `outrun`: a row has told of a table since the look, or of one whose columns'
    numbers are not certain: another look is made at once.  `looked`: the place behind all that the last look has shown
    that was not outrun.
    """

    def __init__(self, assembly: Teller) -> None:
        self.learned: list[TableForm] = []
        self.look: Look | None = None
        self.outrun = False
        self.looked: Position | None = None
        self._assembly = assembly

    def met(self, change: FormChange | None) -> None:
        """Tell what the first row of a table in its form, met in the open transaction, says of a change."""
        state = self._assembly.state
        rows = state.notices if change is None else self._tell(change)
        self._keep(Position(state.file, state.boundary, rows))
        relations = self._assembly.relations
        self.outrun = self.outrun or relations.is_unsure
        relations.is_unsure = False

    def emptied(self, oids: Iterable[int]) -> None:
        """Take that a TRUNCATE of the open transaction has emptied tables."""
        state = self._assembly.state
        for oid in oids:
            self._assembly.relations.written_anew(oid)
        self._keep(Position(state.file, state.boundary, state.ordinal))

    def told(self, content: bytes) -> None:
        """Take the form that a message of the open transaction tells.  What a feed has brought is told in any case: a
        table may be new, or have been so before.  Raises UnsuitableLog, and what the catalogue raises."""
        message = read_told(content)

        def ddl() -> Ddl | None:
            if self._assembly.role(message.form.name) is not Role.WANTED:
                return None
            change = self._assembly.relations.looked_at(message.form)
            if change is None and not message.path:
                return None
            change = change if change is not None else as_it_was(message.form)
            return msgspec.structs.replace(self._ddl(change), path=message.path)

        self._in_place(ddl)

    def commanded(self, content: bytes, lsn: int) -> None:
        """Take what a message of the feed's event trigger says of a command of the open transaction, each table in its
        turn.  Raises UnsuitableLog, and what the catalogue raises."""
        tables = CommandedTables(self._assembly.relations, self._assembly.role, read_command(content))
        for change in tables.changes():

            def ddl(change: Callable[[], FormChange | None] = change) -> Ddl | None:
                found = change()
                return None if found is None else self._ddl(msgspec.structs.replace(found, number=lsn))

            self._in_place(ddl)

    def _in_place(self, find: Callable[[], Ddl | None]) -> None:
        """Take something that a message tells: it takes an ordinal, as a row does, and a statement that it tells stands
        there."""
        assembly, state = self._assembly, self._assembly.state
        taken = state.ordinal
        state.ordinal += 1
        if taken < state.skip:
            return
        ddl = find()
        if ddl is not None:
            if state.rows or state.marks:
                state.ordinal = taken
                assembly.hand_out_part()
                state.ordinal = taken + 1
            assembly.statement(ddl, state.ordinal)
            state.parted = True
        self._keep(Position(state.file, state.boundary, state.ordinal))

    @property
    def due(self) -> bool:
        """Is the log read up to the look, so that it is to be compared where the open transaction ends?"""
        return self.look is not None and self._assembly.state.boundary >= self.look.end

    def settle(self) -> bool:
        """Compare the look, where the log is read up to it and no transaction is open.  Returns whether another one is
        needed."""
        look, state = self.look, self._assembly.state
        if look is None or state.is_open or state.boundary < look.end:
            return self.outrun and look is None
        while look.forms and state.skip < NOTICES - 1:
            self._between(self._seen(look, look.forms.pop(0)))
        while not look.forms and look.known and state.skip < NOTICES - 1:
            self._between(self._missed(look))
        if not look.forms and not look.known:
            self.look = None
            self.looked = self.looked if self.outrun else Position(state.file, state.boundary, state.skip)
        return self.outrun and self.look is None

    # -- what a look shows ---------------------------------------------------------------------------------------

    def _seen(self, look: Look, form: Form) -> FormChange | None:
        """Compare a form of the look with what is known, unless that was learned since."""
        relations, role = self._assembly.relations, self._assembly.role
        was = look.known.get(form.oid)
        look.known = {oid: known for oid, known in look.known.items() if oid != form.oid}
        if relations.forms.get(form.oid) is not was:
            self.outrun = True
            return None
        if role(form.name) is Role.WANTED:
            return relations.left_out(form) or relations.looked_at(form)
        return relations.lost(was, form.name) if was is not None and role(was.name) is Role.WANTED else None

    def _missed(self, look: Look) -> FormChange | None:
        """Take a table that was known and that the look has not."""
        relations = self._assembly.relations
        oid, was = next(iter(look.known.items()))
        look.known = {other: known for other, known in look.known.items() if other != oid}
        if relations.forms.get(oid) is not was or self._assembly.role(was.name) is not Role.WANTED:
            return None
        return relations.lost(was, None)

    def _between(self, change: FormChange | None) -> None:
        """Have a change stand behind the last transaction, and before whatever comes."""
        assembly, state = self._assembly, self._assembly.state
        if change is not None:
            assembly.flush()
            state.skip += 1
            told = SourceTransaction(
                state.source, state.last_number, state.file, state.boundary, [], complete=False, ddl=self._ddl(change)
            )
            assembly.emit([told], state.skip)
        self._keep(Position(state.file, state.boundary, state.skip))

    # -- what a row shows ----------------------------------------------------------------------------------------

    def _tell(self, change: FormChange) -> int:
        """Have a change stand before the open transaction, or where that cannot be, at this place.  Returns the number
        of ordinals behind which its form holds."""
        assembly, state = self._assembly, self._assembly.state
        number = assembly.relations.number_before(change.oid)
        behind_rows = any(row.table == number for row in state.rows)
        if state.parted or state.skip >= NOTICES or behind_rows or state.notices == NOTICES:
            self._tell_in_place(self._ddl(change))
            return state.ordinal + 1
        state.notices += 1
        rows, state.rows = state.rows, []
        marks, state.marks = state.marks, []
        octets, state.octets = state.octets, 0
        assembly.flush()
        ordinal, state.ordinal = state.ordinal, state.notices
        assembly.statement(self._ddl(change), state.notices)
        state.rows, state.marks, state.octets, state.ordinal = rows, marks, octets, ordinal
        return state.notices

    def _tell_in_place(self, ddl: Ddl) -> None:
        assembly, state = self._assembly, self._assembly.state
        if ddl.kind is not DdlKind.OTHER:
            words = f"{ddl.statement}, inside a transaction of which rows were taken before"
            ddl = msgspec.structs.replace(ddl, kind=DdlKind.OTHER, statement=words, added=(), told=None)
        if state.rows or state.marks:
            assembly.hand_out_part()
        assembly.statement(ddl, state.ordinal)
        state.parted = True

    def _ddl(self, change: FormChange) -> Ddl:
        source = f"{self._assembly.state.source}:{change.oid}"
        return Ddl(
            "",
            change.statement,
            source,
            change.number,
            change.kind,
            change.tables,
            added=change.added,
            untold=change.untold,
            told=change.told,
        )

    def _keep(self, place: Position) -> None:
        learned = self._assembly.relations.learned
        for oid, (name, form) in learned.items():
            self.learned.append(kept(form, place) if form is not None else TableForm(oid, name, place, ""))
        learned.clear()
