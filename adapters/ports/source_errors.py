"""Errors of a source, each with the words that an operator needs.

`message` says what happened, `position` where in the log, `hint` what to do; none holds a password or a row's value.
A source may have kinds of its own beside these: a run treats them as `SourceError`.
"""

from __future__ import annotations


class SourceError(Exception):
    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint
        self.position = ""

    def __str__(self) -> str:
        where = f", at {self.position}" if self.position else ""
        return f"{self.message}{where}. {self.hint}"


class Unreachable(SourceError):
    """No connection, or the stream ended or fell silent: start a new reader from the last position."""


class Busy(Unreachable):
    """The server itself says that it cannot now: too many connections, no memory, starting."""


class AccessDenied(SourceError):
    """The server refuses the account, or one of its rights is missing."""


class PurgedPosition(SourceError):
    """The log no longer holds (or never held) the position asked for: rows would be missing."""


class OtherHistory(SourceError):
    """The source's log is not the one that the position belongs to, though it may have a place of that name."""


class UnsuitableLog(SourceError):
    """A setting leaves out what replication needs: row format, full images, full metadata, plain transactions."""


class LogGap(SourceError):
    """The stream is not contiguous, or the source itself reports a loss."""


class LossUntold(SourceError):
    """Nobody can tell what is left of a log whose end the server has lost."""
