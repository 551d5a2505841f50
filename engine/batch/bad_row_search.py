"""Finding the bad rows of a batch that the target refuses (design 7).

The batch is split as *raw changes in log order*; splitting by folded rows parks innocents (counter-example 15: 568 of
35,929).  Rows mode: halves, each committed with its own receipt, until one change alone fails; that one is parked.
Where it lacks a row that it refers to, those behind it mostly do too (an import of children before their parents): they
are tried one by one, and up to `RUN` that fail are parked with one commit, which is one trial a row and not three.
Atomic mode (`consistency: transaction`): halves of whole transactions; one transaction is tried whole in log order,
which may do where its merged form does not (a unique index over what the log does not hold); then held trials of
growing prefixes that are rolled back find each bad change, and the rest commits at once with it parked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelock.engine.parallel.segments import Change

RUN: Final = 16
"""Each trial carries what is parked with it, so a longer run costs more than its commits save."""


class BadRowSearch:
    """The search for the bad rows of one refused batch.

    `trial()` says what to try next; report `succeeded` or `failed`; `finished` once all is committed or parked.
    `bad`: changes found bad in the present piece, with their errors; they are parked by its commit.  `orphans`: those
    found bad, in any piece, that only lack a row that they refer to.
    """

    def __init__(self, changes: Sequence[Change], *, atomic: bool, differs: bool = False) -> None:
        """`differs`: one alone may do in log order, too."""
        self._atomic = atomic
        self._differs = differs
        self._pieces: list[list[Change]] = [list(changes)]
        self._merged = True  # what failed so far was not in log order
        self.orphans: dict[Change, None] = {}
        self._lacks_parent = False
        self._reset()

    def _reset(self) -> None:
        self.bad: list[tuple[Change, str]] = []
        self._good = 0  # a prefix of this length is known to work, once the bad ones are left out
        self._tried = len(self._pieces[-1]) if self._pieces else 0
        self._failing = self._tried + 1
        self._error = ""

    @property
    def finished(self) -> bool:
        """True once everything is committed or parked."""
        return not self._pieces

    @property
    def piece(self) -> list[Change]:
        """The changes that the next commit covers."""
        return self._pieces[-1]

    @property
    def probing(self) -> bool:
        """True if the trial is only to learn from: hold it, then roll it back."""
        return self._tried < len(self.piece)

    def trial(self) -> list[Change]:
        """The changes to run now, in log order; those of `bad` are left out."""
        return self._prefix(self._tried)

    @property
    def tried(self) -> list[Change]:
        """The changes that the trial reaches, those of `bad` included."""
        return self.piece[: self._tried]

    def _prefix(self, length: int) -> list[Change]:
        bad = {change for change, _ in self.bad}  # by identity
        return [change for change in self.piece[:length] if change not in bad]

    def succeeded(self) -> None:
        """Takes the report that the trial is prepared, if it is to be rolled back, or committed."""
        if not self.probing:
            run = len(self.bad) == RUN
            self._pieces.pop()
            if run and self._pieces and len(self.piece) > 1:
                self._split(1)
            self._reset()
            return
        self._good = self._tried
        self._narrow()

    def failed(self, error: str, *, lacks_parent: bool = False) -> None:
        """Takes the report that the target refused the trial; `lacks_parent`: for a row that another refers to."""
        piece = self.piece
        assert self.trial(), "an empty trial cannot fail for its rows"
        if not self._atomic:
            self._row_failed(error, lacks_parent)
        elif (cut := _middle_transaction(piece)):
            self._split(cut)
        elif self._merged and (len(piece) > 1 or self._differs):
            pass  # the same again, in log order
        else:
            self._failing = self._tried
            self._error, self._lacks_parent = error, lacks_parent
            self._narrow()
        self._merged = False

    def _row_failed(self, error: str, lacks_parent: bool) -> None:
        """Narrows the search in rows mode, where of `bad` and what follows them only one change is tried."""
        piece, trial = self.piece, self.trial()
        if len(trial) > 1:
            self._split(len(piece) // 2)
            return
        if self._merged and self._differs:
            return  # the same again, in log order
        self.bad.append((trial[0], error))
        if lacks_parent:
            self.orphans[trial[0]] = None
            if len(self.bad) < RUN and len(self._pieces) > 1:
                self._reach_one_more()

    def _reach_one_more(self) -> None:
        """Adds the first change of the next piece to this one."""
        piece, following = self._pieces.pop(), self._pieces.pop()
        self._pieces += [following[1:]] if len(following) > 1 else []
        self._pieces.append([*piece, following[0]])
        self._tried = len(self.piece)
        self._failing = self._tried + 1

    def _split(self, at: int) -> None:
        piece = self._pieces.pop()
        self._pieces += [piece[at:], piece[:at]]
        self._reset()

    def _narrow(self) -> None:
        """Narrows the search to between a prefix that works and one that fails; one apart, the change there is bad.

        Where everything fails though every shorter prefix works (a constraint that is checked at COMMIT), changes are
        parked from the end until the rest commits.
        """
        if self._failing - self._good > 1:
            self._tried = (self._good + self._failing) // 2
            return
        self.bad.append((self._prefix(self._failing)[-1], self._error))
        if self._lacks_parent:
            self.orphans[self.bad[-1][0]] = None
        self._good = self._failing
        self._tried = len(self.piece)
        self._failing = self._tried + 1


def _middle_transaction(piece: Sequence[Change]) -> int:
    """Index of the transaction boundary nearest the middle; 0 if the piece is one transaction."""
    cuts = [
        i
        for i in range(1, len(piece))
        if (piece[i].source, piece[i].number) != (piece[i - 1].source, piece[i - 1].number)
    ]
    return min(cuts, key=lambda i: abs(i - len(piece) // 2)) if cuts else 0
