"""The error that a command shows to the operator as it is."""

from __future__ import annotations


class OperatorError(Exception):
    """Error meant for the operator: `args[0]` says what is wrong and where, `hint` what to do.  Holds no secret."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint
