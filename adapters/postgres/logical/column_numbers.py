"""Which columns a relation message tells: their numbers, where it is certain.

A message has names, the catalogue of *now* has names and numbers, and may be ahead by any number of statements.  What
is known for sure:

- A number is given once and never again, so a column that was there before the message and is there now was there at
  the message.  A plain column becomes no computed one.
- Columns stand in the order of their numbers, in a message too, and new ones behind all others.

So the numbers are certain in three cases, whatever the names are:

1. The message has as many columns as were there before and are there now: it has those.  Others are gone.
2. All that were there before are there now: they are the first of the message, and the others are new.  Those are the
   next numbers of the table, where none of these is gone again.
3. The table has got no number since, and the message has as many columns as were there before: it has those.

Else a column may have been renamed and dropped later, or dropped at once and another one made under the name: both look
the same.  Then the numbers are those of the names now, and whoever compares two forms must not rely on them: nothing is
certain again before the catalogue has told the form, once the log is read up to there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelock.adapters.postgres.logical.relation_catalogue import RelationCatalogue
from tidelock.adapters.postgres.logical.relation_changes import Form


class Numbers(NamedTuple):
    """Numbers of a message's columns, in its order; 0: unknown.  `certain`: they are what they were at that place.
    `ever`: how many columns the table has had so far, at least; 0: unknown."""

    of_columns: tuple[int, ...]
    certain: bool = False
    ever: int = 0


def numbers_of(names: Sequence[str], former: Form | None, facts: RelationCatalogue) -> Numbers:
    """Returns the numbers of the columns of a message.  `former`: what was known of the same table; `facts`: of now."""
    by_name = {column.name: column.number for column in former.columns} if former is not None else {}
    by_name.update({name: found.number for name, found in facts.columns.items()})
    guessed = Numbers(tuple(by_name.get(name, 0) for name in names))
    if former is None or not former.ever or not facts.columns:
        return guessed
    before = [column.number for column in former.columns]
    computed = {number for _, number, _ in facts.computed}
    now = sorted(found.number for found in facts.columns.values() if found.number not in computed)
    if 0 in before or {one.number for one in former.computed} & set(now):
        return guessed
    kept = [number for number in before if number in now]
    if len(names) == len(kept):
        return Numbers(tuple(kept), True, former.ever)
    if len(names) == len(before) and former.ever == facts.ever:
        return Numbers(tuple(before), True, former.ever)
    if len(kept) == len(before) < len(names):
        return _with_new(len(names) - len(before), kept, former.ever, now, computed) or guessed
    return guessed


def _with_new(count: int, kept: list[int], ever: int, now: list[int], computed: set[int]) -> Numbers | None:
    """Returns the numbers of a message with `count` new columns; None where one may be gone again."""
    new: list[int] = []
    number = ever
    while len(new) < count:
        number += 1
        if number in now:
            new.append(number)
        elif number not in computed:
            return None
    return Numbers((*kept, *new), True, number)
