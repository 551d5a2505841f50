"""The policy by which a feed that has ended is started again."""

from __future__ import annotations

from typing import Final

FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 300.0
CALM_SECONDS: Final = 60.0
HALTED: Final = 4
"""The exit code of a feed that has halted."""
_FOR_PEOPLE: Final = (2, HALTED)
"""Exit codes of a feed that needs an operator: its YAML is wrong, or it has halted."""


class Restarts:
    """Decides about one feed."""

    def __init__(self) -> None:
        self._next = FIRST_SECONDS

    def after(self, code: int, ran_seconds: float) -> float | None:
        """Returns in how many seconds it is started again; None: not before an operator has done something.

        Each wait is twice the last, unless the feed has run for long.  One that was asked by somebody to end (exit code
        0) is started again too: whoever wants it to stay ended takes its file away.
        """
        if code in _FOR_PEOPLE:
            return None
        if ran_seconds >= CALM_SECONDS:
            self._next = FIRST_SECONDS
        wait, self._next = self._next, min(2 * self._next, LONGEST_SECONDS)
        return wait

    def forget(self) -> None:
        """Begins anew: its file was changed."""
        self._next = FIRST_SECONDS
