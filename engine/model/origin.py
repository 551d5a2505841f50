"""Origin: the sites that a change was at before it comes to a target, and the words that it is marked with.

A site is a server or a group of servers with a name of its own (`[a-z0-9_-]+`), which feeds give it.  A change that no
feed brought begins at the site whose log it is read from.  Its origin says so in the receipt of each batch, as `path`
and `marks`, both joined by spaces.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

SITE: Final = r"[a-z0-9_-]{1,64}"
"""A site's name, and a mark, as a regular expression."""
_SITE: Final = re.compile(SITE)


class Origin(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`path`: sites in the order in which the change was at them, the one that it is read from last.  `marks`: words
    that feeds on its way have added, in order."""

    path: tuple[str, ...]
    marks: tuple[str, ...] = ()


def spelled(words: tuple[str, ...]) -> str:
    """Spells a path, or marks, as a receipt has them."""
    return " ".join(words)


def read(text: str) -> tuple[str, ...]:
    """Reads what `spelled` wrote.  Raises ValueError for what is no name of a site."""
    words = tuple(text.split(" ")) if text else ()
    for word in words:
        if _SITE.fullmatch(word) is None:
            raise ValueError(f"{word!r} is no name of a site")
    return words
