"""The token file: who may ask, one a line, read again when it has changed.

`NAME:TOKEN` may do everything, `NAME:TOKEN ROLE` what its role may; `CN=NAME ROLE` gives a role to a client's
certificate.  Tokens are too long to guess.  They are compared by their digests, each with every one, so that the time
of an answer tells nothing about them.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, cast

from tidelock.adapters.api.roles import TEXTS, Holder, Role
from tidelock.adapters.ports.operator_error import OperatorError
from tidelock.adapters.process.owned_files import exposed

SHORTEST: Final = 16
_ROLE: Final = rf"(?P<role>{'|'.join(TEXTS)})"
_LINE: Final = re.compile(rf"(?P<name>[A-Za-z0-9_.@-]{{1,64}}):(?P<token>[!-~]+)(?:\s+{_ROLE})?")
_CERTIFICATE: Final = re.compile(rf"(?P<name>(?:CN|DNS|EMAIL|URI)=.*\S)\s+{_ROLE}")
_LARGEST_BYTES: Final = 1 << 20
_GIVE: Final = "Give a file with a line NAME:TOKEN for each token"
_Stamp: TypeAlias = tuple[int, int, int, int]


class TokenFileError(OperatorError):
    """The token file cannot be used."""

    exit_code = 2


class _Known(NamedTuple):
    """Content of a token file: tokens by their digests, and roles of certificates by their names."""

    tokens: tuple[tuple[Holder, bytes], ...] = ()
    certificates: dict[str, Role] = {}


class Tokens:
    """The tokens of one file."""

    def __init__(self, path: Path) -> None:
        """Reads the file.  Raises TokenFileError."""
        self._path = path
        self._stamp: _Stamp | None = None
        self._known = _Known()
        self.refresh()

    def refresh(self) -> None:
        """Reads the file again, if it has changed; no token holds while it cannot be used.  Raises TokenFileError."""
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with open(file, "rb") as stream:
                status = os.fstat(file)
                stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
                if stamp != self._stamp:
                    self._stamp, self._known = None, _Known()
                    _check(self._path, status)
                    self._known = _parsed(self._path, stream.read(_LARGEST_BYTES + 1))
                    self._stamp = stamp
        except OSError as error:
            self._stamp, self._known = None, _Known()
            problem = f"{self._path}: the token file cannot be read: {error.strerror or error}"
            raise TokenFileError(problem, _GIVE) from None

    def holder(self, token: str) -> Holder | None:
        """Returns whose token it is; None where it is nobody's."""
        digest = _digest(token.encode(errors="replace"))
        found = None
        for holder, one in self._known.tokens:
            found = holder if hmac.compare_digest(one, digest) else found
        return found

    def of_certificate(self, name: str) -> Holder:
        """Returns what who shows a certificate of that name may: look, where the file says nothing else."""
        return Holder(name, self._known.certificates.get(name, "read"))


def _check(path: Path, status: os.stat_result) -> None:
    if why := exposed(status):
        hint = f"`chmod 600 {path}`, and `chown {os.geteuid()} {path}`"
        raise TokenFileError(f"{path}: the token file is not safe: {why}", hint)


def _parsed(path: Path, content: bytes) -> _Known:
    """Returns what the file says; no error shows a token."""
    if len(content) > _LARGEST_BYTES:
        raise TokenFileError(f"{path}: the token file is larger than {_LARGEST_BYTES:,} bytes", "Is it the right file?")
    tokens, certificates = dict[str, tuple[Holder, bytes]](), dict[str, Role]()
    for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        shown = _CERTIFICATE.fullmatch(text)
        parts = shown or _LINE.fullmatch(text)
        if parts is None or (shown is None and len(parts["token"]) < SHORTEST):
            words = f"NAME:TOKEN, with a token of at least {SHORTEST} printable characters (`openssl rand -hex 32`)"
            more = f"a role may follow ({', '.join(TEXTS)}); of a certificate it is CN=NAME ROLE"
            raise TokenFileError(f"{path}, line {number}: not of the form {words}; {more}", "Correct the line")
        name, role = parts["name"], cast(Role, parts["role"] or "admin")
        if name in tokens or name in certificates:
            raise TokenFileError(f"{path}, line {number}: {name} has a line already", "Give it another name")
        if shown is not None:
            certificates[name] = role
        else:
            tokens[name] = Holder(name, role), _digest(parts["token"].encode())
    if not tokens and not certificates:
        raise TokenFileError(f"{path}: the token file holds no token", "Write a line NAME:TOKEN")
    return _Known(tuple(tokens.values()), certificates)


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
