"""The holder of a worker's name, as the words about it in the control topic decide.

A claim of a free name has it.  A claim of a name that is held waits for the holder's answer: `alive` refuses everyone
who waits.  Who has waited in vain says `take`, which holds unless the answer came before it.  What comes first in the
topic decides, so of two workers that run under one name exactly one ends, whichever was silent for how long.
"""

from __future__ import annotations

from tidelock.engine.protocol.worker_names import NameWord


class NameHolder:
    """The words about one name.  `holder`: who has it; None: it is free.  `waiting`: who claims it meanwhile."""

    def __init__(self) -> None:
        self.holder: NameWord | None = None
        self.waiting: dict[str, NameWord] = {}

    def observe(self, word: NameWord) -> None:
        """Takes the next word of the topic."""
        ours = self.holder is None or self.holder.token == word.token
        match word.says:
            case "claim" if not ours:
                self.waiting[word.token] = word
            case "take" if not ours and word.token not in self.waiting:
                pass  # refused before
            case "claim" | "take":
                self._give(word)
            case "alive" if ours:
                self._give(word)
            case "left":
                self._leave(word)
            case _:
                pass  # a holder before this one, which learns of it from the topic

    def refused(self, token: str) -> bool:
        """Tells whether that life, whose claim was seen, must end: it neither has the name nor waits for it."""
        held = self.holder is not None and self.holder.token == token
        return not held and token not in self.waiting

    def _give(self, word: NameWord) -> None:
        self.holder = word
        self.waiting.clear()

    def _leave(self, word: NameWord) -> None:
        self.waiting.pop(word.token, None)
        if self.holder is None or self.holder.token != word.token:
            return
        self.holder = None
        if self.waiting:
            self.holder = self.waiting.pop(next(iter(self.waiting)))
