"""Steps that look at the modelled target's rows before they change them, as a target's statements do it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelock.engine.model.errors import DIFFERS
from tidelock.engine.model.records import UNKNOWN, Row, TableName, Value
from tidelock.engine.model.schema import Binding, Equality
from tidelock.engine.protocol.steps import DeleteRows, Step, UpdateRows, UpsertRows
from tidelock.simulations.layout import Token, comparable
from tidelock.simulations.model import Table, Violation

if TYPE_CHECKING:
    from tidelock.simulations.session import Session


def look_and_write(session: Session, step: Step) -> None:
    """Raises Violation."""
    if isinstance(step, DeleteRows) and step.absent:
        table = session.table(step.table.name)
        for key in step.keys:
            if (slot := session.find(table, step.table, key)) is not None:
                raise Violation(f"{step.table.name} {key}: {DIFFERS}: {table.rows[slot]}")
        return
    if isinstance(step, DeleteRows):
        for key, before in zip(step.keys, step.befores or (), strict=True):
            if step.version >= 0:
                _delete_not_newer(session, step.table, before, step.version)
            else:
                _delete_as_before(session, step.table, key, before)
        return
    if isinstance(step, UpsertRows) and step.blind:
        _write_blindly(session, step)
        return
    befores = None if isinstance(step, UpsertRows) else step.befores
    for n, row in enumerate(step.rows):
        if step.replaces:
            _drop_holders(session, step.table, row)
        was = None if befores is None else befores[n]
        if step.version >= 0:
            _write_newer(session, step.table, was, row, step.version)
        elif isinstance(step, UpsertRows):
            _insert_into_nothing(session, step, row)
        else:
            _update_as_before(session, step, step.keys[n], was, row)


def same(old: Value, new: Value) -> bool:
    """Is the target's value what the log has?  NULL is as NULL."""
    return bool(old == new)


def newer(new: Value, old: Value) -> bool:
    """May a row with this version overwrite one with that?"""
    return bool(new > old)


def _is_as_before(table: Table, binding: Binding, slot: Token, before: Row) -> bool:
    cascading = {name for key in binding.target.foreign_keys if key.cascades for name in key.columns}
    row, layout = table.rows[slot], table.layout
    for at, (column, value) in enumerate(zip(binding.columns, before, strict=True)):
        if column is None or at in binding.key or column.name in cascading:
            continue
        old = row[table.at[column.name]]
        if layout.equality[column.name] is Equality.NUMBER and old is not None and value is not None:
            old, value = (comparable(number, Equality.NUMBER) for number in (old, value))
        if not same(old, value):
            return False
    return True


def _need_as_before(session: Session, binding: Binding, key: Row, before: Row) -> Token | None:
    """The row's slot; None where it is gone, as a foreign key may have done it."""
    table = session.table(binding.name)
    slot = session.find(table, binding, key)
    if slot is None and any(fk.cascades for fk in binding.target.foreign_keys):
        return None
    if slot is None or not _is_as_before(table, binding, slot, before):
        found = "there is no row" if slot is None else table.rows[slot]
        raise Violation(f"{binding.name} {before}: {DIFFERS}: {found}")
    return slot


def _delete_as_before(session: Session, binding: Binding, key: Row, before: Row) -> None:
    slot = _need_as_before(session, binding, key, before)
    if slot is not None:
        session.delete(binding.name, slot)


def _update_as_before(session: Session, step: UpdateRows, key: Row, before: Row | None, row: Row) -> None:
    if before is not None and _need_as_before(session, step.table, key, before) is None:
        raise Violation(f"{step.table.name} {before}: {DIFFERS}: there is no row")
    session.update_row(step.table, key, row, moves=step.moves)


def _insert_into_nothing(session: Session, step: UpsertRows, row: Row) -> None:
    table = session.table(step.table.name)
    slot = session.find(table, step.table, step.table.key_of(row))
    if step.absent and slot is not None:
        raise Violation(f"{step.table.name} {row}: {DIFFERS}: {table.rows[slot]}")
    session.upsert_row(step.table, row)


# ---------------------------------------------------------------------- version


def _delete_not_newer(session: Session, binding: Binding, before: Row, version: int) -> None:
    table = session.table(binding.name)
    slot = session.find(table, binding, binding.key_of(before))
    if slot is not None and not newer(_version(table, binding, slot, version), before[version]):
        session.delete(binding.name, slot)


def _write_newer(session: Session, binding: Binding, before: Row | None, row: Row, version: int) -> None:
    if row[version] is None:
        raise Violation(f"{binding.name} {row}: NULL is no version")
    table, key = session.table(binding.name), binding.key_of(row)
    if before is not None and binding.key_of(before) != key:
        old = session.find(table, binding, binding.key_of(before))
        taken = session.find(table, binding, key) is not None
        if old is not None and not taken and newer(row[version], _version(table, binding, old, version)):
            session.update_row(binding, binding.key_of(before), row, moves=True)
        _delete_not_newer(session, binding, before, version)
    slot = session.find(table, binding, key)
    if slot is None or newer(row[version], _version(table, binding, slot, version)):
        session.update_row(binding, key, row, moves=True)


def _version(table: Table, binding: Binding, slot: Token, version: int) -> Value:
    return table.rows[slot][table.at[binding.shape.columns[version].name]]


# ---------------------------------------------------------------------- blind


def _write_blindly(session: Session, step: UpsertRows) -> None:
    """Write rows over what is there; where others may have to make room, that is noted, and those come last that want
    what is held."""
    rows = step.rows
    if len(step.displaces) > 1:
        rows = sorted(rows, key=lambda row: bool(_holders(session, step.table, row)))
    for row in rows:
        if step.displaces:
            session.displaced += _drop_holders(session, step.table, row)
        session.update_row(step.table, step.table.key_of(row), _overwriting(session, step, row), moves=True)


def _overwriting(session: Session, step: UpsertRows, row: Row) -> Row:
    """Returns what is written of a row: whole, where it is not there or all columns are."""
    binding = step.table
    there = session.find(session.table(binding.name), binding, binding.key_of(row)) is not None
    if not step.columns or not there:
        return row
    return tuple(value if at in step.columns or at in binding.key else UNKNOWN for at, value in enumerate(row))


# ---------------------------------------------------------------------- replace


def _drop_holders(session: Session, binding: Binding, row: Row) -> list[tuple[TableName, Row]]:
    """Delete the rows of other keys that hold a unique value of this one, and return them."""
    table = session.table(binding.name)
    slots = _holders(session, binding, row)
    gone = [(binding.name, table.rows[slot]) for slot in slots]
    for slot in slots:
        session.delete(binding.name, slot)
    return gone


def _holders(session: Session, binding: Binding, row: Row) -> list[Token]:
    """Returns the rows of other keys that hold a unique value of this one."""
    table = session.table(binding.name)
    own = session.find(table, binding, binding.key_of(row))
    whole = session.bind(table, binding, row, None)
    slots: dict[Token, None] = {}
    for index, (_, read) in zip(table.indexes, table.layout.uniques, strict=True):
        value = read(whole)
        if value is not None and (slot := index.get(value)) is not None and slot != own:
            slots[slot] = None
    return list(slots)
