"""Keeps copies with the groups of their tables: a copy belongs to the group that the plan gives its table.

Each group copies its own tables, as an embedded run does, and its owner's epoch fences what it does.  So a table that
moves must never be copied by the group that it left.  What makes that exact:

- A plan is stored in the control topic first; then `follow_plan` moves the chunks in the bookkeeping, and raises the
  epochs of the groups that a table left and of those that got a copy; only then is the plan announced, and the
  publisher goes on.  Everything of these tables up to that place is committed.
- Before a group begins a copy it looks the plan up again, at the end of the topic (`requests_of`).  If the plan has
  changed by then, it leaves the request to others; if it changes later, the epoch that the group has is one that
  `follow_plan` ends.
- A coordinator that died in between is followed by one that does `follow_plan` again.

A group is taken over only under a plan that is announced: otherwise its epoch would be over at once.
tests/adapters/test_copy_moves.py explores the steps in every order, and finds what goes wrong without each of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tidelock.adapters.bookkeeping.checkpoints import COORDINATOR
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.kafka import control
from tidelock.adapters.kafka.control import SeenControl
from tidelock.adapters.operator.feed_control import books
from tidelock.adapters.operator.store import Books
from tidelock.adapters.ports.sink import TargetError, Wanted
from tidelock.engine.model.records import TableName
from tidelock.engine.model.table_partitioning import TablePartitioning

_THIS = "WHERE feed = %s"


async def follow_plan(feed: Feed, plan: TablePartitioning, epoch: int, left: Collection[int]) -> None:
    """Moves copies to the groups that the plan gives their tables, and ends the epochs of groups concerned.

    `epoch`: the coordinator's.  `left`: groups that tables leave, whether they are being copied or not.  Done twice it
    does no harm.  Raises TargetError: then nothing has changed.
    """
    async with books(feed) as book:
        concerned = sorted({*left, *(group for pair in await _misplaced(book, plan) for group in pair[:2])})
        if not concerned:
            return
        run, owner = book.session.execute, book.table("tidelock_owner")
        await run("BEGIN")
        if book.session.dialect == "postgres":
            await run("SET LOCAL synchronous_commit = on")
        held = await book.session.fetch(
            f"SELECT epoch FROM {owner} {_THIS} AND grp = %s FOR UPDATE", feed.name, COORDINATOR
        )
        if not held or int(held[0][0]) != epoch:
            await run("ROLLBACK")
            raise TargetError(f"feed {feed.name} has a newer coordinator", "It goes on with the plan")
        for group in concerned:  # waits for what their owners are committing, and nothing of theirs follows
            await run(f"UPDATE {owner} SET epoch = epoch + 1 {_THIS} AND grp = %s", feed.name, group)
        for group, home, table in await _misplaced(book, plan):
            await _move(book, table, group, home)
        await run("COMMIT")


async def _misplaced(book: Books, plan: TablePartitioning) -> list[tuple[int, int, TableName]]:
    """Lists tables whose copy is in the books of another group than theirs: (that group, theirs, table)."""
    found = await book.session.fetch(
        f"SELECT DISTINCT grp, table_schema, table_name FROM {book.table('tidelock_chunks')} {_THIS} ORDER BY 1, 2, 3",
        book.feed.name,
    )
    homes = dict(plan.tables)
    named = [(int(group), TableName(str(schema), str(table))) for group, schema, table in found]
    return [(group, homes[name], name) for group, name in named if homes.get(name, group) != group]


async def _move(book: Books, table: TableName, group: int, home: int) -> None:
    """Moves a table's chunks; what its group has of an earlier time goes."""
    chunks = f"{_THIS} AND grp = %s AND table_schema = %s AND table_name = %s"
    name, place = book.feed.name, book.table("tidelock_chunks")
    await book.session.execute(f"DELETE FROM {place} {chunks}", name, home, table.schema, table.table)
    moved = f"UPDATE {place} SET grp = %s {chunks}"
    await book.session.execute(moved, home, name, group, table.schema, table.table)


async def requests_of(feed: Feed, group: int, known: SeenControl, wanted: Sequence[Wanted]) -> list[Wanted]:
    """Returns the requests that are this group's to carry out; none while that cannot be told.

    `known`: the control topic as it is followed, which may be late.  Raises LogError.
    """
    ours = _of_group(known.settled, group, wanted)
    return _of_group((await control.read(feed)).settled, group, ours) if ours else []


def _of_group(plan: TablePartitioning | None, group: int, wanted: Sequence[Wanted]) -> list[Wanted]:
    tables = {name for name, home in plan.tables if home == group} if plan is not None else set()
    return [one for one in wanted if one.table in tables]
