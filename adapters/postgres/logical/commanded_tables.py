"""The tables that a command's message is about, in turn: those that are gone, then the forms of those that changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from msgspec.structs import replace

from tidelock.adapters.postgres.logical.command_messages import Command, CommandForm, DroppedObject
from tidelock.adapters.postgres.logical.commanded import commanded, created, foreign, without_index, without_partition
from tidelock.adapters.postgres.logical.relation_changes import Form, FormChange
from tidelock.adapters.postgres.logical.relations import Relations, Role
from tidelock.engine.model.records import TableName


class CommandedTables:
    """Compares what a message says with what is known of the feed's tables."""

    def __init__(self, relations: Relations, role: Callable[[TableName], Role], command: Command) -> None:
        self._relations, self._role, self._command = relations, role, command

    def changes(self) -> Iterator[Callable[[], FormChange | None]]:
        """Yields what takes one part of the message and returns the change that it tells; as many of a message at each
        time that it is read."""
        for dropped in self._command.dropped:
            yield partial(self._table_gone if dropped.type == "table" else self._index_gone, dropped)
        for one in self._command.forms:
            yield partial(self._formed, one)

    def _is_wanted(self, name: TableName) -> bool:
        return self._role(name) is Role.WANTED

    def _table_gone(self, dropped: DroppedObject) -> FormChange | None:
        known = self._relations.known(dropped.oid)
        if known is not None and self._is_wanted(known.name):
            return self._relations.lost(known, None)
        for form in [*self._relations.forms.values()]:
            facts = form.facts
            if facts is not None and any(one.oid == dropped.oid for one in facts.partitions):
                return self._compared(form, without_partition(form, dropped.oid))
        return None

    def _index_gone(self, dropped: DroppedObject) -> FormChange | None:
        for form in [*self._relations.forms.values()]:
            uniques = form.facts.uniques if form.facts is not None else ()
            if form.name.schema == dropped.schema and any(one.name == dropped.name for one in uniques):
                return self._compared(form, without_index(form, dropped.name))
        return None

    def _formed(self, one: CommandForm) -> FormChange | None:
        form, relations = replace(one.form, told=True), self._relations
        known = relations.known(form.oid)
        if not self._is_wanted(form.name):
            return relations.lost(known, form.name) if known is not None and self._is_wanted(known.name) else None
        if known is not None and all(column.number for column in known.columns):
            return self._compared(known, form)
        tag = self._command.tag_of_new(form.oid)
        if relations.known(form.oid, form.name) is not None:
            return relations.looked_at(form)
        knows_others = bool(relations.forms)  # else an earlier version kept none, and this table may be the feed's
        relations.take(form)
        if tag:
            return created(form, relations.columns(form), tag)
        return foreign(form) if knows_others or not one.published else None

    def _compared(self, known: Form, form: Form) -> FormChange | None:
        columns = self._relations.columns(known), self._relations.columns(form)
        change = commanded(known, form, columns, self._command)
        if change is not None or form != known:
            self._relations.take(form)
        return change
