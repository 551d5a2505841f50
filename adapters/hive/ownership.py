"""Who has a table of the metastore: one feed, known by its name and by the books that it keeps (`Manifest.id`).

A table's properties name both.  So a feed whose books were removed or lie elsewhere is another feed, though it has the
same name.  A table of another feed is taken over at the end of a copy alone, as only that has all of its rows; the
manifest notes whose it was (`Stored.over`).  The feed before finds then that the table is not its own any more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tidelock.adapters.ports.operator_error import OperatorError

_MERGE: Final = "tidelock.merge"  # FEED:NUMBER, of the merge that made the table
_BOOKS: Final = "tidelock.books"  # there is none on a table of an older version
PROPERTIES: Final = (_MERGE, _BOOKS)
_DIGITS: Final = 9
_FOLDER: Final = re.compile(rf"m(\d{{{_DIGITS}}})-([0-9a-f]*)[0-9a-f]{{6}}")


class Foreign(Exception):
    """The metastore has a table that no feed made, where one of ours belongs."""

    exit_code = 1

    def __init__(self, table: str) -> None:
        super().__init__(f"Hive has a table {table} that no feed made. Rename it, or give the feed's another `target`")


class OfAnother(OperatorError):
    """The metastore's table is another feed's."""

    exit_code = 4

    def __init__(self, table: str, owner: str, feed: str) -> None:
        other, _, _ = owner.rpartition("/")
        same = " that keeps other books" if other == feed else ""
        super().__init__(
            f"Hive's table {table} is that of a feed {other}{same}: feed {feed} leaves it as it is",
            f"A table has one feed. If {other} took it over, end this one, or leave the table out of it. If this "
            "feed's own folder was removed from the warehouse, or its `target` was another, put that back as it was. "
            "Else let a feed of a new name with `start: copy` take the table over",
        )


def owner_of(table: str, told: Mapping[str, str]) -> str:
    """Returns the owner of the metastore's table, as `owner` spells it, by these of its `PROPERTIES`.  Raises Foreign.
    """
    feed, _, _ = told.get(_MERGE, "").rpartition(":")
    if not feed:
        raise Foreign(table)
    return owner(feed, told.get(_BOOKS, ""))


def owner(feed: str, books: str) -> str:
    """Returns one text for a feed and its books."""
    return f"{feed}/{books}"


def properties(feed: str, books: str, number: int) -> str:
    """Returns the properties of a table that merge `number` makes, in SQL."""
    return f"'{_MERGE}'='{feed}:{number}', '{_BOOKS}'='{books}'"


def merge_folder(number: int, books: str, token: str) -> str:
    """Returns the name of a merge's folder.  `token`: six hexadecimal digits."""
    return f"m{number:0{_DIGITS}}-{books}{token}"


def merge_of(folder: str) -> int:
    """Returns the number of the merge that a folder is of."""
    return int(folder[1 : 1 + _DIGITS])


def is_left(name: str, books: str, over: str, number: int) -> bool:
    """Tells whether a name in a table's folder is that of a merge up to `number`, of the feed that keeps these books or
    of the one whose table it took `over`.  Others' files are left alone: a copy under way may have written them."""
    found = _FOLDER.fullmatch(name)
    return found is not None and int(found[1]) <= number and found[2] in (books, over and over.rpartition("/")[2])
