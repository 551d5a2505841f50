"""Names of the columns of rows in a log that has none (`binlog_row_metadata` MINIMAL or NO_LOG).

What is known of a table at the place of its row names the row's columns (`table_history`).  Where it is not known, the
catalogue is looked at, and the log read ahead up to the place of that look (`statements_ahead`): where no statement in
between may change the table, it was then as it is at the row.  The same look confirms what is known, whenever the log
has another number for a table, as behind each change of it: so a change that no statement in the log tells is met.  A
form that does not agree with the row, column by column, names nothing (`known_columns`): the feed halts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tidelock.adapters.mysql.binlog.known_columns import Named, difference, is_whole, named
from tidelock.adapters.mysql.binlog.statements_ahead import StatementsAhead
from tidelock.adapters.mysql.binlog.table_history import TableHistory
from tidelock.adapters.mysql.binlog.table_look import Look, TableLook
from tidelock.adapters.mysql.binlog.table_map import TableMap
from tidelock.adapters.ports.source_errors import Unreachable, UnsuitableLog
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema_change import FormerTable

FULL: Final = f"SET GLOBAL binlog_row_metadata=FULL at the source, whose log then names columns itself; then {RESYNC}"
_FAR: Final = 16 << 20  # a second of reading, to confirm what is known anyway


class Reading(NamedTuple):
    """The place that is read: `here`, behind the last event, and `group`, where its transaction begins; in the log of
    `server`."""

    here: Position
    group: Position
    server: str


class NamedTables:
    """`reading`: tells the place that is read."""

    def __init__(
        self, history: TableHistory, look: TableLook, ahead: StatementsAhead, reading: Callable[[], Reading]
    ) -> None:
        self._history, self._look, self._ahead, self._reading = history, look, ahead, reading
        self._whole: Look | None = None

    def __call__(self, mapped: TableMap, own: bool) -> Named:
        """Returns a table map with its columns' names.  `own`: it is one of Tidelock's.  Raises SourceError."""
        if own:
            return own_table(self._look, mapped)
        return named(self._form(mapped, self._reading()), mapped)

    def complete(self, name: TableName) -> None:
        """Learns what the statement that has just made a table left to its database: the character set of its texts.
        Raises SourceError."""
        table, _ = self._history.form(name)
        if table is None or table.charset:
            return
        reading, look = self._reading(), self._look.at(name)
        if look.server == reading.server and not self._ahead.changes_defaults(reading.here, look.place):
            self._history.complete(name, *look.texts)

    def _form(self, mapped: TableMap, reading: Reading) -> FormerTable:
        name = mapped.name
        known, partly = self._history.form(name)
        if known is not None and known.primary_key is None:
            known = None
        seen = self._seen(name, reading, known is not None and is_whole(known, mapped))
        if seen is not None and not difference(seen, mapped):
            if known is not None and not partly and _names(known) != _names(seen):
                raise _unlogged(name, known, seen)
            self._history.settle(name, seen, reading.group)
            return seen
        if known is None:
            if seen is not None:
                raise _contradicted(name, difference(seen, mapped))
            raise _unknown(name)
        if not is_whole(known, mapped):
            raise _unknown(name)
        if why := difference(known, mapped):
            raise _contradicted(name, why)
        return known

    def _seen(self, name: TableName, reading: Reading, is_known: bool) -> FormerTable | None:
        """Returns the table as the catalogue has it, where it was so at the row; None where that is not certain, or not
        worth a long way ahead."""
        here = reading.here
        if self._whole is None:
            self._whole = self._look(())
        whole = self._whole
        look = whole if name in whole.tables and here.order[:2] <= whole.place.order[:2] else self._look.at(name)
        if look.server != reading.server:
            raise Unreachable(
                f"the source's tables are those of the server {look.server} by now, and its log is that of "
                f"{reading.server}",
                "Start a new reader from the last position",
            )
        if is_known and _is_far(here, look.place):
            return None
        return None if self._ahead.changes(name, here, look.place) else look.tables.get(name)


def own_table(look: TableLook, mapped: TableMap) -> Named:
    """Returns a table map of one of Tidelock's tables, which no statement of others changes, with its columns' names.
    Raises SourceError."""
    table = look.at(mapped.name).tables.get(mapped.name)
    why = difference(table, mapped) if table is not None else "it is not there"
    if table is None or why:
        raise _contradicted(mapped.name, why)
    return named(table, mapped)


def _is_far(here: Position, there: Position) -> bool:
    return here.file != there.file or there.offset - here.offset > _FAR


def _names(table: FormerTable) -> list[str]:
    return [one.column.name.lower() for one in table.columns]


def _contradicted(name: TableName, why: str) -> UnsuitableLog:
    return UnsuitableLog(
        f"the log does not name the columns of {name}, and what is known of the table is not the table of this row: "
        f"{why}",
        f"A session that logs nothing (sql_log_bin=0) may have changed it, and which values are whose is not certain. "
        f"{FULL}",
    )


def _unlogged(name: TableName, known: FormerTable, seen: FormerTable) -> UnsuitableLog:
    before, now = (", ".join(one.column.name for one in table.columns) for table in (known, seen))
    return UnsuitableLog(
        f"the log does not name the columns of {name}: by its statements they are {before}, and the source has {now}",
        f"A session that logs nothing (sql_log_bin=0) has changed the table, and which values are whose is not "
        f"certain. {FULL}",
    )


def _unknown(name: TableName) -> UnsuitableLog:
    return UnsuitableLog(
        f"the log does not name the columns of {name}, and how the table was at this row is not known: a statement "
        "behind it has changed the table before the feed was here",
        f"Which values are whose is not certain. {FULL}",
    )
