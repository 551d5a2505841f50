"""Copies that are asked for before a feed runs with the file that needs them.

A run with the file of before must not begin them: it does not take the table, or other rows of it.  So each request is
held under a digest of how the new file maps the table.  A run that begins looks for requests with its own digests, and
has them carried out before it reads the log.  A crash between asking and replacing the file leaves a request that no
run carries out; asking again replaces it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.operator import known_tables
from tidelock.adapters.operator.stamps import refuse_copies
from tidelock.adapters.operator.store import Books
from tidelock.adapters.ports.staging import HELD, HELD_MODES
from tidelock.engine.capture.mapping import Mapping as TableMappings
from tidelock.engine.model.records import TableName

HeldMode: TypeAlias = Literal["copy", "keep"]
_ASKED: Final = {held: mode for mode, held in HELD.items()}


async def hold(
    book: Books,
    mapping: TableMappings,
    asked: Mapping[TableName, HeldMode],
    targets: Iterable[TableName],
    former: Feed,
) -> None:
    """Asks for copies of these source tables, for a run with this mapping.  What was held or refused before of the
    `targets`, all tables at the target that change, goes.  Such a run may have the book's rules, after one with those
    of `former`.  Raises TargetError."""
    if asked:
        refuse_copies(book.feed)
    await book.session.execute("BEGIN")
    await _hold(book, mapping, asked, targets)
    await known_tables.accept(book, former)
    await book.session.execute("COMMIT")


async def ask(book: Books, mapping: TableMappings, asked: Mapping[TableName, HeldMode]) -> frozenset[TableName]:
    """Asks for copies of these source tables where the run of now, or the last one, maps them in another way than the
    book's feed: they are held.  Returns the tables at the target of which that is so.  Raises TargetError."""
    if not (other := await _mapped_otherwise(book, mapping, asked)):
        return frozenset()
    refuse_copies(book.feed)
    targets = frozenset(mapping.target(name) for name in other)
    await book.session.execute("BEGIN")
    await _hold(book, mapping, {name: asked[name] for name in other}, targets)
    await book.session.execute("COMMIT")
    if not await _mapped_otherwise(book, mapping, other):  # a run with this file has begun, and may have looked before
        await release(book, mapping, other, lambda _: None)
    return targets


async def held(book: Books, mapping: TableMappings, names: Iterable[TableName]) -> frozenset[TableName]:
    """Returns the tables at the target of which copies are held for a run with this mapping of the source's tables
    `names`.  Raises TargetError."""
    ours = _digests(mapping, names)
    return frozenset(target for _, target, _, wanted in await _held(book) if (target, wanted) in ours)


async def _mapped_otherwise(
    book: Books, mapping: TableMappings, names: Iterable[TableName]
) -> tuple[TableName, ...]:
    known = await known_tables.read(book)
    if known is None or known.ran == book.feed.tables:
        return ()
    ran = msgspec.structs.replace(book.feed, tables=known.ran)
    before = TableMappings(rules_of(ran), ran.schema)
    return tuple(
        name for name in names if before.rule(name) is None or digest(before, name) != digest(mapping, name)
    )


async def _hold(
    book: Books, mapping: TableMappings, asked: Mapping[TableName, HeldMode], targets: Iterable[TableName]
) -> None:
    """The caller's transaction."""
    place, feed, run = book.table("tidelock_wanted"), book.feed.name, book.session.execute
    for target in dict.fromkeys(targets):
        await run(
            f"DELETE FROM {place} WHERE feed = %s AND table_schema = %s AND table_name = %s "
            f"AND mode IN ('refused', {HELD_MODES})",
            feed, target.schema, target.table,
        )  # fmt: skip
    for ordinal, (name, mode) in enumerate(asked.items(), time.time_ns() // 1000):
        target = mapping.target(name)
        await run(
            f"INSERT INTO {place} (feed, grp, ordinal, table_schema, table_name, mode, row_key) "
            "VALUES (%s, 0, %s, %s, %s, %s, %s)",
            feed, ordinal, target.schema, target.table, HELD[mode], digest(mapping, name),
        )  # fmt: skip


async def release(
    book: Books, mapping: TableMappings, names: Iterable[TableName], tell: Callable[[str], None]
) -> None:
    """Asks the run that begins, with this mapping of the source's tables `names`, for the copies that were held for it.
    Raises TargetError."""
    if not (waiting := await _held(book)):
        return
    ours = _digests(mapping, names)
    for ordinal, target, mode, wanted in waiting:
        if (target, wanted) in ours:
            await book.session.execute(
                f"UPDATE {book.table('tidelock_wanted')} SET mode = %s, row_key = NULL "
                "WHERE feed = %s AND grp = 0 AND ordinal = %s",
                _ASKED[mode], book.feed.name, ordinal,
            )  # fmt: skip
        else:
            tell(f"the copy of {target} waits for a run with the file that it was asked for with (`tidelock edit`)")


async def _held(book: Books) -> list[tuple[int, TableName, str, bytes]]:
    """Returns what is held: its ordinal, its table at the target, its mode, its digest."""
    found = await book.session.fetch(
        f"SELECT ordinal, table_schema, table_name, mode, row_key FROM {book.table('tidelock_wanted')} "
        f"WHERE feed = %s AND mode IN ({HELD_MODES})",
        book.feed.name,
    )
    return [
        (int(ordinal), TableName(str(schema), str(table)), str(mode), bytes(wanted))
        for ordinal, schema, table, mode, wanted in found
    ]


def _digests(mapping: TableMappings, names: Iterable[TableName]) -> set[tuple[TableName, bytes]]:
    return {(mapping.target(name), digest(mapping, name)) for name in names if mapping.selects(name)}


def digest(mapping: TableMappings, name: TableName) -> bytes:
    """Returns what tells two ways of mapping a source table apart: its target, its columns, its filter."""
    rule = mapping.rule(name)
    assert rule is not None, "the feed takes the table"
    words = [
        str(name), str(mapping.target(name)), sorted(rule.include), sorted(rule.exclude), sorted(rule.rename.items()),
        rule.where,
    ]  # fmt: skip
    return hashlib.blake2b(msgspec.msgpack.encode(words), digest_size=16).digest()
