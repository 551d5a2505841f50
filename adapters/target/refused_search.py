"""Search for the staged rows for which a target refuses the merge of a chunk (`FindRefused`).

The whole chunk is tried.  Where it is refused, rows are found and taken away, and the rest is tried again:

- of a foreign key that is broken, the rows whose parent is neither in its table nor among the staged;
- else by halves, each tried alone behind a savepoint, down to single rows: nothing is paid for rows that are taken.

Rows of one chunk may need each other: a child its parent, a row the unique value that another one gives up.  Tried
alone they are refused though they are right.  So of what the halves show, those go first that are refused for
themselves, as by a CHECK constraint; only where none is left go those that are refused for other rows.  Of rows that
are read again, which may trade unique values, each of a few is first tried as the only cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from tidelock.engine.model.errors import Failure
from tidelock.engine.protocol.events import RefusedRow

MOST: Final = 10_000
"""So many refused rows of one chunk are set aside; more are a table that does not fit."""
MOST_CAUSES: Final = 20
"""So many rows are tried as the only cause."""

Place = TypeVar("Place")


class Untold(Exception):
    """Raised where the rows cannot be told; the text is the target's, or says how many there are."""


class BadRow(msgspec.Struct, Generic[Place], frozen=True):
    """A staged row that is refused, by its place among the staged rows."""

    place: Place
    failure: Failure


class StagedRows(Protocol[Place]):
    """The staged rows of a chunk at one target; each has a place there.  Every method raises what the target does."""

    async def places(self) -> Sequence[Place]:
        """Returns the places of all rows, in order; some may have no row any more."""
        ...

    async def attempt(self, places: Sequence[Place] | None) -> Failure | None:
        """Writes the rows of these places, or all, and takes it back; returns why they are refused."""
        ...

    async def orphans(self, failure: Failure, most: int) -> list[BadRow[Place]]:
        """Returns about as many rows that refer to no row, where that is the failure."""
        ...

    def is_for_others(self, failure: Failure) -> bool:
        """Tells whether a row that fails so may be refused for other rows."""
        ...

    async def take_away(self, bad: Sequence[BadRow[Place]]) -> list[RefusedRow]:
        """Takes these rows out of the staging table; returns them."""
        ...

    def without(self, row: BadRow[Place]) -> AbstractAsyncContextManager[None]:
        """Takes this row away for the time of the block."""
        ...


async def find_refused(staged: StagedRows[Place], *, rereads: bool) -> tuple[RefusedRow, ...]:
    """Returns the rows that are refused; the caller rolls back.  `rereads`: the rows are read again.

    Raises Untold, and what the target does.
    """
    found = list[RefusedRow]()
    while (failure := await staged.attempt(None)) is not None:
        bad = await staged.orphans(failure, MOST + 1) or await _singled_out(staged, rereads)
        if not bad:
            raise Untold(failure.message)
        found += await staged.take_away(bad)
        if len(found) > MOST:
            raise Untold(f"{MOST:,} rows and more, the first of which: {found[0].error}")
    return tuple(found)


async def _singled_out(staged: StagedRows[Place], rereads: bool) -> list[BadRow[Place]]:
    bad = await _halved(staged, await staged.places())
    own = [row for row in bad if not staged.is_for_others(row.failure)]
    return own or (await _only_cause(staged, bad) if rereads and len(bad) <= MOST_CAUSES else []) or bad


async def _only_cause(staged: StagedRows[Place], bad: Sequence[BadRow[Place]]) -> list[BadRow[Place]]:
    """Returns the one of some rows without which all others are taken; empty: there is none."""
    for row in bad:
        async with staged.without(row):
            failure = await staged.attempt(None)
        if failure is None:
            return [row]
    return []


async def _halved(staged: StagedRows[Place], places: Sequence[Place]) -> list[BadRow[Place]]:
    failure = await staged.attempt(places) if places else None
    if failure is None:
        return []
    if len(places) == 1:
        return [BadRow(places[0], failure)]
    half = len(places) // 2
    found = await _halved(staged, places[:half])
    return found if len(found) > MOST else [*found, *await _halved(staged, places[half:])]
