"""A planted bug, as data: the change of one function or several as a patch, and what is wrong then."""

from __future__ import annotations

from typing import Literal

import msgspec


class Stale(Exception):
    """The sources have moved on and the mutant no longer applies; `args[0]` says which part of it is at fault."""


class Mutant(msgspec.Struct, frozen=True):
    """`patch`: what changes in which function (`patch.py` says how it is written).

    `worlds`: those in which it shows: of one feed, of several sites, of sites with an arbiter, or with stamps, or those
    in which tables are altered.
    `row`: of the table of counter-examples (0: of none).  `case`: the edge case or report it stands for, if any.
    """

    name: str
    patch: str
    wrong: str
    row: int = 0
    case: str = ""
    worlds: Literal["feed", "sites", "arbiter", "stamps", "altering"] = "feed"

    @property
    def stands_for(self) -> str:
        return f"counter-example {self.row}" if self.row else self.case
