"""The address of `http:` cannot be had."""

from __future__ import annotations

from tidelock.adapters.ports.operator_error import OperatorError


class ListenError(OperatorError):
    """The address cannot be listened on; `hint` says what to do."""
