"""The token file: one `NAME:TOKEN` a line, read again when it has changed.

Nobody but its owner may read it, and tokens are too long to guess.  They are compared by their digests, each with
every one, so that the time of an answer tells nothing about them.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import stat
from pathlib import Path
from typing import Final, TypeAlias

from tidelock.adapters.ports.operator_error import OperatorError

SHORTEST: Final = 16
_LINE: Final = re.compile(r"(?P<name>[A-Za-z0-9_.@-]{1,64}):(?P<token>[!-~]+)")
_LARGEST_BYTES: Final = 1 << 20
_Stamp: TypeAlias = tuple[int, int, int, int]


class TokenFileError(OperatorError):
    """The token file cannot be used."""

    exit_code = 2


class Tokens:
    """The tokens of one file."""

    def __init__(self, path: Path) -> None:
        """Reads the file.  Raises TokenFileError."""
        self._path = path
        self._stamp: _Stamp | None = None
        self._names: tuple[tuple[str, bytes], ...] = ()
        self.refresh()

    def refresh(self) -> None:
        """Reads the file again, if it has changed; no token holds while it cannot be used.  Raises TokenFileError."""
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with open(file, "rb") as stream:
                status = os.fstat(file)
                stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
                if stamp != self._stamp:
                    self._stamp, self._names = None, ()
                    _check(self._path, status)
                    self._names = _parsed(self._path, stream.read(_LARGEST_BYTES + 1))
                    self._stamp = stamp
        except OSError as error:
            self._stamp, self._names = None, ()
            problem = f"{self._path}: the token file cannot be read: {error.strerror or error}"
            raise TokenFileError(problem, "Give a file with a line NAME:TOKEN for each token") from None

    def holder(self, token: str) -> str:
        """Returns whose token it is; '' where it is nobody's."""
        digest = _digest(token.encode(errors="replace"))
        found = ""
        for name, one in self._names:
            found = name if hmac.compare_digest(one, digest) else found
        return found


def _check(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise TokenFileError(f"{path} is no file", "Give a file with a line NAME:TOKEN for each token")
    if status.st_mode & 0o077:
        raise TokenFileError(f"{path}: others than its owner can read the token file", f"`chmod 600 {path}`")
    if status.st_uid not in (os.geteuid(), 0):
        raise TokenFileError(f"{path}: the token file is another user's", f"`chown {os.geteuid()} {path}`")


def _parsed(path: Path, content: bytes) -> tuple[tuple[str, bytes], ...]:
    """Returns names, each with its token's digest; no error shows a token."""
    if len(content) > _LARGEST_BYTES:
        raise TokenFileError(f"{path}: the token file is larger than {_LARGEST_BYTES:,} bytes", "Is it the right file?")
    found: dict[str, bytes] = {}
    for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        parts = _LINE.fullmatch(text)
        if parts is None or len(parts["token"]) < SHORTEST:
            words = f"NAME:TOKEN, with a token of at least {SHORTEST} printable characters (`openssl rand -hex 32`)"
            raise TokenFileError(f"{path}, line {number}: not of the form {words}", "Correct the line")
        if parts["name"] in found:
            raise TokenFileError(f"{path}, line {number}: {parts['name']} has a token already", "Give it another name")
        found[parts["name"]] = _digest(parts["token"].encode())
    if not found:
        raise TokenFileError(f"{path}: the token file holds no token", "Write a line NAME:TOKEN")
    return tuple(found.items())


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
