"""The address of `http:` cannot be had."""

from __future__ import annotations


class ListenError(Exception):
    """The address cannot be listened on; `hint` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint
