"""A statement that `init` or `remove` has planned."""

from __future__ import annotations

from typing import Literal

import msgspec


class PlannedStatement(msgspec.Struct, frozen=True):
    """One statement of the plan.

    `administrator`: the feed's own user cannot run it (a grant to itself), so `--apply` leaves it out.  For the log in
    Kafka, `sql` is a command for the shell.  `by_start`: what stores the place to begin at runs it.  `later`: it waits
    for rows that are to be copied.  `stopped`: a feed that runs would not learn of it.  `left_out`: nobody runs it:
    `sql` is a part of a source's table, as it is spelled there, that the target does not get.
    """

    side: Literal["source", "target", "log"]
    sql: str
    why: str
    administrator: bool = False
    by_start: bool = False
    later: bool = False
    left_out: bool = False
    stopped: bool = False

    @property
    def applied(self) -> bool:
        """Tells whether `--apply` runs it."""
        return not (self.administrator or self.by_start or self.later or self.left_out)
