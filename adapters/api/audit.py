"""The audit file: one JSON line for each POST, in `.audit.jsonl` of the feeds' folder.

The file is opened for each line, so it may be renamed and rotated at any time.  Who has no token could fill the disk
with refused requests: of those at most one a second is written, with how many came between.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final

import msgspec

NAME: Final = ".audit.jsonl"
_LONGEST_PATH: Final = 500


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line.  `when`: in seconds since 1970.  `who`: the token's name.  `body`: as it was checked, null where it was
    refused; no body holds a secret.  `left_out`: requests without a token that have no line of their own.
    """

    when: float
    who: str
    method: str
    path: str
    status: int
    body: Any = None
    left_out: int = 0


class Audit:
    """The file of one folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._unknown_at = 0.0
        self._left_out = 0

    def ready(self) -> None:
        """Opens the file, so that nothing is done that could not be written down.  Raises OSError."""
        os.close(self._opened())

    def write(self, who: str, method: str, path: str, status: int, body: Any = None) -> None:
        """Adds a line.  Raises OSError."""
        if not who:
            if time.monotonic() - self._unknown_at < 1.0:
                self._left_out += 1
                return
            self._unknown_at = time.monotonic()
        line = Line(
            when=time.time(), who=who, method=method, path=path[:_LONGEST_PATH], status=status, body=body,
            left_out=self._left_out,
        )  # fmt: skip
        file = self._opened()
        try:
            os.write(file, msgspec.json.encode(line) + b"\n")
        finally:
            os.close(file)
        self._left_out = 0

    def _opened(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
