"""Finding the bad rows of a batch that the target refuses (design 7).

The batch is split as *raw changes in log order*; splitting by folded rows parks innocents (counter-example 15: 568 of
35,929).  Rows mode: halves, each committed with its own receipt, until one change alone fails; that one is parked.
Where it lacks a row that it refers to, those behind it mostly do too (an import of children before their parents): they
are tried one by one, and up to `RUN` that fail are parked with one commit, which is one trial a row and not three.
Of an arbiter's rows none waits for its parent later, as it would be written over what is the spoke's own by then.  One
that lacks it is tried once more behind the rest of its transaction: MySQL logs rows that a foreign key changes before
the row that they follow.
Atomic mode (`consistency: transaction`): halves of whole transactions; one transaction is tried whole in log order,
which may do where its merged form does not (a unique index over what the log does not hold); then held trials of
growing prefixes that are rolled back find each bad change, and the rest commits at once with it parked.

A feed to an arbiter of conflicts decides about the change that fails alone (`BadRowSearch.refusals`): it is not bad,
unless nothing can be decided either.  Its target says which rows are in conflict, and the batch is cut by that first
(`conflict_cut`), as many small conflicts make many trials.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from tidelock.engine.batch.conflict_cut import Locks, Suspect, parted, suspected
from tidelock.engine.model.errors import IN_CONFLICT, ErrorKind, Failure
from tidelock.engine.model.options import Options
from tidelock.engine.model.records import Row
from tidelock.engine.parallel.segments import Change

RUN: Final = 16
"""Each trial carries what is parked with it, so a longer run costs more than its commits save."""
_REFUSALS: Final = 2
_SUSPECT: Final = Failure(ErrorKind.ROW, IN_CONFLICT)


class BadRowSearch:
    """The search for the bad rows of one refused batch.

    `trial()` says what to try next; report `succeeded` or `failed`; `finished` once all is committed or parked.
    `bad`: changes found bad in the present piece, with their errors; they are parked by its commit.  `orphans`: those
    found bad, in any piece, that only lack a row that they refer to.
    `refusals`: of the changes of the trial, where they are to be decided about: by the target as they came, then of
    what was decided about the only one.  `untried`: no change of it was tried.
    """

    def __init__(
        self,
        changes: Sequence[Change],
        *,
        atomic: bool,
        decides: bool = False,
        differs: bool = False,
        blind: bool = False,
    ) -> None:
        """`decides`: about a change that fails alone.  `differs`: one alone may do in log order, too.  `blind`: these
        are rows of an arbiter, for its spoke."""
        self._atomic = atomic
        self._decides = decides
        self._differs = differs
        self._blind = blind
        self._moved: set[Change] = set()  # behind the rest of their transactions
        self._pieces: list[list[Change]] = [list(changes)]
        self._merged = True  # what failed so far was not in log order
        self.orphans: dict[Change, None] = {}
        self.untried = False
        self._lacks_parent = False
        self._suspects: set[Change] = set()
        self._clear: set[Change] = set()  # cut off, and not tried yet
        self._reset()

    @classmethod
    def under(cls, options: Options, changes: Sequence[Change]) -> BadRowSearch:
        """Returns the search of a batch under these options."""
        down = options.direction == "down"
        return cls(
            changes,
            atomic=options.atomic,
            decides=options.direction == "up",
            differs=options.replace or down,
            blind=down,
        )

    def decide_untried(self, locks_of: Callable[[Sequence[Change]], Sequence[Locks]]) -> None:
        """Has each change decided about, without a try."""
        self.untried = True
        self._suspects.update(self.piece)
        _, pieces = parted(self.piece, locks_of(self.piece), self._suspects)
        self._pieces = [*reversed(pieces)]
        self._merged = False
        self._reset()

    def _reset(self) -> None:
        self.bad: list[tuple[Change, str]] = []
        self.refusals: list[Failure] = []
        if self._pieces and self.piece[0] in self._suspects:
            self.refusals.append(_SUSPECT)
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

    @property
    def in_order(self) -> bool:
        """False for a trial that need not run in log order, as the search has not begun for it."""
        return self.piece[0] not in self._clear

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

    def decides_about(self, failure: Failure) -> bool:
        """Takes the report that the target refused the trial, if its only change is to be decided about now."""
        if not self._decides or len(self.trial()) > 1 or len(self.refusals) == _REFUSALS:
            return False
        self.refusals.append(failure)
        return True

    def cut(
        self, suspects: Collection[Suspect], locks_of: Callable[[Sequence[Change]], Sequence[Locks]]
    ) -> bool:
        """Takes the report that the target refused the trial and says these rows are in conflict; returns whether the
        piece is cut by that, else the refusal is to be reported too."""
        piece = self.piece
        found = [change for change in suspected(piece, suspects) if change not in self._suspects]
        if not self._decides or self._atomic or len(piece) == 1 or not found:
            return False
        self._suspects.update(found)
        clear, behind = parted(piece, locks_of(piece), self._suspects)
        again = not self.in_order  # rows change meanwhile: what is shorter is less often late
        self._clear.difference_update(piece)
        self._clear.update(clear, *(part for part in behind if part[0] not in self._suspects))
        half = (len(clear) + 1) // 2 if again else len(clear)
        self._pieces.pop()
        self._pieces += [part for part in (*reversed(behind), clear[half:], clear[:half]) if part]
        self._merged = False
        self._reset()
        return True

    def failed(self, error: str, *, lacks_parent: bool = False) -> None:
        """Takes the report that the target refused the trial; `lacks_parent`: for a row that another refers to."""
        piece = self.piece
        assert self.trial(), "an empty trial cannot fail for its rows"
        self._clear.difference_update(piece)
        if self._merged and self._differs and len(piece) == 1:
            pass  # the same again, in log order
        elif not self._atomic:
            self._row_failed(error, lacks_parent)
        elif (cut := _middle_transaction(piece)):
            self._split(cut)
        elif self._merged and len(piece) > 1:
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
        if lacks_parent and self._blind and self._move_behind(trial[0]):
            return
        self.bad.append((trial[0], error))
        if lacks_parent and not self._blind:
            self.orphans[trial[0]] = None
            if len(self.bad) < RUN and len(self._pieces) > 1 and not self._decides:
                self._reach_one_more()

    def _move_behind(self, change: Change) -> bool:
        """Moves a change, which is the piece, behind the rest of its transaction, once; not past its own row."""
        passed: list[Change] = []
        for other in (one for piece in reversed(self._pieces[:-1]) for one in piece):
            if (other.source, other.number) != (change.source, change.number):
                break
            passed.append(other)
        if not passed or change in self._moved or any(_same_row(change, other) for other in passed):
            return False
        self._moved.add(change)
        self._pieces.pop()
        left, stay = len(passed), list[list[Change]]()
        while left:
            piece = self._pieces.pop()
            stay.append(piece[:left])
            if piece[left:]:
                self._pieces.append(piece[left:])
            left -= len(stay[-1])
        self._pieces += [[change], *reversed(stay)]
        self._reset()
        return True

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


def _same_row(one: Change, other: Change) -> bool:
    """Are both changes of one row, under the key of either before or after?"""
    return one.binding.target is other.binding.target and not _keys_under(one).isdisjoint(_keys_under(other))


def _keys_under(change: Change) -> set[Row]:
    return {change.binding.key_of(row) for row in (change.before, change.after) if row is not None}


def _middle_transaction(piece: Sequence[Change]) -> int:
    """Index of the transaction boundary nearest the middle; 0 if the piece is one transaction."""
    cuts = [
        i
        for i in range(1, len(piece))
        if (piece[i].source, piece[i].number) != (piece[i - 1].source, piece[i - 1].number)
    ]
    return min(cuts, key=lambda i: abs(i - len(piece) // 2)) if cuts else 0
