"""Decides whether a request is let in: by where the server listens, its headers, its token, its client's certificate.

A browser sends what any page on the web tells it to.  A page whose name was made to lead to this machine (DNS
rebinding) is known by its `Host`, one of elsewhere by its `Origin`.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tidelock.adapters.api.roles import Holder
from tidelock.adapters.api.tokens import TokenFileError, Tokens

LOOPBACK: Final = Holder("loopback", "read")
_HOST: Final = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^:\[\]/?#@\s]+)(?::[0-9]{1,5})?")
_SAFE: Final = ("GET", "HEAD")
_WILDCARDS: Final = ("", "0.0.0.0", "::")


class Refused(NamedTuple):
    """A request that is not let in: the status and the words of the answer."""

    status: int
    error: str


class Guard:
    """The guard of a server.

    `host`: where it listens.  `tokens`: None without a token file.  `certified`: tells whether the server's certificate
    is for a name, in lower case.
    """

    def __init__(self, host: str, tokens: Tokens | None, certified: Callable[[str], bool] = lambda _: False) -> None:
        self._tokens, self._certified = tokens, certified
        self._host = host
        self._open = is_loopback(host)
        local = {"localhost", "127.0.0.1", "::1"} if self._open else {"localhost", socket.gethostname().lower()}
        self._names = {host.lower()} | local

    def stranger(self, headers: Mapping[str, str]) -> Refused | None:
        """Returns why a request comes from a page of elsewhere; None: it does not."""
        host = headers.get("Host", "")
        name = _HOST.fullmatch(host)
        if name is None or not self._known(name["name"].strip("[]").lower()):
            return Refused(403, f"The Host header is not this server's: ask for {self._host or 'its address'}")
        origin = headers.get("Origin")
        if origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
            return Refused(403, "The Origin header is another page's: only this server's own pages may ask")
        return None

    def who(self, method: str, headers: Mapping[str, str], certificate: str = "") -> Holder | Refused:
        """Returns whose request to the API it is, by its token, else its certificate; `LOOPBACK` where none is needed.

        `certificate`: the name in that which the client has shown, '' where it has shown none.
        """
        if headers.get("Sec-Fetch-Site") == "cross-site":  # a link to a page of ours may be; only scripts ask the API
            return Refused(403, "A page of another site has asked: only this server's own pages may")
        needed = not certificate and (method not in _SAFE or not self._open)
        if self._tokens is None:
            if certificate:
                return Holder(certificate, "read")
            if needed:
                return Refused(403, "Only GET is answered: `tidelock serve` has no --token-file")
            return LOOPBACK
        token = _bearer(headers)
        if not token and not needed and not certificate:
            return LOOPBACK
        try:
            self._tokens.refresh()
        except TokenFileError as error:
            return Refused(503, f"{error}. {error.hint}")
        if not token and certificate:
            return self._tokens.of_certificate(certificate)
        holder = self._tokens.holder(token)
        return holder or Refused(401, "A token is needed: `Authorization: Bearer TOKEN`, with one of the token file")

    def _known(self, name: str) -> bool:
        if name in self._names or self._certified(name):
            return True
        return self._host in _WILDCARDS and _is_address(name)


def is_loopback(host: str) -> bool:
    """Tells whether an address is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_address(name: str) -> bool:
    """Tells whether it is a number, which no DNS server can make lead elsewhere."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _bearer(headers: Mapping[str, str]) -> str:
    kind, _, token = headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""
