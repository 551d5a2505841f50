"""Marks of statements that feeds run at MySQL and MariaDB: a comment, which the server's log keeps.

`/* tidelock:FEED:SOURCE:NUMBER */ ALTER TABLE …`: the feed, and the identity of the statement in its source's log.
A comment alone proves nothing, as anybody can write one.  So the whole text is stored in `tidelock_statements` before
it runs, and whoever reads the log takes a statement for a feed's only where that table has its very text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from tidelock.engine.model.origin import read

_COMMENT: Final = re.compile(r"/\* tidelock:([a-z0-9_-]{1,64}):([\w./:-]+):(\d+) \*/ \S")
_OTHER: Final = re.compile(r"[^\w./:-]", re.ASCII)


def marked(statement: str, feed: str, source: str, number: int) -> str:
    """Returns the statement with its mark.  What could end a comment is not taken over from the source's name."""
    return f"/* tidelock:{feed}:{_OTHER.sub('_', source)}:{number} */ {statement}"


def may_be_marked(statement: str) -> tuple[str, int] | None:
    """Returns feed and number of the mark that a statement begins with; None where it begins with none."""
    found = _COMMENT.match(statement)
    return (found[1], int(found[3])) if found is not None else None


def path_of(statement: str, stored: Iterable[tuple[Any, ...]]) -> tuple[str, ...]:
    """Returns the sites by which a feed has brought a statement, given (path, text) of those that are stored; none
    where it is not one of them."""
    return next((read(str(path)) for path, text in stored if str(text) == statement), ())
