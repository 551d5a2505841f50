"""Certificates for tests of TLS: an authority, and what it signs, valid or not."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


class Made(NamedTuple):
    """A certificate and its key, as files."""

    cert: Path
    key: Path


class Authority:
    """An authority of its own, in a folder.  `cert`: its certificate."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(f"throw-away {name}")
        made = self._signed(self._name, self._key, (-1.0, 3.0), [], authority=True)
        self.cert = folder / f"{name}.pem"
        self.cert.write_bytes(made.public_bytes(Encoding.PEM))

    def signs(
        self,
        name: str,
        *,
        common: str = "",
        others: tuple[x509.GeneralName, ...] = (),
        days: tuple[float, float] = (-1.0, 3.0),
        passphrase: bytes = b"",
    ) -> Made:
        """Make a certificate and its key.  `common`: its common name; `days`: from when until when it is valid, from
        now."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._signed(_named(common), key, days, list(others), authority=False)
        cert, file = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        cert.write_bytes(made.public_bytes(Encoding.PEM))
        secret = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
        file.touch(0o600)
        file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret))
        return Made(cert, file)

    def server(self, name: str = "server", *names: str, days: tuple[float, float] = (-1.0, 3.0)) -> Made:
        """Make the certificate of a server on loopback, with more names."""
        local = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        others = (local, *(x509.DNSName(one) for one in ("localhost", *names)))
        return self.signs(name, common=f"throw-away {name}", others=others, days=days)

    def _signed(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        days: tuple[float, float],
        others: list[x509.GeneralName],
        *,
        authority: bool,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        made = x509.CertificateBuilder(self._name, name, key.public_key(), x509.random_serial_number())
        made = made.not_valid_before(now + days[0] * DAY).not_valid_after(now + days[1] * DAY)
        made = made.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        if others:
            made = made.add_extension(x509.SubjectAlternativeName(others), critical=False)
        return made.sign(self._key, hashes.SHA256())


def _named(common: str) -> x509.Name:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Tidelock")]
    return x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, common)] if common else names)
