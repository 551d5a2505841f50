"""Copies that are asked for before a feed runs with the file that needs them.

A run with the file of before must not begin them: it does not take the table, or fewer of its rows.  So each request is
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
    place, feed, run = book.table("tidelock_wanted"), book.feed.name, book.session.execute
    await run("BEGIN")
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
    await known_tables.accept(book, former)
    await run("COMMIT")


async def release(
    book: Books, mapping: TableMappings, names: Iterable[TableName], tell: Callable[[str], None]
) -> None:
    """Asks the run that begins, with this mapping of the source's tables `names`, for the copies that were held for it.
    Raises TargetError."""
    place = book.table("tidelock_wanted")
    held = await book.session.fetch(
        f"SELECT ordinal, table_schema, table_name, mode, row_key FROM {place} "
        f"WHERE feed = %s AND mode IN ({HELD_MODES})",
        book.feed.name,
    )
    if not held:
        return
    ours = {(mapping.target(name), digest(mapping, name)) for name in names if mapping.selects(name)}
    for ordinal, schema, table, mode, wanted in held:
        target = TableName(str(schema), str(table))
        if (target, bytes(wanted)) in ours:
            await book.session.execute(
                f"UPDATE {place} SET mode = %s, row_key = NULL WHERE feed = %s AND grp = 0 AND ordinal = %s",
                _ASKED[str(mode)], book.feed.name, int(ordinal),
            )  # fmt: skip
        else:
            tell(f"the copy of {target} waits for a run with the file that it was asked for with (`tidelock edit`)")


def digest(mapping: TableMappings, name: TableName) -> bytes:
    """Returns what tells two ways of mapping a source table apart: its target, its columns, its filter."""
    rule = mapping.rule(name)
    assert rule is not None, "the feed takes the table"
    words = [
        str(name), str(mapping.target(name)), sorted(rule.include), sorted(rule.exclude), sorted(rule.rename.items()),
        rule.where,
    ]  # fmt: skip
    return hashlib.blake2b(msgspec.msgpack.encode(words), digest_size=16).digest()
