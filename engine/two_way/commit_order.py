"""Which of two changes is later, by the times of their commits: `latest` in a table without a version column.

The change that comes was committed at its spoke at the time that the spoke's log has.  The row that it meets was last
written by a transaction of the arbiter, which knows when that was committed, and by whom.

- The arbiter's own: the two times decide, and of equal ones the name of the site.
- One that brought a change of this very spoke: the spoke's log has the order, and what comes is later.  No time says
  that: the earlier change was committed here when it came, which may be long after the spoke made the later one.
- One that brought another spoke's change: that was made no later than it was committed here.  So what is later than the
  commit is later; otherwise nothing tells, as the time at the other spoke is not known here.
- The same where it is not known who wrote it.

What nothing tells is not guessed: an operator decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tidelock.engine.model.conflict_options import CommitClock
from tidelock.engine.two_way.conflicts import Writer, WrittenBy

_STATEMENT_TIMES: Final = re.compile(r"\d+-\d+")
"""Matches the source of a transaction of MariaDB, whose log has the time at which its last statement began."""


def commit_time(source: str, commit_us: int) -> int:
    """Returns the time of a commit that a log has; 0 where it has none."""
    return 0 if _STATEMENT_TIMES.fullmatch(source) else commit_us


def is_later(clock: CommitClock, commit_us: int, writers: Iterable[Writer]) -> bool | None:
    """Tells whether a change is later than the last of all these writers; None: nothing tells.  `commit_us`: its time,
    0 where none is known."""
    answers = [_is_later_than(writer, clock, commit_us) for writer in writers]
    if False in answers:
        return False
    return None if None in answers else True


def _is_later_than(writer: Writer, clock: CommitClock, commit_us: int) -> bool | None:
    if writer.by is WrittenBy.SPOKE:
        return True
    if not commit_us or not writer.at_us:
        return None
    if writer.by is WrittenBy.ARBITER:
        return (commit_us, clock.spoke) > (writer.at_us, clock.arbiter)
    return True if commit_us > writer.at_us else None
