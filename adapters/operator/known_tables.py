"""The `tables` that a feed has run with, kept at its target.

A file that is changed by hand may name tables, columns or rows that the feed did not take before.  Their changes come
from then on, and what is there already never does.  So a run compares its file with what is kept
(`checks.changed_tables`), and keeps its own once it has the feed.  What `tidelock edit` has planned copies for, or was
told to leave without, is kept beside it as accepted.

Rules of before are kept until a run has others: the file of before may run again after an edit that was cut short.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from tidelock.adapters.bookkeeping.checkpoints import COORDINATOR
from tidelock.adapters.bookkeeping.tables import OWNER
from tidelock.adapters.config.feed import Feed, TableRule
from tidelock.adapters.operator.store import Books
from tidelock.adapters.operator.upgrade import look
from tidelock.adapters.wiring.session import session
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.model.records import TableName

_OF_GROUP: Final = "WHERE feed = %s AND grp = %s"


class Known(msgspec.Struct, frozen=True):
    """`ran`: the rules of the last run.  `accepted`: those that may run next; () for none.  `earlier`: others that it
    has run with: of rows that they alone took, the target may hold what they were then.
    """

    ran: tuple[TableRule, ...]
    accepted: tuple[TableRule, ...] = ()
    earlier: tuple[TableRule, ...] = ()

    def then(self, tables: tuple[TableRule, ...]) -> Known:
        """Returns what is kept once it has run with these."""
        former = (*self.earlier, *(rule for rule in self.ran if rule not in self.earlier))
        earlier = tuple(rule for rule in former if rule not in tables)
        return Known(tables, self.accepted if self.accepted != tables else (), earlier)


_KNOWN: Final = msgspec.json.Decoder(Known)


async def read(book: Books) -> Known | None:
    """Returns what the last run has kept, of workers their coordinator; None where the feed has not run yet, with an
    older version alone, or as workers and is embedded by now.  Raises TargetError."""
    found = await _kept(book)
    if any(group != 0 for group in found) and book.feed.log_url is None:
        return None
    return found.get(COORDINATOR if COORDINATOR in found else 0)


async def all_of(book: Books) -> tuple[TableRule, ...]:
    """Returns the rules that the feed has run with and those that may run next; of workers, as the file of the
    coordinator has them.  Raises TargetError."""
    kept = await _kept(book)
    known = kept.get(COORDINATOR) or kept.get(0)
    return (*known.ran, *(rule for rule in known.accepted if rule not in known.ran)) if known else ()


async def _kept(book: Books) -> dict[int, Known | None]:
    """Returns what each group has kept."""
    lacking = await look(book.session, book.feed.schema, (OWNER,))
    if OWNER in lacking.tables or "rules" in lacking.columns.get(OWNER, ()):
        return {}
    found = await book.session.fetch(f"SELECT grp, rules FROM {book.table(OWNER)} WHERE feed = %s", book.feed.name)
    return {int(group): _KNOWN.decode(rules) if rules else None for group, rules in found}


async def keep(book: Books, epoch: int, group: int = 0) -> Known:
    """Keeps the rules of the run that has the feed by this epoch, or of the coordinator, whose `group` it is, and
    returns what is kept.  Others stay accepted.  Raises TargetError."""
    known, tables = (await _kept(book)).get(group), book.feed.tables
    if known != (kept := known.then(tables) if known is not None else Known(tables)):
        update = f"UPDATE {book.table(OWNER)} SET rules = %s {_OF_GROUP} AND epoch = %s"
        await book.session.execute(update, _spelled(kept), book.feed.name, group, epoch)
    return kept


async def accept(book: Books, former: Feed) -> None:
    """Notes that a run may have the rules of the book's feed, behind one that had those of `former`.  The caller's
    transaction.  Raises TargetError."""
    if "rules" in (await look(book.session, book.feed.schema, (OWNER,))).columns.get(OWNER, ()):
        return  # an older version made the bookkeeping, so nothing is compared
    known = await read(book)
    accepted = msgspec.structs.replace(known or Known(former.tables), accepted=book.feed.tables)
    update = f"UPDATE {book.table(OWNER)} SET rules = %s {_OF_GROUP}"
    await book.session.execute(update, _spelled(accepted), book.feed.name, _group(book.feed))


async def begin_anew(book: Books) -> None:
    """Notes that the feed goes on with rows of the book's rules alone, which are all copied: copies that were held for
    another file are gone.  The caller's transaction.  Raises TargetError."""
    if "rules" not in (await look(book.session, book.feed.schema, (OWNER,))).columns.get(OWNER, ()):
        update = f"UPDATE {book.table(OWNER)} SET rules = %s {_OF_GROUP} AND rules IS NOT NULL"
        await book.session.execute(update, _spelled(Known(book.feed.tables)), book.feed.name, _group(book.feed))


async def former(book: Books) -> Feed:
    """Returns the book's feed as it last ran, where its file was changed by hand since; else as it is.  Raises
    TargetError."""
    known = await read(book)
    if known is None or book.feed.tables in (known.ran, known.accepted):
        return book.feed
    return msgspec.structs.replace(book.feed, tables=known.ran)


async def earlier(book: Books) -> tuple[TableRule, ...]:
    """Returns the rules that the book's feed has run with before those of `former`.  Raises TargetError."""
    known = await read(book)
    if known is None:
        return ()
    return known.earlier if book.feed.tables != known.accepted else (*known.earlier, *known.ran)


def left_behind(known: Known | None, feed: Feed, tables: Iterable[TableName]) -> tuple[TableName, ...]:
    """Returns those of the target's tables of which the feed has taken other rows before: some may be there still, as
    they were then."""
    earlier = known.then(feed.tables).earlier if known is not None else ()
    patterns = [Pattern.of(rule.target or rule.source) for rule in earlier]
    return tuple(name for name in tables if any(pattern.matches(name) for pattern in patterns))


async def tables_left_behind(feed: Feed, tables: Iterable[TableName]) -> tuple[TableName, ...]:
    """Returns what `left_behind` does, as the target's bookkeeping has it.  Raises TargetError."""
    async with session(feed.target_url) as target:
        return left_behind(await read(Books(feed, target)), feed, tables)


def _group(feed: Feed) -> int:
    """Returns the group that keeps the rules: of workers, all of which have one file, that of their coordinator."""
    return 0 if feed.log_url is None else COORDINATOR


def _spelled(known: Known) -> str:
    return msgspec.json.encode(known).decode()
