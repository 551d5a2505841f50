"""Forms of a source's tables, kept in the feed's bookkeeping (`tidelock_forms`) for the next reader of its log.

They are written where a feed begins, before its first checkpoint, and by its owner whenever the reader of the log has
learned one, before what is behind it in the log is acted upon.  So no checkpoint passes the place of a form that is not
kept.  What is kept for places behind the checkpoint is told anew by the next reader, so it is removed then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator.store import Books
from tidelock.adapters.ports.table_form import KnownForms, TableForm
from tidelock.adapters.wiring.session import session
from tidelock.engine.model.records import Position, TableName

_COLUMNS = "table_id, log_file, log_offset, log_rows, table_schema, table_name, form"


class KeptForms:
    """The forms that are kept of one feed, and those to be kept while its log is read (`FormKeeper`)."""

    def __init__(self, feed: Feed, group: int, epoch: int) -> None:
        """`group`, `epoch`: of the owner; what another one would write is not kept."""
        self._known = KnownForms()
        self._feed = feed
        self._owner = (group, epoch)

    @property
    def all(self) -> tuple[TableForm, ...]:
        """Returns the forms that are kept."""
        return self._known.all

    async def read(self, book: Books, checkpoint: Position, *, ahead: bool = False) -> bool:
        """Reads what is kept, and removes all but the forms in force at the checkpoint.  Returns whether any was.

        `ahead`: the log was read beyond the checkpoint for good, so the forms behind it stay too.  Raises TargetError.
        """
        found = await _read(book)
        known = self._known = KnownForms(found)
        gone = [] if ahead else known.forget_behind(checkpoint)
        for form in (*gone, *known.forget_replaced(checkpoint)):
            await _remove(book, form)
        return bool(found)

    async def read_on(self, place: Position) -> None:
        """Forgets forms behind a place from which the log is read anew.  Raises TargetError."""
        known = KnownForms(self.all)
        gone = known.forget_behind(place)
        if not gone:
            return
        async with session(self._feed.target_url) as target:
            for form in gone:
                await _remove(Books(self._feed, target), form)
        self._known = known

    async def keep(self, forms: Sequence[TableForm]) -> None:
        """Keeps these too.  Raises TargetError."""
        async with session(self._feed.target_url) as target:
            book = Books(self._feed, target)
            await target.execute("BEGIN")
            for form in forms:
                await _remove(book, form)
                await _insert(book, form, self._owner)
            await target.execute("COMMIT")
        self._known.learn(forms)


async def begin_anew(book: Books, forms: Iterable[TableForm]) -> None:
    """Keeps the forms of a feed that begins, or goes on behind a hole, and no others: in the caller's transaction, if
    there is one.  Raises TargetError."""
    await book.session.execute(f"DELETE FROM {book.table('tidelock_forms')} WHERE feed = %s", book.feed.name)
    for form in forms:
        await _insert(book, form)


async def replace_behind(book: Books, place: Position) -> None:
    """Has the last form that is kept of each table hold from `place` on, where that is before it: the log is read again
    from there, and what a table has lost of its form is told then.  Of a log with statements, which has lost some, none
    is kept: its reader looks at the tables anew.  Raises TargetError."""
    if "/" not in place.file:  # MySQL or MariaDB
        await begin_anew(book, ())
        return
    last = {form.id: form for form in sorted(await _read(book), key=lambda one: one.place.order)}
    if any(form.place.order > place.order for form in last.values()):
        moved = [f if f.place.order <= place.order else msgspec.structs.replace(f, place=place) for f in last.values()]
        await begin_anew(book, moved)


async def _read(book: Books) -> list[TableForm]:
    sql = f"SELECT {_COLUMNS} FROM {book.table('tidelock_forms')} WHERE feed = %s"
    return [
        TableForm(int(id_), TableName(str(schema), str(name)), Position(str(file), int(offset), int(rows)), str(words))
        for id_, file, offset, rows, schema, name, words in await book.session.fetch(sql, book.feed.name)
    ]


async def _insert(book: Books, form: TableForm, owner: tuple[int, int] | None = None) -> None:
    numbers = f"{form.id:d}, %s, {form.place.offset:d}, {form.place.rows:d}"
    values = (form.place.file, form.table.schema, form.table.table, form.words)
    place = f"{book.table('tidelock_forms')} (feed, {_COLUMNS})"
    if owner is None:
        sql = f"INSERT INTO {place} VALUES (%s, {numbers}, %s, %s, %s)"
        await book.session.execute(sql, book.feed.name, *values)
        return
    group, epoch = owner
    sql = (
        f"INSERT INTO {place} SELECT feed, {numbers}, %s, %s, %s FROM {book.table('tidelock_owner')} "
        f"WHERE feed = %s AND grp = {group:d} AND epoch = {epoch:d}"
    )
    await book.session.execute(sql, *values, book.feed.name)


async def _remove(book: Books, form: TableForm) -> None:
    sql = (
        f"DELETE FROM {book.table('tidelock_forms')} WHERE feed = %s AND table_id = {form.id:d} "
        f"AND log_offset = {form.place.offset:d} AND log_rows = {form.place.rows:d}"
    )
    await book.session.execute(sql, book.feed.name)
