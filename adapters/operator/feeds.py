"""All feeds that a target's bookkeeping knows, each in a few figures."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tidelock.adapters.bookkeeping.checkpoints import COORDINATOR
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator.feed_control import Activity, books
from tidelock.adapters.operator.runs import Run
from tidelock.adapters.operator.runs import read as read_run
from tidelock.adapters.operator.store import Books, Halted
from tidelock.engine.model.records import Position

_HALTED: Final = msgspec.json.Decoder(Halted)
_POSITION: Final = msgspec.json.Decoder(Position)


class ListedFeed(msgspec.Struct, frozen=True, kw_only=True):
    """One feed.

    `activity`: None of a feed whose workers share a log in Kafka, unless it has halted: only Kafka knows whether they
    run.  `groups`: of tables, that have an owner.  `run`: the last run.  `lag_seconds`: as the run says; None: it says
    nothing.  `checkpoint`: the least of its groups'.
    """

    feed: str
    activity: Activity | None
    desired_state: str = ""
    groups: int = 0
    run: Run | None = None
    lag_seconds: float | None = None
    checkpoint: Position | None = None
    checkpoint_seconds: float | None = None
    failed_rows: int = 0
    halted: Halted | None = None

    @property
    def needs_operator(self) -> bool:
        """Tells whether it has halted or has failed rows."""
        return self.halted is not None or self.failed_rows > 0


async def feeds(of: Feed) -> list[ListedFeed]:
    """Returns all feeds of the target and the schema of this one, by name.  Raises TargetError."""
    async with books(of) as book:
        owners = await _by_feed(book, "tidelock_owner", "grp, desired_state, halt")
        places = await _by_feed(book, "tidelock_checkpoint", f"grp, position, {book.age('saved_at')}")
        runs = await _by_feed(book, "tidelock_runs", "grp")
        sql = f"SELECT feed, count(*) FROM {book.table('tidelock_parked')} GROUP BY feed"
        failed = {str(name): int(count) for name, count in await book.session.fetch(sql)}
        names = sorted({*owners, *places, *runs, *failed})
        return [
            _listed(
                name,
                owners.get(name, []),
                places.get(name, []),
                await read_run(book.session, of.schema, name),
                failed.get(name, 0),
            )
            for name in names
        ]


async def _by_feed(book: Books, table: str, columns: str) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for name, *row in await book.session.fetch(f"SELECT feed, {columns} FROM {book.table(table)} ORDER BY feed, grp"):
        found.setdefault(str(name), []).append(tuple(row))
    return found


def _listed(
    name: str, owners: list[tuple[Any, ...]], places: list[tuple[Any, ...]], run: Run | None, failed: int
) -> ListedFeed:
    halted = next((_HALTED.decode(halt) for _, _, halt in owners if halt), None)
    scaled_out = any(int(group) == COORDINATOR for group, *_ in owners)
    stored = [(_POSITION.decode(text), float(age)) for group, text, age in places if int(group) != COORDINATOR]
    place = min(stored, key=lambda one: one[0].order, default=None)
    alive = run is not None and run.alive
    activity: Activity | None = "running" if alive else None if scaled_out else "not running"
    return ListedFeed(
        feed=name,
        activity="halted" if halted else activity,
        desired_state=str(owners[0][1]) if owners else "",
        groups=sum(int(group) != COORDINATOR for group, *_ in owners),
        run=run,
        lag_seconds=run.lag_seconds if run is not None and alive else None,
        checkpoint=place[0] if place else None,
        checkpoint_seconds=place[1] if place else None,
        failed_rows=failed,
        halted=halted,
    )
