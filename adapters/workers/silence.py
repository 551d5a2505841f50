"""The silence of one partition: for how long records that are known to be there have not come.

Only moments count in which the log's announced end is beyond what the partition brought, and somebody announces it.
While nobody publishes (a coordinator has died, the broker or the source is away) nothing is owed, however long that
lasts; and what was silent before is forgotten with the first record.
"""

from __future__ import annotations

from typing import Final

ASK_SECONDS: Final = 4.0  # the first time; each further wait is twice as long


class Silence:
    """Counts the silence.  `seconds`: 0 where nothing is owed, or a record has come since."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._ask_at = ASK_SECONDS
        self._wait = ASK_SECONDS

    def heard(self) -> None:
        """Notes that a record came, or that nothing is owed."""
        self.seconds = 0.0
        self._ask_at = self._wait = ASK_SECONDS

    def tick(self, seconds: float, owed: bool) -> bool:
        """Counts `seconds` more in which records were `owed`; returns whether to ask for them again now.

        An answer takes its time: asking each second would end each answer before it came.
        """
        if not owed:
            self.heard()
            return False
        self.seconds += seconds
        if self.seconds < self._ask_at:
            return False
        self._wait *= 2
        self._ask_at = self.seconds + self._wait
        return True
