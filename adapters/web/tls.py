"""TLS of a server of pages.

The files are looked at with each handshake: once they have changed and are good, connections from then on get the new
ones, and those that stand keep theirs.  What is bad is told once, and the files of before stay in use.  That is done in
the callback for the name that a client asks for, which OpenSSL calls for each client, whether it names one or not.
"""

from __future__ import annotations

import datetime
import logging
import os
import ssl
from collections.abc import Callable
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from tidelock.adapters.config.http_tls import HttpTls
from tidelock.adapters.ports.operator_error import OperatorError
from tidelock.adapters.process.owned_files import exposed

_LOG: Final = logging.getLogger("tidelock.web")
AUTHORITY: Final = "certificate of an authority"
_Stamp: TypeAlias = tuple[tuple[int, int, int, int], ...]


class TlsError(OperatorError):
    """The files cannot be used for TLS; the hint says what to do."""


class ServerTls:
    """The TLS of one server.  `context`: what it listens with."""

    def __init__(self, files: HttpTls, tell: Callable[[str], None] = _LOG.warning) -> None:
        """Reads the files.  `tell`: is told of files that have changed.  Raises TlsError."""
        self._files, self._tell = files, tell
        self._stamp = self._bad = _stamp(files)
        self.names, self._newest = _loaded(files)
        self.context = self._newest
        self.context.sni_callback = self._greeted

    def knows(self, name: str) -> bool:
        """Tells whether the certificate is for a name, in lower case."""
        return name in self.names or f"*.{name.partition('.')[2]}" in self.names

    def _greeted(self, connection: ssl.SSLObject | ssl.SSLSocket, _: str | None, __: ssl.SSLContext) -> None:
        """Gives a connection the newest certificate."""
        self._refresh()
        if self._newest is not self.context:
            connection.context = self._newest

    def _refresh(self) -> None:
        stamp = _stamp(self._files)
        if stamp in (self._stamp, self._bad):
            return
        try:
            self.names, self._newest = _loaded(self._files)
        except TlsError as error:
            self._bad = stamp
            self._tell(f"{error}; the certificate of before stays in use. {error.hint}")
        else:
            self._stamp = self._bad = stamp
            self._tell(f"the certificate in {self._files.cert} is in use from now on")


def _stamp(files: HttpTls) -> _Stamp:
    """Returns what changes with the files; none of a file that is not there."""
    found = []
    for name in (files.cert, files.key, files.client_ca):
        try:
            status = os.stat(name)
        except OSError:
            continue
        found.append((status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino))
    return tuple(found)


def _loaded(files: HttpTls) -> tuple[frozenset[str], ssl.SSLContext]:
    """Returns the names of the certificate, and what to listen with.  Raises TlsError."""
    certificate = _certificates(files.cert, "certificate")[0]
    _check_key(files, certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(files.cert, files.key, password=lambda: "")
        if files.client_ca:
            _ask_clients(files, context)
    except (OSError, ValueError) as error:
        named = ", ".join(filter(None, (files.cert, files.key, files.client_ca)))
        raise TlsError(f"OpenSSL does not take {named}: {error}", "Make them anew") from None
    return _names(certificate), context


def _ask_clients(files: HttpTls, context: ssl.SSLContext) -> None:
    """Has clients show a certificate.  None takes a session up again that an authority of before has let in."""
    for one in _certificates(files.client_ca, AUTHORITY):
        if not _is_authority(one):
            subject = one.subject.rfc4514_string()
            raise TlsError(f"{files.client_ca}: {subject} is no authority", "Give the certificates that sign clients'")
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(files.client_ca)


def _certificates(path: str, what: str) -> list[x509.Certificate]:
    """Returns the certificates of a file: a server's own comes first, of authorities one is enough.

    Raises TlsError where that is not valid today.
    """
    try:
        found = x509.load_pem_x509_certificates(_content(path)[0])
    except ValueError:
        raise TlsError(f"{path} holds no {what} in PEM", "Give a file with -----BEGIN CERTIFICATE-----") from None
    now = datetime.datetime.now(datetime.UTC)
    wanted = found if what == AUTHORITY else found[:1]
    if not any(one.not_valid_before_utc <= now <= one.not_valid_after_utc for one in wanted):
        begins, ends = wanted[0].not_valid_before_utc, wanted[0].not_valid_after_utc
        words = f"has expired on {ends:%Y-%m-%d %H:%M} UTC" if ends < now else f"begins {begins:%Y-%m-%d %H:%M} UTC"
        raise TlsError(f"{path}: the {what} {words}", "Put a valid one there, or set the clock")
    return found


def _check_key(files: HttpTls, certificate: x509.Certificate) -> None:
    """Raises TlsError where the key is not safe, or not the certificate's."""
    content, status = _content(files.key)
    if why := exposed(status):
        raise TlsError(f"{files.key}: the key is not safe: {why}", f"`chmod 600 {files.key}`, for the user that serves")
    try:
        key = load_pem_private_key(content, None)
    except TypeError:
        raise TlsError(f"{files.key}: the key has a passphrase", "Give one without, which others cannot read") from None
    except (ValueError, UnsupportedAlgorithm):
        hint = "Give a file with -----BEGIN PRIVATE KEY-----"
        raise TlsError(f"{files.key} holds no private key in PEM", hint) from None
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if key.public_key().public_bytes(*form) != certificate.public_key().public_bytes(*form):
        problem = f"{files.key} is not the key of the certificate in {files.cert}"
        raise TlsError(problem, "Give the two that belong together")


def _content(path: str) -> tuple[bytes, os.stat_result]:
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20), os.fstat(file.fileno())
    except OSError as error:
        problem = f"{path} cannot be read: {error.strerror or error}"
        raise TlsError(problem, "Correct the file's name or rights") from None


def _names(certificate: x509.Certificate) -> frozenset[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    found = names.get_values_for_type(x509.DNSName) + [str(one) for one in names.get_values_for_type(x509.IPAddress)]
    return frozenset(name.lower() for name in found)


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return certificate.version is x509.Version.v1
